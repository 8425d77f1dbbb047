// SPDX-License-Identifier: MIT
// The locks that the end of the daemon before this one interrupted, or that this daemon lost: which
// markers to look for, how far the sample has moved meanwhile, whether the stage may go back there,
// and when the lock resumes by itself. It is gone once it is resumed, another lock holds the
// sample, or it is forgotten. Housekeeping thread; nothing here waits.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/orders/lock_orders.hpp"
#include "daemon/resume/lock_saver.hpp"
#include "daemon/resume/saved_lock.hpp"
#include "daemon/stage/stage_channel.hpp"

namespace driftd::daemon {

class LockRecovery {
 public:
  /// A lock that ended longer ago is not resumed by itself, s.
  static constexpr double kOldest_s = 24 * 3600;

  /// @param config  the one in force
  /// @param is_heard  whether somebody subscribes to corrections of the group
  LockRecovery(const config::Config& config, LockSaver& memory, CameraWatch& camera,
               LoopControl& loop, const StageChannel& stage, const StageChannel& z_stage,
               EventLog& events, std::function<bool(AxisGroup)> is_heard)
      : config_(config),
        memory_(memory),
        camera_(camera),
        loop_(loop),
        stage_(stage),
        z_stage_(z_stage),
        events_(events),
        is_heard_(std::move(is_heard)) {}

  /// Takes what the daemon before left; called once, at start.
  void take(std::optional<SavedLock> saved);

  // Marker keeping.
  /// The lock whose markers to look for before any others; null: there is none, or the camera is
  /// not known yet.
  /// @param anew  also where they were found, or not, before
  const SavedLock* wanted(bool anew = false);
  /// So many of its markers were found. All were handed to the loop by this command, with their
  /// references.
  void found(std::uint64_t command, int matched);
  /// Tells why nothing can be made of it in this run, and gives it up.
  void ignore(const std::string& why);
  /// Other markers are in the image.
  void not_found(const std::string& reason);
  /// Other markers are in use, by command. @param why  a sentence's end
  void put_aside(const std::string& why);

  /// What there is to go back to, for people: "lock 3, lost 2.0 s ago"; "": nothing.
  std::string name() const { return phase_ == Phase::None ? "" : headline(); }
  /// The same of z alone: "z of lock 3, ..."
  std::string axial_name() const;
  /// What a new lock of x and y ends, where z is of it.
  std::string name_with_axial() const { return has_axial() ? name() : ""; }
  /// A command says that neither it nor the lock of this daemon is wanted any more.
  /// @returns `name()` of before
  std::string forget();
  /// A command says that nobody goes back to z. @returns `axial_name()` of before
  std::string forget_axial();
  /// The same, and that the lock of z of this daemon is over.
  std::string end_axial();
  /// The lock that was begun is one at a place, which goes back to what it knows by itself.
  void give_way() noexcept { at_place_ = true; }
  /// z that is still to be locked at a place beside x and y; nothing: none is.
  void set_axial_at_place(std::optional<SavedAxial> z) { z_at_place_ = std::move(z); }
  /// Whether it waits for its markers or its return: at start, nothing else is locked meanwhile.
  bool asks() const noexcept { return phase_ == Phase::Searching || phase_ == Phase::Found; }
  /// What the loop needs to go back to the lock. @throws CommandRefused that says why there is no
  /// way
  LockResumption resumption() const;
  /// Whether z was held, too, by markers whose references were kept.
  bool has_axial() const noexcept {
    return axial_ || (phase_ != Phase::None && saved_->z.has_value());
  }
  /// Whether z waits for its return, after that of x and y: it is not locked at start meanwhile.
  bool asks_axial() const noexcept { return axial_.has_value(); }
  /// Whether what there is to go back to is a lock of z beside which x and y were not held.
  bool is_of_z_alone() const noexcept { return phase_ != Phase::None && saved_->of_z_alone; }
  /// The same as resumption() for the lock of z. @throws CommandRefused
  LockResumption axial_resumption() const;
  /// Tells what is new, and goes back by itself where that is wanted.
  /// @param z  orders of z; null: it is not held
  void turn(LockOrders& lock, std::int64_t now_ns, LockOrders* z = nullptr);
  /// What there is to go back to, and how, for people; "": nothing.
  std::string offer() const { return phase_ == Phase::None ? "" : text(); }
  /// The same of z that is to go back once x and y did.
  std::string axial_offer() const;
  /// The object `interrupted` of `status`; null: there is none.
  nlohmann::json status() const;

