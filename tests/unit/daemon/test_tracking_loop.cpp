// SPDX-License-Identifier: MIT
// The tracking loop between a scripted camera and a real fitter, estimator, controller and
// publisher.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "daemon/compose.hpp"
#include "daemon/publisher.hpp"
#include "daemon/tracking_loop.hpp"
#include "fitter/failover.hpp"
#include "records_for_tests.hpp"
#include "support/allocation_watch.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockState;

namespace {

constexpr int kSide = 96;
constexpr double kPixelNm = 100;

/// Five spots, displaced as the script says, one frame a millisecond of a scripted clock.
class ScriptedCamera final : public camera::FrameSource {
 public:
  struct Step {
    camera::PopStatus status = camera::PopStatus::Frame;
    control::Vec2 drift_nm = {};
    std::int64_t late_ns = 0;  ///< popped so much later than its camera time says
    bool markers_shown = true;
  };

  explicit ScriptedCamera(LoopPorts& ports) : ports_(ports), image_(std::size_t{kSide} * kSide) {}
  void start() override {}
  void stop() noexcept override {}
  camera::SourceCounters counters() const noexcept override { return {}; }
  camera::SourceInfo info() const override { return {}; }
  std::vector<camera::SourceEvent> take_events() override { return {}; }

  camera::PopStatus pop(std::chrono::microseconds, camera::Frame& frame) noexcept override {
    driftd::test::watch_this_thread(false);
    if (before_pop) before_pop(popped);
    if (popped >= script.size()) {
      ports_.stop = true;
      return camera::PopStatus::Timeout;
    }
    const Step& step = script[popped++];
    if (step.status == camera::PopStatus::Frame) {
      draw(step);
      ++id_;
      frame = {.pixels = reinterpret_cast<const std::byte*>(image_.data()),
               .format = camera::PixelFormat::Mono16,
               .width_px = kSide,
               .height_px = kSide,
               .id = id_,
               .camera_time_ns = monotonic_ns() - step.late_ns + 1'000'000'000,
               .arrival_ns = monotonic_ns()};
    }
    if (popped > watch_after) driftd::test::watch_this_thread(true);
    return step.status;
  }

  std::vector<Step> script;
  std::function<void(std::size_t)> before_pop;
  std::size_t watch_after = static_cast<std::size_t>(-1);
  std::size_t popped = 0;

  static std::vector<control::Marker> markers() {
    std::vector<control::Marker> result;
    for (std::size_t i = 0; i < kSpots.size(); ++i) {
      result.push_back({static_cast<std::uint32_t>(i + 1), control::MarkerRole::Tracking,
                        kSpots[i].x, kSpots[i].y});
    }
    return result;
  }

 private:
  static constexpr std::array<control::Vec2, 5> kSpots = {
      {{20.2, 20.7}, {70.4, 22.1}, {48.6, 47.9}, {22.3, 72.4}, {73.8, 70.2}}};

  void draw(const Step& step) {
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        std::uint32_t dither = static_cast<std::uint32_t>(y * kSide + x) * 2654435761u;
        double value =
            100 + static_cast<double>(dither >> 29);  // a little texture, no constant ROI
        if (step.markers_shown) {
          for (const control::Vec2& s : kSpots) {
            const double dx = x - s.x - step.drift_nm.x / kPixelNm;
            const double dy = y - s.y - step.drift_nm.y / kPixelNm;
            if (dx * dx + dy * dy < 60) value += 5000 * std::exp(-(dx * dx + dy * dy) / (2 * 1.69));
          }
        }
        image_[static_cast<std::size_t>(y) * kSide + static_cast<std::size_t>(x)] =
            static_cast<std::uint16_t>(std::lround(value));
      }
    }
  }

  LoopPorts& ports_;
  std::vector<std::uint16_t> image_;
  std::uint64_t id_ = 0;
};

/// A GPU that is really a CPU, until a call fails.
class FailingFitter final : public fitter::LiveFitter {
 public:
  FailingFitter(std::unique_ptr<fitter::LiveFitter> works, int fails_at)
      : works_(std::move(works)), left_(fails_at) {}

