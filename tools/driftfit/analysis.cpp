// SPDX-License-Identifier: MIT
#include "tools/driftfit/analysis.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <future>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "fitter/instruction_sets.hpp"
#include "tools/driftfit/axial_drift.hpp"
#include "tools/driftfit/axial_reader.hpp"
#include "tools/driftfit/blocks.hpp"
#include "tools/driftfit/camera_maps.hpp"
#include "tools/driftfit/clipped_markers.hpp"
#include "tools/driftfit/drift_gaps.hpp"
#include "tools/driftfit/drift_trace.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/every_spot.hpp"
#include "tools/driftfit/marker_follower.hpp"
#include "tools/driftfit/marker_search.hpp"
#include "tools/driftfit/metadata_times.hpp"
#include "tools/driftfit/negative_light.hpp"
#include "tools/driftfit/results.hpp"
#include "tools/driftfit/stack_input.hpp"

namespace driftd::tools {
namespace {

constexpr std::size_t kReasonsShown = 5;
/// Markers are sought in each of twice so many frames, then at distances of such a share.
constexpr std::int64_t kSearchShare = 16;

FrameRange range_of(const Options& options, const camera::StackShape& shape) {
  if (options.shard.is_part()) {
    const ShardFrames frames = frames_of(options.shard, shape.frames);
    return {frames.first, frames.end - frames.first};  // none, where shards are more than frames
  }
  const std::int64_t last = options.last_frame < 0 ? shape.frames - 1 : options.last_frame;
  if (options.first_frame >= shape.frames) {
    throw UsageError("--first-frame is " + std::to_string(options.first_frame) + "; " +
                     options.stack.path.string() + " has frames 0 to " +
                     std::to_string(shape.frames - 1));
  }
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

void check_roi(int roi_px, const Options& options, const camera::StackShape& shape) {
  const int side_px = std::min(shape.width_px, shape.height_px);
  if (roi_px <= side_px) return;
  throw UsageError("--roi is " + std::to_string(roi_px) + "; " + options.stack.path.string() +
                   " has frames of " + std::to_string(shape.width_px) + " x " +
                   std::to_string(shape.height_px) + " px, so at most " + std::to_string(side_px) +
                   " is allowed");
}

/// Writes spots while others are sought.
class WritingBehind {
 public:
  WritingBehind(Results& results, bool at_once) : results_(results), at_once_(at_once) {}

  void write(std::span<const Spot> spots) {
    finish();
    if (at_once_) return results_.write(spots);
    spots_.assign(spots.begin(), spots.end());
    writing_ = std::async(std::launch::async, [this] { results_.write(spots_); });
  }
  /// @throws what writing threw
  void finish() {
    if (writing_.valid()) writing_.get();
  }

 private:
  Results& results_;
  bool at_once_;
  std::vector<Spot> spots_;
  std::future<void> writing_;  ///< its end waits for the thread, so it is the last
};

std::vector<Pick> picks_inside(const Options& options, const camera::StackShape& shape,
                               std::string& note) {
  std::vector<Pick> picks = read_picks(
      options.picks, options.pixel_told ? std::optional(options.pixel_nm) : std::nullopt, &note);
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

/// What negative_light() says of the first frame that repeats none before it.
std::string negative_light_in(camera::ImageStack& stack, FrameRange range, float offset,
                              bool is_map) {
  if (range.count == 0) return {};
  std::int64_t frame = range.first;
  while (frame < range.first + range.count - 1 && stack.is_repeat(frame)) ++frame;
  std::vector<std::byte> pixels(stack.shape().frame_bytes());
  stack.read(frame, 1, pixels.data());
  return negative_light(stack.shape(), pixels.data(), frame, offset, is_map);
}

/// What a run works on.
struct Run {
  const Options& options;
  camera::ImageStack& stack;
  const camera::StackShape& recorded;  ///< as the file holds it; the stack may be converted
  const CameraMaps& maps;
  FrameRange range;
  const std::function<bool()>& stop;
};

/// Markers, and the frame that they are followed from.
struct Markers {
  std::vector<Pick> picks;
  std::int64_t frame = 0;
  int roi_px = 0;
  std::string size_reason = {};  ///< "": the ROI is as given
  std::string note = {};         ///< of the picks; or ""
};

[[noreturn]] void fail_without_markers(const Run& run, int searched,
                                       const std::vector<std::string>& rejected) {
  const auto& [options, stack, recorded, maps, range, stop] = run;
  std::string what = fmt::format("no marker was found in frame {}", range.first);
  if (searched > 1) what += fmt::format(", nor in {} of the later ones", searched - 1);
  for (std::size_t i = 0; i < std::min(kReasonsShown, rejected.size()); ++i) {
    what += "\n  " + rejected[i];
  }
  if (rejected.size() > kReasonsShown) {
    what += fmt::format("\n  and {} more", rejected.size() - kReasonsShown);
  }
  what += "\nwhat may help: ";
  if (std::isfinite(maps.saturation_adu())) {
    what += fmt::format("a --saturation above {:g}, or none: no spot that reaches it is taken; ",
                        maps.saturation_adu());
  }
  what +=
      "--first-frame with one that shows them, --spot-sigma and --roi of their "
      "size, a lower --min-snr, a higher --max-residual-ratio, or --picks";
  throw InputError(options.stack.path, what);
}

Markers picked_markers(const Run& run) {
  const auto& [options, stack, recorded, maps, range, stop] = run;
  std::string note;
  Markers markers{picks_inside(options, stack.shape(), note), range.first, options.roi_px};
  markers.note = note;
  if (options.roi_px > 0) return markers;
  std::vector<std::byte> frame(stack.shape().frame_bytes());
  stack.read(range.first, 1, frame.data());
  const control::SpotSize size =
      size_of_spots(stack.shape(), frame.data(), options.detection, maps);
  markers.roi_px = size.chosen() ? size.roi_px : control::kAssumedRoiPx;
  markers.size_reason =
      size.chosen() ? size.reason
                    : fmt::format("a ROI of {} px; {}", control::kAssumedRoiPx, size.reason);
  check_roi(markers.roi_px, options, stack.shape());
  return markers;
}

/// Those found, or none and why not.
Markers search_in(const Run& run, std::int64_t frame_number, const std::byte* frame,
                  SpotFitter& fitter, std::vector<std::string>& rejected) {
  const auto& [options, stack, recorded, maps, range, stop] = run;
  const control::SpotSize size = size_of_spots(stack.shape(), frame, options.detection, maps);
  if (!size.chosen()) {
    rejected = {size.reason};
    return {};
  }
  const bool given = options.roi_px > 0 && options.detection.expected_sigma_px > 0;
  MarkerSearchResult search = find_markers(
      stack.shape(), frame, control::settings_for(size, options.detection), fitter, maps);
  rejected = std::move(search.rejected);
  return {std::move(search.markers), frame_number, size.roi_px, given ? "" : size.reason};
}

/// Every frame at the start of the range, then ever fewer: a recording may begin in the dark.
Markers markers_of(const Run& run, SpotFitter& fitter) {
  const auto& [options, stack, recorded, maps, range, stop] = run;
  if (!options.find_markers) return picked_markers(run);
  std::vector<std::byte> frame(stack.shape().frame_bytes());
  std::vector<std::string> rejected_in_first;
  int searched = 0;
  for (std::int64_t i = 0; i < range.count; i += std::max<std::int64_t>(1, i / kSearchShare)) {
    if (stop()) throw Interrupted();
    if (stack.is_repeat(range.first + i) && i > 0) continue;
    stack.read(range.first + i, 1, frame.data());
    std::vector<std::string> rejected;
    Markers markers = search_in(run, range.first + i, frame.data(), fitter, rejected);
    if (!markers.picks.empty()) return markers;
    if (searched++ == 0) rejected_in_first = std::move(rejected);
  }
  fail_without_markers(run, searched, rejected_in_first);
}

bool drift_wanted(const Options& options) {
  return !options.outputs.drift.empty() || !options.outputs.drift_csv.empty();
}

/// In how many frames a drift is known then; 0 where it is not in the reference frame.
std::int64_t known_with(const DriftSettings& settings, const MarkerTracks& tracks) {
  const std::vector<DriftPoint> points = solve_drift(tracks, settings).points;
  const auto is_known = [](const DriftPoint& point) { return point.markers > 0; };
  return is_known(points[*settings.reference]) ? std::ranges::count_if(points, is_known) : 0;
}

/// What would help is tried first.
[[noreturn]] void fail_at_reference(const Options& options, const MarkerTracks& tracks,
                                    FrameRange range, const DriftSettings& settings) {
  const auto frames = static_cast<std::int64_t>(tracks.frames());
  const double wanted = options.min_drift_share * static_cast<double>(frames);
  std::string what = fmt::format(
      "fewer than {} of {} could be fitted, or agree, in the reference frame {}; what may help:",
      settings.min_markers, counted(tracks.markers(), "marker"), options.reference_frame);
  DriftSettings fewer = settings;
  int best = 0;
  std::int64_t most = 0;
  while (--fewer.min_markers >= 1 && static_cast<double>(most) < wanted) {
    if (tracks.found(*settings.reference) < fewer.min_markers) continue;
    const std::int64_t known = known_with(fewer, tracks);
    if (known > most) best = fewer.min_markers, most = known;
  }
  const auto advise = [&](const std::string& option, std::int64_t known) {
    if (known > 0) what += advice_in_words(option, known, frames, options.min_drift_share);
  };
  advise(fmt::format("--min-markers {}", best), most);
  DriftSettings first = settings;
  first.reference = std::nullopt;
  const std::vector<DriftPoint> points = solve_drift(tracks, first).points;
  const auto known = std::find_if(points.begin(), points.end(),
                                  [](const DriftPoint& point) { return point.markers > 0; });
  if (known != points.end()) {
    first.reference = static_cast<std::size_t>(known - points.begin());
    advise(fmt::format("--reference {}", range.first + static_cast<std::int64_t>(*first.reference)),
           known_with(first, tracks));
  }
  what += "\n  --picks: markers that are there in this frame, and move together";
  throw InputError(options.stack.path, what);
}

DriftSettings settings_for(const Options& options, FrameRange range, const MarkerTracks& tracks) {
  DriftSettings settings{
      .reference = std::nullopt,
      .min_markers = std::min(options.min_markers, static_cast<int>(tracks.markers())),
      .pixel_nm = options.pixel_nm};
  if (options.reference_frame >= 0) {
    settings.reference = static_cast<std::size_t>(options.reference_frame - range.first);
  }
  return settings;
}

/// @param points  solved with those settings
DriftTrace trace_of(const Run& run, const MarkerTracks& tracks, const DriftSettings& settings,
                    std::vector<DriftPoint> points) {
  const auto& [options, stack, recorded, maps, range, stop] = run;
  DriftTrace trace{.points = std::move(points),
                   .reasons = {},
                   .first_frame = range.first,
                   .stack_frames = stack.shape().frames,
                   .pixel_nm = options.pixel_nm,
                   .times_s = stack.facts().times_s};
  if (drift_wanted(options) && settings.reference &&
      trace.points[*settings.reference].markers == 0) {
    fail_at_reference(options, tracks, range, settings);
  }
  trace.reasons = reasons_of(trace.points, tracks, settings.min_markers);
  if (trace.times_s.empty() && !options.outputs.drift_csv.empty())
    trace.times_s = times_in_metadata(stack, range.first, range.count);
  return trace;
}

/// Which markers have new places, and which do not agree; "" where there is none.
std::string moves_in_words(const DriftSolution& solution, const std::vector<Pick>& picks,
                           FrameRange range) {
  const std::string moved = moved_in_words(solution.moved, picks, range.first);
  const std::string apart = apart_in_words(solution.apart, picks, range.first);
  return moved + (moved.empty() || apart.empty() ? "" : "\n") + apart;
}

/// Lines where the metadata have the times of some frames alone, or times that are not in the order
/// of the frames; else "".
std::string times_in_words(const DriftTrace& trace) {
  if (trace.times_s.empty()) return {};
  const auto begin = trace.times_s.begin() + trace.first_frame;
  const auto end = begin + static_cast<std::ptrdiff_t>(trace.points.size());
  std::int64_t none = 0, early = 0;
  double last_s = -std::numeric_limits<double>::infinity();
  std::string first;
  for (auto time_s = begin; time_s != end; ++time_s) {
    if (std::isnan(*time_s)) ++none;
    if (*time_s < last_s && early++ == 0) {
      first = fmt::format("frame {} at {:.6g} s behind one at {:.6g} s",
                          time_s - trace.times_s.begin(), *time_s, last_s);
    }
    if (!std::isnan(*time_s)) last_s = *time_s;
  }
  std::string text;
  if (none > 0) {
    text = fmt::format("of {} the metadata have no time: time_s is empty there\n",
                       counted(none, "frame"));
  }
  if (early > 0) {
    text += fmt::format(
        "by the metadata {} earlier than what stands before, first {}: the frames "
        "may be in another order, or the times of another clock\n",
        counted(early, "frame is", "frames are"), first);
  }
  return text;
}

/// What is lacking; "" where every frame has a drift.
/// @param moves  moves_in_words(): what may be the reason
/// @throws CoverageError
std::string check_coverage(const Options& options, const DriftTrace& trace,
                           const MarkerTracks& tracks, const DriftSettings& settings,
                           const std::string& moves) {
  const std::int64_t known = frames_known(trace);
  const auto frames = static_cast<std::int64_t>(trace.points.size());
  if (known == frames) return {};
  std::string gaps =
      gaps_in_words(trace, tracks,
                    {.solved_by = settings,
                     .gain_known = options.fitter.options.noise.gain_e_per_adu > 0,
                     .wanted_share = options.warn_drift_share,
                     .least_share = drift_wanted(options) ? options.min_drift_share : 0});
  const double share = static_cast<double>(known) / static_cast<double>(frames);
  if (drift_wanted(options) && (known == 0 || share < options.min_drift_share)) {
    throw CoverageError(fmt::format("{}: {}\n{}{}nothing was written, as --min-drift-share is {:g}",
                                    options.stack.path.string(), gaps, moves,
                                    moves.empty() ? "" : "\n", options.min_drift_share));
  }
  return gaps;
}

/// z of the markers, by a curve.
struct Heights {
  AxialReader reader;
  MarkerHeights heights;
  AxialDrift drift = {};
};

/// Of the drift in z; its gaps in words.
/// @throws CoverageError
std::string solve_heights(const Options& options, FrameRange range, const PlaceBegins& places,
                          const DriftSettings& lateral, Heights& z) {
  const AxialDriftSettings settings{lateral.reference, lateral.min_markers};
  z.drift = solve_axial_drift(z.heights, places, settings);
  std::string gaps = axial_gaps_in_words(z.drift, z.heights, places, settings, range.first);
  const std::int64_t known = frames_known(z.drift);
  const double share = static_cast<double>(known) / static_cast<double>(range.count);
  if (drift_wanted(options) && (known == 0 || share < options.min_drift_share)) {
    throw CoverageError(
        fmt::format("{}: {}\nnothing was written, as --min-drift-share is {:g}; without "
                    "--axial-curve the drift is of x and y alone",
                    options.stack.path.string(), gaps, options.min_drift_share));
  }
  return gaps;
}

/// Follows the markers from the frame they were found in to the end.
/// @param z  null: is not read
MarkerTracks tracks_of(const Run& run, const Markers& markers, MarkerFollower& follower,
                       Results& results, Heights* z) {
  const auto& [options, stack, recorded, maps, range, stop] = run;
  MarkerTracks tracks(markers.picks.size());
  const auto take = [&](std::span<const Spot> spots, const Absences& absences) {
    tracks.add_frame(spots, absences);
    if (z != nullptr) z->heights.add_frame(spots);
  };
  for (std::int64_t frame = range.first; frame < markers.frame; ++frame) {
    take({}, {.not_sought = static_cast<int>(markers.picks.size())});
  }
  const FrameRange rest{markers.frame, range.first + range.count - markers.frame};
  Blocks blocks(options, stack, rest, 1, false, stop);
  while (blocks.read()) {
    for (std::int64_t i = 0; i < blocks.count(); ++i) {
      if (stop()) throw Interrupted();
      if (stack.is_repeat(blocks.first() + i)) {
        take({}, {.repeated = static_cast<int>(markers.picks.size())});
        continue;
      }
      const std::byte* frame =
          blocks.pixels() + static_cast<std::size_t>(i) * stack.shape().frame_bytes();
      auto spots = follower.follow(frame, blocks.first() + i);
      if (z != nullptr) spots = z->reader.read(spots, frame);
      take(spots, follower.absences());
      results.write(spots);
    }
  }
  return tracks;
}

RunFacts facts_of(FrameRange range, const SpotFitter& fitter) {
  return {.first_frame = range.first,
          .last_frame = range.first + range.count - 1,
          .back_end = fitter.back_end(),
          .instruction_set = fitter.instruction_set()};
}

/// What was read, and what is lacking: in the warning where that is much.
/// @param reference  of x and y
void tell_heights(const Run& run, const Markers& markers, std::size_t reference, const Heights& z,
                  const std::string& gaps, Outcome& outcome) {
  outcome.summary += heights_in_words(z.reader, markers.picks);
  if (!drift_wanted(run.options)) return;
  if (z.drift.reference != reference) {
    outcome.summary +=
        fmt::format("z is 0 in frame {}, the first that has a drift in z; x and y in frame {}\n",
                    run.range.first + static_cast<std::int64_t>(z.drift.reference),
                    run.range.first + static_cast<std::int64_t>(reference));
  }
  if (gaps.empty()) return;
  const auto known = static_cast<double>(frames_known(z.drift));
  if (known >= run.options.warn_drift_share * static_cast<double>(run.range.count)) {
    outcome.summary += gaps + "\n";
    return;
  }
  outcome.warning += (outcome.warning.empty() ? "" : "\n") + gaps;
  if (!run.options.outputs.drift.empty()) {
    outcome.warning += fmt::format("\n{} has z interpolated there, or constant at its ends",
                                   run.options.outputs.drift.string());
  }
}

Outcome follow_markers(const Run& as_given) {
  const auto& [given, stack, recorded, maps, range, stop] = as_given;
  SpotFitter fitter(given.fitter);
  const Markers markers = markers_of(as_given, fitter);
  Options options = given;
  options.roi_px = markers.roi_px;
  const Run run{options, stack, recorded, maps, range, stop};
  Results results(options, recorded, stack.facts().files);
  MarkerFollower follower(stack.shape(), options.roi_px, markers.picks, fitter, maps);
  std::optional<Heights> z;
  if (options.curve) {
    z.emplace(Heights{.reader = {*options.curve, fitter.options(), options.roi_px,
                                 markers.picks.size(), stack.shape()},
                      .heights = MarkerHeights(markers.picks.size())});
  }
  const MarkerTracks tracks = tracks_of(run, markers, follower, results, z ? &*z : nullptr);
  const DriftSettings settings = settings_for(options, range, tracks);
  DriftSolution solution = solve_drift(tracks, settings);
  DriftTrace trace = trace_of(run, tracks, settings, std::move(solution.points));
  const std::string moves =
      drift_wanted(options) ? moves_in_words(solution, markers.picks, range) : "";
  const std::string gaps = check_coverage(options, trace, tracks, settings, moves);
  RunFacts facts = facts_of(range, fitter);
  std::string gaps_in_z;
  if (z) {
    gaps_in_z = solve_heights(options, range, solution.places, settings, *z);
    trace.axial = z->drift.points;
    trace.axial_reasons = z->drift.reasons;
    facts.heights = z->reader.counts();
  }
  results.finish(&trace, facts);
  const std::int64_t known = frames_known(trace);
  Outcome outcome;
  outcome.summary = fmt::format(
      "{}, {}{}, {} of {} good, drift in {} ({})\n", counted(range.count, "frame"),
      counted(markers.picks.size(), "marker"),
      markers.frame == range.first ? "" : fmt::format(" found in frame {}", markers.frame),
      results.written(),
      counted(static_cast<std::int64_t>(markers.picks.size()) * range.count, "fit"),
      counted(known, "frame"), fitter.description());
  outcome.summary += clipped_markers_in_words(follower.clipped_pixels(), tracks,
                                              {.min_markers = options.min_markers,
                                               .min_share = options.min_drift_share,
                                               .picked = !options.find_markers});
  const bool warn =
      drift_wanted(options) &&
      static_cast<double>(known) < options.warn_drift_share * static_cast<double>(range.count);
  std::vector<MarkerSeen> seen;
  for (std::size_t m = 0; m < markers.picks.size(); ++m) {
    seen.push_back({markers.picks[m], tracks.frames_of(m), follower.absences_of(m)});
  }
  const std::string few = seldom_in_words(seen, range.first + range.count - markers.frame);
  if (!few.empty()) outcome.summary += few + "\n";
  if (!gaps.empty() && !warn) outcome.summary += gaps.substr(0, gaps.find('\n')) + "\n";
  if (warn) {
    outcome.warning = gaps;
    if (!options.outputs.drift.empty()) {
      outcome.warning += fmt::format("\n{} has numbers interpolated there, or constant at its ends",
                                     options.outputs.drift.string());
    }
  }
  const bool spare_markers = settings.min_markers < static_cast<int>(tracks.markers());
  const std::string jumps = drift_wanted(options) ? jumps_in_words(trace, spare_markers) : "";
  for (const std::string& more : {moves, jumps}) {
    if (!more.empty()) outcome.warning += (outcome.warning.empty() ? "" : "\n") + more;
  }
  if (z) {
    const auto first = std::ranges::find_if(
        trace.points, [](const DriftPoint& point) { return point.markers > 0; });
    const auto reference =
        settings.reference.value_or(static_cast<std::size_t>(first - trace.points.begin()));
    tell_heights(run, markers, reference, *z, gaps_in_z, outcome);
  }
  if (!markers.note.empty()) outcome.summary += markers.note + "\n";
  outcome.summary += times_in_words(trace);
  if (!markers.size_reason.empty()) outcome.summary += markers.size_reason + "\n";
  outcome.summary += fmt::format("written: {}\n", results.names());
  return outcome;
}

/// Finds, fits and writes the spots of all frames of the run.
void write_every_spot(const Run& run, EverySpot& every_spot, const SpotFitter& fitter,
                      Results& results) {
  const auto& [options, stack, recorded, maps, range, stop] = run;
  if (range.count == 0) return;
  Blocks blocks(options, stack, range, fitter.threads(), fitter.on_gpu(), stop);
  WritingBehind writing(results, !stack.reads_beside_others());
  while (blocks.read()) {
    for (std::int64_t begin = 0, end = 0; begin < blocks.count(); begin = end + 1) {
      const auto is_repeat = [&](std::int64_t i) {
        return run.stack.is_repeat(blocks.first() + i);
      };
      end = begin;
      while (end < blocks.count() && !is_repeat(end)) ++end;
      if (end == begin) continue;
      writing.write(every_spot.localize(
          blocks.pixels() + static_cast<std::size_t>(begin) * stack.shape().frame_bytes(),
          blocks.first() + begin, end - begin));
    }
  }
  writing.finish();
}

Outcome localize_every_spot(const Run& run) {
  const auto& [given, stack, recorded, maps, range, stop] = run;
  Options options = given;
  const bool part = options.shard.is_part();
  const bool again = options.outputs.overwrite;
  options.outputs.overwrite = again || part;  // names of a shard are driftfit's own
  SpotFitter fitter(options.fitter);
  Results results(options, recorded, stack.facts().files);
  const std::string name =
      part ? fmt::format("shard {} ({})", options.shard.name(),
                         range.count == 0 ? "no frames, as there are more shards"
                                          : fmt::format("frames {} to {}", range.first,
                                                        range.first + range.count - 1))
           : "";
  const ResultNames names{
      options.outputs.thunderstorm, options.outputs.picasso,
      std::filesystem::path(options.outputs.picasso).replace_extension(".yaml")};
  const std::string expected = results.description(facts_of(range, fitter));
  if (const ResultNames merged = results_of(options.merged);
      part && !again &&
      has_results(merged, merged_description(expected, stack.shape().frames), "now")) {
    return {.summary = fmt::format("{} is there already, merged with the others, of the same "
                                   "stack, settings and version: {}\n",
                                   name, merged.description.string()),
            .warning = {},
            .done_before = true};
  }
  if (part && !again && is_done(names, Description(expected))) {
    return {.summary = fmt::format("{} is there already, whole, of the same stack, settings and "
                                   "version: {}\n",
                                   name, names.description.string()),
            .warning = {},
            .done_before = true};
  }
  EverySpot every_spot(stack.shape(), options.roi_px, options.min_net_gradient, fitter, maps);
  write_every_spot(run, every_spot, fitter, results);
  results.finish(nullptr, facts_of(range, fitter));
  return {
      .summary = fmt::format("{}{}{}, {} found, {} ({})\n{}written: {}\n", name, part ? ": " : "",
                             counted(range.count, "frame"), counted(every_spot.found(), "spot"),
                             counted(results.written(), "localization"), fitter.description(),
                             clipped_spots_in_words(every_spot.clipped_pixels()), results.names()),
      .warning = {}};
}

/// @param likely_why  a sentence that goes with a failure, too; or ""
Outcome outcome_of(const Run& run, const std::string& likely_why) {
  if (likely_why.empty())
    return run.options.every_spot ? localize_every_spot(run) : follow_markers(run);
  try {
    Outcome outcome = outcome_of(run, "");
    if (outcome.done_before) return outcome;
    outcome.summary += likely_why + "\n";
    return outcome;
  } catch (const InputError& error) {
    throw InputError(std::string(error.what()) + "\n" + likely_why);
  } catch (const CoverageError& error) {
    throw CoverageError(std::string(error.what()) + "\n" + likely_why);
  }
}

}  // namespace

Outcome analyse(const Options& as_given, const std::function<bool()>& stop) {
  Options options = as_given;
  fitter::use_cpu_instruction_set(options.instruction_set);
  camera::StackSettings settings = options.stack;
  settings.last_frame = options.last_frame;
  std::string unknown;
  std::unique_ptr<camera::ImageStack> stack = open_input(settings, &unknown);
  const FrameRange range = range_of(options, stack->shape());
  check_roi(options.roi_px, options, stack->shape());
  const camera::StackShape recorded = stack->shape();
  CameraMaps maps(options.maps, recorded);
  fitter::FitOptions& fit = options.fitter.options;
  options.recorded_saturation_adu = fit.saturation_adu;
  stack = maps.applied_to(std::move(stack), fit.noise, fit.saturation_adu);
  const Run run{options, *stack, recorded, maps, range, stop};
  const std::string negative =
      negative_light_in(*stack, range, fit.noise.offset_adu, !options.maps.offset.empty());
  Outcome outcome = outcome_of(run, negative);
  if (outcome.done_before) return outcome;
  if (maps.variances() != nullptr) {
    outcome.summary += fmt::format("{} of {} {} too noisy by the map to be taken for spots\n",
                                   maps.hot().count(), counted(stack->shape().pixels(), "pixel"),
                                   maps.hot().count() == 1 ? "is" : "are");
  }
  if (!unknown.empty()) outcome.summary = unknown + "\n" + outcome.summary;
  for (const std::string& note : stack->notes()) {
    outcome.summary = options.stack.path.string() + ": " + note + "\n" + outcome.summary;
  }
  return outcome;
}

}  // namespace driftd::tools
