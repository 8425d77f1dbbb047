// SPDX-License-Identifier: MIT
// A bench for the tracking loop: a scripted camera before a real fitter, estimator, supervisor and
// publisher, run to the script's end on the calling thread. The sample lies on a stage that does
// what it was told, with the dead time and the response of config.stage. Frames are a part of the
// sensor that is not square and not at its origin.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/loop/publisher.hpp"
#include "daemon/loop/tracking_loop.hpp"
#include "daemon/setup/compose.hpp"
#include "fitter/failover.hpp"
#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "unit/daemon/results_for_tests.hpp"

namespace driftd::daemon::test {

constexpr int kWidthPx = 112, kHeightPx = 90;
constexpr int kOffsetXPx = 640, kOffsetYPx = 364;
constexpr double kBenchPixelNm = 100;
constexpr double kSigmaXPx = 1.3, kSigmaYPx = 1.5;  ///< of the spots

/// The time of loop and publisher: nothing in these tests depends on how fast the machine is.
inline std::atomic<std::int64_t> scripted_ns{0};
inline std::int64_t scripted_time() noexcept {
  return scripted_ns.load();
}

/// The publisher's: it stands still in a send while it is held up.
inline std::atomic<bool> publisher_held{false}, publisher_stands{false};
inline std::atomic<std::int64_t> publisher_late_ns{0};  ///< so long after it was handed something
inline std::int64_t publisher_time() noexcept {
  for (; publisher_held.load(); publisher_stands = true)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  publisher_stands = false;
  return scripted_time() + publisher_late_ns.load();
}

/// Five spots, displaced as the script and the stage say; a frame every 2 ms of the scripted time.
class ScriptedCamera final : public camera::FrameSource {
 public:
  struct Step {
    camera::PopStatus status = camera::PopStatus::Frame;
    control::Vec2 drift_nm = {};
    std::int64_t late_ns = 0;  ///< popped so long after it arrived
    bool markers_shown = true;
    std::size_t hidden = 0;         ///< so many markers, from the first on
    std::int64_t delayed_ns = 0;    ///< arrived so long after the camera sent it
    std::int64_t fit_ns = 0;        ///< that its fit takes
    std::size_t fits_answered = 5;  ///< of its markers, from the first on
    double z_nm = 0;                ///< of the sample, with a curve
    bool saturated = false;         ///< the markers shown
  };

  explicit ScriptedCamera(LoopPorts& ports) : ports_(ports) {}
  void start() override {}
  void stop() noexcept override {}
  camera::SourceCounters counters() const noexcept override { return {}; }
  camera::SourceInfo info() const override { return {}; }
  std::vector<camera::SourceEvent> take_events() override { return {}; }
  camera::ClockRate clock_rate(bool wanted) noexcept override {
    if (wanted) ++rate_wanted;
    return told_rate;
  }

  camera::PopStatus pop(std::chrono::microseconds timeout, camera::Frame& frame) noexcept override {
    // None comes while the loop lets the publisher send.
    if (timeout < std::chrono::milliseconds(5) && !hurries) return camera::PopStatus::Timeout;
    driftd::test::watch_this_thread(false);
    if (before_pop) before_pop(popped);
    if (popped >= script.size()) {
      ports_.stop = true;
      return camera::PopStatus::Timeout;
    }
    const Step& step = script[popped++];
    scripted_ns +=
        step.status == camera::PopStatus::Frame ? period_ns + step.delayed_ns : 5'000'000;
    if (step.status == camera::PopStatus::Frame) {
      const std::int64_t arrival_ns = scripted_time() - step.late_ns;
      fit_ns = step.fit_ns;
      fits_answered = step.fits_answered;
      draw(step, stage_at(arrival_ns - step.delayed_ns - exposed_before_ns));
      ++id_;
      frame = {.pixels = reinterpret_cast<const std::byte*>(image_.data()),
               .format = camera::PixelFormat::Mono16,
               .width_px = kWidthPx,
               .height_px = kHeightPx,
               .offset_x_px = kOffsetXPx,
               .offset_y_px = kOffsetYPx,
               .id = id_,
               .camera_time_ns = arrival_ns - step.delayed_ns + 1'000'000'000 -
                                 static_cast<std::int64_t>(slow * static_cast<double>(arrival_ns)),
               .arrival_ns = arrival_ns};
    }
    if (popped > watch_after) driftd::test::watch_this_thread(true);
    return step.status;
  }

