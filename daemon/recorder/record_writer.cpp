// SPDX-License-Identifier: MIT
#include "daemon/recorder/record_writer.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/monotonic.hpp"
#include "base/state_directory.hpp"
#include "daemon/recorder/wall_clock.hpp"

namespace driftd::daemon {
namespace {

constexpr std::chrono::milliseconds kTurn{100};
constexpr std::int64_t kSecond = kNanosecondsPerSecond;
constexpr std::int64_t kWriteAfterNs = kSecond * 9 / 10;  // at the latest: a second with the turn
constexpr std::int64_t kLookAfterNs = kSecond;
constexpr std::int64_t kAwaitSentNs = kSecond / 2;
constexpr double kChunkSeconds = 0.5;
constexpr std::size_t kMostChunkFrames = 2048;
constexpr double kAssumedRateHz = 500;

record::ChunkRows chunk_for(double rate_hz, std::size_t markers) {
  const double rows = kChunkSeconds * (rate_hz > 0 ? rate_hz : kAssumedRateHz);
  const auto frames =
      static_cast<std::size_t>(std::clamp(std::round(rows), 1.0, double{kMostChunkFrames}));
  return {.frames = frames, .localizations = frames * std::max<std::size_t>(1, markers)};
}

}  // namespace

void RecordWriter::run() noexcept {
  for (;;) {
    RecorderDesk::Orders orders = desk_.take(kTurn);
    try {
      turn(orders);
    } catch (const std::exception& error) {
      end(RecordNotice::Kind::Failed, error.what());
    }
    desk_.waits(0);
    if (orders.quit) return;
  }
}

void RecordWriter::turn(RecorderDesk::Orders& orders) {
  desk_.waits(monotonic_ns());
  if (orders.begin && !file_) begin(std::move(*orders.begin));
  if (!file_) return;
  std::ranges::move(orders.rows.events, std::back_inserter(slow_.events));
  std::ranges::move(orders.rows.stage, std::back_inserter(slow_.stage));
  std::ranges::move(orders.rows.counters, std::back_inserter(slow_.counters));
  std::ranges::move(orders.rows.pattern, std::back_inserter(slow_.pattern));
  drain();
  const std::int64_t now_ns = monotonic_ns();
  if (orders.end || orders.quit)
    return end(RecordNotice::Kind::Ended, orders.end.value_or("driftd stops"));
  if (now_ns - looked_ns_ >= kLookAfterNs) look_after(now_ns);
  const bool late = now_ns - written_ns_ >= kWriteAfterNs;
  if (late || whole_chunks() > 0) write(late && whole_chunks() == 0);
  const bool full = file_->bytes() >= order_.settings.max_file_bytes;
  if (full || now_ns - file_since_ns_ >= order_.settings.max_file_ns) {
    write(true);
    bytes_before_ += file_->bytes();
    file_->close("next file");
    file_.reset();
    ++order_.header.part;
    order_.frame_rate_hz = static_cast<double>(file_frames_) * 1e9 /
                           static_cast<double>(std::max<std::int64_t>(1, now_ns - file_since_ns_));
    open_file();
    desk_.tell({RecordNotice::Kind::NextFile, file_->path(), {}}, status_);
    retain();
  }
  tell_status();
}

void RecordWriter::begin(RecordOrder order) {
  try {
    order_ = std::move(order);
    clock_ = read_clocks();
    order_.header.series = series_name(clock_.wall_ns);
    order_.header.part = 1;
    const std::filesystem::path& folder = order_.settings.folder;
    make_directory(folder);
    retain();
    const std::string lacking = lacking_room(folder, order_.settings.retention, 0);
    if (!lacking.empty()) throw record::RecordError(lacking);
    forget();
    status_ = {};
    status_.recording = true;
    status_.since_ns = monotonic_ns();
    bytes_before_ = 0;
    open_file();
  } catch (const std::exception& error) {
    file_.reset();
    status_ = {};
    desk_.tell({RecordNotice::Kind::NotBegun, order_.settings.folder, error.what()}, status_);
    return;
  }
  feed_.wanted.store(true);
  desk_.tell({RecordNotice::Kind::Begun, file_->path(), order_.header.why}, status_);
}

void RecordWriter::open_file() {
  const std::filesystem::path path =
      record_file(order_.settings.folder, order_.header.series, order_.header.part);
  chunk_ = chunk_for(order_.frame_rate_hz, order_.markers);
  file_ = std::make_unique<record::FileWriter>(path, order_.header, chunk_);
  record_begun(path);
  file_since_ns_ = written_ns_ = monotonic_ns();
  looked_ns_ = 0;
  file_frames_ = 0;
  status_.file = path;
}

/// What waits in the feed is of a recording before.
void RecordWriter::forget() noexcept {
  RecordedFrame frame;
  while (feed_.frames.pop(frame)) {
  }
  record::LocalizationRow row;
  while (feed_.localizations.pop(row)) {
  }
  SentFrame sent;
  while (feed_.sent.pop(sent)) {
  }
  waiting_.clear();
  sent_.clear();
  frames_.clear();
  counts_.clear();
  localizations_.clear();
  clocks_.clear();
  slow_ = {};
}

void RecordWriter::end(RecordNotice::Kind kind, const std::string& why) noexcept {
  feed_.wanted.store(false);
  if (!status_.recording) return;
  std::string text = why;
  try {
    if (file_ && kind == RecordNotice::Kind::Ended) {
      drain();
      write(true);
    }
    if (file_) file_->close(why);
  } catch (const std::exception& error) {
    if (kind == RecordNotice::Kind::Ended) text = error.what();
    kind = RecordNotice::Kind::Failed;
  }
  file_.reset();
  forget();
  status_.recording = false;
  desk_.tell({kind, status_.file, text}, status_);
}

/// Takes everything that is there.
void RecordWriter::drain() {
  SentFrame sent;
  while (feed_.sent.pop(sent)) sent_.push_back(sent);
  RecordedFrame frame;
  while (feed_.frames.pop(frame)) waiting_.push_back(frame);
  while (!waiting_.empty() && join(waiting_.front())) {
    const RecordedFrame& joined = waiting_.front();
    frames_.push_back(joined.row);
    counts_.push_back(joined.localizations);
    record::LocalizationRow row;
    for (int i = 0; i < joined.localizations && feed_.localizations.pop(row); ++i)
      localizations_.push_back(row);
    waiting_.pop_front();
  }
}

/// Adds what the publisher made of it and the wall clock; false while the publisher has not said.
bool RecordWriter::join(RecordedFrame& frame) {
  frame.row.wall_ns = frame.row.taken_ns + (clock_.wall_ns - clock_.time_ns);
  if (frame.handed_ns == 0) return true;
  while (!sent_.empty() && sent_.front().handed_ns < frame.handed_ns) sent_.pop_front();
  if (sent_.empty()) return monotonic_ns() - frame.handed_ns > kAwaitSentNs;
  if (sent_.front().handed_ns != frame.handed_ns) return true;
  frame.row.sent_ns = sent_.front().sent_ns;
  const auto became = [](record::Sent& correction, bool left) {
    if (correction != record::Sent::NoCorrection)
      correction = left ? record::Sent::Left : record::Sent::NotLeft;
  };
  became(frame.row.correction, sent_.front().correction_left);
  became(frame.row.z_correction, sent_.front().axial_left);
  return true;
}

/// Frames that fill the file's chunks up: HDF5 writes a chunk anew for each part that comes.
std::size_t RecordWriter::whole_chunks() const noexcept {
  const std::size_t all = file_frames_ + frames_.size();
  return all / chunk_.frames * chunk_.frames > file_frames_
             ? all / chunk_.frames * chunk_.frames - file_frames_
             : 0;
}

void RecordWriter::write(bool everything) {
  const std::size_t rows = everything ? frames_.size() : whole_chunks();
  const auto after = [](auto& from, std::size_t count) {
    return from.begin() + static_cast<std::ptrdiff_t>(count);
  };
  const std::size_t fits =
      std::min(localizations_.size(),
               std::accumulate(counts_.begin(), after(counts_, rows), std::size_t{0}));
  file_->append(std::span<const record::FrameRow>(frames_).first(rows));
  file_->append(std::span<const record::LocalizationRow>(localizations_).first(fits));
  file_->append(std::span<const record::StageRow>(slow_.stage));
  file_->append(std::span<const record::ClockRow>(clocks_));
  file_->append(std::span<const record::CounterRow>(slow_.counters));
  file_->append(std::span<const record::Event>(slow_.events));
  file_->append(std::span<const record::PatternRow>(slow_.pattern));
  file_->flush();
  frames_.erase(frames_.begin(), after(frames_, rows));
  counts_.erase(counts_.begin(), after(counts_, rows));
  localizations_.erase(localizations_.begin(), after(localizations_, fits));
  clocks_.clear();
  slow_ = {};
  file_frames_ += rows;
  status_.frames += rows;
  written_ns_ = monotonic_ns();
}

/// Looks, once a second, at the clocks, and whether the file is still where others find it.
void RecordWriter::look_after(std::int64_t now_ns) {
  constexpr std::uint64_t kRetainEvery = 10;
  looked_ns_ = now_ns;
  clock_ = read_clocks();
  clocks_.push_back(clock_);
  const std::string lost = file_->lost();
  if (!lost.empty()) throw record::RecordError(lost);
  const std::filesystem::path& folder = order_.settings.folder;
  const std::int64_t keep = order_.settings.retention.keep_free_bytes;
  const bool regular =
      static_cast<std::uint64_t>((now_ns - file_since_ns_) / kSecond) % kRetainEvery == 0;
  if (regular || free_bytes(folder) < keep) retain();
  const std::string lacking = lacking_room(folder, order_.settings.retention, 0);
  if (!lacking.empty()) throw record::RecordError(lacking);
}

void RecordWriter::retain() {
  const std::filesystem::path current = file_ ? file_->path() : std::filesystem::path();
  for (const auto& path :
       remove_old_records(order_.settings.folder, order_.settings.retention, current)) {
    desk_.tell({RecordNotice::Kind::Removed, path, {}}, status_);
  }
}

void RecordWriter::tell_status() {
  status_.bytes = bytes_before_ + file_->bytes();
  desk_.tell(status_);
}

}  // namespace driftd::daemon
