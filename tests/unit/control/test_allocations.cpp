// SPDX-License-Identifier: MIT
// What the tracking loop calls must not touch the heap.
#include <vector>

#include "control/drift/marker_trust.hpp"
#include "control/drift/roi_tracker.hpp"
#include "control/law/controller.hpp"
#include "control/lock/lock_state.hpp"
#include "control/lock/residual_statistics.hpp"
#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"
#include "unit/control/marker_scene.hpp"

namespace driftd::control {
namespace {

TEST_CASE("a frame through tracker, estimator, lock and controller allocates nothing") {
  if (!driftd::test::can_watch()) {
    WARN("SKIPPED: a sanitizer owns the allocator");
    return;
  }
  test::MarkerScene scene({.markers = 200, .witnesses = 56}, 1);
  EstimatorSettings settings = test::scene_settings();
  settings.average_frames = 10;
  DriftEstimator estimator(settings);
  estimator.set_markers(scene.markers());
  MarkerTrust trust(scene.markers());
  ResidualStatistics residual;
  RoiTracker tracker(13, 1);
  tracker.set_markers(scene.markers());
  Controller controller(driftd::test::default_controller_settings());
  const LockSettings lock_settings = driftd::test::default_lock_settings();
  Lock lock;
  for (int frame = 0; frame < 600; ++frame) {
    const std::vector<MarkerObservation>& o =
        scene.observe(frame, 50, 300, [](auto& bad, int age, auto&) {
          bad.x_px += 0.01 * age;
          bad.fitted = age % 3 != 0;
        });
    driftd::test::watch_this_thread(true);
    if (frame == 50) estimator.begin_reference(100);
    if (frame == 400) estimator.restart_average();
    const DriftEstimate& e = estimator.update(o);
    trust.after_frame(estimator, e, o, {.interval_s = 0.002, .locked = true, .period_s = 0.1});
    if (e.valid) residual.measured(e, {}, 0.002, 0.002);
    tracker.follow(o, estimator.results(), estimator.reference_px(),
                   {e.drift_nm.x / test::kPixelNm, e.drift_nm.y / test::kPixelNm});
    lock = next(lock, e.valid ? LockEvent::GoodFrame : LockEvent::FewMarkers, frame, lock_settings);
    const std::int64_t taken_ns = 2'000'000 * static_cast<std::int64_t>(frame);
    controller.update(e.drift_nm, taken_ns, taken_ns + 1'000'000);
    driftd::test::watch_this_thread(false);
    REQUIRE(driftd::test::watched_allocations() == 0);
  }
}

}  // namespace
}  // namespace driftd::control
