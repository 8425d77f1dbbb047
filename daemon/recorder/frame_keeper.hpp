// SPDX-License-Identifier: MIT
// Raw frames: how much memory they have, when they are saved (when the lock is lost, on command),
// and what is told of it. Housekeeping thread; nothing here waits for the disk, but for finish().
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "camera/frame_source.hpp"
#include "config/config.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/recorder/frame_saver.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

/// Memory for what record.frames_before_s asks for, and for the time until a lock that is held is
/// lost, as far as record.frames_memory_mb goes; null where that is 0. Before the loop runs. @param
/// camera  what it sends, as far as that is known
/// @throws config::ConfigError where that is too little or there is no such memory
std::shared_ptr<FrameRing> make_frame_ring(const config::Config& config,
                                           const camera::SourceInfo& camera);

class FrameKeeper {
 public:
  /// @param config  the one in force
  FrameKeeper(const config::Config& config, std::string session, LoopControl& loop,
              EventLog& events);

  /// From now on frames are kept; null: none ever.
  void begin(std::shared_ptr<FrameRing> ring);
  /// On command: what is there, and what comes within record.frames_after_s. @throws CommandRefused
  Reply save(std::int64_t now_ns);
  void follow(const LockChange& change);
  void turn(std::int64_t now_ns);
  /// As of FrameSaver.
  bool is_beginning() const { return saver_ && saver_->is_beginning(); }
  /// Ends what is being saved; waits a few seconds for the disk.
  void finish();
  /// The object `raw_frames` of `status`.
  nlohmann::json status();

 private:
  /// @param trouble_ns  when the lock was last as it should be
  std::filesystem::path order(std::int64_t event_ns, std::int64_t trouble_ns,
                              const std::string& why);
  void tell(const SaveNotice& notice);
  std::string little_room() const;
  void tell_little_room();
  void tell_not_kept(std::int64_t now_ns);

  const config::Config& config_;
  std::string session_;
  LoopControl& loop_;
  EventLog& events_;
  std::shared_ptr<FrameRing> ring_;
  std::unique_ptr<FrameSaver> saver_;
  std::string file_, problem_;  ///< of the last one
  std::string name_;            ///< of the last order
  int part_ = 0;                ///< likewise
  std::uint64_t saved_ = 0, not_kept_told_ = 0;
  std::int64_t next_told_ns_ = 0, trouble_ns_ = 0;
  std::pair<std::uint64_t, double> little_room_told_;
};

}  // namespace driftd::daemon
