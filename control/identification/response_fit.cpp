// SPDX-License-Identifier: MIT
#include "control/identification/response_fit.hpp"

#include <algorithm>
#include <cmath>

#include "base/dense_solver.hpp"

namespace driftd::control {
namespace {

using Columns = std::vector<std::vector<double>>;

/// What stages are like, for the damping alone: it keeps the fit in place where frames come too
/// seldom to tell damping from dead time.
constexpr double kExpectedDamping = 0.75;
constexpr double kDampingSpread = 0.6;  // of the logarithm
/// No stage moves before it is told; the clocks may differ by this.
constexpr double kLeastDelayS = -2e-4;

/// The unknowns of a shape: delay (s), ln(frequency or time constant), ln(damping).
std::vector<double> unknowns_of(const ResponseShape& shape) {
  if (shape.order == 1) return {shape.delay_s, std::log(std::max(shape.time_constant_s, 1e-6))};
  return {shape.delay_s, std::log(shape.frequency_hz), std::log(shape.damping)};
}

ResponseShape shape_of(std::vector<double> q, double period_s) {
  ResponseShape shape;
  shape.order = q.size() == 2 ? 1 : 2;
  shape.delay_s = std::clamp(q[0], kLeastDelayS, 1.0);
  if (shape.order == 1) {
    shape.time_constant_s = std::exp(std::clamp(q[1], std::log(1e-6), std::log(2.0)));
  } else {
    shape.frequency_hz =
        std::exp(std::clamp(q[1], std::log(0.2), std::log(std::max(600.0, 2 / period_s))));
    shape.damping = std::exp(std::clamp(q[2], std::log(0.05), std::log(5.0)));
  }
  return shape;
}

/// Offset and slope of the drift, and the measured motion, made white once.
struct Fixed {
  std::array<std::vector<double>, 2> moved, offset, slope;
};

Fixed whitened_fixed(const FitData& data) {
  std::vector<double> one(data.slots.use.size(), 1);
  std::vector<double> ramp(one.size());
  for (std::size_t k = 0; k < ramp.size(); ++k)
    ramp[k] = static_cast<double>(k) * data.slots.period_s;
  Fixed fixed;
  for (std::size_t i = 0; i < data.axes; ++i) {
    fixed.moved[i] = data.noise[i].apply(data.moved_nm[i], data.slots.use);
    fixed.offset[i] = data.noise[i].apply(one, data.slots.use);
    fixed.slope[i] = data.noise[i].apply(ramp, data.slots.use);
  }
  return fixed;
}

/// Gains at a shape; the whitened responses come along, [image axis][channel].
ResponseFit gains_at(const FitData& data, const Fixed& fixed, const ResponseShape& shape,
                     std::array<Columns, 2>& whitened) {
  ResponseFit fit;
  fit.shape = shape;
  const Columns response = respond_in_slots(data, shape);
  for (std::size_t i = 0; i < data.axes; ++i) {
    whitened[i].clear();
    for (const auto& channel : response)
      whitened[i].push_back(data.noise[i].apply(channel, data.slots.use));
    std::vector<const std::vector<double>*> columns;
    for (const auto& channel : whitened[i]) columns.push_back(&channel);
    columns.push_back(&fixed.offset[i]);
    columns.push_back(&fixed.slope[i]);
    NormalEquations equations(columns.size());
    equations.add_columns(columns, fixed.moved[i], 0, fixed.moved[i].size());
    if (!equations.solve(0, fit.linear[i])) return fit;
    fit.chi_square += equations.remaining(fit.linear[i]);
  }
  if (shape.order == 2) {
    const double away = std::log(shape.damping / kExpectedDamping) / kDampingSpread;
    fit.chi_square += away * away;
  }
  fit.converged = true;
  return fit;
}

std::vector<double> residual(const Fixed& fixed, const Columns& whitened,
                             const std::vector<double>& linear, std::size_t i) {
  std::vector<double> left = fixed.moved[i];
  const std::size_t channels = whitened.size();
  for (std::size_t k = 0; k < left.size(); ++k) {
    double model = linear[channels] * fixed.offset[i][k] + linear[channels + 1] * fixed.slope[i][k];
    for (std::size_t c = 0; c < channels; ++c) model += linear[c] * whitened[c][k];
    left[k] -= model;
  }
  return left;
}

/// How the modelled motion of each image axis changes with an unknown of the shape, whitened.
std::array<std::vector<double>, 2> sensitivity(const FitData& data, const ResponseFit& fit,
                                               std::vector<double> q, std::size_t which) {
  constexpr std::array<double, 3> kStep = {20e-6, 0.01, 0.02};
  const double middle = q[which];
  q[which] = middle + kStep[which];
  const Columns above = respond_in_slots(data, shape_of(q, data.slots.period_s));
  q[which] = middle - kStep[which];
  const Columns below = respond_in_slots(data, shape_of(q, data.slots.period_s));
  std::array<std::vector<double>, 2> whitened;
  for (std::size_t i = 0; i < data.axes; ++i) {
    std::vector<double> change(data.slots.use.size());
    for (std::size_t c = 0; c < above.size(); ++c) {
      const double gain = fit.linear[i][c] / (2 * kStep[which]);
      for (std::size_t k = 0; k < change.size(); ++k)
        change[k] += gain * (above[c][k] - below[c][k]);
    }
    whitened[i] = data.noise[i].apply(change, data.slots.use);
  }
  return whitened;
}

/// The normal equations of everything at once, about a fit.
NormalEquations all_equations(const FitData& data, const Fixed& fixed, const ResponseFit& fit,
                              const std::array<Columns, 2>& whitened) {
  const std::vector<double> q = unknowns_of(fit.shape);
  const std::size_t linear = fit.linear[0].size();
  std::vector<std::array<std::vector<double>, 2>> shape_columns;
  shape_columns.reserve(q.size());
  for (std::size_t n = 0; n < q.size(); ++n) shape_columns.push_back(sensitivity(data, fit, q, n));
  const std::size_t unknowns = q.size() + data.axes * linear;
  NormalEquations equations(unknowns);
  const std::vector<double> nothing(fixed.moved[0].size());
  for (std::size_t i = 0; i < data.axes; ++i) {
    std::vector<const std::vector<double>*> columns(unknowns, &nothing);
    for (std::size_t n = 0; n < q.size(); ++n) columns[n] = &shape_columns[n][i];
    for (std::size_t c = 0; c + 2 < linear; ++c)
      columns[q.size() + i * linear + c] = &whitened[i][c];
    columns[q.size() + i * linear + linear - 2] = &fixed.offset[i];
    columns[q.size() + i * linear + linear - 1] = &fixed.slope[i];
    equations.add_columns(columns, residual(fixed, whitened[i], fit.linear[i], i), 0,
                          nothing.size());
  }
  if (q.size() == 3) equations.add_prior(2, std::log(kExpectedDamping) - q[2], kDampingSpread);
  return equations;
}

std::size_t counted(const FitData& data) {
  return data.axes * static_cast<std::size_t>(std::ranges::count(data.slots.use, SlotUse::Counts));
}

}  // namespace

std::vector<std::vector<double>> respond_in_slots(const FitData& data, const ResponseShape& shape) {
  const Columns frames = respond(shape, data.staircase, data.exposures);
  Columns slots(frames.size(), std::vector<double>(data.slots.use.size()));
  for (std::size_t k = 0; k < data.slots.use.size(); ++k) {
    if (data.slots.use[k] == SlotUse::Missing) continue;
    for (std::size_t c = 0; c < frames.size(); ++c) slots[c][k] = frames[c][data.slots.frame[k]];
  }
  return slots;
}

ResponseFit fit_gains(const FitData& data, const ResponseShape& shape) {
  std::array<Columns, 2> whitened;
  ResponseFit fit = gains_at(data, whitened_fixed(data), shape, whitened);
  fit.equations = counted(data);
  return fit;
}

ResponseFit fit_response(const FitData& data, const ResponseShape& start, int rounds) {
  const Fixed fixed = whitened_fixed(data);
  std::array<Columns, 2> whitened;
  ResponseFit best = gains_at(data, fixed, start, whitened);
  if (!best.converged) return best;
  double damping = 1e-3;
  bool settled = false;
  NormalEquations equations = all_equations(data, fixed, best, whitened);
  for (int round = 0; round < rounds && !settled; ++round) {
    std::vector<double> step;
    if (!equations.solve(damping, step)) break;
    std::vector<double> q = unknowns_of(best.shape);
    for (std::size_t n = 0; n < q.size(); ++n)
      q[n] += std::clamp(step[n], n == 0 ? -5e-3 : -0.7, n == 0 ? 5e-3 : 0.7);
    std::array<Columns, 2> tried_whitened;
    const ResponseFit tried =
        gains_at(data, fixed, shape_of(q, data.slots.period_s), tried_whitened);
    const double gained = best.chi_square - tried.chi_square;
    if (tried.converged && gained > 0) {
      best = tried;
      whitened = std::move(tried_whitened);
      equations = all_equations(data, fixed, best, whitened);
      damping = std::max(1e-7, damping * 0.1);
      settled = gained < 1e-3;
    } else {
      settled = damping > 1e3 || -gained < 1e-3;
      damping *= 10;
    }
  }
  best.equations = counted(data);
  best.unknowns = equations.unknowns();
  best.converged = equations.invert(best.covariance);
  return best;
}

std::array<std::vector<double>, 2> unexplained(const FitData& data, const ResponseFit& fit,
                                               bool keep_drift) {
  const Columns response = respond_in_slots(data, fit.shape);
  std::array<std::vector<double>, 2> left = data.moved_nm;
  for (std::size_t i = 0; i < data.axes; ++i) {
    for (std::size_t k = 0; k < left[i].size(); ++k) {
      if (data.slots.use[k] == SlotUse::Missing) continue;
      for (std::size_t c = 0; c < response.size(); ++c)
        left[i][k] -= fit.linear[i][c] * response[c][k];
      if (!keep_drift)
        left[i][k] -= fit.linear[i][response.size()] + fit.linear[i][response.size() + 1] *
                                                           static_cast<double>(k) *
                                                           data.slots.period_s;
    }
  }
  return left;
}

}  // namespace driftd::control
