// SPDX-License-Identifier: MIT
// Keeps on disk, before and while a calibration moves the stage of z, where that began: where the
// daemon ends in its midst, the stage is left displaced, and the next daemon says so, until z is
// back there or held; a calibration meanwhile goes on from that beginning. It moves nothing. A file
// belongs to one daemon at a time. Housekeeping thread; nothing here waits but recall(), before
// there is a loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/state_file.hpp"
#include "config/config.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/resume/saved_lock.hpp"
#include "daemon/resume/state_writer.hpp"
#include "daemon/stage/stage_channel.hpp"

namespace driftd::daemon {

struct SavedSweep {
  SavedTime time;       ///< when it was written
  double total_nm = 0;  ///< that the stage was told last, from where it was at the beginning
  /// Where its driver said that this was, on the controller's own axis; nothing: it told none.
  std::optional<double> start_nm;
  std::string driver;  ///< that one
};
std::string to_text(const SavedSweep& saved);
/// @throws StateError
SavedSweep read_saved_sweep(const std::string& text);

class SweepMemory {
 public:
  /// Writes anew where the total has moved by so much, but never sooner than kSoonestNs.
  static constexpr double kMovedNm = 5;
  static constexpr std::int64_t kSoonestNs = 20'000'000;

  /// @param config  the one in force; without `axial.method` nothing is kept
  /// @param stage   of z
  SweepMemory(const config::Config& config, LoopControl& loop, const StageChannel& stage,
              EventLog& events)
      : config_(config), loop_(loop), stage_(stage), events_(events) {}

  /// A calibration begins within so long after expect().
  static constexpr std::int64_t kExpectedNs = 2'000'000'000;

  /// What the last daemon left; tells of it.
  void recall();
  /// A calibration is about to begin where the stage is now, which is written.
  void expect(std::int64_t now_ns);
  /// It does not begin.
  void unexpect();
  /// Whether the disk has not answered that yet.
  bool is_busy() { return writer_ && writer_->is_busy(); }
  /// Why it is not written; "": it is, or is being.
  std::string problem() { return writer_ ? writer_->problem() : ""; }
  /// Why nothing is kept, for people; "": it is.
  const std::string& keeps_nothing() const noexcept { return keeps_nothing_; }
  /// Keeps what is under way. What was left is over once z is back there, or held.
  void turn(std::int64_t now_ns);
  /// What the last daemon left, and what hinders the memory, for people; "": nothing.
  std::string text();
  /// Whether the stage of z is still where a calibration left it.
  bool is_displaced() const noexcept { return left_.has_value(); }
  /// Why z is not locked at start, and what helps, for people; "": it may be.
  std::string cure() const;

 private:
  void begin();
  void keep(std::int64_t now_ns);
  void write(std::int64_t now_ns);
  void end();
  bool is_back() const;
  void tell() const;
  void tell_problem();
  std::string left_text() const;

  const config::Config& config_;
  LoopControl& loop_;
  const StageChannel& stage_;
  EventLog& events_;
  std::optional<StateOwner> owner_;    ///< outlives the writer
  std::optional<StateWriter> writer_;  ///< none: nothing is kept
  std::optional<SavedSweep> left_;     ///< by the daemon before
  bool told_place_ = false;            ///< with where the stage is now
  std::optional<SavedSweep> under_way_;
  double before_nm_ = 0;          ///< where that began, from where the one left began
  double total_nm_ = 0;           ///< where it is now
  std::int64_t expected_ns_ = 0;  ///< until when it is to begin; 0: it has
  std::int64_t written_ns_ = 0;
  std::string keeps_nothing_, told_;  ///< the problem
};

}  // namespace driftd::daemon
