// SPDX-License-Identifier: MIT
#include "clients/driftfit/analysis.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "clients/driftfit/drift_trace.hpp"
#include "clients/driftfit/errors.hpp"
#include "clients/driftfit/every_spot.hpp"
#include "clients/driftfit/marker_follower.hpp"
#include "clients/driftfit/marker_search.hpp"
#include "clients/driftfit/progress.hpp"
#include "clients/driftfit/results.hpp"

namespace driftd::clients {
namespace {

/// Frames are read in blocks of about this size.
constexpr std::size_t kBlockBytes = std::size_t{32} << 20;
constexpr std::int64_t kMostBlockFrames = 4096;
constexpr std::size_t kReasonsShown = 5;

struct FrameRange {
  std::int64_t first = 0, count = 0;
};

FrameRange range_of(const Options& options, const StackShape& shape) {
  const std::int64_t last = options.last_frame < 0 ? shape.frames - 1 : options.last_frame;
  if (options.first_frame > last || last >= shape.frames) {
    throw UsageError("frames " + std::to_string(options.first_frame) + " to " +
                     std::to_string(last) + " are asked for; " + options.stack.path.string() +
                     " has 0 to " + std::to_string(shape.frames - 1));
  }
  const FrameRange range{options.first_frame, last - options.first_frame + 1};
  if (options.reference_frame >= 0 &&
      (options.reference_frame < range.first || options.reference_frame > last)) {
    throw UsageError("--reference is " + std::to_string(options.reference_frame) +
                     "; allowed are the frames used, " + std::to_string(range.first) + " to " +
                     std::to_string(last));
  }
  return range;
}

void check_roi(const Options& options, const StackShape& shape) {
  const int side_px = std::min(shape.width_px, shape.height_px);
  if (options.roi_px <= side_px) return;
  throw UsageError("--roi is " + std::to_string(options.roi_px) + "; " +
                   options.stack.path.string() + " has frames of " +
                   std::to_string(shape.width_px) + " x " + std::to_string(shape.height_px) +
                   " px, so at most " + std::to_string(side_px) + " is allowed");
}

/// The frames of a range, a block at a time.
class Blocks {
 public:
  Blocks(const Options& options, ImageStack& stack, FrameRange range,
         const std::function<bool()>& stop)
      : stack_(stack),
        next_(range.first),
        end_(range.first + range.count),
        stop_(stop),
        progress_(range.count, options.show_progress) {
    const auto fitting = static_cast<std::int64_t>(kBlockBytes / stack.shape().frame_bytes());
    size_ = std::clamp<std::int64_t>(fitting, 1, std::min(kMostBlockFrames, range.count));
    pixels_.resize(static_cast<std::size_t>(size_) * stack.shape().frame_bytes());
  }

  /// False after the last.
  bool read() {
    if (stop_()) throw Interrupted();
    progress_.advance(count_);
    next_ += count_;
    count_ = std::min(size_, end_ - next_);
    if (count_ > 0) stack_.read(next_, count_, pixels_.data());
    return count_ > 0;
  }
  [[nodiscard]] std::int64_t first() const { return next_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] const std::byte* pixels() const { return pixels_.data(); }

