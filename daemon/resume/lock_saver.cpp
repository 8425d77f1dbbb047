// SPDX-License-Identifier: MIT
#include "daemon/resume/lock_saver.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <utility>
#include <vector>

#include "base/state_directory.hpp"
#include "base/state_file.hpp"
#include "config/names.hpp"
#include "daemon/setup/compose.hpp"

namespace driftd::daemon {
namespace {

using control::LockState;
using Level = EventLog::Level;

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
         c == '_' || c == '.';
}

/// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
constexpr std::uint64_t kHashBegin = 0xcbf29ce484222325;
std::uint64_t hash_with(std::uint64_t hash, double value) noexcept {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ (bits >> shift & 0xff)) * kPrime;
  return hash;
}

}  // namespace

std::filesystem::path state_file(const config::Config& config, const std::string& kind) {
  const std::filesystem::path folder = state_directory();
  if (folder.empty()) return {};
  std::string name = kind + '-';
  for (const char c : config.wire.commands.front()) {
    if (is_plain(c))
      name += c;
    else if (name.back() != '-')
      name += '-';
  }
  return folder / (name + ".state");
}

std::filesystem::path lock_file(const config::Config& config) {
  return state_file(config, "lock");
}

std::map<std::string, std::string> meaning_of(const config::Config& config,
                                              const camera::SourceInfo& camera) {
  const std::string& who = camera.description;  // "vendor model serial at address"
  const auto& m = config.stage.image_to_stage;
  std::vector<std::string> listed;
  if (config.markers.mode == config::MarkerMode::List) {
    for (const config::ListedMarker& marker : config.markers.list)
      listed.push_back(fmt::format("{} at ({}, {})", marker.id, marker.x_px, marker.y_px));
  }
  return {{"camera", who.substr(0, who.rfind(" at "))},
          {"image", fmt::format("{} x {} px at ({}, {})", camera.width_px, camera.height_px,
                                camera.offset_x_px, camera.offset_y_px)},
          {"markers.list", fmt::format("[{}]", fmt::join(listed, ", "))},
          {"camera.pixel_format", camera::name_of(camera.format)},
          {"optics.pixel_size_nm", fmt::format("{}", config.optics.pixel_size_nm)},
          {"stage.image_to_stage",
           fmt::format("[[{}, {}], [{}, {}]]", m[0][0], m[0][1], m[1][0], m[1][1])}};
}

std::string axial_reading(const config::Config& config) {
  const config::Reflection& spot = config.reflection;
  if (config.axial.method == control::AxialMethod::Reflection)
    return fmt::format("reflection at ({}, {}) {} px {} nm/px {} degrees", spot.x_px, spot.y_px,
                       spot.roi_px, spot.nm_per_px, spot.angle_deg);
  if (!config.axial.by_widths() || !config.axial.read) return {};
  const std::vector<control::WidthCurve>& curves = config.axial.read->curves();
  std::uint64_t hash = kHashBegin;
  for (const control::WidthCurve& curve : curves)
    for (const control::WidthCurve::Knot& knot : curve.knots())
      for (const double value : {knot.z_nm, knot.sigma_x_px, knot.sigma_y_px, knot.dimness})
        hash = hash_with(hash, value);
  return fmt::format("{} {} {} {} {} {:016x}", config::text_of(config.axial.method),
                     config.axial.curve.string(), curves.front().lower_nm(),
                     curves.front().upper_nm(), config.fitter.roi_px, hash);
}

LockSaver::LockSaver(const config::Config& config, std::string session, CameraWatch& camera,
                     LoopControl& loop, const StageChannel& stage, const StageChannel& z_stage,
                     EventLog& events, std::function<MarkerSizes()> sizes)
    : config_(config),
      session_(std::move(session)),
      camera_(camera),
      loop_(loop),
      stage_(stage),
      z_stage_(z_stage),
      events_(events),
      sizes_(std::move(sizes)) {}

std::optional<SavedLock> LockSaver::recall() {
  if (is_recording(config_)) return std::nullopt;
  const std::filesystem::path file = lock_file(config_);
  if (!file.empty() && !own(file)) return std::nullopt;
  if (config_.lock.resume == config::Resume::Never) {
    remove_for_good(file);
    return std::nullopt;
  }
  if (file.empty()) {
    events_.raise(Level::Warning, "state_not_written",
                  "there is no folder for what has to outlive the daemon: neither "
                  "$STATE_DIRECTORY nor $XDG_STATE_HOME nor $HOME is set to an absolute path");
    return std::nullopt;
  }
  writer_.emplace(file);
  try {
    const auto text = read_state(file);
    if (!text) return std::nullopt;
    return read_saved_lock(*text);
  } catch (const StateError& error) {
    events_.raise(Level::Warning, "state_ignored",
                  fmt::format("the lock in {} is ignored: {}", file.string(), error.what()));
  } catch (const std::exception& error) {
    events_.raise(Level::Warning, "state_ignored",
                  fmt::format("the lock of before is not known: {}", error.what()));
  }
  return std::nullopt;
}