  bool rest(std::chrono::microseconds most) noexcept override {
    rests += most.count() > 0;
    return hurries && popped < script.size();
  }

  /// The stage is told now to move the image by so much more.
  void move_stage(control::Vec2 image_nm) { moves_.push_back({scripted_time(), image_nm}); }

  std::vector<Step> script;
  double stage_z_nm = 0;  ///< that the stage of z has moved the sample up, at once
  const control::WidthCurve* curve = nullptr;  ///< that tells how wide the spots are
  bool hurries = false;  ///< the next frame is there while the last one is being sent
  double slow = 0;       ///< its clock
  camera::ClockRate told_rate;
  int rate_wanted = 0;
  std::function<void(std::size_t)> before_pop;
  int rests = 0;
  std::size_t watch_after = static_cast<std::size_t>(-1);
  std::atomic<std::size_t> popped{0};
  std::int64_t period_ns = 2'000'000;
  std::int64_t fit_ns = 0;  ///< of the frame popped last, as what follows
  std::size_t fits_answered = 5;
  std::int64_t exposed_before_ns = 0;  ///< the middle of an exposure to the frame's arrival
  double stage_delay_ns = 0, stage_time_constant_ns = 0;

  /// On the sensor.
  static std::vector<control::Marker> markers() {
    std::vector<control::Marker> result;
    for (std::size_t i = 0; i < kSpots.size(); ++i) {
      result.push_back({static_cast<std::uint32_t>(i + 1), control::MarkerRole::Tracking,
                        kOffsetXPx + kSpots[i].x, kOffsetYPx + kSpots[i].y});
    }
    return result;
  }

 private:
  static constexpr std::array<double, 5> kHeightsNm = {30, -40, 0, 55, -20};
  /// In the frame.
  static constexpr std::array<control::Vec2, 5> kSpots = {
      {{26.2, 20.7}, {84.4, 22.1}, {53.6, 46.9}, {24.3, 70.4}, {87.8, 66.2}}};

  /// How far the stage has moved the image by then: the sum of its responses to every move. Those
  /// that are over, to the last bit, are summed once.
  control::Vec2 stage_at(std::int64_t time_ns) {
    if (time_ns < settled_at_ns_) {
      settled_ = 0;
      settled_nm_ = {};
    }
    settled_at_ns_ = time_ns;
    control::Vec2 place_nm = settled_nm_;
    for (std::size_t i = settled_; i < moves_.size(); ++i) {
      const auto& [told_ns, by_nm] = moves_[i];
      const double since_ns = static_cast<double>(time_ns - told_ns) - stage_delay_ns;
      if (since_ns < 0) continue;
      const double done =
          stage_time_constant_ns > 0 ? 1 - std::exp(-since_ns / stage_time_constant_ns) : 1;
      place_nm.x += done * by_nm.x;
      place_nm.y += done * by_nm.y;
      if (done == 1 && settled_ == i) {
        ++settled_;
        settled_nm_ = place_nm;
      }
    }
    return place_nm;
  }

  /// A little texture: no ROI is constant.
  static std::vector<std::uint16_t> background() {
    std::vector<std::uint16_t> pixels(std::size_t{kWidthPx} * std::size_t{kHeightPx});
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] =
          static_cast<std::uint16_t>(100 + ((static_cast<std::uint32_t>(i) * 2654435761u) >> 29));
    return pixels;
  }

