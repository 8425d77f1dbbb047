// SPDX-License-Identifier: MIT
#include "control/identification/record_data.hpp"

#include <algorithm>
#include <cmath>

#include "base/median.hpp"
#include "control/values/arithmetic.hpp"
#include "control/values/number_text.hpp"

namespace driftd::control {
namespace {

constexpr std::size_t kFewestQuiet = 30;
constexpr double kFewestShare = 0.4;  // of the frames while the stage moves
constexpr double kLeastMotionNm = 1;
/// A frame is far from its neighbours beyond so many largest steps of the command, or standard
/// deviations of the difference between frames.
constexpr double kFarSteps = 8, kFarSd = 10;
/// Whitened: one good frame in 10^9.
constexpr double kOutlier = 6;

struct Clean {
  std::vector<StageFrame> samples;
  std::vector<StageMove> moves;
};

/// What is finite and later than what stands before it.
Clean clean(const StageRecord& record) {
  Clean kept;
  for (const StageFrame& s : record.samples) {
    if (is_finite(s.moved_nm) &&
        (kept.samples.empty() || s.taken_ns > kept.samples.back().taken_ns))
      kept.samples.push_back(s);
  }
  for (const StageMove& m : record.moves) {
    if (is_finite(m.total_nm) && (kept.moves.empty() || m.sent_ns > kept.moves.back().sent_ns))
      kept.moves.push_back(m);
  }
  return kept;
}

double median_age_s(const Clean& record) {
  std::vector<double> ages;
  std::size_t next = 0;
  for (const StageMove& move : record.moves) {
    while (next < record.samples.size() && record.samples[next].taken_ns <= move.sent_ns) ++next;
    if (next > 0)
      ages.push_back(1e-9 * static_cast<double>(move.sent_ns - record.samples[next - 1].taken_ns));
  }
  return median(ages);
}

/// Standard deviation of the difference between a value and the one before it, over the quiet part.
double difference_sd(const FitData& data, std::size_t axis) {
  std::vector<double> sizes;
  for (std::size_t k = 1; k < data.begin; ++k) {
    if (data.slots.use[k] != SlotUse::Missing && data.slots.use[k - 1] != SlotUse::Missing)
      sizes.push_back(std::abs(data.moved_nm[axis][k] - data.moved_nm[axis][k - 1]));
  }
  return 1.4826 * median(sizes);
}

/// The median of the present values from `begin` to `end`; 0 when there are none.
double median_of(const FitData& data, const std::vector<double>& values, std::size_t begin,
                 std::size_t end) {
  std::vector<double> some;
  for (std::size_t k = begin; k < std::min(end, values.size()); ++k) {
    if (data.slots.use[k] != SlotUse::Missing) some.push_back(values[k]);
  }
  return median(some);
}

void leave_out_far(PreparedRecord& prepared) {
  FitData& data = prepared.data;
  std::vector<std::size_t> far;
  for (std::size_t axis = 0; axis < data.axes; ++axis) {
    const double limit =
        std::max(kFarSteps * prepared.largest_step_nm, kFarSd * difference_sd(data, axis));
    for (std::size_t k = 2; k + 2 < data.moved_nm[axis].size(); ++k) {
      if (data.slots.use[k] == SlotUse::Missing) continue;
      const double usual = median_of(data, data.moved_nm[axis], k - 2, k + 3);
      if (std::abs(data.moved_nm[axis][k] - usual) > limit) far.push_back(k);
    }
  }
  for (const std::size_t k : far) {
    if (data.slots.use[k] != SlotUse::Missing) ++prepared.outliers;
    data.slots.use[k] = SlotUse::Missing;
  }
}

void measure_commands(PreparedRecord& prepared, const Clean& record, std::int64_t zero_ns) {
  Staircase& staircase = prepared.data.staircase;
  staircase.channels.assign(prepared.data.axes, {});
  Vec2 before;
  prepared.data.begin_s = -1;
  for (const StageMove& move : record.moves) {
    const double sent_s = 1e-9 * static_cast<double>(move.sent_ns - zero_ns);
    const Vec2 step{move.total_nm.x - before.x, move.total_nm.y - before.y};
    before = move.total_nm;
    if ((step.x != 0 || step.y != 0) && prepared.data.begin_s < 0) prepared.data.begin_s = sent_s;
    staircase.sent_s.push_back(sent_s);
    staircase.channels[0].push_back(move.total_nm.x);
    if (prepared.data.axes > 1) staircase.channels[1].push_back(move.total_nm.y);
    prepared.largest_step_nm =
        std::max({prepared.largest_step_nm, std::abs(step.x), std::abs(step.y)});
    prepared.excursion_nm =
        std::max({prepared.excursion_nm, std::abs(move.total_nm.x), std::abs(move.total_nm.y)});
  }
}

void fill_slots(PreparedRecord& prepared, const Clean& record) {
  FitData& data = prepared.data;
  for (auto& axis : data.moved_nm) axis.assign(data.slots.use.size(), 0);
  Covariance2 stated;
  for (const StageFrame& s : record.samples) {
    stated.xx += s.covariance_nm2.xx;
    stated.yy += s.covariance_nm2.yy;
  }
  const auto n = static_cast<double>(record.samples.size());
  if (std::isfinite(stated.xx + stated.yy) && stated.xx > 0 && stated.yy > 0)
    prepared.stated_noise_nm = {std::sqrt(stated.xx / n), std::sqrt(stated.yy / n)};
  data.begin = data.end = 0;
  for (std::size_t k = 0; k < data.slots.use.size(); ++k) {
    if (data.slots.use[k] == SlotUse::Missing) continue;
    const StageFrame& sample = record.samples[data.slots.frame[k]];
    data.moved_nm[0][k] = sample.moved_nm.x - record.samples.front().moved_nm.x;
    data.moved_nm[1][k] = sample.moved_nm.y - record.samples.front().moved_nm.y;
    if (data.time_of(k) < data.begin_s) data.begin = k + 1;
    if (data.time_of(k) <= data.end_s) data.end = k + 1;
  }
}

StageVerdictText judge_counts(const PreparedRecord& prepared, std::size_t fewest_moving) {
  const FitData& data = prepared.data;
  const auto present = [&](std::size_t begin, std::size_t end) {
    std::size_t count = 0;
    for (std::size_t k = begin; k < end; ++k) {
      if (data.slots.use[k] != SlotUse::Missing) ++count;
    }
    return count;
  };
  const std::size_t quiet = present(0, data.begin);
  const std::size_t moving = present(data.begin, data.end);
  const auto all = static_cast<double>(data.end - data.begin);
  if (quiet >= kFewestQuiet && moving >= fewest_moving &&
      static_cast<double>(moving) >= kFewestShare * all)
    return {};
  return {StageRefusal::TooFewFrames,
          "Too few frames had a drift: " + std::to_string(quiet) + " before the stage moved and " +
              std::to_string(moving) + " of " + number(all, 0) +
              " while it moved. Check that enough markers are bright, in focus and away from the "
              "image's border, or let the run take longer."};
}

}  // namespace

void fit_noise(FitData& data, const std::array<std::vector<double>, 2>& noise, std::size_t order,
               std::size_t begin, std::size_t end) {
  for (std::size_t i = 0; i < data.axes; ++i)
    data.noise[i].fit(noise[i], data.slots.use, order, begin, end);
}

int leave_out_outliers(FitData& data, const std::array<std::vector<double>, 2>& left) {
  std::array<std::vector<double>, 2> white;
  std::array<double, 2> sd{};
  for (std::size_t i = 0; i < data.axes; ++i) {
    white[i] = data.noise[i].apply(left[i], data.slots.use);
    std::vector<double> sizes;
    for (std::size_t k = 0; k < white[i].size(); ++k) {
      if (data.slots.use[k] == SlotUse::Counts) sizes.push_back(std::abs(white[i][k]));
    }
    sd[i] = 1.4826 * median(sizes);
  }
  int count = 0;
  for (std::size_t k = 0; k < data.slots.use.size(); ++k) {
    if (data.slots.use[k] != SlotUse::Counts) continue;
    if (std::abs(white[0][k]) < kOutlier * sd[0] &&
        (data.axes == 1 || std::abs(white[1][k]) < kOutlier * sd[1]))
      continue;
    data.slots.use[k] = SlotUse::Missing;
    ++count;
  }
  return count;
}

Jump find_jump(const FitData& data, const std::array<std::vector<double>, 2>& values,
               double threshold_nm) {
  constexpr std::size_t kAround = 5;
  Jump jump;
  std::size_t before = 0;
  for (std::size_t k = 1; k < data.slots.use.size(); ++k) {
    if (data.slots.use[k] == SlotUse::Missing) continue;
    const std::size_t last = before;
    before = k;
    if (k < kAround || k + kAround > data.slots.use.size()) continue;
    for (const auto& axis : values) {
      if (std::abs(axis[k] - axis[last]) < 0.5 * threshold_nm) continue;
      const double by = median_of(data, axis, k, k + kAround) -
                        median_of(data, axis, last + 1 - std::min(last + 1, kAround), last + 1);
      if (std::abs(by) < std::max(threshold_nm, jump.by_nm)) continue;
      jump = {.found = true, .at_s = data.time_of(k), .by_nm = std::abs(by)};
    }
  }
  return jump;
}

StageVerdictText refuse_jump(const Jump& jump) {
  return {StageRefusal::Jumped,
          "The image jumped by " + number(jump.by_nm, 0) + " nm at " + number(jump.at_s, 1) +
              " s, farther than the stage was told to. Either the sample was knocked or markers "
              "were taken for one another: check that nothing touches the microscope and that the "
              "markers are far apart, and calibrate again."};
}

PreparedRecord prepare(const StageRecord& record, std::size_t fewest_moving) {
  PreparedRecord prepared;
  FitData& data = prepared.data;
  data.axes = record.axes;
  const Clean kept = clean(record);
  const auto refuse = [&](StageRefusal refusal, const char* text) {
    prepared.verdict = {refusal, text};
    return prepared;
  };
  if (kept.samples.size() < kFewestQuiet + fewest_moving)
    return refuse(StageRefusal::TooFewFrames,
                  "Hardly any frame had a drift. Check that enough markers are bright, in focus "
                  "and away from the image's border.");
  const std::int64_t zero_ns = kept.samples.front().taken_ns;
  measure_commands(prepared, kept, zero_ns);
  if (data.begin_s < 0 || prepared.excursion_nm < kLeastMotionNm)
    return refuse(StageRefusal::TooLittleMotion,
                  "The stage was hardly told to move: the limits on step, rate, range or travel "
                  "leave no room. Allow more, or unlock and start the daemon anew so that the "
                  "travel counts from here.");
  for (const StageFrame& s : kept.samples)
    data.exposures.middle_s.push_back(1e-9 * static_cast<double>(s.taken_ns - zero_ns));
  data.exposures.exposure_s =
      1e-9 * static_cast<double>(std::max<std::int64_t>(0, record.exposure_ns));
  data.slots = slots_of(data.exposures.middle_s);
  // Two exposures that overlap by rounding count as touching.
  data.exposures.exposure_s = std::min(data.exposures.exposure_s, 0.98 * data.slots.period_s);
  data.end_s = data.exposures.middle_s.back();
  fill_slots(prepared, kept);
  prepared.missing = static_cast<int>(data.slots.use.size() - data.slots.present());
  prepared.age_s = median_age_s(kept);
  prepared.verdict = judge_counts(prepared, fewest_moving);
  if (prepared.verdict.refusal != StageRefusal::None) return prepared;

  prepared.difference_sd_nm = {difference_sd(data, 0), difference_sd(data, 1)};
  leave_out_far(prepared);
  return prepared;
}

}  // namespace driftd::control
