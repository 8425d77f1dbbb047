// SPDX-License-Identifier: MIT
// Saves raw frames around an event from the ring to a file: a thread of ordinary priority, and
// housekeeping's way to it. An event that comes meanwhile gets a file of its own, which goes on
// where the one before ended. Nothing waits for the disk but the thread; one that a dead disk keeps
// is left behind at the end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/loop/frame_ring.hpp"
#include "daemon/recorder/leavable_thread.hpp"
#include "daemon/recorder/record_folder.hpp"

namespace driftd::daemon {

struct SaveOrder {
  std::int64_t event_ns = 0;               ///< CLOCK_MONOTONIC
  std::int64_t from_ns = 0, until_ns = 0;  ///< arrival of the first and last frame
  std::filesystem::path file;
  Retention retention;
  std::string session;
  std::string why;
  double frame_rate_hz = 0;  ///< 0: not known
};

struct SaveNotice {
  enum class Kind : std::uint8_t { Saved, CutShort, NotSaved, Removed };
  Kind kind;
  std::filesystem::path file;
  std::string why;  ///< it was saved, or was not
  std::uint64_t frames = 0;
  std::uint64_t not_kept = 0;  ///< that came meanwhile and had no place
  double before_s = 0, after_s = 0;
};

class FrameSaver {
 public:
  /// Starts the thread.
  explicit FrameSaver(std::shared_ptr<FrameRing> ring);
  /// quit()
  ~FrameSaver();
  FrameSaver(const FrameSaver&) = delete;
  FrameSaver& operator=(const FrameSaver&) = delete;

  // Housekeeping.
  /// Takes the order, or where one is already waiting makes that one last longer. @returns the file
  std::filesystem::path order(SaveOrder order);
  std::vector<SaveNotice> take_notices();
  bool busy();
  /// An order was given, and frames of it may still be overwritten.
  bool is_beginning();
  /// Ends the file that is being written; waits for that a few seconds. Idempotent.
  bool quit() noexcept;

 private:
  struct Desk;
  class Work;
  std::shared_ptr<Desk> desk_;
  LeavableThread thread_;
};

}  // namespace driftd::daemon
