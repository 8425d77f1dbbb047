// SPDX-License-Identifier: MIT
#include "control/identification/stage_response.hpp"

#include <algorithm>

namespace driftd::control {

std::vector<std::vector<double>> respond(const ResponseShape& shape, const Staircase& staircase,
                                         const Exposures& exposures) {
  const std::size_t channels = staircase.channels.size();
  const std::size_t frames = exposures.middle_s.size();
  std::vector<std::vector<double>> mean(channels, std::vector<double>(frames));
  std::vector<ResponseState> state(channels);
  const double exposure_s = std::max(exposures.exposure_s, 1e-6);
  std::size_t next = 0;
  double now_s = -1e9;  // before everything, at rest

  const auto due_s = [&](std::size_t move) { return staircase.sent_s[move] + shape.delay_s; };
  const auto obey = [&] {
    for (std::size_t c = 0; c < channels; ++c) state[c].told(staircase.channels[c][next]);
    ++next;
  };
  for (std::size_t frame = 0; frame < frames; ++frame) {
    const double begin_s = exposures.middle_s[frame] - 0.5 * exposure_s;
    const double end_s = begin_s + exposure_s;
    while (next < staircase.sent_s.size() && due_s(next) <= begin_s) {
      if (due_s(next) > now_s) {
        const Transition t = transition(shape, due_s(next) - now_s);
        for (ResponseState& s : state) s.pass(t);
        now_s = due_s(next);
      }
      obey();
    }
    if (begin_s > now_s) {
      const Transition t = transition(shape, begin_s - now_s);
      for (ResponseState& s : state) s.pass(t);
      now_s = begin_s;
    }
    while (true) {
      const bool told = next < staircase.sent_s.size() && due_s(next) < end_s;
      const double until_s = told ? std::max(due_s(next), now_s) : end_s;
      const double seconds = until_s - now_s;
      const Transition t = transition(shape, seconds);
      for (std::size_t c = 0; c < channels; ++c) {
        ResponseState& s = state[c];
        mean[c][frame] += s.command * seconds + t.area_z * s.z + t.area_v * s.v;
        s.pass(t);
      }
      now_s = until_s;
      if (!told) break;
      obey();
    }
    for (std::size_t c = 0; c < channels; ++c) mean[c][frame] /= exposure_s;
  }
  return mean;
}

std::vector<double> play(const std::vector<double>& input_nm, double threshold_nm) {
  std::vector<double> output;
  output.reserve(input_nm.size());
  double place = 0;
  for (const double input : input_nm) {
    place = std::clamp(place, input - threshold_nm, input + threshold_nm);
    output.push_back(place);
  }
  return output;
}

}  // namespace driftd::control
