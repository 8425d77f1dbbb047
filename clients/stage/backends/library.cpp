// SPDX-License-Identifier: MIT
// A vendor's library, loaded at connect() from the file that the configuration names: Mad City
// Labs' own (libmadlib.so), or any that offers the functions of driftd_stage_library.h.
#include <optional>
#include <stdexcept>

#include "clients/stage/backends/backends.hpp"
#include "clients/stage/backends/vendor_library.hpp"

namespace driftd::stage {

namespace {

class Library final : public Stage {
 public:
  explicit Library(const StageOptions& options) : options_(options) {
    if (!options.library.starts_with('/')) {
      throw std::invalid_argument("library '" + options.library +
                                  "' is not the whole path of a file, which driver library needs");
    }
  }

  /// Loads the library once; a StageError leaves it loaded, as vendors' libraries bear no
  /// unloading.
  std::vector<Axis> connect() override {
    stage_.reset();
    if (!library_) library_ = std::make_shared<SharedLibrary>(options_.library);
    if (library_->has("driftd_stage_open")) {
      stage_ = use_plain_library(options_, library_);
    } else if (library_->has("MCL_SingleWriteN")) {
      check_mad_city_labs_axes(options_);
      stage_ = use_mad_city_labs(options_, library_);
    } else {
      throw StageError(
          "library " + options_.library +
          ": has neither driftd_stage_open nor MCL_SingleWriteN, expected one of them");
    }
    return stage_->connect();
  }
  std::string description() const override { return stage_ ? stage_->description() : ""; }
  bool move_to(std::span<const double> nm) override { return connected().move_to(nm); }
  void read(std::span<double> nm) override { connected().read(nm); }
  Health health() override { return connected().health(); }

 private:
  Stage& connected() {
    if (!stage_) throw StageError("library " + options_.library + ": not connected");
    return *stage_;
  }

  StageOptions options_;
  std::shared_ptr<const SharedLibrary> library_;
  std::unique_ptr<Stage> stage_;
};

}  // namespace

std::unique_ptr<Stage> make_library(const StageOptions& options) {
  return std::make_unique<Library>(options);
}

}  // namespace driftd::stage