/// Takes possession of the file. What another running daemon keeps there is not this one's to read,
/// to write or to remove.
bool LockSaver::own(const std::filesystem::path& file) {
  owner_.emplace(file);
  if (owner_->is_ours()) return true;
  events_.raise(
      Level::Warning, "state_not_written",
      fmt::format("{} is in use by another driftd, {}, with the same `wire.commands`: a lock of "
                  "this one could not be resumed after its end. Give one of them a state directory "
                  "($STATE_DIRECTORY, $XDG_STATE_HOME) or an endpoint of its own, and start this "
                  "one again",
                  file.string(), owner_->other()));
  return false;
}

bool LockSaver::is_wanted() const {
  const LoopReport& loop = loop_.report();
  const LockState state = loop.lock.state;
  const bool was_engaged = state == LockState::Locked || state == LockState::Holding ||
                           state == LockState::Lost || state == LockState::Fault;
  return was_engaged && loop.lock_id != ended_id_;
}

/// A lost lock is not over while it may be gone back to, be the lock idle after one that did not
/// engage.
bool LockSaver::is_over() const {
  return loop_.report().lock.state == LockState::Idle && offered_ == nullptr;
}

/// Removes an earlier lock, which a later daemon that looks for one must not find.
void LockSaver::remove_for_good(const std::filesystem::path& file) {
  try {
    if (!file.empty()) remove_state(file);
  } catch (const std::exception& error) {
    events_.raise(
        Level::Warning, "state_not_written",
        fmt::format("lock.resume is `never`, and a lock of before stays: {}", error.what()));
  }
}

/// z is held, and x and y neither are nor are to be gone back to.
bool LockSaver::holds_z_alone() const {
  return loop_.report().is_idle() && offered_ == nullptr && held_z_id() != 0;
}

/// What is on disk of x and y stays, and z is held, whose place goes on.
bool LockSaver::is_offered_with_z() const noexcept {
  return offered_ != nullptr && !offered_->of_z_alone && offered_->z && held_z_id() != 0;
}

/// Remembers the set-point: a lock that is lost has none any more.
void LockSaver::see_set_point() noexcept {
  const LoopReport& loop = loop_.report();
  if (loop.lock.state != LockState::Locked && loop.lock.state != LockState::Holding) return;
  held_set_nm_ = loop.move.set_nm;
  held_id_ = loop.lock_id;
}

void LockSaver::turn(std::int64_t now_ns) {
  see_set_point();
  if (!writer_) return;
  tell_problem();
  const LoopReport& loop = loop_.report();
  const LockState state = loop.lock.state;
  const bool alone = holds_z_alone();
  if (is_offered_with_z() && (!is_wanted() || is_final())) {
    if (!is_due(now_ns)) return;
    writer_->write(*offered_);
    return note_written(now_ns);
  }
  if (!is_wanted() && !alone) {
    if (written_ && is_over()) forget();
    return;
  }
  if ((!written_ || written_alone_) && state == LockState::Fault) return;  // without a lock
  const bool due = !written_ || alone != written_alone_ || state != state_ || is_due(now_ns);
  if (!due || is_final()) return;
  writer_->write(saved());
  written_ = true;
  written_alone_ = alone;
  state_ = state;
  note_written(now_ns);
}

/// The numbers are others than those on disk by so much, or for so long, that they are written.
bool LockSaver::is_due(std::int64_t now_ns) const noexcept {
  const LoopReport& loop = loop_.report();
  const double moved_nm =
      std::max({std::abs(loop.total_nm.x - total_nm_.x), std::abs(loop.total_nm.y - total_nm_.y),
                std::abs(loop.z.total_nm.x - total_z_nm_)});
  const std::int64_t since_ns = now_ns - written_ns_;
  return loop.lock_id != lock_id_ || held_z_id() != z_lock_id_ || since_ns >= kEachNs ||
         (moved_nm > kMovedNm && since_ns >= kSoonestNs);
}

void LockSaver::note_written(std::int64_t now_ns) noexcept {
  const LoopReport& loop = loop_.report();
  lock_id_ = loop.lock_id;
  z_lock_id_ = held_z_id();
  total_nm_ = loop.total_nm;
  total_z_nm_ = loop.z.total_nm.x;
  written_ns_ = now_ns;
}

