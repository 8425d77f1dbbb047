// SPDX-License-Identifier: MIT
// The replay source: the frames of a recording, read into memory before the start and handed out
// one by one at the configured pace. pop() belongs to the tracking loop. What other threads read is
// atomic, or constant after the start.
#include <ctime>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <mutex>
#include <utility>

#include "base/monotonic.hpp"
#include "camera/recording/replay_images.hpp"

namespace driftd::camera {
namespace {

/// ns between frames; 0: no pacing.
std::int64_t period_ns(const ReplaySettings& settings, const ReplayImages& images) {
  double rate_hz = settings.rate_hz;
  switch (settings.pace) {
    case ReplayPace::Fast:
      return 0;
    case ReplayPace::Rate:
      break;
    case ReplayPace::Recorded:
      if (!images.recorded_rate_hz) {
        throw CameraError(
            settings.path.string() +
            ": has no recorded frame rate (ImageJ `finterval` or `fps`, OME's TimeIncrement), "
            "which replay.pace recorded needs: replay.pace rate plays it at replay.rate_hz");
      }
      rate_hz = *images.recorded_rate_hz;
      break;
  }
  constexpr double kSlowestHz = 1e-4;
  constexpr double kFastestHz = 1e6;
  if (!(rate_hz >= kSlowestHz && rate_hz <= kFastestHz)) {
    throw CameraError(settings.path.string() + ": a rate of " + std::to_string(rate_hz) +
                      " frames/s cannot be used; 0.0001 to 1000000 can");
  }
  return std::llround(static_cast<double>(kNanosecondsPerSecond) / rate_hz);
}

void sleep_until(std::int64_t time_ns) noexcept {
  const timespec until = to_timespec(time_ns);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

class ReplaySource final : public FrameSource {
 public:
  explicit ReplaySource(const ReplaySettings& settings)
      : settings_(settings),
        images_(read_recording(settings)),
        period_ns_(period_ns(settings, images_)),
        frame_bytes_(image_bytes(images_.format, images_.width_px, images_.height_px)) {}

  void start() override {
    if (running_.exchange(true)) return;
    start_ns_ = monotonic_ns();
    add_event(SourceEvent::Kind::Connected, "replaying " + settings_.path.string());
  }

  void stop() noexcept override { running_ = false; }

  PopStatus pop(std::chrono::microseconds timeout, Frame& frame) noexcept override {
    if (!running_) return PopStatus::EndOfStream;
    const auto count = static_cast<std::uint64_t>(images_.count);
    while (images_.left_out[next_ % count]) ++next_;  // as if the camera had lost it
    if (settings_.on_end == ReplayEnd::Stop && next_ >= count) {
      ended_ = true;
      return PopStatus::EndOfStream;
    }
    if (next_ > 0 && !paced_) {
      start_ns_ = monotonic_ns();
      paced_ = true;
    }
    const std::int64_t since_start_ns = static_cast<std::int64_t>(next_) * period_ns_;
    if (period_ns_ > 0) {
      const std::int64_t due_ns = start_ns_ + since_start_ns;
      const std::int64_t deadline_ns =
          monotonic_ns() + std::chrono::nanoseconds(std::max(timeout, timeout.zero())).count();
      sleep_until(std::min(due_ns, deadline_ns));
      if (due_ns > deadline_ns) return PopStatus::Timeout;
    }
    frame.pixels = images_.pixels.data() + next_ % count * frame_bytes_;
    frame.format = images_.format;
    frame.width_px = images_.width_px;
    frame.height_px = images_.height_px;
    frame.offset_x_px = 0;
    frame.offset_y_px = 0;
    frame.id = static_cast<std::uint64_t>(images_.first_frame) + next_;
    frame.camera_time_ns = since_start_ns;
    frame.arrival_ns = monotonic_ns();
    ++next_;
    frames_.fetch_add(1, std::memory_order_relaxed);
    return PopStatus::Frame;
  }

  SourceCounters counters() const noexcept override {
    SourceCounters counters;
    counters.frames = frames_.load(std::memory_order_relaxed);
    counters.connected = running_ && !ended_;
    return counters;
  }

  SourceInfo info() const override {
    SourceInfo info;
    info.description = settings_.path.string();
    info.format = images_.format;
    info.width_px = images_.width_px;
    info.height_px = images_.height_px;
    info.frame_rate_hz = period_ns_ > 0 ? static_cast<double>(kNanosecondsPerSecond) /
                                              static_cast<double>(period_ns_)
                                        : 0;
    info.connection = 1;
    info.notes = images_.notes;
    info.notes.push_back("frames " + std::to_string(images_.first_frame) + " to " +
                         std::to_string(images_.first_frame + images_.count - 1) +
                         " of the recording are in memory");
    return info;
  }

  std::vector<SourceEvent> take_events() override {
    const std::lock_guard lock(events_mutex_);
    if (ended_ && !end_told_) {
      end_told_ = true;
      events_.push_back({.kind = SourceEvent::Kind::Note,
                         .time_ns = monotonic_ns(),
                         .text = "the recording has ended"});
    }
    return std::exchange(events_, {});
  }

 private:
  void add_event(SourceEvent::Kind kind, std::string text) {
    const std::lock_guard lock(events_mutex_);
    events_.push_back({.kind = kind, .time_ns = monotonic_ns(), .text = std::move(text)});
  }

  const ReplaySettings settings_;
  const ReplayImages images_;
  const std::int64_t period_ns_;
  const std::size_t frame_bytes_;

  // The pace counts from here: first the first frame's due time; then the time at which the loop
  // asked for the second frame, because it keeps the first until markers are found in it and
  // somebody listens. Written before running_.
  std::int64_t start_ns_ = 0;
  bool paced_ = false;      // the loop's: it has asked for the second
  std::uint64_t next_ = 0;  // frames handed out; the loop's
  std::atomic<bool> running_{false};
  std::atomic<bool> ended_{false};
  std::atomic<std::uint64_t> frames_{0};

  std::mutex events_mutex_;  // never taken by pop()
  std::vector<SourceEvent> events_;
  bool end_told_ = false;
};

}  // namespace

std::unique_ptr<FrameSource> make_replay_source(const ReplaySettings& settings) {
  return std::make_unique<ReplaySource>(settings);
}

}  // namespace driftd::camera
