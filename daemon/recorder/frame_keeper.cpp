// SPDX-License-Identifier: MIT
#include "daemon/recorder/frame_keeper.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/in_words.hpp"
#include "base/monotonic.hpp"
#include "control/lock/lock_state.hpp"
#include "daemon/recorder/record_keeper.hpp"
#include "daemon/recorder/wall_clock.hpp"

namespace driftd::daemon {
namespace {

using Level = EventLog::Level;

constexpr const char* kEvent = "raw_frames";
constexpr std::int64_t kMegabyte = 1'000'000;
constexpr std::int64_t kTellEveryNs = 60 * kNanosecondsPerSecond;
/// Time until an event is known and its frames are held.
constexpr double kSlack_s = 0.5;

/// A lock is lost after it was held for lock.hold_timeout_s; it is the time before that is asked
/// for.
double seconds_to_keep(const config::Config& config) {
  const bool waits_for_loss = config.record.frames_at == config::RawFramesAt::Lost;
  return config.record.frames_before_s + (waits_for_loss ? config.lock.hold_timeout_s : 0);
}

std::string seconds_text(const config::Config& config) {
  return fmt::format("{:g} s (record.frames_before_s{})", seconds_to_keep(config),
                     config.record.frames_at == config::RawFramesAt::Lost
                         ? " and lock.hold_timeout_s, after which a lock is lost"
                         : "");
}

/// What it needs at the camera's rate; 0: not known, or none are kept for now.
double needed_bytes(const config::Config& config, const camera::SourceInfo& camera) {
  if (camera.width_px <= 0 || camera.frame_rate_hz <= 0 || config.record.frames_before_s == 0)
    return 0;
  const std::size_t frame = camera::image_bytes(camera.format, camera.width_px, camera.height_px);
  return static_cast<double>(FrameRing::place_bytes(frame)) *
         (camera.frame_rate_hz * (seconds_to_keep(config) + kSlack_s) + 16);
}

}  // namespace

std::shared_ptr<FrameRing> make_frame_ring(const config::Config& config,
                                           const camera::SourceInfo& camera) {
  if (config.record.frames_memory_mb == 0) return nullptr;
  const std::int64_t most = std::int64_t{config.record.frames_memory_mb} * kMegabyte;
  const double needed = needed_bytes(config, camera);
  if (needed > static_cast<double>(most)) {
    throw config::ConfigError(fmt::format(
        "record.frames_memory_mb is {}: {} of {} x {} {} at {:g} frames/s need {:.0f}",
        config.record.frames_memory_mb, seconds_text(config), camera.width_px, camera.height_px,
        camera::name_of(camera.format), camera.frame_rate_hz, std::ceil(needed / kMegabyte)));
  }
  try {
    auto ring = std::make_shared<FrameRing>(needed > 0 ? static_cast<std::size_t>(needed)
                                                       : static_cast<std::size_t>(most));
    spdlog::info("{} MB of memory for raw frames{}", ring->bytes() / kMegabyte,
                 ring->not_locked().empty() ? "" : ", not locked: " + ring->not_locked());
    return ring;
  } catch (const std::runtime_error& error) {
    throw config::ConfigError(error.what());
  }
}

FrameKeeper::FrameKeeper(const config::Config& config, std::string session, LoopControl& loop,
                         EventLog& events)
    : config_(config), session_(std::move(session)), loop_(loop), events_(events) {}

void FrameKeeper::begin(std::shared_ptr<FrameRing> ring) {
  ring_ = std::move(ring);
  if (!ring_) return;
  saver_ = std::make_unique<FrameSaver>(ring_);
  ring_->wanted.store(config_.record.frames_before_s > 0);
}

std::filesystem::path FrameKeeper::order(std::int64_t event_ns, std::int64_t trouble_ns,
                                         const std::string& why) {
  const config::Record& record = config_.record;
  const auto ns = [](double seconds) { return std::llround(seconds * 1e9); };
  const record::ClockRow clock = read_clocks();
  const std::string name = series_name(clock.wall_ns + (event_ns - clock.time_ns));
  part_ = name == name_ ? part_ + 1 : 1;  // several within a millisecond
  name_ = name;
  return saver_->order(
      {.event_ns = event_ns,
       .from_ns = trouble_ns - ns(record.frames_before_s),
       .until_ns = event_ns + ns(record.frames_after_s),
       .file = record_file(records_folder(record) / "frames", name, part_, kRawFrames),
       .retention = {.keep_bytes = record.frames_keep_mb * kMegabyte,
                     .keep_free_bytes = record.keep_free_mb * kMegabyte},
       .session = session_,
       .why = why,
       .frame_rate_hz = loop_.report().frame_rate_hz});
}

Reply FrameKeeper::save(std::int64_t now_ns) {
  if (!ring_ || !ring_->wanted.load()) {
    throw CommandRefused{Refusal::Refused,
                         std::string("no raw frames are kept: ") +
                             (ring_ ? "record.frames_before_s" : "record.frames_memory_mb") +
                             " is 0"};
  }
  if (records_folder(config_.record).empty())
    throw CommandRefused{Refusal::Refused,
                         "record.directory is empty, and no state directory is known"};
  const std::filesystem::path file = order(now_ns, now_ns, "command");
  return Reply{.fields = {{"file", file.string()}, {"raw_frames", status()}}};
}

void FrameKeeper::follow(const LockChange& change) {
  using control::LockState;
  if (change.previous != LockState::Holding) trouble_ns_ = change.time_ns;
  if (!ring_ || !ring_->wanted.load()) return;
  const auto at = config_.record.frames_at;
  const bool lost = change.state == LockState::Lost || change.state == LockState::Fault;
  const bool holds = change.state == LockState::Holding && change.previous == LockState::Locked;
  const bool due =
      (lost && at != config::RawFramesAt::Command) || (holds && at == config::RawFramesAt::Holding);
  if (!due || records_folder(config_.record).empty()) return;
  order(change.time_ns, trouble_ns_,
        fmt::format("{}{}: {}", change.group == AxisGroup::Axial ? "z " : "",
                    control::name_of(change.state),
                    in_words(control::name_of(change.reason), control::name_of(change.held_for),
                             control::name_of(change.held_first))));
}

void FrameKeeper::turn(std::int64_t now_ns) {
  if (!ring_) return;
  ring_->wanted.store(config_.record.frames_before_s > 0);
  for (const SaveNotice& notice : saver_->take_notices()) tell(notice);
  tell_little_room();
  tell_not_kept(now_ns);
}

/// The memory is taken at the start: the frames, or what is asked for, may be others since then.
std::string FrameKeeper::little_room() const {
  if (!ring_ || !ring_->wanted.load()) return "";
  const auto megabytes = ring_->bytes() / kMegabyte;
  const auto room = static_cast<double>(ring_->room());
  const double rate_hz = loop_.report().frame_rate_hz, asked_s = seconds_to_keep(config_);
  if (room == 0 && ring_->not_kept.load() > 0)
    return fmt::format("the {} MB taken at the start hold no raw frame of this size", megabytes);
  if (room == 0 || room >= rate_hz * asked_s) return "";
  return fmt::format("the {} MB taken at the start hold {:.2g} s of raw frames, not {:g}",
                     megabytes, room / rate_hz, asked_s);
}

/// Tells it once for each size of frames and each time that is asked for.
void FrameKeeper::tell_little_room() {
  const std::string text = little_room();
  const std::pair now{ring_->room(), seconds_to_keep(config_)};
  if (text.empty() || std::exchange(little_room_told_, now) == now) return;
  events_.raise(
      Level::Warning, kEvent,
      text + ": start driftd again, where that is too little with more record.frames_memory_mb",
      {{"action", "little_room"}, {"room_frames", now.first}});
}

void FrameKeeper::tell(const SaveNotice& notice) {
  using Kind = SaveNotice::Kind;
  const std::string file = notice.file.string();
  if (notice.kind == Kind::Removed) {
    events_.raise(Level::Info, kEvent, "old raw frames were removed: " + file,
                  {{"action", "removed"}, {"file", file}});
    return;
  }
  const bool saved = notice.kind == Kind::Saved;
  const nlohmann::json fields = {{"action", saved                           ? "saved"
                                            : notice.kind == Kind::CutShort ? "cut_short"
                                                                            : "not_saved"},
                                 {"file", file},
                                 {"why", notice.why},
                                 {"frames", notice.frames},
                                 {"before_s", notice.before_s},
                                 {"after_s", notice.after_s},
                                 {"not_kept", notice.not_kept}};
  problem_ = saved ? "" : notice.why;
  if (notice.frames > 0) {
    file_ = file;
    ++saved_;
  }
  const std::string what = fmt::format("{} raw frames in {}", notice.frames, file);
  if (saved)
    events_.raise(Level::Info, kEvent, fmt::format("{} ({})", what, notice.why), fields);
  else if (notice.frames > 0)
    events_.raise(Level::Error, kEvent, fmt::format("{}, and no more: {}", what, notice.why),
                  fields);
  else
    events_.raise(Level::Error, kEvent, "raw frames are not saved: " + notice.why, fields);
}

/// Tells, at most once a minute, of frames that came while a slow disk held all places.
void FrameKeeper::tell_not_kept(std::int64_t now_ns) {
  const std::uint64_t not_kept = ring_->not_kept.load();
  if (not_kept == not_kept_told_ || now_ns < next_told_ns_ || ring_->room() == 0) return;
  next_told_ns_ = now_ns + kTellEveryNs;
  const std::uint64_t frames = not_kept - std::exchange(not_kept_told_, not_kept);
  events_.raise(Level::Warning, kEvent, fmt::format("{} raw frames had no place in memory", frames),
                {{"action", "not_kept"}, {"frames", frames}});
}

void FrameKeeper::finish() {
  if (!saver_) return;
  if (!saver_->quit()) spdlog::error("the disk of the raw frames stands still: they are not saved");
  for (const SaveNotice& notice : saver_->take_notices()) tell(notice);
}

nlohmann::json FrameKeeper::status() {
  const std::uint64_t room = ring_ ? ring_->room() : 0;
  const double rate_hz = loop_.report().frame_rate_hz;
  return {{"kept", ring_ && ring_->wanted.load()},
          {"memory_bytes", ring_ ? ring_->bytes() : 0},
          {"room_frames", room},
          {"room_s", rate_hz > 0 ? nlohmann::json(static_cast<double>(room) / rate_hz) : nullptr},
          {"saving", saver_ && saver_->busy()},
          {"files", saved_},
          {"file", file_.empty() ? nlohmann::json(nullptr) : nlohmann::json(file_)},
          {"not_kept", ring_ ? ring_->not_kept.load() : 0},
          {"problem", problem_.empty() ? little_room() : problem_}};
}

}  // namespace driftd::daemon
