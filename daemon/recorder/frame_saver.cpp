// SPDX-License-Identifier: MIT
#include "daemon/recorder/frame_saver.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/monotonic.hpp"
#include "base/state_directory.hpp"
#include "daemon/recorder/wall_clock.hpp"
#include "record/file_writer.hpp"
#include "record/frames_tiff.hpp"

namespace driftd::daemon {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAwaitFrame{5};
/// So long after the last frame that was asked for could have come none is waited for.
constexpr std::int64_t kGoneNs = kNanosecondsPerSecond / 2;
constexpr std::int64_t kLookEveryBytes = 16'000'000;
/// So long after its end is asked for it still saves what lies in memory.
constexpr std::int64_t kLastNs = 2 * kNanosecondsPerSecond;
/// A camera that becomes quicker meanwhile may send more frames than were reckoned with.
std::uint64_t with_reserve(std::uint64_t frames) {
  return frames + frames / 4 + 100;
}

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

/// What housekeeping and the thread exchange; both hold the lock for moments only.
struct FrameSaver::Desk {
  explicit Desk(std::shared_ptr<FrameRing> its_ring) : ring(std::move(its_ring)) {}

  const std::shared_ptr<FrameRing> ring;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<SaveOrder> next;
  std::vector<SaveNotice> notices;
  bool busy = false, quit = false;
  bool holds = false;  ///< the frames of the order that it is busy with
  std::int64_t quit_ns = 0;

  bool quits() {
    const std::lock_guard lock(mutex);
    return quit;
  }
  bool has_to_end() {
    const std::lock_guard lock(mutex);
    return quit && monotonic_ns() > quit_ns + kLastNs;
  }
  bool has_order() {
    const std::lock_guard lock(mutex);
    return next.has_value();
  }
  void tell_holds() {
    const std::lock_guard lock(mutex);
    holds = true;
  }
  void tell(SaveNotice notice) {
    const std::lock_guard lock(mutex);
    notices.push_back(std::move(notice));
  }
};

/// The thread's.
class FrameSaver::Work {
 public:
  explicit Work(Desk& desk) : desk_(desk), ring_(*desk.ring) {}

  void run() noexcept {
    for (;;) {
      {
        std::unique_lock lock(desk_.mutex);
        desk_.busy = desk_.holds = false;
        desk_.changed.wait(lock, [this] { return desk_.next || desk_.quit; });
        if (!desk_.next) return;
        order_ = *std::exchange(desk_.next, {});
        desk_.busy = true;
      }
      save();
    }
  }

 private:
  void save() noexcept {
    result_ = {.kind = SaveNotice::Kind::Saved, .file = order_.file, .why = order_.why};
    const std::uint64_t not_kept = ring_.not_kept.load();
    try {
      number_ = std::max(ring_.hold(order_.from_ns), saved_ + 1);
      ring_.release_before(number_);
      desk_.tell_holds();
      write_all();
      if (result_.frames == 0)
        throw record::RecordError("no frame came around the event that is not in another file");
    } catch (const std::exception& error) {
      result_.kind = result_.frames > 0 ? SaveNotice::Kind::CutShort : SaveNotice::Kind::NotSaved;
      result_.why = error.what();
    }
    file_.reset();
    ring_.release();
    saved_ = number_ - 1;
    result_.not_kept = ring_.not_kept.load() - not_kept;
    desk_.tell(result_);
  }

  void write_all() {
    const record::ClockRow clock = read_clocks();
    wall_less_monotonic_ns_ = clock.wall_ns - clock.time_ns;
    for (;; ++number_) {
      const FrameRing::Kept* kept = next();
      if (kept == nullptr || kept->frame.arrival_ns > order_.until_ns) break;
      if (!file_) open(*kept);
      if (!file_->takes(kept->frame))
        throw record::RecordError("the camera sends other frames now; the file ends there");
      if (file_->frames() >= most_frames_)
        throw record::RecordError("more frames came than the file was made for");
      file_->append(kept->frame, description(*kept));
      told_of(*kept);
      ring_.release_before(number_ + 1);
      look_after();
    }
    // To end a file takes long where it is far away; what came since is the next order's.
    if (!desk_.has_order()) ring_.release();
    if (!file_) return;
    const std::string lost = file_->lost();
    file_->close();
    if (!lost.empty()) throw record::RecordError(lost);
  }

  /// The frame that is due, as soon as it has come; null where none comes in time.
  const FrameRing::Kept* next() {
    for (;;) {
      if (desk_.has_to_end()) throw record::RecordError("driftd ends");
      if (const FrameRing::Kept* kept = ring_.next(number_)) return kept;
      if (desk_.quits()) throw record::RecordError("driftd ends");
      if (monotonic_ns() > order_.until_ns + kGoneNs) return nullptr;
      std::this_thread::sleep_for(kAwaitFrame);
    }
  }

