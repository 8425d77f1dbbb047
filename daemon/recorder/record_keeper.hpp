// SPDX-License-Identifier: MIT
// When to record: on command, and at each lock where that is configured. Gives the recorder what
// housekeeping knows (events, the stage's reports, the camera's counters) and tells what becomes of
// a recording. Housekeeping thread; nothing here waits for the recorder, but for finish().
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/recorder/recorder.hpp"
#include "daemon/stage/stage_channel.hpp"
#include "daemon/status/pattern_watch.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

/// Empty where the configuration names none and there is no state directory.
std::filesystem::path records_folder(const config::Record& record);

class RecordKeeper {
 public:
  /// @param config  the one in force
  /// @param feed  that the loop and the publisher fill
  RecordKeeper(const config::Config& config, std::string session, std::shared_ptr<RecordFeed> feed,
               camera::FrameSource& source, CameraWatch& camera, LoopControl& loop,
               StageChannel& stage, const PatternWatch& pattern, EventLog& events);

  /// Its reports, too, but those that tell of x and y and so came already. Before the first.
  void hear_of_z(StageChannel& z_stage);

  /// Answered when the file is there, or cannot be made; a recording that runs goes on.
  void start(Answer answer, std::int64_t now_ns);
  /// Answered when the file is closed.
  void stop(Answer answer, std::int64_t now_ns);
  void follow(const LockChange& change, std::int64_t now_ns);
  void turn(std::int64_t now_ns);
  /// Answers all that wait.
  void refuse_pending(const CommandRefused& refused);
  bool pending() const noexcept { return !waiting_.empty(); }
  /// Ends the recording with the daemon; waits a few seconds for the disk.
  void finish();
  /// The object `record` of `status`.
  nlohmann::json status(std::int64_t now_ns);

 private:
  enum class Cause : std::uint8_t { Command, Lock };
  struct Waiting {
    std::int64_t until_ns;
    Answer answer;
    bool for_next;  ///< asks for the recording that follows the one that ends
  };

  void begin(Cause cause);
  void end(const std::string& why);
  void tell(const RecordNotice& notice, std::int64_t now_ns);
  void raise(const RecordNotice& notice);
  void tell_delays(const RecordStatus& status, std::int64_t now_ns);
  void answer_all(const Outcome& outcome);
  void add_slow_rows(std::int64_t now_ns);

  const config::Config& config_;
  std::string session_;
  camera::FrameSource& source_;
  CameraWatch& camera_;
  LoopControl& loop_;
  const PatternWatch& pattern_;
  EventLog& events_;
  std::shared_ptr<RecordFeed> feed_;
  Recorder recorder_;
  std::vector<Waiting> waiting_;
  bool under_way_ = false;     ///< ordered, and not yet told that it is over
  bool ending_ = false;        ///< its end is ordered, too
  std::optional<Cause> next_;  ///< to begin when that is over
  Cause cause_ = Cause::Command;
  std::string problem_;  ///< why the last recording ended or could not begin; "" when ordered
  std::uint64_t not_recorded_before_ = 0, not_recorded_told_ = 0;
  std::int64_t next_slow_ns_ = 0;
  bool told_waits_ = false;
};

}  // namespace driftd::daemon