  int roi_px() const noexcept override { return works_->roi_px(); }
  std::size_t capacity() const noexcept override { return works_->capacity(); }
  std::uint16_t* staging(std::size_t i) noexcept override { return works_->staging(i); }
  const char* error() const noexcept override { return left_ < 0 ? "device lost" : nullptr; }
  const char* description() const noexcept override { return "cuda (fake)"; }
  std::span<const fitter::Localization> fit(
      std::span<const fitter::Start> starts) noexcept override {
    if (left_ < 0 || --left_ < 0) return {};
    return works_->fit(starts);
  }

 private:
  std::unique_ptr<fitter::LiveFitter> works_;
  int left_;
};

/// Camera, loop and publisher, run to the script's end on this thread.
struct Bench {
  LoopPorts ports;
  ScriptedCamera camera{ports};
  config::Config config = config::default_config();
  std::string endpoint = "ipc:///tmp/driftd-test-loop-" + std::to_string(getpid());
  Publisher publisher{{endpoint, 100'000, "0123456789abcdef"}};
  std::unique_ptr<fitter::LiveFitter> fitter;
  std::unique_ptr<daemon::test::Reader> reader;
  std::vector<std::pair<std::string, nlohmann::json>> messages;
  int gpu_fails_at = -1;  ///< call at which a fake GPU fails and the CPU takes over; -1: no GPU

  Bench() {
    config.fitter.roi_px = 13;
    config.optics.pixel_size_nm = kPixelNm;
    config.lock.reference_frames = 10;
    config.lock.max_frame_age_ms = 50;
    config.control.step_limit_nm = 5;
    config.control.range_limit_nm = 60;
    config.control.rate_limit_nm_per_s = 1e6;
    config.lock.max_jump_nm = 50;
    config.stage.image_to_stage = {{{1, 0}, {0, -1}}};
    reader = std::make_unique<daemon::test::Reader>(endpoint);
    publisher.start({});
    REQUIRE(daemon::test::subscribed(publisher));
  }

  void frames(int count, ScriptedCamera::Step step = {}) {
    for (int i = 0; i < count; ++i) camera.script.push_back(step);
  }
  /// A command taken at the script's present place.
  void command_here(LoopCommand::Kind kind, control::Vec2 displacement_px = {}) {
    orders_.push_back({camera.script.size(), kind, displacement_px});
  }

  LoopReport run() {
    fitter = fitter::make_cpu_live_fitter(
        config.fitter.roi_px, 5,
        fit_options(config, camera::PixelFormat::Mono16, fitter::Estimator::ImplicitLeastSquares));
    if (gpu_fails_at >= 0) {
      auto twin =
          fitter::make_cpu_live_fitter(config.fitter.roi_px, 5,
                                       fit_options(config, camera::PixelFormat::Mono16,
                                                   fitter::Estimator::ImplicitLeastSquares));
      fitter = fitter::make_failover_live_fitter(
          std::make_unique<FailingFitter>(std::move(fitter), gpu_fails_at), std::move(twin));
    }
    TrackingLoop loop(camera, *fitter, publisher, ports, loop_settings(config, {}), false);
    LoopCommand markers{.kind = LoopCommand::Kind::Markers};
    markers.markers = make_marker_set(config, ScriptedCamera::markers());
    const bool taken = ports.commands.push(std::move(markers));
    REQUIRE(taken);
    camera.before_pop = [this](std::size_t popped) {
      for (const auto& [place, kind, displacement_px] : orders_) {
        if (place != popped) continue;
        LoopCommand command{
            .kind = kind, .lock_id = ++lock_id_, .displacement_px = displacement_px};
        if (kind == LoopCommand::Kind::Lock) publisher.gate().open(lock_id_);
        ports.commands.push(std::move(command));
      }
      // The publisher is given its turn, so that nothing depends on how fast it is.
      for (int i = 0; i < 1000 && !publisher.idle(); ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    };
    loop.run();
    driftd::test::watch_this_thread(false);
    publisher.stop();
    while (auto message = reader->next(200)) messages.push_back(*message);
    ports.report.refresh();
    return ports.report.reading();
  }
  std::vector<nlohmann::json> of(const std::string& topic) const {
    std::vector<nlohmann::json> result;
    for (const auto& [name, object] : messages) {
      if (name == topic) result.push_back(object);
    }
    return result;
  }
  std::vector<LockChange> changes() {
    std::vector<LockChange> result;
    LockChange change;
    while (ports.lock_changes.pop(change)) result.push_back(change);
    return result;
  }

 private:
  struct Order {
    std::size_t place;
    LoopCommand::Kind kind;
    control::Vec2 displacement_px;
  };
  std::vector<Order> orders_;
  std::uint64_t lock_id_ = 0;
};

}  // namespace

TEST_CASE("unlocked, every frame's drift is published and no correction leaves") {
  Bench bench;
  bench.frames(20);
  bench.frames(20, {.drift_nm = {12, -7}});
  const LoopReport report = bench.run();
  REQUIRE(report.fitted == 40);
  REQUIRE(bench.of("correction").empty());
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == 40);
  REQUIRE(positions[10]["x_nm"].get<double>() == Approx(0).margin(0.5));
  REQUIRE(positions[35]["x_nm"].get<double>() == Approx(12).margin(0.5));
  REQUIRE(positions[35]["y_nm"].get<double>() == Approx(-7).margin(0.5));
  REQUIRE(positions[35]["markers_used"] == 5);
}

TEST_CASE("locked, corrections counter the drift along the stage's axes within the step limit") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(15, {.drift_nm = {30, 0}});  // the reference is here, wherever it began
  bench.frames(60, {.drift_nm = {42, -9}});
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Locked);
  const auto corrections = bench.of("correction");
  REQUIRE(corrections.size() > 50);
  for (const auto& c : corrections) {
    REQUIRE(std::abs(c["delta_x_nm"].get<double>()) <= 5);
    REQUIRE(std::abs(c["delta_y_nm"].get<double>()) <= 5);
  }
  // The scripted sample does not obey, so the integral goes on; the direction is what counts:
  // against +12 nm in x, and against -9 nm in y through the mirrored stage axis.
  REQUIRE(corrections.back()["total_x_nm"].get<double>() < -12);
  REQUIRE(corrections.back()["total_y_nm"].get<double>() < -9);
}

