// SPDX-License-Identifier: MIT
#include "daemon/resume/lock_recovery.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
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
/// Any sample has one marker somewhere, and many two at the same distance.
constexpr int kFewestToTell = 3;
constexpr double kUnwritten_s = 0.15;  ///< LockSaver::kSoonestNs, and the disk

constexpr const char* kOtherWays =
    "`driftctl lock` holds it where it is, `driftctl unlock` forgets the place";

Vec2 sum(Vec2 a, Vec2 b) {
  return {a.x + b.x, a.y + b.y};
}

/// "3.2 s", "12 min", "5.4 h"
std::string duration(double s) {
  if (s < 100) return fmt::format("{:.1f} s", s);
  if (s < 6000) return fmt::format("{:.0f} min", s / 60);
  return fmt::format("{:.1f} h", s / 3600);
}

}  // namespace

void LockRecovery::take(std::optional<SavedLock> saved) {
  saved_ = std::move(saved);
  if (!saved_) return;
  z_reading_ = saved_->z ? saved_->z->reading : "";
  if (saved_->z) axial_travelled_nm_ = saved_->z->travelled_nm + saved_->z->total_nm;
  forget_other_z();
  phase_ = Phase::Searching;
  if (const auto age = age_s(); age && *age > kOldest_s) {
    raise(Level::Warning, "state_ignored",
          fmt::format("the lock that was interrupted {} ago is ignored: it is older than {}",
                      duration(*age), duration(kOldest_s)));
    phase_ = Phase::None;
    return;
  }
  raise(Level::Warning, "lock_interrupted", text());
}

/// Of another curve the markers' references would be another z.
void LockRecovery::forget_other_z() {
  if (!z_reading_.empty() && z_reading_ == axial_reading(config_)) return;
  saved_->z.reset();
  for (SavedMarker& marker : saved_->markers)
    marker.reference.z_nm = std::numeric_limits<double>::quiet_NaN();
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
  adopted_ = 0;
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
  if (phase_ == Phase::None) return;
  phase_ = Phase::Absent;
  absent_ = why;
  raise(Level::Warning, "lock_interrupted", text());
}

std::string LockRecovery::forget() {
  std::string forgotten = name();
  phase_ = Phase::None;
  axial_.reset();
  memory_.end();
  return forgotten;
}

void LockRecovery::forget_axial() {
  axial_.reset();
  if (!saved_ || !saved_->z) return;
  saved_->z.reset();
  if (phase_ != Phase::None) memory_.keep(*saved_);  // nor may a later daemon find it
}

/// Another lock holds the sample.
void LockRecovery::end() {
  phase_ = Phase::None;
  axial_.reset();
  memory_.forget();
}

bool LockRecovery::has_frames() const noexcept {
  return camera_.connected() && loop_.report().has_frames();
}

bool LockRecovery::is_measured() const noexcept {
  const LoopReport& loop = loop_.report();
  return camera_.connected() && loop_.has_taken(adopted_) && loop_.markers().count > 0 &&
         loop.sees_drift() && loop.tracked_ns >= since_ns_;
}

/// Where the stage is, from the place of lock: as the file has it or, better, as the stage says.
Vec2 LockRecovery::stage_total_nm() const noexcept {
  return witnessed_nm_.value_or(saved_->total_nm);
}

void LockRecovery::turn(LockOrders& lock, std::int64_t now_ns, LockOrders* z) {
  follow(lock, now_ns);
  resume_axial(z, now_ns);
  memory_.set_offered(phase_ != Phase::None);
}

void LockRecovery::follow(LockOrders& lock, std::int64_t now_ns) {
  const LoopReport& loop = loop_.report();
  const LockState state = loop.lock.state;
  const bool held = state == LockState::Locked || state == LockState::Holding;
  const bool goes_back = loop.resumed && !at_place_;
  if (state != LockState::Referencing && !held) at_place_ = false;
  if (phase_ == Phase::None) take_lost();
  if (phase_ == Phase::None) return;
  if (lost_here_) follow_axial();
  if (state == LockState::Referencing) {
    replaced_ = !goes_back;
    return;
  }
  if (std::exchange(replaced_, false) && !held) search_anew();
  if (held && !goes_back) return end();
  if (held) {
    raise(Level::Info, "lock_resumed",
          fmt::format("{}: locked again, the stage goes back to where it was held", headline()));
    axial_ = saved_->z;
    axial_goes_ = loop.lock_id == own_lock_id_;
    axial_until_ns_ = 0;
    phase_ = Phase::None;
    return;
  }
  ask_stage();
  if (is_ours_) tell_travel();
  if (is_ours_ && !lost_here_) tell_axial_travel();
  if (phase_ != Phase::Found || !is_measured()) return;
  if (asks_because_.empty()) asks_because_ = not_by_itself();
  if (!std::exchange(told_found_, true)) tell_found();
  if (state == LockState::Idle) go_back(lock, now_ns);
}

