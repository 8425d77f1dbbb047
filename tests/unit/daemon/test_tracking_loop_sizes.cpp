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