TEST_CASE("no correction leaves for a stale frame, and the lock holds after some") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(10, {.late_ns = 200'000'000});
  const LoopReport report = bench.run();
  REQUIRE(report.stale == 10);
  REQUIRE(report.lock.state == LockState::Holding);
  REQUIRE(report.lock.reason == control::LockReason::StaleFrame);
  REQUIRE(bench.of("position").size() == 30);
  for (const auto& c : bench.of("correction")) REQUIRE(c["frame_id"].get<int>() <= 30);
}

TEST_CASE(
    "hidden markers: the lock holds without corrections, then resumes on the same reference") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(20, {.markers_shown = false});
  bench.frames(20, {.drift_nm = {3, 3}});
  bench.run();
  std::vector<LockState> states;
  for (const auto& change : bench.changes()) states.push_back(change.state);
  REQUIRE(states == std::vector<LockState>{LockState::Referencing, LockState::Locked,
                                           LockState::Holding, LockState::Locked});
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == 70);
  for (std::size_t i = 30; i < 50; ++i) {
    REQUIRE(positions[i]["valid"] == false);
    REQUIRE(positions[i]["x_nm"].is_null());
  }
  REQUIRE(positions.back()["x_nm"].get<double>() == Approx(3).margin(0.5));
  for (const auto& c : bench.of("correction")) {
    const auto frame = c["frame_id"].get<std::size_t>();
    REQUIRE((frame <= 30 || frame > 50));
  }
}