/// z may be held on where x and y were lost.
void LockRecovery::follow_axial() noexcept {
  const LockReport& z = loop_.report().z;
  if (!saved_->z || !z.holds() || z.lock_id != saved_->z->lock_id) return;
  saved_->z->total_nm = z.total_nm.x;
  saved_->z->set_nm = z.move.set_nm.x;
}

/// Once x and y went back by themselves, z does, too, within a while in which it has to be
/// measured. Where a command had them go back, z waits for its own.
void LockRecovery::resume_axial(LockOrders* z, std::int64_t now_ns) {
  constexpr std::int64_t kPatienceNs = 5'000'000'000;
  if (!axial_) return;
  if (!loop_.report().holds()) return axial_.reset();
  if (z == nullptr || !z->lock_now().is_idle()) return axial_.reset();  // somebody ordered it
  if (!axial_goes_ || z->pending()) return;
  if (axial_until_ns_ == 0) axial_until_ns_ = now_ns + kPatienceNs;
  const bool is_late = now_ns >= axial_until_ns_;
  try {
    const LockResumption resumption = axial_resumption();
    if (is_late) return offer_axial("the tracking loop does not take the order");
    if (const std::string why = axial_not_by_itself(); !why.empty()) return offer_axial(why);
    z->lock([](const Outcome&) {}, now_ns, resumption);
  } catch (const CommandRefused& refused) {
    if (is_late) offer_axial(refused.text);
  }
}

/// Why only a command may have z go back; "" where it may by itself. It has not_by_itself()'s rule.
std::string LockRecovery::axial_not_by_itself() const {
  const auto age = age_s();
  if (!age) return "the clock does not tell how long ago that was";
  const double moved_nm = loop_.report().z.drift.drift_nm.x - axial_->set_nm;
  const double allowed_nm = config_.axial.max_jump_nm + config_.axial.max_drift_nm_per_s * *age;
  if (std::abs(moved_nm) <= allowed_nm) return {};
  return fmt::format(
      "the sample is {:+.0f} nm from where it was held, and axial.max_jump_nm and "
      "axial.max_drift_nm_per_s allow {:.0f} nm",
      moved_nm, allowed_nm);
}

/// From now on z goes back by command alone. @param why  a part of a sentence
void LockRecovery::offer_axial(const std::string& why) {
  axial_goes_ = false;
  const bool waits_at_start = config_.lock.at_start && config_.axial.hold;
  events_.raise(Level::Warning, "lock_interrupted",
                "z is not held again: " + why +
                    ". `driftctl lock --resume --axes z` goes back there, `driftctl lock --axes z` "
                    "holds it where it is, `driftctl unlock --axes z` forgets the place" +
                    (waits_at_start ? ". Until that is decided lock.at_start waits with z" : ""),
                nlohmann::json::object());
}

LockResumption LockRecovery::axial_resumption() const {
  const auto refuse = [](const std::string& text) {
    return CommandRefused{Refusal::Refused, text};
  };
  const std::optional<SavedAxial>& z = axial_ ? axial_ : saved_ ? saved_->z : axial_;
  if (!z || (!axial_ && phase_ == Phase::None))
    throw refuse(
        "no lock of z was interrupted whose references are known: a new one takes a new "
        "zero");
  const LoopReport& loop = loop_.report();
  if (!axial_) resumption();  // throws where x and y could not go back either
  if (axial_reading(config_) != z->reading)
    throw refuse("z is read by another curve than when it was held");
  if (!loop.sees_drift(AxisGroup::Axial)) throw refuse("z is not measured now");
  if (same_zeros() < config_.drift.min_markers)
    throw refuse("too few markers have the reference of z now that they had when it was held");
  const double moved_nm = loop.z.drift.drift_nm.x - z->set_nm;
  const double way_nm = -config_.axial_stage.gain * moved_nm;
  if (const auto passed = limit_passed(config_.axial, z->carried_nm + z->total_nm + way_nm,
                                       z->travelled_nm + z->total_nm + way_nm))
    throw refuse("the stage of z may not go back: it would be " + in_words(*passed));
  return {.carried_nm = {z->carried_nm + z->total_nm, 0},
          .drift_nm = loop.z.drift.drift_nm,
          .largest_move_nm = config_.axial.max_jump_nm,
          .set_nm = {z->set_nm, 0}};
}

