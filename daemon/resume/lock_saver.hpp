// SPDX-License-Identifier: MIT
// Keeps on disk what has to outlive the daemon while a lock is engaged. It is saved at each change
// of the lock, each second, and sooner where the stage has been told to go some way; a worker
// writes. `unlock` and `reset` remove it: what is there at the next start was interrupted. A file
// belongs to one daemon at a time. Housekeeping thread; nothing here waits but recall(), before
// there is a loop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/state_file.hpp"
#include "config/config.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/resume/marker_sizes.hpp"
#include "daemon/resume/saved_lock.hpp"
#include "daemon/resume/state_writer.hpp"
#include "daemon/stage/stage_channel.hpp"

namespace driftd::daemon {

/// KIND-ENDPOINT.state of the daemon with this configuration, in the state directory: one for each
/// endpoint of commands, so that two daemons may use the same one. Empty: there is no state
/// directory.
std::filesystem::path state_file(const config::Config& config, const std::string& kind);
/// That of its lock.
std::filesystem::path lock_file(const config::Config& config);
/// Makes SavedLock::meaning.
std::map<std::string, std::string> meaning_of(const config::Config& config,
                                              const camera::SourceInfo& camera);

/// By what z is read: references of z mean the same where it is the same. "": it is not.
std::string axial_reading(const config::Config& config);

class LockSaver {
 public:
  static constexpr std::int64_t kEachNs = 1'000'000'000;
  /// Writes sooner where the total has moved by so much, but never sooner than kSoonestNs.
  static constexpr double kMovedNm = 20;
  static constexpr std::int64_t kSoonestNs = 100'000'000;

  /// @param config  the one in force; `lock.resume: never` keeps nothing
  /// @param sizes  of the markers in use
  LockSaver(const config::Config& config, std::string session, CameraWatch& camera,
            LoopControl& loop, const StageChannel& stage, const StageChannel& z_stage,
            EventLog& events, std::function<MarkerSizes()> sizes);

  /// What the last daemon left. Tells what is wrong with it, and waits for the disk.
  std::optional<SavedLock> recall();
  void turn(std::int64_t now_ns);
  /// Writes what the loop reported last, however lately it was written: the daemon ends.
  void write_last();
  /// Writes a lock that is on disk anew, as something of it is not wanted any more.
  void keep(const SavedLock& lock);
  /// Removes what is on disk.
  void forget();
  /// A command ends the lock of x and y: its file goes, too, though the loop may still have to
  /// obey.
  void end();
  /// The same of the lock of z.
  void end_axial();
  /// What is on disk and still offered, whatever the loop does, with z as it is held meanwhile;
  /// null: nothing is.
  void set_offered(const SavedLock* lock) noexcept { offered_ = lock; }
  /// z that has not gone back yet where x and y did: it is kept with them until it has.
  void set_waiting_axial(const std::optional<SavedAxial>& z) {
    if (waiting_axial_.has_value() != z.has_value()) written_ns_ = 0;  // at once
    waiting_axial_ = z;
  }
  /// Whether the lock was engaged and nobody has ended it.
  bool is_wanted() const;
  /// What there is to keep now, as the loop reported last; without a lock, its markers.
  SavedLock saved() const;
  /// What there is to keep of z now; nothing: it is not held, or a command has ended its lock.
  std::optional<SavedAxial> axial_now() const;

 private:
  bool own(const std::filesystem::path& file);
  void remove_for_good(const std::filesystem::path& file);
  bool is_over() const;
  bool is_final() const;
  std::uint64_t held_z_id() const noexcept;
  bool holds_z_alone() const;
  bool is_offered_with_z() const noexcept;
  bool is_due(std::int64_t now_ns) const noexcept;
  void note_written(std::int64_t now_ns) noexcept;
  void see_set_point() noexcept;
  void tell_problem();

  const config::Config& config_;
  std::string session_;
  CameraWatch& camera_;
  LoopControl& loop_;
  const StageChannel& stage_;
  const StageChannel& z_stage_;
  EventLog& events_;
  std::function<MarkerSizes()> sizes_;
  std::optional<StateOwner> owner_;    ///< outlives the writer
  std::optional<StateWriter> writer_;  ///< none: nothing is kept
  bool written_ = false;               ///< there is a file of a lock of this daemon
  bool written_alone_ = false;         ///< of z alone
  std::optional<SavedAxial> waiting_axial_;
  const SavedLock* offered_ = nullptr;
  Vec2 held_set_nm_;           ///< where moves had the sample while it was held last
  std::uint64_t held_id_ = 0;  ///< in this lock
  control::LockState state_ = control::LockState::Idle;  ///< when it was written
  std::uint64_t lock_id_ = 0;
  std::uint64_t ended_id_ = 0, ended_z_id_ = 0;  ///< of the locks ended last, by command
  std::uint64_t z_lock_id_ = 0;                  ///< when it was written; 0: z was not held
  Vec2 total_nm_;
  double total_z_nm_ = 0;
  std::int64_t written_ns_ = 0;
  std::string told_;  ///< the problem
};

}  // namespace driftd::daemon
