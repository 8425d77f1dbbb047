// SPDX-License-Identifier: MIT
// FrameSource: where frames come from (a GigE or USB3 camera through Aravis, or a recording).
// The daemon makes it, starts it, and then only the tracking loop calls pop(); counters() and
// info() may be called from any thread. All set-up, reconnection and tear-down work happens on the
// source's own thread: pop() never blocks longer than its time-out, allocates, locks or throws.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "camera/clock_rate.hpp"
#include "camera/frame.hpp"

namespace driftd::camera {

/// The camera or recording cannot be used at all as configured (bad path, no such camera at start).
struct CameraError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class PopStatus : std::uint8_t {
  Frame,         ///< `frame` is a new complete frame
  Timeout,       ///< none arrived in time; the source is connected
  Disconnected,  ///< the camera is away; the source is trying to reconnect
  EndOfStream,   ///< a recording with on_end: stop has ended; no frame will come any more
};

/// Monotonic since start(); survives reconnections.
struct SourceCounters {
  std::uint64_t frames = 0;      ///< complete frames handed to pop()
  std::uint64_t superseded = 0;  ///< complete frames skipped because a newer one was there
  /// Gaps in the camera's frame ids, incomplete frames included; what it sent while the connection
  /// was down cannot be known. Within a connection frames + superseded + lost is what it sent.
  std::uint64_t lost = 0;
  std::uint64_t incomplete = 0;  ///< buffers that did not come in whole; never handed to pop()
  std::uint64_t underruns = 0;   ///< packets (GigE) or frames for which no buffer was free
  /// Aravis' count for incomplete frames: all packets from the first gap on, so an upper bound.
  std::uint64_t missing_packets = 0;
  std::uint64_t resent_packets = 0;
  std::uint64_t disconnects = 0;  ///< times the connection was lost
  std::uint64_t reconnects = 0;   ///< times it came back
  bool connected = false;
  double temperature_c = std::numeric_limits<double>::quiet_NaN();  ///< NaN: it tells none
};

/// One thing of a camera that was changed, or that is not as it was asked for.
struct CameraNote {
  enum class Severity : std::uint8_t {
    Info,     ///< now as asked, and was not before; or otherwise, and no worse
    Warning,  ///< otherwise than asked; the lock may work all the same
  };
  std::string key;    ///< name of a setting (`region_width_px`) or of a feature of the camera
  std::string asked;  ///< values as text, in the key's unit
  std::string got;
  Severity severity = Severity::Info;
  std::string text;  ///< a sentence for people, with both values
};

/// What can be set while it runs, in the quantity's unit; not numbers: it cannot.
struct SettableRange {
  double lowest = std::numeric_limits<double>::quiet_NaN();
  double highest = std::numeric_limits<double>::quiet_NaN();

  bool is_known() const noexcept { return lowest <= highest; }
  bool has(double value) const noexcept { return lowest <= value && value <= highest; }
};

/// What is left out stays.
struct ExposureOrder {
  std::optional<double> exposure_us, gain_db;
};

/// What the source turned out to be, after the camera had its say.
struct SourceInfo {
  std::string description;  ///< "vendor model serial at address" or the recording's path
  PixelFormat format = PixelFormat::Mono8;
  int width_px = 0;
  int height_px = 0;
  int offset_x_px = 0;
  int offset_y_px = 0;
  double exposure_us = 0;
  double frame_rate_hz = 0;
  bool rate_can_change = false;  ///< while it runs: FrameSource::set_slowness()
  double gain_db = std::numeric_limits<double>::quiet_NaN();  ///< not a number: not known in dB
  SettableRange exposure_range_us, gain_range_db;
  std::uint64_t exposure_order = 0;  ///< the last one that was dealt with; 0: none
  std::string exposure_problem;      ///< why that was not done as ordered; "": it was
  int largest_adu = 0;  ///< that a pixel can have, as the camera says it; 0: it does not
  std::uint64_t connection =
      0;  ///< grows by one with each (re)connection: settings may have changed
  /// What was changed, refused, or came out otherwise; not what was right from the start.
  std::vector<CameraNote> camera_notes;
  std::vector<std::string> notes;  ///< a recording's: one sentence each
};

/// A change that the log should tell about; collected by housekeeping, never by the loop.
struct SourceEvent {
  enum class Kind : std::uint8_t {
    Connected,
    Disconnected,
    ReconnectFailed,
    Note
  } kind = Kind::Note;
  std::int64_t time_ns = 0;  ///< CLOCK_MONOTONIC
  std::string text;
};

class FrameSource {
 public:
  virtual ~FrameSource() = default;
  FrameSource() = default;
  FrameSource(const FrameSource&) = delete;
  FrameSource& operator=(const FrameSource&) = delete;

  /// Connects and starts acquisition. @throws CameraError when that fails at this first time.
  virtual void start() = 0;
  /// Ends acquisition; idempotent. Not while another thread is in pop(). Milliseconds, but up to 10
  /// s when a GigE camera has just died: Aravis' good-byes to it have to time out.
  virtual void stop() noexcept = 0;
  /// The newest complete frame (older ones waiting are released and counted as superseded; a
  /// recording skips none). Releases the frame given before. Only the tracking loop calls it.
  virtual PopStatus pop(std::chrono::microseconds timeout, Frame& frame) noexcept = 0;
  /// A pop() that waits, or the next one that would, returns at once, with Timeout. Any thread. A
  /// recording has no use for it.
  virtual void nudge() noexcept {}
  /// Waits as pop() does, for a frame or a nudge, but takes neither: the frame given last stays.
  /// @returns whether there is something else than a nudge to pop: a frame, another connection
  virtual bool rest(std::chrono::microseconds /*most*/) noexcept { return false; }
  /// How fast the camera says that its clock runs, as far as it has been asked, which happens only
  /// while that is wanted. Never blocks. Only the tracking loop calls it.
  virtual ClockRate clock_rate(bool /*wanted*/) noexcept { return {}; }
  /// Images may be taken, or not any more: for a line of the camera, soon after. Never blocks. Only
  /// the tracking loop calls it.
  virtual void set_in_lock(bool /*in_lock*/) noexcept {}
  /// Sets exposure and gain of the camera while it runs, soon and on the source's own thread, and
  /// again at each later connection. info() tells when and what it took; frames under way may still
  /// be of before. Housekeeping thread. @returns the order's number; 0: nothing can be set here
  virtual std::uint64_t order_exposure(const ExposureOrder& /*order*/) { return 0; }
  /// Frames are to come later, soon after, by such a share of their period; 0: as configured. Where
  /// info().rate_can_change. It ends by itself after 20 s, and with the connection. Never blocks.
  /// Only the tracking loop calls it.
  virtual void set_slowness(double /*share*/) noexcept {}
  virtual SourceCounters counters() const noexcept = 0;
  virtual SourceInfo info() const = 0;
  /// Events since the last call. Housekeeping thread.
  virtual std::vector<SourceEvent> take_events() = 0;
};

}  // namespace driftd::camera