/// How many markers that z is measured by have the reference of z that they were saved with.
std::ptrdiff_t LockRecovery::same_zeros() const noexcept {
  const MarkersReport& markers = loop_.markers();
  const auto has_same = [this](const MarkersReport::Entry& entry) {
    return entry.marker.role == control::MarkerRole::Tracking &&
           std::ranges::any_of(saved_->markers, [&entry](const SavedMarker& saved) {
             return saved.id == entry.marker.id && saved.reference.trusted &&
                    saved.reference.z_nm == entry.reference.z_nm;  // NaN: none, and not the same
           });
  };
  return std::ranges::count_if(std::span(markers.entries).first(markers.count), has_same);
}

/// As tell_travel(), of the stage of z.
void LockRecovery::tell_axial_travel() {
  if (!axial_travelled_nm_ || loop_.report().z.lock_id != 0) return;
  LoopCommand command{.kind = LoopCommand::Kind::Travelled, .group = AxisGroup::Axial};
  command.travelled_nm = {*axial_travelled_nm_, 0};
  if (loop_.send(std::move(command))) axial_travelled_nm_.reset();
}

/// A lock that was to take its place did not engage: its markers have other references by now.
void LockRecovery::search_anew() {
  if (phase_ != Phase::Found) return;
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

void LockRecovery::go_back(LockOrders& lock, std::int64_t now_ns) {
  if (config_.lock.resume != config::Resume::Always || now_ns < next_try_ns_ || lock.pending())
    return;
  if (!asks_because_.empty() || !waits_for().empty()) return;
  next_try_ns_ = now_ns + kRetryNs;
  try {
    const auto taken = [this](const Outcome& outcome) {
      if (const auto* reply = std::get_if<Reply>(&outcome))
        own_lock_id_ = reply->fields.value("lock_id", std::uint64_t{0});
    };
    lock.lock(taken, now_ns, resumption());
  } catch (const CommandRefused&) {  // an order is under way, or the stage is not ready: again soon
  }
}

LockResumption LockRecovery::resumption() const {
  if (phase_ == Phase::None) {
    throw CommandRefused{Refusal::Refused,
                         "no lock was interrupted or lost: there is nothing to go back to"};
  }
  if (phase_ == Phase::Absent) throw CommandRefused{Refusal::Refused, text()};
  if (replaced_ || phase_ == Phase::Searching || !is_measured())
    throw CommandRefused{Refusal::Refused, text()};
  if (const std::string other = otherwise(); !other.empty()) {  // by a reload, another camera
    throw CommandRefused{Refusal::Refused, "the stage may not go back: " + other};
  }
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
  if (*age > kOldest_s) return "that is longer ago than " + duration(kOldest_s);
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
  if (saved_->stage || config_.stage.require_driver) return stage_.problem();
  return is_heard_() ? "" : "nobody listens to corrections yet";
}

std::optional<double> LockRecovery::age_s() const {
  return seconds_between(saved_->time, SavedTime::now());
}

/// "lock 3, interrupted 12.1 s ago, before the computer was started"; "lock 3, lost 2.0 s ago"
std::string LockRecovery::headline() const {
  const SavedTime now = SavedTime::now();
  const auto age = seconds_between(saved_->time, now);
  return fmt::format(
      "lock {}, {} {}{}", saved_->lock_id, saved_->lost ? "lost" : "interrupted",
      age ? duration(*age) + " ago" : "at a time that the clock does not tell",
      saved_->time.boot_id == now.boot_id ? "" : ", before the computer was started");
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
    return headline() + ": it cannot be gone back to, " + other + ". " + kOtherWays + rest;
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
           ". Once one does, `driftctl lock --resume` may go back there, " + kOtherWays + rest;
  const Vec2 moved = moved_nm();
  std::string text =
      fmt::format("{}: the sample is {:.1f} nm (x {:+.1f}, y {:+.1f}) from where it was held{}",
                  headline(), std::hypot(moved.x, moved.y), moved.x, moved.y, elsewhere_);
  if (const std::string far = too_far(); !far.empty())
    return text + ". The stage may not go back: " + far + ". " + kOtherWays + rest;
  const std::string ways =
      std::string(". `driftctl lock --resume` goes back there, ") + kOtherWays + rest;
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
  return {{"phase", kNames.at(static_cast<std::size_t>(phase_))},
          {"interrupted_session", saved_->session},
          {"interrupted_lock_id", saved_->lock_id},
          {"age_s", age ? nlohmann::json(*age) : nlohmann::json(nullptr)},
          {"moved_x_nm", measured ? nlohmann::json(moved_nm().x) : nlohmann::json(nullptr)},
          {"moved_y_nm", measured ? nlohmann::json(moved_nm().y) : nlohmann::json(nullptr)},
          {"text", text()}};
}

}  // namespace driftd::daemon
