// SPDX-License-Identifier: MIT
#include "base/welch.hpp"

#include <cmath>
#include <complex>
#include <kissfft/kissfft.hh>
#include <numbers>

namespace driftd {

WelchSpectrum welch(std::span<const double> values, double rate_hz, std::size_t length,
                    Detrend detrend) {
  if (values.size() < length) return {};
  const auto n = static_cast<double>(length);
  std::vector<double> hann(length);
  double power = 0;
  for (std::size_t i = 0; i < length; ++i) {
    hann[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / n);
    power += hann[i] * hann[i];
  }
  const double middle = 0.5 * (n - 1);
  const double spread = n * (n * n - 1) / 12;
  const kissfft<double> fft(length, false);
  std::vector<std::complex<double>> in(length), out(length);
  WelchSpectrum spectrum;
  spectrum.density.assign(length / 2 + 1, 0);
  for (std::size_t begin = 0; begin + length <= values.size(); begin += length / 2) {
    double mean = 0, slope = 0;
    for (std::size_t i = 0; i < length; ++i) {
      mean += values[begin + i] / n;
      slope += values[begin + i] * (static_cast<double>(i) - middle) / spread;
    }
    if (detrend == Detrend::Mean) slope = 0;
    for (std::size_t i = 0; i < length; ++i)
      in[i] = hann[i] * (values[begin + i] - mean - slope * (static_cast<double>(i) - middle));
    fft.transform(in.data(), out.data());
    for (std::size_t k = 0; k <= length / 2; ++k) {
      const double sides = k == 0 || k == length / 2 ? 1 : 2;
      spectrum.density[k] += sides * std::norm(out[k]) / (rate_hz * power);
    }
    ++spectrum.segments;
  }
  for (double& density : spectrum.density) density /= static_cast<double>(spectrum.segments);
  return spectrum;
}

}  // namespace driftd
