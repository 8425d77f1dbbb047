// SPDX-License-Identifier: MIT
// The live fitter that survives its back end, with a primary that fails when told to.
#include "fitter/failover.hpp"

#include "support/catch.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

/// The CPU fitter until it is told to fail.
class Mortal final : public fitter::LiveFitter {
 public:
  Mortal(int roi_px, std::size_t capacity)
      : live_(fitter::make_cpu_live_fitter(roi_px, capacity, {})) {}

  int roi_px() const noexcept override { return live_->roi_px(); }
  std::size_t capacity() const noexcept override { return live_->capacity(); }
  std::uint16_t* staging(std::size_t i) noexcept override { return live_->staging(i); }
  const char* error() const noexcept override { return failed ? "told to fail" : nullptr; }
  const char* description() const noexcept override { return "mortal"; }
  std::span<const fitter::Localization> fit(
      std::span<const fitter::Start> starts) noexcept override {
    failed = failed || fail_next;
    if (failed) return {};
    return live_->fit(starts);
  }

  bool fail_next = false, failed = false;

 private:
  std::unique_ptr<fitter::LiveFitter> live_;
};

TEST_CASE("The frame in which the primary fails is fitted by the twin, and all after it") {
  const auto images = test::simulate_spots<std::uint16_t>(9, 4000, 40, 4, 71);
  const auto expected = test::fit_all(images.pixels, 9);
  auto made = std::make_unique<Mortal>(9, 4);
  Mortal& primary = *made;
  const auto live =
      fitter::make_failover_live_fitter(std::move(made), fitter::make_cpu_live_fitter(9, 4, {}));
  const std::uint16_t* const slot = live->staging(2);
  for (std::size_t i = 0; i < 4; ++i) std::copy_n(images.roi(i), 81, live->staging(i));
  const std::vector<fitter::Start> cold(4);
  for (int frame = 0; frame < 4; ++frame) {
    primary.fail_next = frame == 2;
    const auto fits = live->fit(cold);
    REQUIRE(fits.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(fits[i].x_px == expected[i].x_px);
    CHECK((live->error() != nullptr) == (frame >= 2));
  }
  CHECK_THAT(live->error(), contains("told to fail"));
  CHECK_THAT(live->description(), contains("cpu ("));
  CHECK(live->staging(2) == slot);
  CHECK(live->fit(std::vector<fitter::Start>(9)).size() == 4);
  CHECK(live->fit({}).empty());
}

TEST_CASE("A twin of another shape is refused") {
  for (const auto& [side, capacity] : {std::pair{9, std::size_t{4}}, {11, 8}})
    CHECK_THROWS_AS(
        fitter::make_failover_live_fitter(fitter::make_cpu_live_fitter(9, 8, {}),
                                          fitter::make_cpu_live_fitter(side, capacity, {})),
        fitter::FitterError);
}

}  // namespace
}  // namespace driftd
