// SPDX-License-Identifier: MIT
// Lock, unlock, reset and calibrate, by command or at start, of one group of axes: what may be
// ordered, the order to gate and loop, and the answer when the loop has taken it. Housekeeping
// thread; nothing here waits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/loop/correction_gate.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

struct LockOrderSettings {
  bool recording = false;  ///< cannot be held still
  bool at_start = false;   ///< lock by itself once markers are measured
  AxisGroup group = AxisGroup::Lateral;
  /// The number of the newest lock, of either group.
  std::shared_ptr<std::uint64_t> newest_id = std::make_shared<std::uint64_t>(0);
};

/// What the stage's driver has to do with a lock that is about to be ordered.
struct StageForLock {
  std::string problem;    ///< why the lock might move nothing, for people; empty: none is known
  bool refuses = false;   ///< there must be no lock for it
  double waiting_us = 0;  ///< Controller::set_waiting_us()
};

class LockOrders {
 public:
  /// @param too_few  why there is nothing to lock by: too few markers, no z; "": there is
  /// @param stage  asked before each order to lock
  LockOrders(LockOrderSettings settings, CorrectionGate& gate, LoopControl& loop,
             std::function<std::string()> too_few, std::function<StageForLock()> stage = {})
      : settings_(settings),
        gate_(gate),
        loop_(loop),
        too_few_(std::move(too_few)),
        stage_(std::move(stage)) {}

  // A user's orders. Each is answered once the loop's report shows what came of it.
  /// @param resumption  back to the references that the markers have; none: takes new ones
  /// @param leaves_z  of x and y: z is not missed where it is idle, whatever axial.hold says
  /// @throws CommandRefused when there is nothing to lock now
  void lock(Answer answer, std::int64_t now_ns,
            std::optional<LockResumption> resumption = std::nullopt, bool leaves_z = false);
  /// @throws CommandRefused while a lock or a calibration is under way, or an order to begin one
  void check_can_lock() const;
  /// While true nothing is locked at start: somebody is asked what to lock.
  void hold_back_at_start(bool hold) noexcept { held_back_at_start_ = hold; }
  /// Moves the stage to measure it; answered when that has begun.
  /// @throws CommandRefused when the lock is not idle
  void calibrate(std::unique_ptr<StageRun> run, Answer answer, std::int64_t now_ns);
  /// Whether it would be refused now. @throws CommandRefused
  void check_can_calibrate() const;
  /// Not one correction leaves from here on, whatever the loop is doing.
  void unlock(Answer answer, std::int64_t now_ns);
  /// Not one correction leaves, and the loop is not told: before unlock().
  void withhold() noexcept { gate_.close(); }
  /// @throws CommandRefused, with nothing changed, when there is a lock to unlock
  void reset(Answer answer, std::int64_t now_ns);

  /// The lock as the loop reported it last.
  const LockReport& lock_now() const noexcept { return loop_.report().of(settings_.group); }
  /// "the lock is `lost`", "the lock of z is `lost`"
  std::string is_text() const;
  /// Whether `unlock` is the way to end it, and not `reset`.
  bool is_engaged() const noexcept;
  /// Answers orders that the loop has taken, or did not take in time; locks at start.
  void turn(std::int64_t now_ns);
  /// Answers all that wait.
  void refuse_pending(const CommandRefused& refused);
  bool pending() const noexcept { return !orders_.empty(); }
  /// Why lock.at_start has not locked yet; "" where it has, is about to, or is not to.
  const std::string& waits_for() const noexcept { return waits_for_; }
  /// Whether lock.at_start locks no more: somebody ordered something, or it has locked.
  bool is_at_start_over() const noexcept { return at_start_over_; }
  void end_at_start() noexcept { at_start_over_ = true; }

 private:
  struct Order {
    LoopCommand::Kind kind;
    std::uint64_t number;   ///< of the loop's commands
    std::uint64_t lock_id;  ///< of a lock
    std::int64_t until_ns;
    Answer answer;
    std::string warning = {};  ///< for who asked
  };

  StageForLock ask_stage() const { return stage_ ? stage_() : StageForLock{}; }
  void check_can_begin() const;
  void send(LoopCommand command, const std::string& warning, Answer answer, std::int64_t now_ns);
  void go_idle(LoopCommand::Kind kind, Answer answer, std::int64_t now_ns);
  Outcome outcome_of(const Order& order) const;
  void expire(const Order& order);
  void lock_at_start(std::int64_t now_ns);

  LockOrderSettings settings_;
  CorrectionGate& gate_;
  LoopControl& loop_;
  std::function<std::string()> too_few_;
  std::function<StageForLock()> stage_;
  std::vector<Order> orders_;
  bool owes_unlock_ = false;  ///< the loop is to be idle but could not be told yet
  bool at_start_over_ = false;
  bool held_back_at_start_ = false;
  std::int64_t next_try_ns_ = 0;
  std::string waits_for_;
};

}  // namespace driftd::daemon
