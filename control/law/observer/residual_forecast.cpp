// SPDX-License-Identifier: MIT
#include "control/law/observer/residual_forecast.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>

namespace driftd::control {
namespace {

constexpr std::size_t kInstants = StagePreview::kInstants;
constexpr int kSteadyFrames = 1024;  ///< after which a filter's covariance is taken as steady
constexpr int kMostFrames = 2048;    ///< until an answer has died away
constexpr double kLeastShare = 1e-4;
constexpr double kLeastNoiseNm2 = 1e-6;

double instant_s(const PreviewSettings& settings, std::size_t j) {
  return settings.period_s * (static_cast<double>(j) + 0.5) / kInstants;
}

/// Mean variance of the place, over the frame in which a command works.
double blind_nm2(const DisturbanceFilter& filter, const PreviewSettings& settings, double lead_s) {
  double sum = 0;
  for (std::size_t j = 0; j < kInstants; ++j) {
    DisturbanceFilter then = filter;
    then.predict(lead_s + instant_s(settings, j));
    sum += then.variance_nm2() / kInstants;
  }
  return sum;
}

/// A filter of the model after a long time, were the measurement's noise this.
DisturbanceFilter steady(DisturbanceModel model, double noise_nm2, double period_s) {
  model.noise_nm2 = std::max(noise_nm2, kLeastNoiseNm2);
  model.tracks = false;
  DisturbanceFilter filter(model);
  for (int i = 0; i < kSteadyFrames; ++i) {
    filter.predict(period_s);
    filter.update(0);
  }
  return filter;
}

/// What is left of a line that goes on as it is: the stage answers it steadily, through the gains.
double line_lag_nm2(const DisturbanceFilter& filter, const PreviewSettings& settings,
                    const PreviewGains& gains, std::size_t pair) {
  using Complex = std::complex<double>;
  const double omega = 2 * std::numbers::pi * filter.model().lines[pair - 1].frequency_hz;
  const Transition frame = transition(settings.response, settings.period_s);
  const Complex turn = std::polar(1.0, omega * settings.period_s);
  // Place and speed of a stage whose command turns with the line, over the command.
  const Complex whole = (turn - frame.zz) * (turn - frame.vv) - frame.zv * frame.vz;
  const Complex to_place = ((1 - frame.zz) * (turn - frame.vv) - frame.zv * frame.vz) / whole;
  const Complex to_speed = frame.vz * (1.0 - turn) / whole;
  const Complex wanted{gains.course[pair].first, -gains.course[pair].second};
  const Complex command = wanted / (1.0 + gains.from_command / turn + gains.from_place * to_place +
                                    gains.from_speed * to_speed);
  double sum = 0;
  for (std::size_t j = 0; j < kInstants; ++j) {
    const double seconds = instant_s(settings, j);
    const Transition t = transition(settings.response, seconds);
    const Complex place = (t.zz * to_place + t.zv * to_speed + (1.0 - t.zz)) * command;
    sum += std::norm(place - std::polar(1.0, omega * seconds)) / kInstants;
  }
  const DisturbanceFilter::Pair& p = filter.state()[pair];
  return 0.5 * (p.first * p.first + p.second * p.second) * sum;
}

/// Sum of squares of what is left of one step of `by`, frame after frame.
double step_lag(const PreviewSettings& settings, const PreviewGains& gains,
                DisturbanceFilter::Pair by) {
  const Transition whole = transition(settings.response, settings.period_s);
  double place = 0, speed = 0, command = 0, sum = 0;
  for (int i = 0; i < kMostFrames; ++i) {
    command = gains.course[0].first * by.first + gains.course[0].second * by.second -
              gains.from_place * place - gains.from_speed * speed - gains.from_command * command;
    double frame = 0;
    for (std::size_t j = 0; j < kInstants; ++j) {
      const double seconds = instant_s(settings, j);
      const Transition t = transition(settings.response, seconds);
      const double error =
          t.zz * place + t.zv * speed + (1 - t.zz) * command - by.first - seconds * by.second;
      frame += error * error / kInstants;
    }
    sum += frame;
    if (frame < kLeastShare * sum) break;
    const double moved = whole.zz * place + whole.zv * speed + (1 - whole.zz) * command;
    speed = whole.vz * (place - command) + whole.vv * speed;
    place = moved;
    by.first += settings.period_s * by.second;
  }
  return sum;
}

}  // namespace

double lag_nm2(const DisturbanceFilter& filter, const StagePreview& preview) {
  const PreviewSettings& settings = preview.settings();
  const PreviewGains gains = preview.gains(filter.model());
  DisturbanceFilter next = filter;
  next.predict(settings.period_s);
  const double innovation_nm2 = next.variance_nm2() + filter.model().noise_nm2;
  double sum = innovation_nm2 * step_lag(settings, gains, filter.gains()[0]);
  for (std::size_t i = 1; i <= filter.model().line_count; ++i)
    sum += line_lag_nm2(filter, settings, gains, i);
  return sum;
}

ResidualForecast forecast_residual(const DisturbanceFilter& filter, const StagePreview& preview,
                                   const ForecastFacts& facts) {
  const PreviewSettings& settings = preview.settings();
  const DisturbanceModel& model = filter.model();
  ResidualForecast f;
  f.stage_nm2 = std::clamp(facts.stage_noise_nm2, 0.0, model.noise_nm2);
  const double now_nm2 = blind_nm2(filter, settings, facts.lead_s);
  const DisturbanceFilter sharp = steady(model, f.stage_nm2, settings.period_s);
  const double sharp_nm2 = std::min(now_nm2, blind_nm2(sharp, settings, facts.lead_s));
  f.motion_nm2 = std::max(0.0, sharp_nm2 + facts.more_innovation_nm2);
  f.markers_nm2 = now_nm2 - sharp_nm2;
  f.lag_nm2 = lag_nm2(filter, preview);
  return f;
}

}  // namespace driftd::control
