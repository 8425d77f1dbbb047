// SPDX-License-Identifier: MIT
#include "daemon/resume/lock_recovery.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <variant>

#include "daemon/orders/stage_limits.hpp"
#include "daemon/resume/return_limits.hpp"

namespace driftd::daemon {
namespace {

using control::LockState;
using Level = EventLog::Level;

constexpr std::int64_t kRetryNs = 200'000'000;
/// What the stage may have moved by since the file was written, besides what its rate allows.
constexpr double kElsewhereNm = 100;
constexpr double kUnwritten_s = 0.15;  ///< LockSaver::kSoonestNs, and the disk

Vec2 sum(Vec2 a, Vec2 b) {
  return {a.x + b.x, a.y + b.y};
}

const char* axes_of(const SavedLock& lock) {
  return lock.of_z_alone ? "z" : lock.z ? "xyz" : "xy";
}

/// Nothing of z where there is none.
const char* axes_text(const SavedLock& lock) {
  return lock.of_z_alone ? " of z" : lock.z ? " of x, y and z" : "";
}

}  // namespace

void LockRecovery::take(std::optional<SavedLock> saved) {
  saved_ = std::move(saved);
  if (!saved_) return;
  z_reading_ = saved_->z ? saved_->z->reading : "";
  if (saved_->z) axial_travelled_nm_ = saved_->z->travelled_nm + saved_->z->total_nm;
  forget_other_z();
  phase_ = needs_markers() ? Phase::Searching : Phase::Found;
  if (const auto age = age_s(); age && *age > kOldest_s) {
    raise(Level::Warning, "state_ignored",
          fmt::format("the lock that was interrupted {} ago is ignored: it is older than {}",
                      duration_text(*age), duration_text(kOldest_s)));
    const auto z_age = saved_->z && saved_->z->time ? age_s(*saved_->z->time) : std::nullopt;
    phase_ = Phase::None;
    if (!z_age || *z_age > kOldest_s) return;
    saved_->of_z_alone = true;  // z was held since
    saved_->lock_id = saved_->z->lock_id;
    saved_->time = *saved_->z->time;
    phase_ = needs_markers() ? Phase::Searching : Phase::Found;
  }
  if (saved_->of_z_alone && !saved_->z) return ignore(kReadOtherwise);
  raise(Level::Warning, "lock_interrupted", text());
}

/// Takes a lock that this daemon has lost: its markers are in use, with its references. Frames
/// count from the loss on.
void LockRecovery::take_lost() {
  const control::Lock& lock = loop_.report().lock;
  if (lock.state != LockState::Lost || !memory_.is_wanted()) return;
  saved_ = memory_.saved();
  z_reading_ = axial_reading(config_);
  phase_ = Phase::Found;
  lost_here_ = is_ours_ = true;
  since_ns_ = lock.since_ns;
  adopted_ = followed_z_id_ = 0;
  told_found_ = stage_asked_ = false;
  asks_because_.clear();
  elsewhere_.clear();
  witnessed_nm_.reset();
}

/// What is different now and gives the saved numbers another meaning; "" where nothing is, or no
/// camera is known.
std::string LockRecovery::otherwise() const {
  if (camera_.info().width_px <= 0) return {};
  for (const auto& [name, value] : meaning_of(config_, camera_.info())) {
    const auto before = saved_->meaning.find(name);
    const std::string was = before == saved_->meaning.end() ? "" : before->second;
    if (was != value) return fmt::format("{} was {}, and is {}", name, was, value);
  }
  return {};
}

const SavedLock* LockRecovery::wanted(bool anew) {
  const bool decided = phase_ == Phase::Found || phase_ == Phase::Absent;
  if (phase_ != Phase::None) forget_other_z();
  if (phase_ != Phase::None && saved_->of_z_alone && !saved_->z) {
    ignore(kReadOtherwise);
    return nullptr;
  }
  if (phase_ != Phase::None && !needs_markers()) return nullptr;
  if (anew && decided) return otherwise().empty() ? &*saved_ : nullptr;
  if (phase_ != Phase::Searching || camera_.info().width_px <= 0) return nullptr;
  if (const std::string other = otherwise(); !other.empty()) {
    ignore("it is not of this instrument, " + other);
    return nullptr;
  }
  is_ours_ = true;
  return &*saved_;
}

void LockRecovery::ignore(const std::string& why) {
  raise(Level::Warning, "state_ignored", fmt::format("{} is ignored: {}", headline(), why));
  phase_ = Phase::None;
}

void LockRecovery::found(std::uint64_t command, int matched) {
  if (std::exchange(phase_, Phase::Found) == Phase::Absent) told_found_ = false;
  matched_ = matched;
  adopted_ = command;
}

void LockRecovery::not_found(const std::string& reason) {
  put_aside("its markers were not found in the image (" + reason + ")");
}

void LockRecovery::put_aside(const std::string& why) {
  if (phase_ == Phase::None || !needs_markers()) return;
  phase_ = Phase::Absent;
  absent_ = why;
  raise(Level::Warning, "lock_interrupted", text());
}

std::string LockRecovery::forget() {
  std::string forgotten = axial_ ? "z of " + headline() : name();
  phase_ = Phase::None;
  axial_.reset();
  memory_.end();
  return forgotten;
}

/// Another lock holds the sample.
void LockRecovery::end() {
  if (saved_->of_z_alone)
    raise(Level::Info, "lock_interrupted", headline() + ": forgotten, another lock holds");
  phase_ = Phase::None;
  axial_.reset();
  memory_.forget();
}

bool LockRecovery::has_frames() const noexcept {
  return camera_.connected() && loop_.report().has_frames();
}

/// z of a reflected spot depends on none.
bool LockRecovery::needs_markers() const noexcept {
  return !saved_->of_z_alone || !saved_->z || !saved_->z->spot;
}

bool LockRecovery::is_measured() const noexcept {
  const LoopReport& loop = loop_.report();
  if (saved_->of_z_alone && !(has_zero() && loop.sees_drift(AxisGroup::Axial))) return false;
  if (!needs_markers()) return camera_.connected() && is_ours_;
  return camera_.connected() && loop_.has_taken(adopted_) && loop_.markers().count > 0 &&
         loop.sees_drift() && loop.tracked_ns >= since_ns_;
}

/// Where the stage is, from the place of lock: as the file has it or, better, as the stage says.
Vec2 LockRecovery::stage_total_nm() const noexcept {
  return witnessed_nm_.value_or(saved_->total_nm);
}

void LockRecovery::turn(LockOrders& lock, std::int64_t now_ns, LockOrders* z) {
  follow(lock, now_ns, z);
  resume_axial(z, now_ns);
  tell_spot_zero(now_ns);
  memory_.set_offered(phase_ != Phase::None ? &*saved_ : nullptr);
  memory_.set_waiting_axial(axial_ ? axial_ : z_at_place_);
}

void LockRecovery::follow(LockOrders& lock, std::int64_t now_ns, LockOrders* z) {
  const LoopReport& loop = loop_.report();
  if (loop.lock.state != LockState::Referencing && !loop.holds()) at_place_ = false;
  if (phase_ == Phase::None) take_lost();
  if (phase_ == Phase::None) return;
  follow_axial();
  if (!needs_markers() && !is_this_instrument()) return;
  // x and y that are locked take other references than z has.
  const bool alone = saved_->of_z_alone;
  const LockReport& own = alone && loop.is_idle() ? loop.z : loop;
  const LockState state = own.lock.state;
  const bool goes_back = own.resumed && !at_place_ && (!alone || &own == &loop.z);
  if (state == LockState::Referencing) {
    replaced_ = !goes_back;
    return;
  }
  if (std::exchange(replaced_, false) && !own.holds()) search_anew();
  if (own.holds()) return goes_back ? tell_resumed() : end();
  if (!alone) ask_stage();
  if (is_ours_ && !alone) tell_travel();
  if (is_ours_ && !lost_here_) tell_axial_travel();
  if (phase_ != Phase::Found || !is_measured()) return;
  if (asks_because_.empty()) asks_because_ = not_by_itself();
  if (!std::exchange(told_found_, true)) tell_found();
  if (state == LockState::Idle) go_back(alone ? z : &lock, now_ns);
}

/// Whether the camera in use is that of a lock that depends on no marker; one of another instrument
/// is given up.
bool LockRecovery::is_this_instrument() {
  if (camera_.info().width_px <= 0) return false;
  if (const std::string other = otherwise(); !is_ours_ && !other.empty()) {
    ignore("it is not of this instrument, " + other);
    return false;
  }
  return is_ours_ = true;
}

/// It is locked again, as it was.
void LockRecovery::tell_resumed() {
  axial_goes_ = loop_.report().lock_id == own_lock_id_;
  axial_until_ns_ = 0;
  axial_tried_ = false;
  axial_why_.clear();
  const char* who = saved_->of_z_alone ? "z is " : saved_->z ? "x and y are " : "";
  raise(Level::Info, "lock_resumed",
        fmt::format("{}: {}locked again, the stage goes back to where {} held{}", headline(), who,
                    !saved_->of_z_alone && saved_->z ? "they were" : "it was",
                    !saved_->of_z_alone && saved_->z && axial_goes_ ? "; z follows" : ""));
  if (!saved_->of_z_alone) axial_ = saved_->z;
  phase_ = Phase::None;
}

/// A lock that was to take its place did not engage: its markers have other references by now.
void LockRecovery::search_anew() {
  if (phase_ != Phase::Found || !needs_markers()) return;
  phase_ = Phase::Searching;
  told_found_ = false;
  if (asks_because_.empty()) asks_because_ = "another lock was ordered since";
}

/// Compares, once, where the driver says that the stage is with where the lock left it.
void LockRecovery::ask_stage() {
  const auto& report = stage_.report();
  if (!report || stage_asked_) return;
  const auto knows = [](const StageAxis& axis) { return axis.position_nm.has_value(); };
  stage_asked_ = report->total_nm || std::ranges::any_of(report->axes, knows);
  if (!stage_asked_) return;  // its controller does not answer yet
  const double allowed_nm =
      std::max(kElsewhereNm, kUnwritten_s * config_.control.rate_limit_nm_per_s);
  const bool same_run =
      report->session == saved_->session && report->lock_id == saved_->lock_id && report->total_nm;
  if (same_run) witnessed_nm_ = report->total_nm;
  if (!saved_->stage || saved_->stage->driver != report->driver) return;
  for (const StageAxis& axis : report->axes) {
    const auto before = saved_->stage->position_nm.find(axis.name);
    if (before == saved_->stage->position_nm.end() || !axis.position_nm) continue;
    const double away_nm = *axis.position_nm - before->second;
    if (std::abs(away_nm) > allowed_nm)
      elsewhere_ += fmt::format("; the stage says that its axis {} is {:+.0f} nm from where it was",
                                axis.name, away_nm);
  }
  if (!elsewhere_.empty()) told_found_ = false;  // once more, with that
}

/// Tells the loop how far the stage has travelled, before any lock of this daemon.
void LockRecovery::tell_travel() {
  if (loop_.report().lock_id != 0) return;
  const Vec2 travelled_nm = sum(saved_->travelled_nm, stage_total_nm());
  if (travel_told_nm_ && travel_told_nm_->x == travelled_nm.x &&
      travel_told_nm_->y == travelled_nm.y)
    return;
  LoopCommand command{.kind = LoopCommand::Kind::Travelled};
  command.travelled_nm = travelled_nm;
  if (loop_.send(std::move(command))) travel_told_nm_ = travelled_nm;
}

void LockRecovery::tell_found() {
  const bool goes = config_.lock.resume == config::Resume::Always && asks_because_.empty();
  raise(goes ? Level::Info : Level::Warning, "lock_interrupted", text());
}

void LockRecovery::go_back(LockOrders* lock, std::int64_t now_ns) {
  if (config_.lock.resume != config::Resume::Always || now_ns < next_try_ns_ || lock == nullptr ||
      lock->pending())
    return;
  if (!asks_because_.empty() || !waits_for().empty()) return;
  next_try_ns_ = now_ns + kRetryNs;
  try {
    const auto taken = [this](const Outcome& outcome) {
      if (const auto* reply = std::get_if<Reply>(&outcome))
        own_lock_id_ = reply->fields.value("lock_id", std::uint64_t{0});
    };
    lock->lock(taken, now_ns, saved_->of_z_alone ? axial_resumption() : resumption());
  } catch (const CommandRefused&) {  // an order is under way, or the stage is not ready: again soon
  }
}

/// @throws CommandRefused: there is no way back, or not yet
void LockRecovery::check_found() const {
  const auto refuse = [](const std::string& text) { throw CommandRefused{Refusal::Refused, text}; };
  if (phase_ == Phase::None)
    refuse("no lock was interrupted or lost: there is nothing to go back to");
  if (phase_ != Phase::Found || replaced_ || !is_measured()) refuse(text());
  if (const std::string other = otherwise(); !other.empty())  // by a reload, another camera
    refuse("the stage may not go back: " + other);
}

LockResumption LockRecovery::resumption() const {
  check_found();
  if (saved_->of_z_alone)
    throw CommandRefused{
        Refusal::Refused,
        "the lock that was interrupted is of z alone, and x and y have no place to "
        "go back to: `driftctl lock --resume --axes z`"};
  if (const std::string why = too_far(); !why.empty()) {
    throw CommandRefused{Refusal::Refused, "the stage may not go back: " + why};
  }
  return {.carried_nm = sum(saved_->carried_nm, stage_total_nm()),
          .drift_nm = loop_.report().drift.drift_nm,
          .largest_move_nm = config_.lock.max_jump_nm,
          .set_nm = saved_->set_nm};
}

/// Why the limits do not allow the way back; "" where they do.
std::string LockRecovery::too_far() const {
  if (saved_->of_z_alone) return axial_limit_passed();
  const Vec2 stage_nm = stage_total_nm();
  return beyond_limits(config_, {.moved_nm = moved_nm(),
                                 .from_lock_nm = sum(saved_->carried_nm, stage_nm),
                                 .from_start_nm = sum(saved_->travelled_nm, stage_nm)});
}

/// Why only a command may resume it; "" where it may resume by itself.
std::string LockRecovery::not_by_itself() const {
  if (saved_->lost) return lost_here_ ? "it was lost" : "it was lost before";
  if (std::string why = too_far(); !why.empty()) return why;
  const auto age = age_s();
  if (!age) return "the clock does not tell how long ago that was";
  if (*age > kOldest_s) return "that is longer ago than " + duration_text(kOldest_s);
  if (saved_->of_z_alone) return axial_not_by_itself();
  const double moved = std::max(std::abs(moved_nm().x), std::abs(moved_nm().y));
  const double jump_nm = config_.lock.max_jump_nm;
  if (matched_ < kFewestToTell && moved > jump_nm)
    return fmt::format(
        "{} of its markers may be another sample's, and then lock.max_jump_nm allows {:.0f} nm",
        matched_, jump_nm);
  // The same as the lock itself allows after a time without frames.
  const double allowed_nm = jump_nm + config_.lock.max_drift_nm_per_s * *age;
  if (moved > allowed_nm)
    return fmt::format(
        "lock.max_jump_nm and lock.max_drift_nm_per_s allowed {:.0f} nm when it was found",
        allowed_nm);
  return {};
}

/// What is missing before the stage hears of a return; "" where nothing is.
std::string LockRecovery::waits_for() const {
  const bool alone = saved_->of_z_alone;
  if (alone) return axial_waits_for();
  if (saved_->stage || config_.stage.require_driver) return stage_.problem();
  return is_heard_(AxisGroup::Lateral) ? "" : "nobody listens to corrections yet";
}

std::optional<double> LockRecovery::age_s(const SavedTime& since) {
  return seconds_between(since, SavedTime::now());
}

/// "lock 3, interrupted 12.1 s ago, before the computer was started"; "lock 3 of x, y and z, lost
/// 2.0 s ago"
std::string LockRecovery::headline() const {
  const SavedTime now = SavedTime::now();
  const auto age = seconds_between(saved_->time, now);
  return fmt::format(
      "lock {}{}, {} {}{}", saved_->lock_id, axes_text(*saved_),
      saved_->lost ? "lost" : "interrupted",
      age ? duration_text(*age) + " ago" : "at a time that the clock does not tell",
      saved_->time.boot_id == now.boot_id ? "" : ", before the computer was started");
}

/// "`driftctl lock` holds it where it is, `driftctl unlock` forgets the place"
std::string LockRecovery::other_ways() const {
  const char* axes = saved_->of_z_alone ? " --axes z" : "";
  return fmt::format(
      "`driftctl lock{}` holds it where it is, `driftctl unlock{}` forgets the place", axes, axes);
}

/// How far the sample is from where it was held: "24.0 nm (x +17.8, y -16.1) and +3.1 nm in z"
std::string LockRecovery::where_text() const {
  std::string z = sees_axial() ? fmt::format("{:+.1f} nm in z", moved_z_nm()) : "";
  if (saved_->of_z_alone) return z;
  return distance_text(moved_nm()) + (z.empty() ? "" : " and " + z);
}

std::string LockRecovery::search_text() const {
  const auto known = saved_->meaning.find("camera");
  const std::string camera = known == saved_->meaning.end() ? "" : known->second;
  if (camera_.connected() && camera_.info().width_px > 0)
    return "looking for its markers in the images of " + (camera.empty() ? "the camera" : camera) +
           "; where that goes on, " +
           (config_.markers.mode == config::MarkerMode::List
                ? "see light and focus: `driftctl snapshot`"
                : "`driftctl markers --find` tells why");
  return fmt::format("its markers are looked for once the camera{} is connected",
                     camera.empty() ? "" : " " + camera);
}

std::string LockRecovery::text() const {
  if (replaced_)
    return headline() +
           ": it is over once the lock that is being engaged has its reference, and on offer again "
           "where that finds none";
  const bool waits_at_start = config_.lock.at_start && !lost_here_;
  const std::string rest = waits_at_start ? ". Until that is decided lock.at_start waits" : "";
  const bool decided = phase_ == Phase::Found || phase_ == Phase::Absent;
  if (const std::string other = decided ? otherwise() : ""; !other.empty())
    return headline() + ": it cannot be gone back to, " + other + ". " + other_ways() + rest;
  if (phase_ == Phase::Absent)
    return headline() + ": " + absent_ +
           ". It is kept until another lock holds or `driftctl unlock`; " +
           (config_.markers.mode == config::MarkerMode::List
                ? "driftd looks for its markers again when it is started with the sample in place"
                : "`driftctl markers --find` looks for its markers again");
  if (phase_ == Phase::Searching || !loop_.has_taken(adopted_))
    return headline() + ": " + search_text() + rest;
  if (!is_measured())
    return headline() + ": no frame shows now how far the sample is from where it was held: " +
           (has_frames() ? "see light and focus" : kSeeCamera) +
           ". Once one does, `driftctl lock --resume" + (saved_->of_z_alone ? " --axes z" : "") +
           "` may go back there, " + other_ways() + rest;
  std::string text = fmt::format("{}: the sample is {} from where it was held{}{}", headline(),
                                 where_text(), axial_where(), elsewhere_);
  if (const std::string far = too_far(); !far.empty())
    return text + ". The stage may not go back: " + far + ". " + other_ways() + rest;
  const std::string ways = std::string(". `driftctl lock --resume") +
                           (saved_->of_z_alone ? " --axes z" : "") + "` goes back there, " +
                           other_ways() + rest;
  if (config_.lock.resume != config::Resume::Always) return text + ways;
  if (const std::string why = asks_because_.empty() ? not_by_itself() : asks_because_; !why.empty())
    return text + ". The stage does not go back by itself: " + why + ways;
  const std::string waits = waits_for();
  return text + ". The stage goes back" +
         (waits.empty() ? "" : " as soon as it is heard: " + waits);
}

void LockRecovery::raise(Level level, const char* code, const std::string& text) const {
  nlohmann::json fields = status();
  if (!fields.is_object()) fields = nlohmann::json::object();
  fields.erase("text");
  events_.raise(level, code, text, fields);
}

nlohmann::json LockRecovery::status() const {
  if (phase_ == Phase::None) return nullptr;
  constexpr std::array kNames = {"", "searching", "found", "absent"};
  const auto age = age_s();
  const bool measured =
      phase_ == Phase::Found && !replaced_ && is_measured() && otherwise().empty();
  const auto moved = [measured](bool held, double nm) {
    return measured && held ? nlohmann::json(nm) : nlohmann::json(nullptr);
  };
  const bool of_xy = !saved_->of_z_alone;
  const bool of_z = sees_axial();
  return {{"phase", kNames.at(static_cast<std::size_t>(phase_))},
          {"axes", axes_of(*saved_)},
          {"interrupted_session", saved_->session},
          {"interrupted_lock_id", saved_->lock_id},
          {"age_s", age ? nlohmann::json(*age) : nlohmann::json(nullptr)},
          {"moved_x_nm", moved(of_xy, moved_nm().x)},
          {"moved_y_nm", moved(of_xy, moved_nm().y)},
          {"moved_z_nm", moved(of_z, of_z ? moved_z_nm() : 0)},
          {"text", text()}};
}

}  // namespace driftd::daemon
