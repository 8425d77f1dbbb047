// SPDX-License-Identifier: MIT
// Drives one stage: connects, carries out corrections, asks it where it is and how it does, and
// connects again. Waits for nothing but the controller's answers: whoever calls it waits for
// corrections and for the time that turn() says. Owned and called by the thread that owns the
// Stage.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/monotonic.hpp"
#include "clients/stage/board.hpp"
#include "clients/stage/config.hpp"
#include "clients/stage/follower.hpp"
#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

class Driver {
 public:
  /// @param stage, board  outlive the driver
  /// @param nudge  called when a report is due at once; any thread may be woken by it
  Driver(Stage& stage, const Config& config, Board& board, std::function<void()> nudge,
         Clock clock = monotonic_ns);

  /// Does what is due beside corrections. @return when it wants to be called again
  std::int64_t turn();
  /// The newest message of topic `correction`.
  void correction(std::string_view message);
  /// Before this time a correction is better left to be replaced by a newer one.
  std::int64_t next_move_ns() const { return next_move_ns_; }

 private:
  /// Also again, without a loss, where the stage obeys after a time in which it did not.
  void connect();
  void read(PerAxis& position);
  template <typename Surprises>
  bool read_surely(PerAxis& position, Surprises&& surprises);
  bool read_position(bool for_zero = false);
  void ask_health();
  std::int64_t next_question_ns(int interval_ms, std::int64_t asked_ns) const;
  /// Waits for what the controller says of the last target: the next is the newest by then.
  void settle();
  void carry_out(const Correction& correction);
  bool wants_place(const Correction& correction) const;
  void drop_what_is_over();
  void take(const Target& target, const Correction& correction, std::int64_t start_ns);
  void recover();
  void take_back();
  void refuse(const std::string& why = {});
  void ignore(std::string_view why);
  void tell_range(const Target& target);
  void lost(const std::string& why);
  void tell_away(const std::string& why);
  void changed();
  /// Calls the stage, visibly for the board.
  template <typename Call>
  auto call(Call&& call);

  Stage& stage_;
  const Config config_;
  Board& board_;
  std::function<void()> nudge_;
  Clock clock_;
  Follower follower_;
  bool connected_ = false;
  bool resumes_ = false;  ///< it was not lost, and is to tell its axes anew: that may take a while
  Condition condition_ = Condition::Disconnected;
  std::string told_;  ///< the last trouble that went to the log
  std::string told_refusal_;
  std::int64_t told_ignored_ns_ = 0;
  bool refuses_ = false;
  bool unconfirmed_ = false;  ///< a target was sent, which prepare() may say was not taken
  int halves_ = 0;  ///< targets in a row that came too late, for one of two controllers at least
  bool range_limited_ = false;
  std::int64_t refused_ns_ = 0;    ///< when a target was refused last
  std::int64_t refusal_lasts_ns_;  ///< how long it is told; grows with each that comes after it
  std::int64_t pause_ns_ = 0;      ///< before the next attempt to connect
  std::int64_t next_attempt_ns_ = 0, next_position_ns_ = 0, next_health_ns_ = 0;
  std::int64_t next_move_ns_ = 0;
  std::optional<std::int64_t> last_move_ns_;  ///< when a target was sent last
  std::int64_t position_ns_ = 0;              ///< when position_nm_ was read
  std::int64_t zero_position_ns_ = 0;  ///< when it was read for a zero; 0: a target went since
  std::int64_t rest_look_ns_ = std::numeric_limits<std::int64_t>::max();
  PerAxis position_nm_{};
};

}  // namespace driftd::stage
