// SPDX-License-Identifier: MIT
// Any library with the functions of driftd_stage_library.h, which says what each of them does.
#include <array>

#include "clients/stage/backends/driftd_stage_library.h"
#include "clients/stage/backends/refusal.hpp"
#include "clients/stage/backends/vendor_library.hpp"

namespace driftd::stage {

namespace {

struct Functions {
  decltype(driftd_stage_version)* version = nullptr;
  decltype(driftd_stage_open)* open = nullptr;
  decltype(driftd_stage_close)* close = nullptr;
  decltype(driftd_stage_axis_info)* axis_info = nullptr;
  decltype(driftd_stage_describe)* describe = nullptr;
  decltype(driftd_stage_move)* move = nullptr;
  decltype(driftd_stage_read)* read = nullptr;
  decltype(driftd_stage_get_health)* health = nullptr;
  decltype(driftd_stage_error)* error = nullptr;
};

class PlainLibrary final : public Stage {
 public:
  PlainLibrary(const StageOptions& options, std::shared_ptr<const SharedLibrary> library)
      : options_(options), library_(std::move(library)) {
    library_->find("driftd_stage_version", call_.version);
    library_->find("driftd_stage_open", call_.open);
    library_->find("driftd_stage_close", call_.close);
    library_->find("driftd_stage_axis_info", call_.axis_info);
    library_->find("driftd_stage_describe", call_.describe);
    library_->find("driftd_stage_move", call_.move);
    library_->find("driftd_stage_read", call_.read);
    library_->find("driftd_stage_get_health", call_.health);
    library_->find("driftd_stage_error", call_.error);
  }
  ~PlainLibrary() override { close(); }
  PlainLibrary(const PlainLibrary&) = delete;
  PlainLibrary& operator=(const PlainLibrary&) = delete;

  std::vector<Axis> connect() override;
  std::string description() const override { return description_; }
  bool move_to(std::span<const double> nm) override;
  void read(std::span<double> nm) override { require(call_.read(stage_, nm.data()), "read"); }
  Health health() override;

 private:
  void close() {
    if (stage_ != nullptr) call_.close(stage_);
    stage_ = nullptr;
  }
  std::string words(int code) const {
    const char* text = call_.error(stage_, code);
    return std::to_string(code) + (text == nullptr ? "" : std::string(": ") + text);
  }
  void require(int code, const std::string& what) const {
    if (code == 0) return;
    throw StageError("library " + library_->file() + ": driftd_stage_" + what +
                     "() failed, error " + words(code));
  }

  StageOptions options_;
  std::shared_ptr<const SharedLibrary> library_;
  Functions call_;
  void* stage_ = nullptr;
  std::string description_;
  Refusal refusal_;
};

std::vector<Axis> PlainLibrary::connect() {
  close();
  refusal_ = {};
  if (const int version = call_.version(); version != DRIFTD_STAGE_LIBRARY_VERSION) {
    throw StageError("library " + library_->file() + ": has version " + std::to_string(version) +
                     " of the functions, expected " + std::to_string(DRIFTD_STAGE_LIBRARY_VERSION));
  }
  std::vector<const char*> names;
  for (const std::string& axis : options_.axes) names.push_back(axis.c_str());
  const int count = static_cast<int>(names.size());
  require(call_.open(options_.device.c_str(), names.data(), count, options_.switch_servo_on ? 1 : 0,
                     &stage_),
          "open");
  std::array<char, 256> text{};
  require(call_.describe(stage_, text.data(), static_cast<int>(text.size())), "describe");
  text.back() = '\0';
  description_ = text.data();
  std::vector<Axis> axes;
  for (int i = 0; i < count; ++i) {
    driftd_stage_axis info{};
    require(call_.axis_info(stage_, i, &info), "axis_info");
    const auto index = static_cast<std::size_t>(i);
    if (!(info.min_nm < info.max_nm) || !(info.resolution_nm > 0)) {
      throw StageError("library " + library_->file() + ": axis " + options_.axes[index] +
                       " goes from " + text_nm(info.min_nm) + " to " + text_nm(info.max_nm) +
                       " in steps of " + text_nm(info.resolution_nm) +
                       ", expected a range and a step above 0");
    }
    axes.push_back({.name = options_.axes[index],
                    .min_nm = info.min_nm,
                    .max_nm = info.max_nm,
                    .resolution_nm = info.resolution_nm,
                    .closed_loop = info.closed_loop != 0});
  }
  return axes;
}

bool PlainLibrary::move_to(std::span<const double> nm) {
  if (!are_targets(nm)) {
    refusal_ = not_a_number();
    return false;
  }
  const int code = call_.move(stage_, nm.data());
  if (code == 0) return true;
  refusal_ = {.condition = Condition::Error, .code = code, .text = "move refused, " + words(code)};
  return false;
}

Health PlainLibrary::health() {
  Health health;
  driftd_stage_health said{};
  require(call_.health(stage_, &said), "get_health");
  constexpr std::array<Condition, 6> kConditions{Condition::Ready,         Condition::ServoOff,
                                                 Condition::NotReferenced, Condition::Limit,
                                                 Condition::Error,         Condition::Disconnected};
  refusal_.move_into(health);
  health.tells_on_target = said.on_target >= 0;
  health.on_target = said.on_target > 0;
  if (said.condition == DRIFTD_STAGE_READY) return health;
  const auto index = static_cast<std::size_t>(said.condition);
  health.condition = index < kConditions.size() ? kConditions[index] : Condition::Error;
  health.error = said.error;
  health.text = words(said.error);
  return health;
}

}  // namespace

std::unique_ptr<Stage> use_plain_library(const StageOptions& options,
                                         std::shared_ptr<const SharedLibrary> library) {
  return std::make_unique<PlainLibrary>(options, std::move(library));
}

}  // namespace driftd::stage
