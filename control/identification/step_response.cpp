// SPDX-License-Identifier: MIT
#include "control/identification/step_response.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/dense_solver.hpp"

namespace driftd::control {
namespace {

constexpr std::size_t kFewestKnots = 8, kMostKnots = 64;
/// Distance of the knots, in periods of the resonance.
constexpr double kShareOfSwing = 0.05;
/// After so many time constants of the decay the response has settled to half a per cent.
constexpr double kSettling = 5.3;
constexpr std::size_t kNoiseOrder = 20;

/// What a frame shows of a unit step: the response's mean over the exposure.
double seen_step(const ResponseShape& shape, double after_s, double exposure_s) {
  constexpr int kPoints = 16;
  double sum = 0;
  for (int i = 0; i < kPoints; ++i)
    sum += shape.step(after_s + exposure_s * ((i + 0.5) / kPoints - 0.5));
  return sum / kPoints;
}

std::vector<double> knots_of(const FitData& data, const ResponseShape& shape, double age_s) {
  const double period_s = data.slots.period_s;
  // Frames lie so long after a command, and whole periods more.
  double phase_s = std::fmod(-age_s, period_s);
  if (phase_s <= 0) phase_s += period_s;
  const double swing_s = shape.order == 1 ? 6 * shape.time_constant_s : 1 / shape.frequency_hz;
  const double distance_s =
      period_s * std::max(1.0, std::floor(kShareOfSwing * swing_s / period_s));
  const double lag_s = shape.order == 1 ? shape.time_constant_s
                                        : 1 / (2 * std::numbers::pi * shape.frequency_hz *
                                               std::min(shape.damping, 1 / shape.damping));
  const double settled_s = std::max(0.0, shape.delay_s) + kSettling * lag_s;
  std::vector<double> knots = {phase_s};
  while (knots.size() < kMostKnots && (knots.size() < kFewestKnots || knots.back() < settled_s))
    knots.push_back(knots.back() + distance_s);
  return knots;
}

/// The share of each knot in the response at `after_s`; two at most are not 0.
template <class Use>
void at_knots(const std::vector<double>& knots, double period_s, double after_s, Use use) {
  if (after_s >= knots.back()) return use(knots.size() - 1, 1.0);
  const auto above = static_cast<std::size_t>(
      std::upper_bound(knots.begin(), knots.end(), after_s) - knots.begin());
  const double from_s = above > 0 ? knots[above - 1] : std::max(0.0, knots[0] - period_s);
  const double share = (after_s - from_s) / (knots[above] - from_s);
  if (share <= 0) return;
  use(above, share);
  if (above > 0) use(above - 1, 1 - share);
}

/// Columns of the regression, a knot each: what frames would show of a hat of that knot.
std::vector<std::vector<double>> columns_of(const FitData& data, std::size_t axis,
                                            const std::vector<double>& knots) {
  std::vector<std::vector<double>> columns(knots.size(),
                                           std::vector<double>(data.slots.use.size()));
  const auto& sent_s = data.staircase.sent_s;
  const auto& told = data.staircase.channels[axis];
  std::size_t first = 0, next = 0;
  for (std::size_t k = 0; k < data.slots.use.size(); ++k) {
    if (data.slots.use[k] == SlotUse::Missing) continue;
    const double time_s = data.time_of(k);
    while (next < sent_s.size() && sent_s[next] <= time_s) ++next;
    while (first < next && time_s - sent_s[first] >= knots.back()) ++first;
    if (first > 0) columns.back()[k] += told[first - 1];
    for (std::size_t m = first; m < next; ++m) {
      const double step = told[m] - (m > 0 ? told[m - 1] : 0);
      if (step == 0) continue;
      at_knots(knots, data.slots.period_s, time_s - sent_s[m],
               [&](std::size_t knot, double share) { columns[knot][k] += step * share; });
    }
  }
  return columns;
}

void measure_axis(const FitData& data, const std::vector<double>& stage_nm,
                  const std::vector<double>& noise_nm, std::size_t axis,
                  const std::vector<double>& knots, std::vector<double>& place,
                  std::vector<double>& sd) {
  Whitening whitening;
  whitening.fit(noise_nm, data.slots.use, kNoiseOrder, 0, noise_nm.size());
  const std::vector<double> moved = whitening.apply(stage_nm, data.slots.use);
  auto columns = columns_of(data, axis, knots);
  std::vector<const std::vector<double>*> pointers;
  for (auto& column : columns) {
    column = whitening.apply(column, data.slots.use);
    pointers.push_back(&column);
  }
  NormalEquations equations(knots.size());
  equations.add_columns(pointers, moved, 0, moved.size());
  std::vector<double> inverse;
  if (!equations.solve(1e-9, place) || !equations.invert(inverse)) {
    place.assign(knots.size(), 0);
    sd.assign(knots.size(), 0);
    return;
  }
  sd.clear();
  for (std::size_t i = 0; i < knots.size(); ++i)
    sd.push_back(std::sqrt(inverse[i * knots.size() + i]));
}

}  // namespace

StepResponse measure_step_response(const FitData& data, const ResponseFit& fit,
                                   const ImageToStage& inverse, double age_s) {
  StepResponse response;
  const auto modelled = respond_in_slots(data, fit.shape);
  const auto left = unexplained(data, fit, false);
  const std::vector<double> knots = knots_of(data, fit.shape, age_s);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    std::vector<double> noise(left[0].size()), moved(left[0].size());
    for (std::size_t k = 0; k < noise.size(); ++k) {
      if (data.slots.use[k] == SlotUse::Missing) continue;
      const Vec2 n = inverse.apply({left[0][k], left[1][k]});
      noise[k] = axis == 0 ? n.x : n.y;
      moved[k] = noise[k] + modelled[axis][k];
    }
    measure_axis(data, moved, noise, axis, knots, axis == 0 ? response.x : response.y,
                 axis == 0 ? response.x_sd : response.y_sd);
  }
  for (const double knot : knots) {
    response.time_ms.push_back(1e3 * knot);
    response.model.push_back(seen_step(fit.shape, knot, data.exposures.exposure_s));
  }
  return response;
}

}  // namespace driftd::control
