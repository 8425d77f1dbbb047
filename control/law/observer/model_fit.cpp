// SPDX-License-Identifier: MIT
#include "control/law/observer/model_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>

#include "base/dense_solver.hpp"
#include "base/median.hpp"
#include "base/welch.hpp"
#include "control/law/observer/disturbance_filter.hpp"

namespace driftd::control {
namespace {

constexpr std::size_t kUncounted = 64;  ///< first frames of a record
constexpr std::size_t kSettled = 768;   ///< frames after which gains stay as they are
constexpr double kMostSigma = 5;
constexpr double kGainToAdd = 8, kLossToDrop = 5, kGainToDrop = 3;  ///< of log likelihood
/// Amplitudes that fall faster belong to no line, but to noise that has a colour.
constexpr double kLeastFade = 0.01, kMostFade = 50;  ///< per s
constexpr double kEnoughToDropS = 4, kEnoughToTrackS = 2, kEnoughForSlowS = 4;
constexpr double kTrackedWins = 0.005;     ///< of log likelihood, per frame
constexpr int kSteps = 3, kLastSteps = 8;  ///< of an improvement

/// A line whose variance is less than this share of the noise's is not worth its place: commands
/// that come a little earlier or later than they are modelled leave noise that has a colour.
constexpr double kFaintShare = 0.01;

bool is_faint(const Line& line, const DisturbanceModel& model) {
  return line.kick_nm2_per_s < kFaintShare * model.noise_nm2 * 2 * line.fade_per_s;
}

struct Replay {
  std::vector<double> errors_nm;  ///< innovations, as large as the settled filter's
  double mean_nm2 = 0;
  double settled_nm2 = 1;  ///< variance of an innovation by the model
  DisturbanceModel end;
};

double first_place(const PlaceRecord& record) {
  for (const double place : record.place_nm)
    if (std::isfinite(place)) return place;
  return 0;
}

/// Slope of the line through the means of the record's first and last quarter.
double slope_nm_per_s(const PlaceRecord& record) {
  const std::size_t quarter = record.place_nm.size() / 4;
  const auto mean = [&](std::size_t begin) {
    double sum = 0, count = 0;
    for (std::size_t i = begin; i < begin + quarter; ++i) {
      if (!std::isfinite(record.place_nm[i])) continue;
      sum += record.place_nm[i];
      ++count;
    }
    return count > 0 ? sum / count : 0;
  };
  if (quarter == 0) return 0;
  const std::size_t last = record.place_nm.size() - quarter;
  return (mean(last) - mean(0)) / (record.period_s * static_cast<double>(last));
}

double whole_s(const PlaceRecord& record) {
  return record.period_s * static_cast<double>(record.place_nm.size());
}

double judged_s(const PlaceRecord& record) {
  return record.period_s * static_cast<double>(record.place_nm.size() - record.judged_from);
}

Replay replay(const PlaceRecord& record, const DisturbanceModel& model) {
  Replay r;
  DisturbanceFilter filter;
  filter.start(model, first_place(record), slope_nm_per_s(record));
  const std::size_t from = std::max(record.judged_from, kUncounted);
  std::vector<std::pair<double, double>> seen;
  for (std::size_t i = 0; i < record.place_nm.size(); ++i) {
    if (i > 0) filter.predict(record.step_s.empty() ? record.period_s : record.step_s[i]);
    if (i == kSettled) filter.freeze();
    const double limit2 = kMostSigma * kMostSigma * std::max(1.0, filter.surprise());
    const Innovation innovation = filter.update(record.place_nm[i], record.more_noise_nm2[i]);
    r.settled_nm2 = innovation.nm2;
    if (i < from) continue;
    if (!std::isfinite(record.place_nm[i])) {
      seen.emplace_back(0, 0);
      continue;
    }
    const double limit_nm = std::sqrt(limit2 * innovation.nm2);
    seen.emplace_back(std::clamp(innovation.nm, -limit_nm, limit_nm), innovation.nm2);
  }
  double count = 0;
  for (const auto& [nm, nm2] : seen) {
    const double error_nm = nm2 > 0 ? nm * std::sqrt(r.settled_nm2 / nm2) : 0;
    r.errors_nm.push_back(error_nm);
    r.mean_nm2 += error_nm * error_nm;
    count += nm2 > 0 ? 1 : 0;
  }
  r.mean_nm2 /= std::max(count, 1.0);
  r.end = filter.model();
  return r;
}

double log_likelihood(const Replay& r) {
  return -0.5 * static_cast<double>(r.errors_nm.size()) *
         std::log(std::max(r.mean_nm2, std::numeric_limits<double>::min()));
}

/// A model as numbers that may be moved freely, and back; all variances against the noise's.
struct Parameters {
  static constexpr double kLeastLog = -12, kMostLog = 14;
  static constexpr double kFarther = 1.001;  ///< of a line beyond all others, in a step
  static std::vector<double> of(const DisturbanceModel& model) {
    std::vector<double> p{log_share(model.walk_nm2_per_s, model)};
    for (std::size_t i = 0; i < model.line_count; ++i) {
      const Line& line = model.lines[i];
      p.insert(p.end(), {line.frequency_hz, std::log(line.fade_per_s),
                         log_share(line.kick_nm2_per_s, model)});
    }
    return p;
  }
  static DisturbanceModel to(const std::vector<double>& p, const DisturbanceModel& like,
                             double rate_hz) {
    DisturbanceModel model = like;
    model.walk_nm2_per_s = share(p[0], like);
    for (std::size_t i = 0; i < model.line_count; ++i)
      // Beyond that only a line that is known to be of a faster vibration is.
      model.lines[i] = {
          .frequency_hz = std::clamp(
              p[3 * i + 1], 0.1, std::max(0.45 * rate_hz, kFarther * like.lines[i].frequency_hz)),
          .fade_per_s =
              std::clamp(std::exp(p[3 * i + 2]), kLeastFade, std::min(kMostFade, 0.5 * rate_hz)),
          .kick_nm2_per_s = share(p[3 * i + 3], like)};
    return model;
  }
  static double log_share(double nm2_per_s, const DisturbanceModel& model) {
    return std::log(std::max(nm2_per_s / model.noise_nm2, std::exp(kLeastLog)));
  }
  static double share(double log_share, const DisturbanceModel& model) {
    return model.noise_nm2 * std::exp(std::clamp(log_share, kLeastLog, kMostLog));
  }
};

struct Best {
  DisturbanceModel model;
  Replay replay;
  double likelihood = 0;
};

Best judged(const PlaceRecord& record, const DisturbanceModel& model) {
  Best best{.model = model, .replay = replay(record, model)};
  best.likelihood = log_likelihood(best.replay);
  return best;
}

/// Levenberg and Marquardt's steps, as long as they lead up.
Best improved(const PlaceRecord& record, Best best, int steps = kSteps) {
  const double rate_hz = 1 / record.period_s;
  const double seconds = judged_s(record);
  constexpr double kLogStep = 0.05, kMostLogMove = 2, kLogMoveSd = 1.5;
  const double hz_step = 0.02 / seconds, most_hz_move = 1 / seconds;
  double damping = 0.01;
  for (int step = 0; step < steps; ++step) {
    const std::vector<double> at = Parameters::of(best.model);
    const auto is_hz = [](std::size_t i) { return i % 3 == 1; };
    std::vector<std::vector<double>> slopes(at.size());
    std::vector<const std::vector<double>*> columns;
    for (std::size_t i = 0; i < at.size(); ++i) {
      std::vector<double> moved = at;
      const double by = is_hz(i) ? hz_step : kLogStep;
      moved[i] += by;
      slopes[i] = replay(record, Parameters::to(moved, best.model, rate_hz)).errors_nm;
      for (std::size_t k = 0; k < slopes[i].size(); ++k)
        slopes[i][k] = (best.replay.errors_nm[k] - slopes[i][k]) / by;
      columns.push_back(&slopes[i]);
    }
    NormalEquations equations(at.size());
    equations.add_columns(columns, best.replay.errors_nm, 0, best.replay.errors_nm.size());
    // Little was seen: little is changed.
    const double unit_nm = std::sqrt(std::max(best.replay.mean_nm2, 1e-12));
    for (std::size_t i = 0; i < at.size(); ++i)
      equations.add_prior(i, 0, (is_hz(i) ? most_hz_move : kLogMoveSd) / unit_nm);
    bool led_up = false;
    for (int attempt = 0; attempt < 3 && !led_up; ++attempt) {
      std::vector<double> move(at.size());
      if (!equations.solve(damping, move)) return best;
      std::vector<double> to = at;
      for (std::size_t i = 0; i < at.size(); ++i) {
        const double most = is_hz(i) ? most_hz_move : kMostLogMove;
        to[i] += std::clamp(move[i], -most, most);
      }
      Best next = judged(record, Parameters::to(to, best.model, rate_hz));
      led_up = next.likelihood > best.likelihood;
      const bool done = led_up && next.likelihood < best.likelihood + 0.1;
      if (led_up) best = std::move(next);
      damping *= led_up ? 0.2 : 10;
      if (done) return best;
    }
    if (!led_up) return best;
  }
  return best;
}

/// The largest power of two, at least 64.
std::size_t spectrum_length(std::size_t values) {
  std::size_t length = 64;
  while (2 * length <= values) length *= 2;
  return length;
}

double bin_hz(const PlaceRecord& record, std::size_t values) {
  return 1 / (record.period_s * static_cast<double>(spectrum_length(values)));
}

/// Where the innovations' spectrum stands out most.
std::optional<Line> propose(const PlaceRecord& record, const Best& best) {
  const std::vector<double>& errors = best.replay.errors_nm;
  const std::size_t length = spectrum_length(errors.size());
  if (errors.size() < length) return std::nullopt;
  const std::vector<double> tail(errors.end() - static_cast<std::ptrdiff_t>(length), errors.end());
  const std::vector<double> density =
      welch(tail, 1 / record.period_s, length, Detrend::Mean).density;
  const double floor = median(density) / std::numbers::ln2;
  if (!(floor > 0)) return std::nullopt;
  struct Look {
    std::size_t half;
    double limit;
  };
  constexpr std::array<Look, 3> kLooks = {{{0, 15}, {2, 5.2}, {8, 2.6}}};
  const double bin = bin_hz(record, errors.size());
  double most = 1;
  std::optional<Line> line;
  for (const Look& look : kLooks)
    for (std::size_t k = std::max<std::size_t>(2, look.half); k + look.half < density.size(); ++k) {
      double sum = 0, turned = 0;
      for (std::size_t j = k - look.half; j <= k + look.half; ++j) {
        sum += density[j];
        turned += density[j] * static_cast<double>(j);
      }
      const double width = static_cast<double>(2 * look.half + 1);
      const double height = sum / width / floor / look.limit;
      if (height <= most) continue;
      most = height;
      const double fade = std::numbers::pi * bin * (look.half == 0 ? 0.1 : width / 2);
      line = Line{.frequency_hz = bin * turned / sum,
                  .fade_per_s = fade,
                  .kick_nm2_per_s = 4 * fade * sum * bin};
    }
  return line;
}

/// Adds a line, if that is worth it.
bool add_line(const PlaceRecord& record, Best& best) {
  if (best.model.line_count == kMaxLines) return false;
  const std::optional<Line> line = propose(record, best);
  if (!line) return false;
  std::optional<Best> with;
  for (const double kick : {0.1, 1.0, 10.0}) {
    DisturbanceModel model = best.model;
    model.lines[model.line_count] = *line;
    model.lines[model.line_count++].kick_nm2_per_s *= kick;
    for (const double hz : {-0.33, 0.0, 0.33}) {
      model.lines[model.line_count - 1].frequency_hz =
          line->frequency_hz + hz * bin_hz(record, best.replay.errors_nm.size());
      Best next = judged(record, model);
      if (!with || next.likelihood > with->likelihood) with = std::move(next);
    }
  }
  with = improved(record, std::move(*with));
  if (with->likelihood < best.likelihood + kGainToAdd ||
      is_faint(with->model.lines[best.model.line_count], with->model))
    return false;
  best = std::move(*with);
  return true;
}

/// Adds one of the lines that are so slow that the walk has swallowed them.
bool add_slow_line(const PlaceRecord& record, Best& best) {
  if (best.model.line_count == kMaxLines || judged_s(record) < kEnoughForSlowS) return false;
  std::optional<Best> with;
  double hz = 0.4;
  while (hz < 5) {
    DisturbanceModel model = best.model;
    model.walk_nm2_per_s *= 0.5;
    model.lines[model.line_count++] = {
        .frequency_hz = hz, .fade_per_s = 0.05, .kick_nm2_per_s = 0.1 * best.model.walk_nm2_per_s};
    Best next = judged(record, model);
    if (!with || next.likelihood > with->likelihood) with = std::move(next);
    hz += std::max(0.2, 0.1 * hz);
  }
  with = improved(record, std::move(*with), kLastSteps);
  if (with->likelihood < best.likelihood + kGainToAdd) return false;
  best = std::move(*with);
  return true;
}

/// Drops the lines that nobody would miss; where only the end of a record is judged, those that are
/// in the way.
void drop_lines(const PlaceRecord& record, Best& best) {
  const bool all = record.judged_from == 0 || judged_s(record) > kEnoughToDropS;
  const double margin = all ? -kLossToDrop : kGainToDrop;
  for (std::size_t i = best.model.line_count; i-- > 0;) {
    DisturbanceModel model = best.model;
    std::move(model.lines.begin() + static_cast<std::ptrdiff_t>(i) + 1, model.lines.end(),
              model.lines.begin() + static_cast<std::ptrdiff_t>(i));
    --model.line_count;
    Best without = judged(record, model);
    if (without.likelihood > best.likelihood + margin || is_faint(best.model.lines[i], best.model))
      best = std::move(without);
  }
}

PlaceRecord reversed(const PlaceRecord& record) {
  PlaceRecord back = record;
  back.judged_from = 0;
  std::reverse(back.place_nm.begin(), back.place_nm.end());
  std::reverse(back.more_noise_nm2.begin(), back.more_noise_nm2.end());
  if (!back.step_s.empty()) std::reverse(back.step_s.begin() + 1, back.step_s.end());
  return back;
}

DisturbanceModel with_frequencies(DisturbanceModel model, const DisturbanceModel& of) {
  for (std::size_t i = 0; i < model.line_count; ++i)
    model.lines[i].frequency_hz = of.lines[i].frequency_hz;
  return model;
}

/// The model with tracked lines, which begin where they are at the record's beginning: they are
/// tracked to its end and back.
DisturbanceModel tracking_from(const PlaceRecord& record, DisturbanceModel model) {
  model.tracks = true;
  PlaceRecord there = record;
  there.judged_from = 0;
  return at_beginning(record, with_frequencies(model, replay(there, model).end));
}

/// The best with tracked lines. It also tries those of `start`, if they are tracked: fixed lines
/// have to be wide to hold one that drifts, and tracked ones are narrow, which is a long way for
/// the steps. Two fixed lines may become one tracked line, and then the second would be in the way.
Best tracked(const PlaceRecord& record, const Best& fixed, const DisturbanceModel& start) {
  Best best = judged(record, tracking_from(record, fixed.model));
  if (start.tracks && start.line_count > 0) {
    Best before = judged(record, at_beginning(record, start));
    if (before.likelihood > best.likelihood) best = std::move(before);
  }
  best = improved(record, std::move(best));
  if (best.likelihood > fixed.likelihood) best = improved(record, std::move(best), kLastSteps);
  const std::size_t lines = best.model.line_count;
  drop_lines(record, best);
  if (best.model.line_count < lines) best = improved(record, std::move(best));
  return best;
}

FittedModel finished(const Best& best) {
  const DisturbanceModel model = with_frequencies(best.model, best.replay.end);
  return {.model = scaled(model, best.replay.mean_nm2 / best.replay.settled_nm2),
          .start = best.model,
          .log_likelihood = best.likelihood,
          .innovation_nm2 = best.replay.mean_nm2};
}

}  // namespace

DisturbanceModel at_beginning(const PlaceRecord& record, const DisturbanceModel& model) {
  if (!model.tracks) return model;
  return with_frequencies(model, replay(reversed(record), model).end);
}

FittedModel judge_model(const PlaceRecord& record, const DisturbanceModel& model) {
  return finished(judged(record, model));
}

std::vector<double> innovations_nm(const PlaceRecord& record, const DisturbanceModel& model) {
  return replay(record, model).errors_nm;
}

FittedModel fit_model(const PlaceRecord& record, const DisturbanceModel& start) {
  DisturbanceModel fixed = start;
  fixed.tracks = false;
  const Best first = judged(record, fixed);
  Best best = improved(record, first);
  while (add_line(record, best)) {
  }
  add_slow_line(record, best);
  if (record.judged_from > 0) {  // a line that has begun must not be taken for a livelier walk
    Best other = first;
    while (add_line(record, other)) {
    }
    const auto lines = [](const Best& b) { return static_cast<double>(b.model.line_count); };
    if (other.likelihood - kGainToAdd * lines(other) > best.likelihood - kGainToAdd * lines(best))
      best = std::move(other);
  }
  drop_lines(record, best);
  best = improved(record, std::move(best), kLastSteps);
  if (best.model.line_count == 0 || whole_s(record) < kEnoughToTrackS) return finished(best);
  const Best moving = tracked(record, best, start);
  const double margin = kTrackedWins * static_cast<double>(best.replay.errors_nm.size());
  return finished(moving.likelihood > best.likelihood + margin ? moving : best);
}

}  // namespace driftd::control