/// 0: z is not held.
std::uint64_t LockSaver::held_z_id() const noexcept {
  const LockReport& z = loop_.report().z;
  return z.holds() && z.lock_id != ended_z_id_ ? z.lock_id : 0;
}

void LockSaver::write_last() {
  if (!writer_) return;
  if (is_offered_with_z() && held_z_id() == z_lock_id_ && (!is_wanted() || is_final())) {
    SavedLock last = *offered_;
    last.z = axial_now();
    last.z->time = SavedTime::now();
    return writer_->write(last);
  }
  if (!written_) return;
  const bool alone = holds_z_alone();
  if (alone || (is_wanted() && !is_final())) writer_->write(saved());
  if (is_over() && !alone) forget();
}

/// What was written of it is as it was lost; since then other markers may be in use.
bool LockSaver::is_final() const {
  const LockState state = loop_.report().lock.state;
  return written_ && state == state_ && (state == LockState::Lost || state == LockState::Fault);
}

void LockSaver::keep(const SavedLock& lock) {
  if (writer_) writer_->write(lock);
}

void LockSaver::forget() {
  written_ = written_alone_ = false;
  offered_ = nullptr;
  if (writer_) writer_->remove();
}

void LockSaver::end() {
  ended_id_ = loop_.report().lock_id;
  forget();
}

void LockSaver::end_axial() {
  ended_z_id_ = loop_.report().z.lock_id;
  if (written_alone_) forget();
}

SavedLock LockSaver::saved() const {
  const LoopReport& loop = loop_.report();
  const MarkersReport& markers = loop_.markers();
  const LockState state = loop.lock.state;
  const bool is_lost = state == LockState::Lost || state == LockState::Fault;
  const MarkerSizes sizes = sizes_();
  // The sizes in use: another day they may be configured otherwise, or not at all.
  const config::Config sized = config::with_sizes(config_, sizes.spot_sigma_px, sizes.roi_px);
  SavedLock lock{.time = SavedTime::now(),
                 .session = session_,
                 .lock_id = loop.lock_id,
                 .lost = is_lost,
                 .meaning = meaning_of(config_, camera_.info()),
                 .markers = {},
                 .spot_sigma_px = sized.optics.spot_sigma_px,
                 .roi_px = sized.fitter.roi_px,
                 .saturation_adu = sizes.saturation_adu,
                 .chosen = sizes.chosen,
                 .total_nm = loop.total_nm,
                 .carried_nm = loop.carried_nm,
                 .travelled_nm = loop.travelled_nm,
                 .set_nm = is_lost && held_id_ == loop.lock_id ? held_set_nm_ : loop.move.set_nm,
                 .stage = std::nullopt};
  for (std::size_t i = 0; i < markers.count; ++i) {
    const MarkersReport::Entry& entry = markers.entries[i];
    lock.markers.push_back({entry.marker.id, entry.marker.role, entry.reference});
  }
  if (const auto& report = stage_.report()) {
    SavedStage stage{
        .driver = report->driver, .description = report->description, .position_nm = {}};
    for (const StageAxis& axis : report->axes)
      if (axis.position_nm) stage.position_nm[axis.name] = *axis.position_nm;
    lock.stage = std::move(stage);
  }
  lock.z = axial_now();
  if (!lock.z) {
    lock.z = waiting_axial_;
    return lock;
  }
  if (!holds_z_alone()) return lock;
  lock.of_z_alone = true;
  lock.lock_id = lock.z->lock_id;
  if (lock.z->spot) lock.markers.clear();  // z does not depend on them
  lock.stage.reset();                      // that of x and y
  return lock;
}

std::optional<SavedAxial> LockSaver::axial_now() const {
  if (held_z_id() == 0) return std::nullopt;
  const LoopReport& loop = loop_.report();
  return SavedAxial{.lock_id = loop.z.lock_id,
                    .reading = axial_reading(config_),
                    .total_nm = loop.z.total_nm.x,
                    .carried_nm = loop.z.carried_nm.x,
                    .travelled_nm = loop.z.travelled_nm.x,
                    .set_nm = loop.z.move.set_nm.x,
                    .spot = loop.spot_zero,
                    .driver_reported = z_stage_.report().has_value()};
}

/// Tells a problem once, until there is another one or none.
void LockSaver::tell_problem() {
  const std::string problem = writer_->problem();
  if (problem == told_) return;
  told_ = problem;
  if (problem.empty())
    events_.raise(Level::Info, "state_not_written",
                  "what has to outlive the daemon is written again");
  else
    events_.raise(Level::Warning, "state_not_written",
                  fmt::format("{}: {}",
                              written_ ? "a lock that is interrupted now could not be resumed"
                                       : "a lock that has ended would be found at the next start",
                              problem));
}

}  // namespace driftd::daemon
