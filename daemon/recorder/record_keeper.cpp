// SPDX-License-Identifier: MIT
#include "daemon/recorder/record_keeper.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/counted.hpp"
#include "base/state_directory.hpp"
#include "daemon/loop/frame_rows.hpp"
#include "daemon/loop/messages.hpp"
#include "daemon/recorder/stage_rows.hpp"
#include "daemon/recorder/wall_clock.hpp"

namespace driftd::daemon {
namespace {

using Level = EventLog::Level;

constexpr const char* kEvent = "record";
constexpr std::int64_t kPatienceNs = 1'500'000'000;  // of those who ask; driftctl's is 2 s
constexpr std::int64_t kWaitsToTellNs = 5'000'000'000;
constexpr std::int64_t kSlowRowsEveryNs = 1'000'000'000;
constexpr std::int64_t kMegabyte = 1'000'000;
constexpr std::int64_t kMinuteNs = 60'000'000'000;

RecordSettings record_settings(const config::Record& record) {
  return {.folder = records_folder(record),
          .max_file_bytes = record.max_file_mb * kMegabyte,
          .max_file_ns = record.max_file_minutes * kMinuteNs,
          .retention = {.keep_bytes = record.keep_mb * kMegabyte,
                        .keep_free_bytes = record.keep_free_mb * kMegabyte}};
}

}  // namespace

std::filesystem::path records_folder(const config::Record& record) {
  const bool is_default = record.directory.empty() && !state_directory().empty();
  return is_default ? state_directory() / "records" : record.directory;
}

RecordKeeper::RecordKeeper(const config::Config& config, std::string session,
                           std::shared_ptr<RecordFeed> feed, camera::FrameSource& source,
                           CameraWatch& camera, LoopControl& loop, StageChannel& stage,
                           const PatternWatch& pattern, EventLog& events)
    : config_(config),
      session_(std::move(session)),
      source_(source),
      camera_(camera),
      loop_(loop),
      pattern_(pattern),
      events_(events),
      feed_(std::move(feed)),
      recorder_(feed_) {
  stage.hear([this](const StageReport& report, std::int64_t now_ns) {
    recorder_.desk().add(&SlowRows::stage, stage_row(report, now_ns));
  });
  events.hear([this](const nlohmann::json& message) {
    nlohmann::json fields = message;
    for (const char* own : {"time_ns", "level", "code", "text"}) fields.erase(own);
    const record::ClockRow clock = read_clocks();
    const auto time_ns = message["time_ns"].get<std::int64_t>();
    using nlohmann::json;
    recorder_.desk().add(
        &SlowRows::events,
        record::Event{time_ns, clock.wall_ns + (time_ns - clock.time_ns), message["level"],
                      message["code"], message["text"],
                      fields.dump(-1, ' ', false, json::error_handler_t::replace)});
  });
}

void RecordKeeper::hear_of_z(StageChannel& z_stage) {
  z_stage.hear([this](const StageReport& report, std::int64_t now_ns) {
    if (!report.is_of(AxisGroup::Lateral))
      recorder_.desk().add(&SlowRows::stage, stage_row(report, now_ns));
  });
}

void RecordKeeper::begin(Cause cause) {
  cause_ = cause;
  problem_.clear();
  not_recorded_before_ = not_recorded_told_ = feed_->not_recorded.load();
  RecordOrder order{.settings = record_settings(config_.record),
                    .header = {.driftd_version = std::string(kVersion),
                               .session = session_,
                               .camera = camera_.info().description,
                               .configuration = config::to_yaml(config_),
                               .pixel_size_nm = config_.optics.pixel_size_nm,
                               .series = {},
                               .part = 1,
                               .why = cause == Cause::Lock ? "lock" : "command"},
                    .frame_rate_hz = loop_.report().frame_rate_hz,
                    .markers = loop_.markers().count};
  if (order.settings.folder.empty()) {
    return tell({RecordNotice::Kind::NotBegun,
                 {},
                 "record.directory is empty, and neither STATE_DIRECTORY, XDG_STATE_HOME nor HOME "
                 "says where records go"},
                monotonic_ns());
  }
  under_way_ = true;
  recorder_.desk().order(std::move(order));
}

void RecordKeeper::end(const std::string& why) {
  next_.reset();
  for (Waiting& w : waiting_) w.for_next = false;
  if (!std::exchange(ending_, true)) recorder_.desk().end(why);
}

void RecordKeeper::start(Answer answer, std::int64_t now_ns) {
  if (ending_) {  // a disk may take long over the end
    next_ = Cause::Command;
    return waiting_.push_back({now_ns + kPatienceNs, std::move(answer), true});
  }
  cause_ = Cause::Command;  // a recording of a lock's goes on after the lock
  const bool runs = recorder_.desk().status().recording;
  if (runs) return answer(Reply{.fields = {{"record", status(now_ns)}}});
  waiting_.push_back({now_ns + kPatienceNs, std::move(answer), false});
  if (!under_way_) begin(Cause::Command);
}

void RecordKeeper::stop(Answer answer, std::int64_t now_ns) {
  if (!under_way_) return answer(Reply{.fields = {{"record", status(now_ns)}}});
  waiting_.push_back({now_ns + kPatienceNs, std::move(answer), false});
  end("record stop");
}

void RecordKeeper::follow(const LockChange& change, std::int64_t /*now_ns*/) {
  using control::LockState;
  const LoopReport& loop = loop_.report();
  const LockReport& other = change.group == AxisGroup::Axial ? loop : loop.z;
  const bool over = change.state == LockState::Idle && other.is_idle();
  if (over && next_ == Cause::Lock) next_.reset();
  if (over && under_way_ && !ending_ && cause_ == Cause::Lock) end("the lock is over");
  // The lock begins from `idle` or `lost`; what was recorded before may have ended by itself
  // meanwhile.
  if (!config_.record.at_lock || change.state != LockState::Referencing) return;
  if (!under_way_)
    begin(Cause::Lock);
  else if (ending_ && !next_)
    next_ = Cause::Lock;
}

void RecordKeeper::turn(std::int64_t now_ns) {
  for (const RecordNotice& notice : recorder_.desk().take_notices()) tell(notice, now_ns);
  const RecordStatus status = recorder_.desk().status();
  if (status.recording) add_slow_rows(now_ns);
  tell_delays(status, now_ns);
  const bool late = !waiting_.empty() && now_ns > waiting_.front().until_ns;
  if (late) {
    refuse_pending({Refusal::Timeout, "the disk of " +
                                          record_settings(config_.record).folder.string() +
                                          " has not answered in time; it is waited for"});
  }
}

void RecordKeeper::add_slow_rows(std::int64_t now_ns) {
  if (now_ns < next_slow_ns_) return;
  next_slow_ns_ = now_ns + kSlowRowsEveryNs;
  const camera::SourceCounters c = source_.counters();
  recorder_.desk().add(&SlowRows::counters,
                       record::CounterRow{.time_ns = now_ns,
                                          .frames = c.frames,
                                          .superseded = c.superseded,
                                          .lost = c.lost,
                                          .incomplete = c.incomplete,
                                          .underruns = c.underruns,
                                          .resent_packets = c.resent_packets,
                                          .disconnects = c.disconnects,
                                          .not_recorded = feed_->not_recorded.load()});
  const LoopReport& loop = loop_.report();
  if (loop.is_current(loop.tracked_ns, now_ns))
    recorder_.desk().add(&SlowRows::pattern, pattern_row(pattern_.change(), now_ns));
}

/// A disk that is too slow or stands still.
void RecordKeeper::tell_delays(const RecordStatus& status, std::int64_t now_ns) {
  const std::uint64_t not_recorded = feed_->not_recorded.load();
  if (not_recorded != not_recorded_told_) {
    events_.raise(
        Level::Warning, kEvent,
        fmt::format("{} not recorded: the disk is too slow",
                    counted(not_recorded - not_recorded_told_, "frame was", "frames were")),
        {{"action", "frames_left_out"},
         {"file", status.file.string()},
         {"frames", not_recorded - not_recorded_told_}});
    not_recorded_told_ = not_recorded;
  }
  const std::int64_t since_ns = recorder_.desk().waits_since_ns();
  const bool waits = since_ns != 0 && now_ns - since_ns > kWaitsToTellNs;
  if (waits && !told_waits_) {
    events_.raise(Level::Warning, kEvent, "the disk of the record stands still",
                  {{"action", "disk_waits"}, {"file", status.file.string()}});
  }
  told_waits_ = waits;
}

void RecordKeeper::tell(const RecordNotice& notice, std::int64_t now_ns) {
  using Kind = RecordNotice::Kind;
  const bool over =
      notice.kind == Kind::NotBegun || notice.kind == Kind::Ended || notice.kind == Kind::Failed;
  if (over) under_way_ = ending_ = false;
  if (notice.kind == Kind::NotBegun || notice.kind == Kind::Failed) problem_ = notice.text;
  raise(notice);
  if (notice.kind == Kind::NotBegun) {
    answer_all(CommandRefused{Refusal::Refused, "no recording: " + notice.text});
  } else if (over || (notice.kind == Kind::Begun && !ending_)) {  // who stops it waits for its end
    answer_all(Reply{.fields = {{"record", status(now_ns)}}});
  }
  if (!over || !next_) return;
  for (Waiting& w : waiting_) w.for_next = false;
  begin(*std::exchange(next_, {}));
}

void RecordKeeper::raise(const RecordNotice& notice) {
  using Kind = RecordNotice::Kind;
  const std::string file = notice.file.string();
  const auto say = [&](Level level, const char* action, const std::string& text) {
    nlohmann::json fields = {{"action", action}, {"file", file}};
    if (!notice.text.empty()) fields["why"] = notice.text;
    events_.raise(level, kEvent, text, fields);
  };
  switch (notice.kind) {
    case Kind::Begun:
      return say(Level::Info, "begun", "recording to " + file);
    case Kind::NextFile:
      return say(Level::Info, "next_file", "recording goes on in " + file);
    case Kind::Ended:
      return say(Level::Info, "ended", "the recording has ended: " + notice.text);
    case Kind::NotBegun:
      return say(Level::Error, "not_begun", "no recording: " + notice.text);
    case Kind::Failed:
      return say(Level::Error, "failed", "the recording has ended: " + notice.text);
    case Kind::Removed:
      return say(Level::Info, "removed", "an old record was removed: " + file);
  }
}

void RecordKeeper::answer_all(const Outcome& outcome) {
  std::vector<Waiting> waiting, later;
  for (Waiting& w : waiting_) (w.for_next ? later : waiting).push_back(std::move(w));
  waiting_ = std::move(later);
  for (const Waiting& w : waiting) w.answer(outcome);
}

void RecordKeeper::refuse_pending(const CommandRefused& refused) {
  for (Waiting& w : waiting_) w.for_next = false;
  answer_all(refused);
}

void RecordKeeper::finish() {
  next_.reset();
  if (!recorder_.quit()) {
    spdlog::error("the disk of the record stands still: the last second may not be in {}",
                  recorder_.desk().status().file.string());
  }
  for (const RecordNotice& notice : recorder_.desk().take_notices()) tell(notice, monotonic_ns());
}

nlohmann::json RecordKeeper::status(std::int64_t now_ns) {
  const RecordStatus s = recorder_.desk().status();
  return {
      {"recording", s.recording},
      {"by", s.recording ? nlohmann::json(cause_ == Cause::Lock ? "lock" : "command") : nullptr},
      {"file", s.file.empty() ? nlohmann::json(nullptr) : nlohmann::json(s.file.string())},
      {"seconds", s.recording ? nlohmann::json(static_cast<double>(now_ns - s.since_ns) * 1e-9)
                              : nlohmann::json(nullptr)},
      {"frames", s.frames},
      {"not_recorded", feed_->not_recorded.load() - not_recorded_before_},
      {"bytes", s.bytes},
      {"problem", problem_}};
}

}  // namespace driftd::daemon
