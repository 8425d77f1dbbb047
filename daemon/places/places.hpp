// SPDX-License-Identifier: MIT
// Places to come back to: saves where the markers lie now under a name, tells and removes what is
// saved, and locks at a saved place again: it is read, its markers are looked for in the whole
// image, and the lock goes back to their references as one that is resumed does. Housekeeping
// thread; nothing here waits, the disk is the shelf's thread's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/markers/marker_keeper.hpp"
#include "daemon/orders/lock_orders.hpp"
#include "daemon/places/place_shelf.hpp"
#include "daemon/resume/lock_recovery.hpp"
#include "daemon/resume/lock_saver.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

/// The folder of the daemon's places, in the state directory; empty where there is none.
std::filesystem::path places_folder();
/// @throws CommandRefused
void check_place_name(const std::string& name);
int tracking_count(const SavedLock& seen);

class Places {
 public:
  /// What a place is made of and locked by.
  struct Parts {
    CameraWatch& camera;
    LoopControl& loop;
    LockSaver& memory;
    LockRecovery& interrupted;
    MarkerKeeper& markers;
    LockOrders& lock;
    LockOrders* z_lock = nullptr;  ///< null: z is not measured
  };

  /// @param config  the one in force
  Places(const config::Config& config, std::filesystem::path folder, Parts parts, EventLog& events)
      : config_(config), parts_(parts), events_(events), shelf_(std::move(folder)) {}

  // Commands; each throws CommandRefused at once where it is not possible now.
  /// Where the sample is, if that is measured: locked and there, or idle.
  void save(const std::string& name, const std::string& note, bool replace, Answer answer,
            std::int64_t now_ns);
  void remove(const std::string& name, Answer answer, std::int64_t now_ns);
  void show(const std::string& name, Answer answer, std::int64_t now_ns);
  void list(Answer answer, std::int64_t now_ns);
  /// Only while idle; answered when the lock has begun, or why it has not.
  void lock(const std::string& name, Answer answer, std::int64_t now_ns);
  /// Called by `unlock` and `reset`: ends a search for a place, which is then not locked at.
  void give_up();
  /// Called by `unlock` and `reset` of z alone: z is not locked there.
  void give_up_axial();

  void turn(std::int64_t now_ns);
  /// Answers all that wait.
  void refuse_pending(const CommandRefused& refused);
  bool pending() const noexcept {
    return !waiting_.empty() || going_ || (z_part_ && z_part_->answer);
  }
  /// The disk has not answered yet.
  bool is_at_disk() const noexcept { return !waiting_.empty(); }
  /// That z is still to be locked at a place, for people; "": it is not.
  std::string axial_waits() const;
  /// Why z was not, until another order; "": it was, or was not to be.
  const std::string& axial_left() const noexcept { return axial_left_; }
  /// A person has said where to lock: nothing is locked at start any more.
  bool was_asked() const noexcept { return was_asked_; }

  static constexpr std::int64_t kPatienceNs = 1'500'000'000;       ///< with the disk
  static constexpr std::int64_t kAxialAnswerNs = 700'000'000;      ///< for z, after x and y
  static constexpr std::int64_t kAxialPatienceNs = 3'000'000'000;  ///< until z is measured there
  static constexpr std::int64_t kMostSearchNs = 60'000'000'000;    ///< a large image full of spots

 private:
  static constexpr double kSurely = 5;  ///< standard deviations

  struct Waiting {
    std::uint64_t number;
    std::int64_t until_ns;
    std::function<Outcome(const ShelfResult&)> outcome;  ///< of what the shelf says
    Answer answer;
  };
  /// A lock at a place, from its request to its order.
  struct Going {
    std::string name;
    Answer answer;
    std::int64_t until_ns;
    std::uint64_t number;  ///< of the reading
    SavedPlace place = {};
    control::ConstellationMatch match = {};
    bool leaves_z = false;
  };
  /// That lock, until it is there.
  struct Way {
    std::string name;
    std::uint64_t lock_id;
    std::uint64_t z_lock_id = 0;  ///< 0: not ordered yet, or z does not go there
    bool without_z = false;       ///< though the place has one, or z was to go
  };

  /// The part of z of a lock at a place, from the order for x and y to that for z.
  struct AxialPart {
    std::string name;
    SavedPlace place;
    Answer answer;              ///< null: it is given
    Reply told;                 ///< of x and y
    std::int64_t answer_ns;     ///< whatever has become of z by then
    std::int64_t until_ns = 0;  ///< by which z has to be measured; 0: x and y do not hold yet
    bool ordered = false;
    double moved_nm = 0;            ///< when it was ordered
    std::int64_t next_zero_ns = 0;  ///< when the loop may be told the spot's zero again
  };

  SavedPlace place_now(const std::string& note, std::int64_t now_ns) const;
  void order(ShelfOrder order, std::function<Outcome(const ShelfResult&)> outcome, Answer answer,
             std::int64_t now_ns);
  void end_going(const Outcome& outcome);
  void look_for(const SavedPlace& place);
  std::string not_of_this_instrument(const SavedPlace& place) const;
  std::string too_far(Vec2 moved_nm) const;
  void begin_lock();
  void begun(const Going& going, Vec2 moved_nm, const Outcome& outcome);
  void keep_axial(SavedLock& seen, std::int64_t now_ns) const;
  std::string no_axial(const SavedPlace& place) const;
  bool has_zero(const SavedPlace& place) const;
  void lock_axial(std::int64_t now_ns);
  void keep_for_next_daemon();
  void answer_axial(const nlohmann::json& of_z);
  void end_axial(const Outcome& outcome);
  std::string how_far(const Going& going, Vec2 moved_nm) const;
  void tell_arrival();
  void tell(const char* action, const std::string& name, const std::string& text,
            nlohmann::json fields = nlohmann::json::object()) const;

  const config::Config& config_;
  Parts parts_;
  EventLog& events_;
  std::uint64_t numbers_ = 0;
  std::int64_t now_ns_ = 0;  ///< of the last turn
  std::vector<Waiting> waiting_;
  std::optional<Going> going_;
  bool was_asked_ = false;
  std::optional<Way> way_;
  std::optional<AxialPart> z_part_;
  std::optional<SavedAxial> z_to_keep_;  ///< as z_part_ has it, until z is held there
  std::string axial_left_;
  PlaceShelf shelf_;
};

}  // namespace driftd::daemon