 private:
  /// Any sample has one marker somewhere, and many two at the same distance.
  static constexpr int kFewestToTell = 3;
  static constexpr const char* kReadOtherwise = "z is read otherwise than when it was held";

  enum class Phase : std::uint8_t { None, Searching, Found, Absent };

  void follow(LockOrders& lock, std::int64_t now_ns, LockOrders* z);
  bool is_this_instrument();
  void tell_resumed();
  void check_found() const;
  void resume_axial(LockOrders* z, std::int64_t now_ns);
  const std::optional<SavedAxial>& axial() const noexcept;
  std::string axial_limit_passed() const;
  std::string axial_not_by_itself() const;
  std::string axial_waits_for() const;
  std::string axial_ways() const;
  std::string axial_where() const;
  bool sees_axial() const noexcept;
  void tell_spot_zero(std::int64_t now_ns);
  bool has_zero() const noexcept;
  void offer_axial(const std::string& why);
  std::string axial_goal() const;
  void follow_axial();
  void keep_zeros() noexcept;
  void forget_other_z();
  void tell_axial_travel();
  void take_lost();
  void search_anew();
  void end();
  std::string search_text() const;
  std::string otherwise() const;
  bool has_frames() const noexcept;
  bool needs_markers() const noexcept;
  bool is_measured() const noexcept;
  /// How far the sample is from where the lock held it: from the reference, or where moves had it.
  Vec2 moved_nm() const noexcept {
    const Vec2 drift_nm = loop_.report().drift.drift_nm;
    return {drift_nm.x - saved_->set_nm.x, drift_nm.y - saved_->set_nm.y};
  }
  /// The same of z.
  double moved_z_nm() const noexcept { return loop_.report().z.drift.drift_nm.x - axial()->set_nm; }
  Vec2 stage_total_nm() const noexcept;
  void ask_stage();
  void tell_travel();
  void tell_found();
  void go_back(LockOrders* lock, std::int64_t now_ns);
  std::string where_text() const;
  std::string other_ways() const;
  static std::optional<double> age_s(const SavedTime& since);
  std::optional<double> age_s() const { return age_s(saved_->time); }
  std::string headline() const;
  std::string too_far() const;
  std::string not_by_itself() const;
  std::string waits_for() const;
  std::string text() const;
  void raise(EventLog::Level level, const char* code, const std::string& text) const;

  const config::Config& config_;
  LockSaver& memory_;
  CameraWatch& camera_;
  LoopControl& loop_;
  const StageChannel& stage_;
  const StageChannel& z_stage_;
  EventLog& events_;
  std::function<bool(AxisGroup)> is_heard_;
  std::optional<SavedLock> saved_;
  Phase phase_ = Phase::None;
  bool lost_here_ = false;     ///< by this daemon: nothing interrupted it
  std::int64_t since_ns_ = 0;  ///< what frames show from then on is at a known place
  bool is_ours_ = false;       ///< the meaning is that of the camera and configuration in use
  std::uint64_t adopted_ = 0;  ///< the markers, by this command to the loop
  int matched_ = 0;            ///< so many markers, when they were found
  bool at_place_ = false;      ///< the lock under way goes back to a place
  bool replaced_ = false;      ///< by a lock whose reference is being taken
  bool told_found_ = false;
  std::string asks_because_;  ///< told once: nothing that changes later takes it back
  std::string absent_;        ///< why
  std::string elsewhere_;     ///< what the stage's driver says of its place, where it matters
  bool stage_asked_ = false;
  std::optional<Vec2> witnessed_nm_;  ///< the total, by the stage's driver
  std::optional<Vec2> travel_told_nm_;
  std::int64_t next_try_ns_ = 0;
  std::string z_reading_;                     ///< by which its markers have references of z
  std::uint64_t own_lock_id_ = 0;             ///< of the lock that goes back by itself; 0: none
  std::optional<SavedAxial> z_at_place_;      ///< of the lock under way, not locked there yet
  std::optional<SavedAxial> axial_;           ///< to be gone back to, while x and y are held again
  bool axial_goes_ = false;                   ///< by itself
  bool axial_tried_ = false;                  ///< a lock of it was ordered
  std::string axial_why_;                     ///< why it does not, or not yet; told once
  std::uint64_t followed_z_id_ = 0;           ///< of the lock of z of this daemon that saved_ has
  std::int64_t axial_until_ns_ = 0;           ///< 0: not begun
  std::optional<double> axial_travelled_nm_;  ///< by whatever z was read; none: it is told
  std::int64_t next_zero_ns_ = 0;             ///< when the loop may be told the spot's zero again
};

}  // namespace driftd::daemon
