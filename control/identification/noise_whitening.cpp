// SPDX-License-Identifier: MIT
#include "control/identification/noise_whitening.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/dense_solver.hpp"
#include "base/median.hpp"

namespace driftd::control {
namespace {

/// Over a longer gap the walk of the sample is larger than what any frame measures.
constexpr std::size_t kLongestGap = 8;
/// A gap this long is no longer counted slot by slot: the grid would grow without bound.
constexpr double kLongestJump = 50'000;

/// Regularises coefficients that the noise does not determine: a share of the noise's variance.
constexpr double kRidge = 1e-6;

}  // namespace

std::size_t FrameSlots::present() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(use, [](SlotUse u) { return u != SlotUse::Missing; }));
}

FrameSlots slots_of(const std::vector<double>& middle_s) {
  FrameSlots slots;
  if (middle_s.size() < 10) return slots;
  std::vector<double> distance;
  for (std::size_t i = 1; i < middle_s.size(); ++i)
    distance.push_back(middle_s[i] - middle_s[i - 1]);
  slots.period_s = usual_interval(std::move(distance));
  if (!(slots.period_s > 0)) return {};
  // Counted from frame to frame, so that a rate that is not quite constant shifts nothing.
  for (std::size_t i = 0; i < middle_s.size(); ++i) {
    const double periods = i > 0 ? (middle_s[i] - middle_s[i - 1]) / slots.period_s : 1;
    const double steps = std::clamp(std::round(periods), 1.0, kLongestJump);
    for (int missing = 1; missing < static_cast<int>(steps); ++missing) {
      slots.use.push_back(SlotUse::Missing);
      slots.frame.push_back(0);
    }
    slots.use.push_back(SlotUse::Counts);
    slots.frame.push_back(i);
  }
  return slots;
}

void mark_history(FrameSlots& slots, std::size_t order) {
  std::size_t gap = 0;
  std::size_t to_come = order;
  for (SlotUse& use : slots.use) {
    if (use == SlotUse::Missing) {
      ++gap;
      if (to_come > 0) --to_come;
      continue;
    }
    if (gap > kLongestGap) to_come = order;
    gap = 0;
    use = to_come > 0 ? SlotUse::History : SlotUse::Counts;
    if (to_come > 0) --to_come;
  }
}

void Whitening::pass(std::vector<double>& values, const std::vector<SlotUse>& use,
                     std::vector<double>& left) const {
  const std::size_t order = coefficients_.size();
  left.assign(values.size(), 0);
  double last = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const bool missing = use[k] == SlotUse::Missing;
    if (use[k] != SlotUse::Counts && k < order) {
      if (missing) values[k] = last;
    } else if (use[k] != SlotUse::History) {
      double expected = 0;
      const double* before = values.data() + k;
      for (std::size_t i = 0; i < order; ++i) expected += coefficients_[i] * *--before;
      if (missing)
        values[k] = expected;
      else
        left[k] = values[k] - expected;
    }
    last = values[k];
  }
}

void Whitening::fit(const std::vector<double>& noise, const std::vector<SlotUse>& use,
                    std::size_t order, std::size_t begin, std::size_t end) {
  // Where slots are missing, the noise stands still for the first fit and follows the fit in the
  // second.
  coefficients_.assign(order, 0);
  coefficients_[0] = 1;
  for (int round = 0; round < 2; ++round) {
    std::vector<double> filled = noise;
    std::vector<double> left;
    pass(filled, use, left);
    NormalEquations equations(order);
    std::vector<double> row(order);
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t k = std::max(begin, order); k < end; ++k) {
      if (use[k] != SlotUse::Counts) continue;
      for (std::size_t i = 0; i < order; ++i) row[i] = filled[k - 1 - i];
      equations.add(row, filled[k]);
      sum += filled[k] * filled[k];
      ++count;
    }
    if (count < 2 * order) return;
    const double ridge = kRidge * sum / static_cast<double>(count);
    for (std::size_t i = 0; i < order; ++i)
      equations.add_prior(i, 0, 1 / std::sqrt(std::max(ridge, 1e-12)));
    std::vector<double> solution;
    if (!equations.solve(0, solution)) return;
    coefficients_ = solution;
    sd_ = std::sqrt(equations.remaining(solution) / static_cast<double>(count - order));
    if (!(sd_ > 1e-9)) sd_ = 1e-9;
  }
}

std::vector<double> Whitening::apply(const std::vector<double>& values,
                                     const std::vector<SlotUse>& use) const {
  std::vector<double> filled = values;
  std::vector<double> left;
  pass(filled, use, left);
  for (double& value : left) value /= sd_;
  return left;
}

}  // namespace driftd::control