TEST_CASE("the camera away: the lock holds at once and resumes") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(5, {.status = camera::PopStatus::Disconnected});
  bench.frames(20);
  const LoopReport report = bench.run();
  const auto changes = bench.changes();
  REQUIRE(changes.size() == 4);
  REQUIRE(changes[2].state == LockState::Holding);
  REQUIRE(changes[2].reason == control::LockReason::NoFrames);
  REQUIRE(report.lock.state == LockState::Locked);
}

TEST_CASE("an implausible jump is not followed") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(30, {.drift_nm = {150, 0}});
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Holding);
  REQUIRE(report.lock.reason == control::LockReason::ImplausibleJump);
  for (const auto& c : bench.of("correction")) REQUIRE(c["frame_id"].get<int>() <= 30);
}

namespace {

constexpr control::Vec2 kFarPx{9, -11};
constexpr ScriptedCamera::Step kFar{.drift_nm = {900, -1100}};  // 13 px ROIs hold nothing of it

/// Locked, then far away, with the ROIs moved after half of the frames there.
LoopReport jump_and_move(Bench& bench, control::Vec2 displacement_px = kFarPx) {
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(20, kFar);
  bench.command_here(LoopCommand::Kind::MoveRois, displacement_px);
  bench.frames(20, kFar);
  return bench.run();
}

}  // namespace

TEST_CASE("ROIs moved to where the markers are: the drift is how far they went") {
  Bench bench;
  const LoopReport report = jump_and_move(bench);
  const auto positions = bench.of("position");
  for (std::size_t i = 30; i < 50; ++i) REQUIRE(positions[i]["valid"] == false);
  for (std::size_t i = 50; i < 70; ++i) {
    REQUIRE(positions[i]["markers_used"] == 5);
    REQUIRE(positions[i]["x_nm"].get<double>() == Approx(900).margin(0.5));
    REQUIRE(positions[i]["y_nm"].get<double>() == Approx(-1100).margin(0.5));
  }
  // lock.max_jump_nm is 50: nothing of it is corrected.
  REQUIRE(report.lock.state == LockState::Holding);
  for (const auto& c : bench.of("correction")) REQUIRE(c["frame_id"].get<int>() <= 30);
}

TEST_CASE(
    "a jump that lock.max_jump_nm allows is corrected after the ROIs moved, in limited steps") {
  Bench bench;
  bench.config.lock.max_jump_nm = 2000;
  const LoopReport report = jump_and_move(bench);
  REQUIRE(report.lock.state == LockState::Locked);
  double before = 0;
  int after_the_move = 0;
  for (const auto& c : bench.of("correction")) {
    const auto total = c["total_x_nm"].get<double>();
    REQUIRE(std::abs(total) <= 60);
    REQUIRE(std::abs(total - before) <= 5 + 1e-3);
    REQUIRE((c["frame_id"].get<int>() <= 30 || c["frame_id"].get<int>() > 50));
    after_the_move += c["frame_id"].get<int>() > 50 ? 1 : 0;
    before = total;
  }
  REQUIRE(after_the_move >= 10);
  REQUIRE(before <= -50);  // against +900 nm, up to the range limit
}

TEST_CASE("ROIs of markers that came back by themselves stay") {
  Bench bench;
  bench.frames(20);
  bench.frames(5, {.markers_shown = false});
  bench.frames(5);
  bench.command_here(LoopCommand::Kind::MoveRois, kFarPx);
  bench.frames(20);
  bench.run();
  const auto positions = bench.of("position");
  for (std::size_t i = 25; i < positions.size(); ++i) REQUIRE(positions[i]["markers_used"] == 5);
}

TEST_CASE("a reference begun before the jump starts over at the new place") {
  Bench bench;
  bench.config.lock.reference_frames = 40;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(10, kFar);
  bench.command_here(LoopCommand::Kind::MoveRois, kFarPx);
  bench.frames(60, kFar);
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Locked);
  const auto corrections = bench.of("correction");
  REQUIRE(corrections.size() >= 10);
  for (const auto& c : corrections) {
    REQUIRE(c["frame_id"].get<int>() >= 80);  // 40 + 40 frames of the new reference
    REQUIRE(std::abs(c["total_x_nm"].get<double>()) < 2);
  }
}