 private:
  ImageStack& stack_;
  std::int64_t next_, end_;
  const std::function<bool()>& stop_;
  Progress progress_;
  std::int64_t size_ = 1, count_ = 0;
  std::vector<std::byte> pixels_;
};

std::vector<Pick> picks_inside(const Options& options, const StackShape& shape) {
  std::vector<Pick> picks = read_picks(options.picks);
  for (const Pick& pick : picks) {
    const bool inside = pick.x_px > -0.5 && pick.x_px < shape.width_px - 0.5 && pick.y_px > -0.5 &&
                        pick.y_px < shape.height_px - 0.5;
    if (inside) continue;
    throw InputError(options.picks,
                     fmt::format("the pick at {:g}, {:g} is outside the frames of {} x {} px",
                                 pick.x_px, pick.y_px, shape.width_px, shape.height_px));
  }
  return picks;
}

std::vector<Pick> markers_of(const Options& options, ImageStack& stack, FrameRange range,
                             SpotFitter& fitter) {
  if (!options.find_markers) return picks_inside(options, stack.shape());
  std::vector<std::byte> frame(stack.shape().frame_bytes());
  stack.read(range.first, 1, frame.data());
  const MarkerSearchResult search =
      find_markers(stack.shape(), frame.data(), options.detection, fitter);
  if (!search.markers.empty()) return search.markers;
  std::string what = fmt::format("no marker was found in frame {}", range.first);
  for (std::size_t i = 0; i < std::min(kReasonsShown, search.rejected.size()); ++i) {
    what += "\n  at " + search.rejected[i];
  }
  if (search.rejected.size() > kReasonsShown) {
    what += fmt::format("\n  and {} more", search.rejected.size() - kReasonsShown);
  }
  throw InputError(options.stack.path, what);
}

DriftTrace trace_of(const Options& options, const ImageStack& stack, FrameRange range,
                    const MarkerTracks& tracks) {
  const std::int64_t frame = options.reference_frame < 0 ? range.first : options.reference_frame;
  const DriftSettings settings{
      .reference = static_cast<std::size_t>(frame - range.first),
      .min_markers = std::min(options.min_markers, static_cast<int>(tracks.markers())),
      .pixel_nm = options.pixel_nm};
  DriftTrace trace{.points = solve_drift(tracks, settings),
                   .first_frame = range.first,
                   .stack_frames = stack.shape().frames,
                   .pixel_nm = options.pixel_nm};
  const bool wanted = !options.outputs.drift.empty() || !options.outputs.drift_csv.empty();
  if (wanted && trace.points[settings.reference].markers == 0) {
    throw InputError(options.stack.path,
                     fmt::format("fewer than {} of {} markers could be fitted in the reference "
                                 "frame {}: choose another by --reference, or fewer by "
                                 "--min-markers",
                                 settings.min_markers, tracks.markers(), frame));
  }
  return trace;
}

std::string follow_markers(const Options& options, ImageStack& stack, FrameRange range,
                           const std::function<bool()>& stop) {
  SpotFitter fitter(options.fitter);
  const std::vector<Pick> markers = markers_of(options, stack, range, fitter);
  Results results(options, stack.shape());
  MarkerFollower follower(stack.shape(), options.roi_px, markers, fitter);
  MarkerTracks tracks(markers.size());
  {
    Blocks blocks(options, stack, range, stop);
    while (blocks.read()) {
      for (std::int64_t i = 0; i < blocks.count(); ++i) {
        if (stop()) throw Interrupted();
        const auto spots = follower.follow(
            blocks.pixels() + static_cast<std::size_t>(i) * stack.shape().frame_bytes(),
            blocks.first() + i);
        tracks.add_frame(spots);
        results.write(spots);
      }
    }
  }
  const DriftTrace trace = trace_of(options, stack, range, tracks);
  results.finish(&trace);
  const auto known = std::count_if(trace.points.begin(), trace.points.end(),
                                   [](const DriftPoint& p) { return p.markers > 0; });
  return fmt::format(
      "{} frames, {} markers, {} of {} fits good, drift in {} frames ({})\nwritten: {}\n",
      range.count, markers.size(), results.written(),
      static_cast<std::int64_t>(markers.size()) * range.count, known, fitter.description(),
      results.names());
}

std::string localize_every_spot(const Options& options, ImageStack& stack, FrameRange range,
                                const std::function<bool()>& stop) {
  SpotFitter fitter(options.fitter);
  Results results(options, stack.shape());
  EverySpot every_spot(stack.shape(), options.roi_px, options.min_net_gradient, fitter);
  {
    Blocks blocks(options, stack, range, stop);
    while (blocks.read()) {
      results.write(every_spot.localize(blocks.pixels(), blocks.first(), blocks.count()));
    }
  }
  results.finish(nullptr);
  return fmt::format("{} frames, {} spots found, {} localizations ({})\nwritten: {}\n", range.count,
                     every_spot.found(), results.written(), fitter.description(), results.names());
}

}  // namespace

std::string analyse(const Options& options, const std::function<bool()>& stop) {
  const std::unique_ptr<ImageStack> stack = open_stack(options.stack);
  const FrameRange range = range_of(options, stack->shape());
  check_roi(options, stack->shape());
  return options.every_spot ? localize_every_spot(options, *stack, range, stop)
                            : follow_markers(options, *stack, range, stop);
}

}  // namespace driftd::clients
