// SPDX-License-Identifier: MIT
#include "tests/bench/stillness/measures.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::stillness {
namespace {

constexpr double kLearnt = 1.3;
constexpr double kWindowS = 2, kStrideS = 0.5;
constexpr double kSettledNm = 1.5;

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

AxisMeasures measure_axis(const Flight& flight, std::size_t axis) {
  std::vector<float> judged;
  std::vector<double> values, sizes;
  double sum = 0;
  for (std::size_t i = 0; i < flight.judged.size(); ++i) {
    if (!flight.judged[i]) continue;
    judged.push_back(flight.residual_nm[axis][i]);
    values.push_back(static_cast<double>(judged.back()));
    sizes.push_back(std::abs(values.back()));
    sum += values.back() * values.back();
  }
  std::sort(sizes.begin(), sizes.end());
  AxisMeasures m;
  if (values.empty()) return m;
  m.rms_nm = std::sqrt(sum / static_cast<double>(values.size()));
  m.p50_nm = percentile(sizes, 0.5);
  m.p95_nm = percentile(sizes, 0.95);
  m.p99_nm = percentile(sizes, 0.99);
  m.max_nm = sizes.back();
  const auto second = static_cast<std::size_t>(flight.rate_hz);
  m.spectrum = welch(values, flight.rate_hz, second - second % 2, Detrend::Mean);
  m.allan = allan_deviation(judged, flight.rate_hz);
  return m;
}

double learnt_after_s(const Flight& flight, std::array<double, 2> bound_nm) {
  const auto window = static_cast<std::size_t>(kWindowS * flight.rate_hz);
  const auto stride = static_cast<std::size_t>(kStrideS * flight.rate_hz);
  const double limit_nm2 =
      kLearnt * kLearnt * (bound_nm[0] * bound_nm[0] + bound_nm[1] * bound_nm[1]);
  const std::size_t count = flight.judged.size();
  double since_s = 0;
  bool below = false;
  for (std::size_t from = 0; from + window <= count; from += stride) {
    double sum = 0, used = 0;
    for (std::size_t i = from; i < from + window; ++i) {
      if (flight.left_out[i]) continue;
      for (const auto& axis : flight.residual_nm)
        sum += static_cast<double>(axis[i]) * static_cast<double>(axis[i]);
      ++used;
    }
    const bool good = sum <= limit_nm2 * used;
    if (good && !below) since_s = static_cast<double>(from) / flight.rate_hz;
    below = good;
  }
  return below ? since_s : -1;
}

double settled_s(const Flight& flight) {
  double longest_s = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < flight.left_out.size(); ++i) {
    if (!flight.left_out[i]) continue;
    if (i == 0 || !flight.left_out[i - 1]) begin = i;
    const bool settled = std::all_of(
        flight.residual_nm.begin(), flight.residual_nm.end(),
        [i](const auto& axis) { return std::abs(static_cast<double>(axis[i])) <= kSettledNm; });
    if (settled) continue;
    if (i + 1 == flight.left_out.size() || !flight.left_out[i + 1]) return -1;
    longest_s = std::max(longest_s, static_cast<double>(i + 1 - begin) / flight.rate_hz);
  }
  return longest_s;
}

}  // namespace

std::vector<AllanPoint> allan_deviation(const std::vector<float>& values, double rate_hz) {
  std::vector<double> sums(values.size() + 1);
  for (std::size_t i = 0; i < values.size(); ++i)
    sums[i + 1] = sums[i] + static_cast<double>(values[i]);
  std::vector<AllanPoint> points;
  for (std::size_t n = 1; 4 * n <= values.size(); n *= 2) {
    double square = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i + 2 * n <= values.size(); ++i, ++count) {
      const double step = (sums[i + 2 * n] - 2 * sums[i + n] + sums[i]) / static_cast<double>(n);
      square += step * step;
    }
    points.push_back({.tau_s = static_cast<double>(n) / rate_hz,
                      .deviation_nm = std::sqrt(square / 2 / static_cast<double>(count))});
  }
  return points;
}

Measures measure(const Flight& flight, std::array<double, 2> bound_nm) {
  Measures m;
  for (std::size_t axis = 0; axis < 2; ++axis) m.axes[axis] = measure_axis(flight, axis);
  m.rms_nm =
      std::sqrt((m.axes[0].rms_nm * m.axes[0].rms_nm + m.axes[1].rms_nm * m.axes[1].rms_nm) / 2);
  m.change_nm = std::sqrt(flight.change_nm2);
  m.learnt_after_s = learnt_after_s(flight, bound_nm);
  m.settled_s = settled_s(flight);
  return m;
}

}  // namespace driftd::stillness