  void draw(const Step& step, control::Vec2 stage_nm) {
    std::copy(background_.begin(), background_.end(), image_.begin());
    if (!step.markers_shown) return;
    for (std::size_t i = step.hidden; i < kSpots.size(); ++i) {
      const double z_nm = step.z_nm + stage_z_nm + kHeightsNm[i];
      const control::Vec2 sigma_px =
          curve != nullptr ? control::Vec2{curve->sigma_x_px(z_nm), curve->sigma_y_px(z_nm)}
                           : control::Vec2{kSigmaXPx, kSigmaYPx};
      draw_spot({kSpots[i].x + (step.drift_nm.x + stage_nm.x) / kBenchPixelNm,
                 kSpots[i].y + (step.drift_nm.y + stage_nm.y) / kBenchPixelNm},
                sigma_px, step.saturated ? 80'000 : 5000);
    }
  }

  /// Up to six sigma; no two spots overlap.
  void draw_spot(control::Vec2 at_px, control::Vec2 sigma_px, double height_adu) {
    const auto first = [](double centre, double sigma) {
      return static_cast<int>(std::max(0.0, std::ceil(centre - 6 * sigma)));
    };
    for (int y = first(at_px.y, sigma_px.y); y < kHeightPx && y < at_px.y + 6 * sigma_px.y; ++y) {
      for (int x = first(at_px.x, sigma_px.x); x < kWidthPx && x < at_px.x + 6 * sigma_px.x; ++x) {
        const double dx = (x - at_px.x) / sigma_px.x, dy = (y - at_px.y) / sigma_px.y;
        const double r2 = dx * dx + dy * dy;
        if (r2 >= 36) continue;
        auto& pixel = image_[static_cast<std::size_t>(y) * kWidthPx + static_cast<std::size_t>(x)];
        const long light = std::lround(height_adu * std::exp(-r2 / 2));
        pixel = static_cast<std::uint16_t>(std::min(65'535L, pixel + light));
      }
    }
  }

  LoopPorts& ports_;
  const std::vector<std::uint16_t> background_ = background();
  std::vector<std::uint16_t> image_ = background_;
  std::uint64_t id_ = 0;
  std::vector<std::pair<std::int64_t, control::Vec2>> moves_;
  std::size_t settled_ = 0;  ///< of them, the first
  control::Vec2 settled_nm_;
  std::int64_t settled_at_ns_ = 0;
};

/// The sample so far away that the ROIs hold nothing of it, in nm and in pixels.
constexpr ScriptedCamera::Step kFar{.drift_nm = {900, -1100}};
constexpr control::Vec2 kFarPx{9, -11};

/// A fitter whose calls take as long, and answer for as many markers, as the camera's script says.
/// It remembers where the newest fits started and ended.
class ScriptedFitter final : public fitter::LiveFitter {
 public:
  ScriptedFitter(std::unique_ptr<fitter::LiveFitter> works, const ScriptedCamera& camera)
      : starts(works->capacity()),
        answers(works->capacity()),
        works_(std::move(works)),
        camera_(camera) {}

  int roi_px() const noexcept override { return works_->roi_px(); }
  std::size_t capacity() const noexcept override { return works_->capacity(); }
  std::uint16_t* staging(std::size_t i) noexcept override { return works_->staging(i); }
  const char* error() const noexcept override { return works_->error(); }
  const char* description() const noexcept override { return works_->description(); }
  std::span<const fitter::Localization> fit(std::span<const fitter::Start> from) noexcept override {
    std::copy(from.begin(), from.end(), starts.begin());
    scripted_ns += camera_.fit_ns;
    const auto fits = works_->fit(from);
    std::copy(fits.begin(), fits.end(), answers.begin());
    return fits.first(std::min(fits.size(), camera_.fits_answered));
  }

  std::vector<fitter::Start> starts;
  std::vector<fitter::Localization> answers;

 private:
  std::unique_ptr<fitter::LiveFitter> works_;
  const ScriptedCamera& camera_;
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
  camera::SourceInfo source;
  std::string endpoint = "ipc:///tmp/driftd-test-loop-" + std::to_string(getpid());
  WireContext wire;
  Publisher publisher{wire,
                      {.endpoints = {endpoint},
                       .send_queue_messages = 100'000,
                       .session = "0123456789abcdef",
                       .corrections = {endpoint + "-corrections"},
                       .queued_corrections = 100'000,
                       .clock = publisher_time}};
  std::unique_ptr<ScriptedFitter> fitter;
  std::unique_ptr<Reader> reader;
  std::vector<std::pair<std::string, nlohmann::json>> messages;
  bool stage_obeys = true;
  double z_stage_gain = 1;     ///< nm of the sample, up, for 1 nm that the stage of z is told
  int rest_moves_to_lock = 0;  ///< so that most scripts may lock at once
  bool lossless = false;       ///< a recording
  bool wait_for_sent =
      true;                  ///< frame by frame for the publisher, so that its pace does not matter
  std::size_t capacity = 5;  ///< of the loop's own fitter
  int gpu_fails_at = -1;     ///< call at which a fake GPU fails and the CPU takes over; -1: no GPU

  Bench() {
    scripted_ns = 5'000'000'000;
    ports.clock = scripted_time;
    config.fitter.roi_px = 13;
    config.optics.pixel_size_nm = kBenchPixelNm;
    config.lock.reference_frames = 10;
    config.lock.max_frame_age_ms = 50;
    config.control.step_limit_nm = 5;
    config.control.range_limit_nm = 60;
    config.control.rate_limit_nm_per_s = 1e6;
    config.lock.max_jump_nm = 50;
    config.stage.image_to_stage = {{{1, 0}, {0, -1}}};
    config.axial_stage.delay_us = config.axial_stage.time_constant_us = 0;
    config.axial.step_limit_nm = 5;
    reader = std::make_unique<Reader>(endpoint);
    reader->connect(endpoint + "-corrections");
    publisher.start({});
    REQUIRE(subscribed(publisher));
    REQUIRE(driven(publisher));
  }

  void frames(int count, ScriptedCamera::Step step = {}) {
    for (int i = 0; i < count; ++i) camera.script.push_back(step);
  }
  /// A command taken at the script's present place.
  void command_here(LoopCommand::Kind kind, control::Vec2 displacement_px = {},
                    AxisGroup group = AxisGroup::Lateral) {
    at_here([this, kind, displacement_px, group] {
      LoopCommand command{.kind = kind, .group = group, .displacement_px = displacement_px};
      if (kind == LoopCommand::Kind::Lock) {
        newest_id = std::max({newest_id, lock_id, z_lock_id}) + 1;
        command.lock_id = newest_id;
        (group == AxisGroup::Axial ? z_lock_id : lock_id) = newest_id;
        publisher.gate(group).open(newest_id);
      }
      ports.commands.push(std::move(command));
    });
  }
  void send_markers(const std::vector<control::Marker>& markers) {
    LoopCommand command{.kind = LoopCommand::Kind::Markers};
    command.markers = make_marker_set(config, markers);
    ports.commands.push(std::move(command));
  }
  /// The loop's settings are those of `config` as it is then.
  void reload() {
    LoopCommand command{.kind = LoopCommand::Kind::Settings};
    command.settings = std::make_unique<LoopSettings>(settings());
    ports.commands.push(std::move(command));
  }
  /// A result that is not the loop's, whose correction does not leave.
  void hand_over(const FrameResult& result) {
    publisher.hand_over(result);
    ++handed_besides_;
  }
  /// Something done on the loop's thread before the frame at the script's present place.
  void at_here(std::function<void()> action) {
    actions_.push_back({camera.script.size(), std::move(action)});
  }

  /// Until the publisher has sent what the loop handed over: nothing depends on how fast it is.
  void await_publisher() {
    const LoopReport& report = newest_report();
    const std::uint64_t handed = report.fitted - report.queue_dropped + handed_besides_;
    for (int i = 0; i < 50'000 && publisher.sent() < handed; ++i)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

  LoopReport run() {
    auto works = make_fitter();
    if (gpu_fails_at >= 0) {
      works = fitter::make_failover_live_fitter(
          std::make_unique<FailingFitter>(std::move(works), gpu_fails_at), make_fitter());
    }
    fitter = std::make_unique<ScriptedFitter>(std::move(works), camera);
    camera.curve = config.axial.read ? &config.axial.read->curves().front() : nullptr;
    camera.stage_delay_ns = 1e3 * config.stage.delay_us;
    camera.stage_time_constant_ns = 1e3 * config.stage.time_constant_us;
    TrackingLoop loop(camera, *fitter, publisher, ports, settings(), lossless);
    if (!first_markers.empty()) send_markers(first_markers);
    camera.before_pop = [this](std::size_t popped) {
      if (wait_for_sent) await_publisher();
      obey();
      for (const auto& [place, action] : actions_)
        if (place == popped) action();
    };
    loop.run();
    driftd::test::watch_this_thread(false);
    publisher.stop();
    const LoopReport& report = newest_report();
    read_messages(report.corrections + report.z.corrections);
    return report;
  }
  /// Between two frames, and at the end.
  const LoopReport& newest_report() {
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

  std::uint64_t newest_id = 0;               ///< of a lock, of x and y or of z
  std::uint64_t lock_id = 0, z_lock_id = 0;  ///< of the newest lock of each
  std::vector<control::Marker> first_markers = ScriptedCamera::markers();  ///< none: not sent

 private:
  LoopSettings settings() const {
    LoopSettings result = loop_settings(config, source);
    result.supervisor.rest_moves_to_lock = rest_moves_to_lock;
    result.supervisor.acquaintance.when = control::AcquaintWhen::Never;  // its stages are described
    result.axial_supervisor.rest_moves_to_lock = rest_moves_to_lock;
    result.axial_supervisor.acquaintance.when = control::AcquaintWhen::Never;
    return result;
  }
  std::unique_ptr<fitter::LiveFitter> make_fitter() const {
    return fitter::make_cpu_live_fitter(
        config.fitter.roi_px, capacity,
        fit_options(config, camera::PixelFormat::Mono16, fitter::Estimator::ImplicitLeastSquares));
  }
  /// Waits for those that left, and a moment for one too many.
  void read_messages(std::uint64_t corrections) {
    const std::uint64_t not_left =
        publisher.withheld() + publisher.expired() + publisher.refused() - handed_besides_;
    const std::uint64_t left = publisher.sent() + corrections - not_left;
    while (auto message = reader->next(messages.size() < left ? 2000 : 5))
      messages.push_back(*message);
  }
  /// The stage goes where the last correction that left says; a new lock begins where it stands.
  void obey() {
    if (!stage_obeys) return;
    obey_z();
    const Publisher::Sent sent = publisher.last_sent(lock_id);
    if (sent.lock_id == 0) return;
    if (sent.lock_id != obeyed_.lock_id) obeyed_ = {};
    const control::Vec2 by{sent.total_nm.x - obeyed_.total_nm.x,
                           sent.total_nm.y - obeyed_.total_nm.y};
    obeyed_ = sent;
    if (by.x == 0 && by.y == 0) return;
    const auto& m = config.stage.image_to_stage;
    camera.move_stage(control::ImageToStage{m[0][0], m[0][1], m[1][0], m[1][1]}.invert(by));
  }

  void obey_z() {
    const Outlet::Sent sent = publisher.outlet(AxisGroup::Axial).last_sent(z_lock_id);
    if (sent.lock_id == 0) return;
    if (sent.lock_id != z_obeyed_.lock_id) z_obeyed_ = {};
    camera.stage_z_nm += z_stage_gain * (sent.total_nm.x - z_obeyed_.total_nm.x);
    z_obeyed_ = sent;
  }

  std::vector<std::pair<std::size_t, std::function<void()>>> actions_;
  Outlet::Sent z_obeyed_;
  Publisher::Sent obeyed_;  ///< what the stage was told last
  std::uint64_t handed_besides_ = 0;
};

}  // namespace driftd::daemon::test
