// SPDX-License-Identifier: MIT
// Drives one stage: connects, carries out corrections of the groups of axes that it has, asks it
// where it is and how it does, and connects again. Each group has a lock, limits, refusals and
// health of its own, as far as the controller tells with which axis something is wrong. Waits for
// nothing but the controller's answers: whoever calls it waits for corrections and for the time
// that turn() says. Owned and called by the thread that owns the Stage.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/monotonic.hpp"
#include "clients/stage/board.hpp"
#include "clients/stage/config.hpp"
#include "clients/stage/follower.hpp"
#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

/// The groups of the axes in use.
std::vector<Group> groups_of(Axes axes);

class Driver {
 public:
  /// @param boards  of each group of config.motion.axes; they and the stage outlive the driver
  /// @param nudge  called when a report is due at once; any thread may be woken by it
  Driver(Stage& stage, const Config& config, std::span<Board* const> boards,
         std::function<void()> nudge, Clock clock = monotonic_ns);

  /// Does what is due beside corrections. @return when it wants to be called again
  std::int64_t turn();
  /// The newest messages, at most one of each group's topic: the stage is told all in one move.
  void corrections(std::span<const std::string> messages);
  /// Before this time a correction is better left to be replaced by a newer one.
  std::int64_t next_move_ns() const { return next_move_ns_; }
  /// Each of several groups was moved a moment ago: where one has a correction, so will the others.
  bool follows_several() const;

 private:
  /// A group of axes, and what is known of its lock.
  struct Followed {
    Group group;
    std::string_view letters;
    std::size_t first;  ///< of its axes among the stage's
    Board& board;
    Follower follower;
    std::string told_refusal = {};
    std::int64_t told_ignored_ns = 0;
    bool refuses = false;
    bool suspected = false;    ///< a move of several groups was refused, and not known for whose
    bool apart = false;        ///< a target was refused, and none taken since: it moves alone
    bool last_told = true;     ///< it was in the last move
    bool unconfirmed = false;  ///< a target was sent, which prepare() may say was not taken
    int halves = 0;            ///< targets in a row that came too late for some controller
    bool range_limited = false;
    std::int64_t refused_ns = 0;    ///< when a target was refused last
    std::int64_t refusal_lasts_ns;  ///< how long it is told; grows with each that comes after it
    std::int64_t next_move_ns = 0;  ///< as the driver's, after its own last move
    std::optional<std::int64_t> last_move_ns = {};  ///< when a target was sent last
    std::int64_t zero_position_ns = 0;  ///< when it was read for a zero; 0: a target went since
    std::int64_t rest_look_ns = std::numeric_limits<std::int64_t>::max();
    Condition condition = Condition::Disconnected;
    std::vector<Axis> axes = {};  ///< as found when it was connected

    /// Its servo is on again.
    void closes_loop() {
      for (Axis& axis : axes) axis.closed_loop = true;
      board.update([](DriverState& state) {
        for (auto& shown : state.axes) shown.axis.closed_loop = true;
      });
    }
  };
  struct Order {
    Followed* one;
    Correction correction;
    Target target{};
  };
  using PerGroup = std::array<bool, kGroups>;

  /// Also again, without a loss, where the stage obeys after a time in which it did not.
  void connect();
  std::size_t axes() const;
  PerAxis part_of(const PerStage& position, const Followed& one) const;
  void read(PerStage& position);
  template <typename Surprises>
  PerGroup read_surely(PerStage& position, Surprises&& surprises);
  PerGroup read_position(PerGroup for_zero = {});
  void ask_health();
  void resume(Followed& one);
  std::int64_t next_question_ns(int interval_ms, std::int64_t asked_ns) const;
  std::int64_t next_look_ns() const;
  /// Waits for what the controller says of the last target: the next is the newest by then.
  void settle();
  bool carry_out(std::vector<Order> orders);
  void read_places(std::vector<Order>& orders);
  bool wants_place(const Order& order) const;
  bool move(std::vector<Order>& orders, std::int64_t start_ns);
  bool is_beyond_ends(Followed& one);
  void drop_what_is_over(Followed& one);
  void take(const Order& order, std::int64_t start_ns);
  void recover(Followed& one);
  void take_back();
  bool suspect(std::span<Followed* const> ones);
  void refuse(std::span<Followed* const> ones, const std::string& why = {});
  void ignore(Followed& one, std::string_view why);
  void tell_range(Followed& one, const Target& target);
  void lost(const std::string& why);
  void tell_away(const std::string& why);
  template <typename Change>
  void update_all(Change&& change);
  void changed(Followed& one);
  void all_changed();
  /// Calls the stage, visibly for the boards.
  template <typename Call>
  auto call(Call&& call);

  Stage& stage_;
  const Config config_;
  std::function<void()> nudge_;
  Clock clock_;
  std::vector<Followed> groups_;  ///< made once
  bool connected_ = false;
  bool resumes_ = false;  ///< it was not lost, and is to tell its axes anew: that may take a while
  std::string told_;      ///< the last trouble that went to the log
  std::int64_t pause_ns_ = 0;  ///< before the next attempt to connect
  std::int64_t next_attempt_ns_ = 0, next_position_ns_ = 0, next_health_ns_ = 0;
  std::int64_t next_move_ns_ = 0;
  std::int64_t position_ns_ = 0;  ///< when position_nm_ was read
  PerStage position_nm_{};
};

}  // namespace driftd::stage