TEST_CASE("since when the markers are gone is told until they are back") {
  for (const int back : {0, 1}) {
    Bench bench;
    bench.frames(10);
    bench.frames(10, {.markers_shown = false});
    bench.frames(back);
    const std::int64_t begin_ns = monotonic_ns();
    const LoopReport report = bench.run();
    if (back == 1) {
      REQUIRE(report.markers_gone_since_ns == 0);
    } else {
      REQUIRE(report.markers_gone_since_ns > begin_ns);
      REQUIRE(report.markers_gone_since_ns < report.time_ns);
    }
  }
}

TEST_CASE("a stage that does not obey runs into the range limit, and the lock holds there") {
  Bench bench;
  bench.config.lock.hold_timeout_s = 100;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(15);
  bench.frames(400, {.drift_nm = {20, 0}});
  bench.run();
  const auto corrections = bench.of("correction");
  for (const auto& c : corrections) REQUIRE(std::abs(c["total_x_nm"].get<double>()) <= 60);
  REQUIRE(corrections.back()["total_x_nm"].get<double>() == Approx(-60));
  REQUIRE(corrections.back()["limited"][0] == "range");
}

TEST_CASE("unlocked in mid-flight, the loop goes idle before the next frame") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.command_here(LoopCommand::Kind::Unlock);
  bench.frames(10, {.drift_nm = {3, 0}});
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Idle);
  for (const auto& c : bench.of("correction")) REQUIRE(c["frame_id"].get<int>() <= 30);
}

TEST_CASE("a jump in the first frame of a lock is not followed") {
  int first_locked = 0;
  {
    Bench bench;
    bench.command_here(LoopCommand::Kind::Lock);
    bench.frames(30);
    bench.run();
    for (const LockChange& change : bench.changes()) {
      if (change.state == LockState::Locked) first_locked = static_cast<int>(change.frame_id);
    }
    REQUIRE(first_locked > 0);
  }
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(first_locked);
  bench.frames(40, {.drift_nm = {80, 0}});  // config.lock.max_jump_nm is 50
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Holding);
  for (const auto& c : bench.of("correction")) REQUIRE(c["frame_id"].get<int>() <= first_locked);
}

TEST_CASE("a GPU that fails while locked costs no frame and no lock") {
  Bench bench;
  bench.gpu_fails_at = 40;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(60, {.drift_nm = {4, 1}});
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Locked);
  REQUIRE(report.fitter_error == std::string("device lost"));
  REQUIRE(std::string(report.fitter).starts_with("cpu"));
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == 90);
  for (const auto& p : positions) REQUIRE(p["markers_used"] == 5);
  REQUIRE(positions.back()["x_nm"].get<double>() == Approx(4).margin(0.5));
  const auto corrections = bench.of("correction");
  REQUIRE(corrections.back()["frame_id"] == 90);
}

TEST_CASE("the loop's thread neither allocates nor frees, locked, disturbed or without frames") {
  if (!driftd::test::can_watch()) {
    std::cout << "SKIPPED: the sanitizer owns the allocator\n";
    return;
  }
  Bench bench;
  bench.gpu_fails_at = 60;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(10);
  bench.camera.watch_after = 10;
  bench.frames(40, {.drift_nm = {4, 1}});
  bench.frames(5, {.status = camera::PopStatus::Timeout});
  bench.frames(5, {.status = camera::PopStatus::Disconnected});
  bench.frames(20, {.markers_shown = false});
  bench.frames(5, {.late_ns = 200'000'000});
  bench.frames(30, {.drift_nm = {4, 1}});
  bench.frames(10, kFar);
  bench.command_here(LoopCommand::Kind::MoveRois, kFarPx);
  bench.frames(10, kFar);
  const LoopReport report = bench.run();
  REQUIRE(report.drift.valid);  // at the new place: the ROIs were moved
  REQUIRE(driftd::test::watched_allocations() == 0);
}