  void open(const FrameRing::Kept& first) {
    const std::filesystem::path folder = order_.file.parent_path();
    make_directory(folder);
    const double rate_hz = order_.frame_rate_hz;
    const auto to_come = static_cast<std::uint64_t>(
        std::max(0.0, rate_hz * seconds(order_.until_ns - monotonic_ns())));
    const std::uint64_t frames = ring_.newest() - number_ + 1 + to_come;
    most_frames_ = with_reserve(rate_hz > 0 ? frames : frames + ring_.room());
    file_ = std::make_unique<record::FramesTiff>(order_.file, first.frame, most_frames_);
    needed_bytes_ = static_cast<std::int64_t>(frames) * file_->page_bytes();
    make_room(folder);
    const std::string lacking = lacking_room(folder, order_.retention, needed_bytes_);
    if (!lacking.empty()) throw record::RecordError(lacking);
    record_begun(order_.file);
    result_.before_s = seconds(order_.event_ns - first.frame.arrival_ns);
    interval_s_ = rate_hz > 0 ? 1 / rate_hz : 0;
    looked_bytes_ = 0;
  }

  std::string description(const FrameRing::Kept& kept) const {
    const camera::Frame& f = kept.frame;
    std::string text = fmt::format(
        "driftd raw frame\nframe_id={}\ncamera_time_ns={}\narrival_ns={}\ntaken_ns={}\nwall_ns={}\n"
        "event_ns={}\noffset_x_px={}\noffset_y_px={}\npixel_format={}\nsession={}\n",
        f.id, f.camera_time_ns, f.arrival_ns, kept.taken_ns,
        kept.taken_ns + wall_less_monotonic_ns_, order_.event_ns, f.offset_x_px, f.offset_y_px,
        camera::name_of(f.format), order_.session);
    if (interval_s_ > 0) text += fmt::format("finterval={:.9g}\n", interval_s_);  // as ImageJ's
    return text + "why=" + order_.why;
  }

  void told_of(const FrameRing::Kept& kept) {
    result_.frames = file_->frames();
    result_.after_s = seconds(kept.frame.arrival_ns - order_.event_ns);
  }

  /// Whether there is still room, and the file is where others find it.
  void look_after() {
    if (file_->bytes() - looked_bytes_ < kLookEveryBytes) return;
    looked_bytes_ = file_->bytes();
    const std::int64_t to_come =
        std::clamp(needed_bytes_ - file_->bytes(), std::int64_t{0}, kLookEveryBytes);
    std::string problem = file_->lost();
    if (problem.empty())
      problem = lacking_room(order_.file.parent_path(), order_.retention, to_come);
    if (!problem.empty()) throw record::RecordError(problem);
  }

  void make_room(const std::filesystem::path& folder) {
    Retention retention = order_.retention;
    retention.keep_free_bytes += needed_bytes_;
    if (retention.keep_bytes > 0)
      retention.keep_bytes = std::max(std::int64_t{1}, retention.keep_bytes - needed_bytes_);
    for (const auto& path : remove_old_records(folder, retention, order_.file, kRawFrames))
      desk_.tell({.kind = SaveNotice::Kind::Removed, .file = path, .why = {}});
  }

  Desk& desk_;
  FrameRing& ring_;
  SaveOrder order_;
  SaveNotice result_;
  std::unique_ptr<record::FramesTiff> file_;
  std::uint64_t number_ = 1;  ///< of the frame that is due
  std::uint64_t saved_ = 0;   ///< up to this one they are in a file
  std::uint64_t most_frames_ = 0;
  std::int64_t wall_less_monotonic_ns_ = 0, needed_bytes_ = 0, looked_bytes_ = 0;
  double interval_s_ = 0;
};

FrameSaver::FrameSaver(std::shared_ptr<FrameRing> ring)
    : desk_(std::make_shared<Desk>(std::move(ring))),
      thread_("driftd-frames", [desk = desk_] { Work(*desk).run(); }) {}

FrameSaver::~FrameSaver() {
  quit();
}

std::filesystem::path FrameSaver::order(SaveOrder order) {
  std::filesystem::path file;
  {
    const std::lock_guard lock(desk_->mutex);
    if (!desk_->next) {
      desk_->next = std::move(order);
    } else {
      desk_->next->from_ns = std::min(desk_->next->from_ns, order.from_ns);
      desk_->next->until_ns = std::max(desk_->next->until_ns, order.until_ns);
      if (desk_->next->why.find(order.why) == std::string::npos)
        desk_->next->why += "; " + order.why;
    }
    file = desk_->next->file;
  }
  desk_->changed.notify_all();
  return file;
}

std::vector<SaveNotice> FrameSaver::take_notices() {
  const std::lock_guard lock(desk_->mutex);
  return std::exchange(desk_->notices, {});
}

bool FrameSaver::busy() {
  const std::lock_guard lock(desk_->mutex);
  return desk_->busy || desk_->next.has_value();
}

bool FrameSaver::is_beginning() {
  const std::lock_guard lock(desk_->mutex);
  return (desk_->busy || desk_->next.has_value()) && !desk_->holds;
}

bool FrameSaver::quit() noexcept {
  {
    const std::lock_guard lock(desk_->mutex);
    if (!std::exchange(desk_->quit, true)) desk_->quit_ns = monotonic_ns();
  }
  desk_->changed.notify_all();
  return thread_.join_or_leave();
}

}  // namespace driftd::daemon
