// SPDX-License-Identifier: MIT
// What the tracking loop calls must not touch the heap. Counts every operator new of this program.
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "control/controller.hpp"
#include "control/lock_state.hpp"
#include "control/roi_tracker.hpp"
#include "support/catch.hpp"
#include "unit/control/marker_scene.hpp"

namespace {
std::atomic<long> allocations{0};
}

// Every form is replaced: a sanitizer brings its own of those left out, and pairs them with ours.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) {
  return operator new(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return operator new(size, std::nothrow);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace driftd::control {
namespace {

TEST_CASE("the counter counts") {
  const long before = allocations;
  std::vector<int>* volatile made = new std::vector<int>(10);
  CHECK(allocations - before == 2);
  delete made;
}

TEST_CASE("a frame through tracker, estimator, lock and controller allocates nothing") {
  test::MarkerScene scene({.markers = 200, .witnesses = 56}, 1);
  EstimatorSettings settings = test::scene_settings();
  settings.average_frames = 10;
  DriftEstimator estimator(settings);
  estimator.set_markers(scene.markers());
  RoiTracker tracker(13, 1);
  tracker.set_markers(scene.markers());
  Controller controller({});
  Lock lock;
  for (int frame = 0; frame < 600; ++frame) {
    const std::vector<MarkerObservation>& o =
        scene.observe(frame, 50, 300, [](auto& bad, int age, auto&) {
          bad.x_px += 0.01 * age;
          bad.fitted = age % 3 != 0;
        });
    const long before = allocations;
    if (frame == 50) estimator.begin_reference(100);
    if (frame == 400) estimator.restart_average();
    const DriftEstimate& e = estimator.update(o);
    tracker.follow(o, estimator.results(), estimator.reference_px(),
                   {e.drift_nm.x / test::kPixelNm, e.drift_nm.y / test::kPixelNm});
    lock = next(lock, e.valid ? LockEvent::GoodFrame : LockEvent::FewMarkers, frame, {});
    const std::int64_t taken_ns = 2'000'000 * static_cast<std::int64_t>(frame);
    controller.update(e.drift_nm, taken_ns, taken_ns + 1'000'000);
    const long during = allocations - before;
    REQUIRE(during == 0);
  }
}

}  // namespace
}  // namespace driftd::control
