// SPDX-License-Identifier: MIT
// Bounded queues from the tracking loop and the publisher to the recorder. Neither of the two
// waits; what finds no room is counted. The recorder's thread consumes both queues. Whoever still
// uses the feed shares its ownership.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/process/spsc_queue.hpp"
#include "record/rows.hpp"

namespace driftd::daemon {

/// One frame, from the loop; its localizations were pushed just before it.
struct RecordedFrame {
  record::FrameRow row;
  std::int64_t handed_ns = 0;  ///< FrameResult::handed_ns; 0: it was not handed to the publisher
  std::uint16_t localizations = 0;
};

/// What the publisher made of a frame's record.
struct SentFrame {
  std::int64_t handed_ns = 0;
  std::int64_t sent_ns = 0;
  bool correction_left = false;
  bool axial_left = false;
};

class RecordFeed {
 public:
  /// 4 s at 500 frames/s: for so long a disk may stand still.
  static constexpr std::size_t kFrames = 2048;
  static constexpr std::size_t kMostLocalizations = std::size_t{1} << 17;

  /// @param markers  that a frame can have
  explicit RecordFeed(std::size_t markers, std::size_t frames_waiting = kFrames)
      : frames(frames_waiting),
        localizations(std::min(frames_waiting * markers, kMostLocalizations)),
        sent(frames_waiting) {}

  SpscQueue<RecordedFrame> frames;                   // loop -> recorder
  SpscQueue<record::LocalizationRow> localizations;  // loop -> recorder
  SpscQueue<SentFrame> sent;                         // publisher -> recorder
  std::atomic<bool> wanted{false};                   ///< by the recorder: it takes what comes
  std::atomic<std::uint64_t> not_recorded{0};        ///< frames without room
};

}  // namespace driftd::daemon
