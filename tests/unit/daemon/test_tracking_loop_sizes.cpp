// SPDX-License-Identifier: MIT
// Markers that bring a fitter of their own, for ROIs of another side.
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "unit/daemon/tracking_bench.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::Bench;
using driftd::daemon::test::ScriptedCamera;

namespace {

class CountingFitter final : public fitter::LiveFitter {
 public:
  explicit CountingFitter(std::unique_ptr<fitter::LiveFitter> works) : works_(std::move(works)) {}
  int roi_px() const noexcept override { return works_->roi_px(); }
  std::size_t capacity() const noexcept override { return works_->capacity(); }
  std::uint16_t* staging(std::size_t i) noexcept override { return works_->staging(i); }
  const char* description() const noexcept override { return "counting"; }
  std::span<const fitter::Localization> fit(
      std::span<const fitter::Start> starts) noexcept override {
    ++calls;
    return works_->fit(starts);
  }
  int calls = 0;

 private:
  std::unique_ptr<fitter::LiveFitter> works_;
};

}  // namespace

TEST_CASE("markers that bring a fitter are fitted by it in ROIs of its side, until others come") {
  Bench bench;
  const auto wide = std::make_shared<CountingFitter>(
      fitter::make_cpu_live_fitter(21, 5,
                                   fit_options(bench.config, camera::PixelFormat::Mono16,
                                               fitter::Estimator::ImplicitLeastSquares)));
  bench.frames(10);
  bench.at_here([&] {
    config::Config config = bench.config;
    config.fitter.roi_px = 21;
    LoopCommand command{.kind = LoopCommand::Kind::Markers};
    command.markers = make_marker_set(config, ScriptedCamera::markers());
    command.markers->fitter = wide;
    bench.ports.commands.push(std::move(command));
  });
  bench.frames(7);
  control::RoiOrigin then;
  bench.at_here([&] {
    bench.ports.markers.refresh();
    then = bench.ports.markers.reading().entries[0].roi;
    CHECK(std::string(bench.newest_report().fitter) == "counting");
    bench.send_markers(ScriptedCamera::markers());
  });
  bench.frames(5);
  const LoopReport report = bench.run();
  CHECK(wide->calls == 7);
  CHECK(then.x_px == std::lround(ScriptedCamera::markers()[0].x_px) - 10);
  CHECK(then.y_px == std::lround(ScriptedCamera::markers()[0].y_px) - 10);
  CHECK(std::string(report.fitter) != "counting");
  CHECK(report.fitted == 22);
  CHECK(report.valid == 22);
  bench.ports.markers.refresh();
  CHECK(bench.ports.markers.reading().entries[0].roi.x_px ==
        std::lround(ScriptedCamera::markers()[0].x_px) - 6);
}

namespace {

/// Hands over all five markers after so many frames, with a fitter of their own of that capacity.
void hand_over(Bench& bench, std::size_t capacity) {
  bench.at_here([&bench, capacity] {
    LoopCommand command{.kind = LoopCommand::Kind::Markers};
    command.markers = make_marker_set(bench.config, ScriptedCamera::markers());
    command.markers->fitter =
        fitter::make_cpu_live_fitter(bench.config.fitter.roi_px, capacity,
                                     fit_options(bench.config, camera::PixelFormat::Mono16,
                                                 fitter::Estimator::ImplicitLeastSquares));
    bench.ports.commands.push(std::move(command));
  });
}

const MarkersReport& told(Bench& bench) {
  bench.ports.markers.refresh();
  return bench.ports.markers.reading();
}

}  // namespace

TEST_CASE("more markers than the loop began with are all measured, by a fitter that holds them") {
  Bench bench;
  bench.capacity = 2;
  bench.first_markers.clear();
  bench.frames(5);
  hand_over(bench, 5);
  bench.frames(7, {.drift_nm = {30, -20}});
  bench.frames(7, {.drift_nm = {42, -11}});
  const LoopReport report = bench.run();
  CHECK(report.drift.markers_used == 5);
  CHECK(report.drift.frame_drift_nm.x == Approx(42).margin(0.5));
  const MarkersReport& markers = told(bench);
  REQUIRE(markers.count == 5);
  for (std::size_t i = 0; i < markers.count; ++i) {
    const MarkersReport::Entry& entry = markers.entries[i];
    CAPTURE(i);
    CHECK(entry.result.health == control::MarkerHealth::Good);
    CHECK(entry.observation.x_px == Approx(entry.marker.x_px + 0.42).margin(0.05));
    CHECK(entry.result.displacement_nm.x == Approx(42).margin(0.5));
  }
}

TEST_CASE(
    "markers beyond what the fitter holds do not exist for the drift, whatever was fitted there") {
  Bench bench;
  bench.config.drift.min_markers = 2;
  bench.frames(10);  // by a fitter for all five, whose fits must not be taken for later ones
  hand_over(bench, 3);
  bench.frames(5);
  bench.frames(7, {.drift_nm = {12, 9}});
  const LoopReport report = bench.run();
  CHECK(report.drift.markers_used == 3);
  CHECK(report.drift.frame_drift_nm.x == Approx(12).margin(0.5));
  const MarkersReport& markers = told(bench);
  REQUIRE(markers.count == 5);
  for (std::size_t i = 3; i < markers.count; ++i) {
    CAPTURE(i);
    CHECK(markers.entries[i].result.health == control::MarkerHealth::FitFailed);
    CHECK_FALSE(markers.entries[i].observation.fitted);
    CHECK(markers.entries[i].observation.x_px == 0);
  }
}
