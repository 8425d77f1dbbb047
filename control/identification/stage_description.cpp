// SPDX-License-Identifier: MIT
#include "control/identification/stage_description.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "base/median.hpp"
#include "base/welch.hpp"
#include "control/identification/loop_forecast.hpp"
#include "control/identification/step_response.hpp"

namespace driftd::control {
namespace {

constexpr std::size_t kWindow = 512;
constexpr std::size_t kSmallestWindow = 32;
/// Beyond this share of half the rate the spectrum is noise, lines apart.
constexpr double kFloorFrom = 0.6;
/// Less beyond the stated noise than this share of it is none.
constexpr double kLeastStageNoise = 0.3;
constexpr double kEndS = 0.2;
/// A bandwidth with a larger relative standard deviation is not resolved.
constexpr double kUnresolved = 0.3;

/// Gains of the two stage axes (columns) in the image (rows).
struct Gains {
  double xx = 1, xy = 0, yx = 0, yy = 1;  ///< [image][stage]
  double determinant() const { return xx * yy - xy * yx; }
  ImageToStage inverse() const {
    const double det = determinant();
    return {yy / det, -xy / det, -yx / det, xx / det};
  }
};

/// How a stage differs from one whose axes are those of the image.
struct Geometry {
  bool mirrored = false;
  double rotation = 0;
  Vec2 cross_talk;
};
/// Polar decomposition: a rotation, mirrored or not, after a symmetric rest. The rest off its
/// diagonal is cross-talk.
Geometry geometry_of(const Gains& g) {
  Geometry geometry;
  geometry.mirrored = g.determinant() < 0;
  const double side = geometry.mirrored ? -1 : 1;
  geometry.rotation = std::atan2(g.yx - side * g.xy, g.xx + side * g.yy);
  const double c = std::cos(geometry.rotation), s = std::sin(geometry.rotation);
  const double xx = c * g.xx + s * g.yx;
  const double xy = c * g.xy + s * g.yy;
  const double yx = side * (-s * g.xx + c * g.yx);
  const double yy = side * (-s * g.xy + c * g.yy);
  geometry.cross_talk = {yx / xx, xy / yy};
  return geometry;
}

/// A fit's gains, and the standard deviation of whatever follows from them.
class GainsOf {
 public:
  GainsOf(const ResponseFit& fit, double image_gain_sd) : fit_(fit), image_gain_sd_(image_gain_sd) {
    gains_ = {fit.linear[0][0], fit.linear[0][1], fit.linear[1][0], fit.linear[1][1]};
  }
  const Gains& gains() const { return gains_; }
  double sd(const std::function<double(const Gains&)>& of) const {
    std::array<double, 4> slope{};
    for (std::size_t n = 0; n < 4; ++n) {
      constexpr double kStep = 1e-5;
      slope[n] = (of(moved(n, kStep)) - of(moved(n, -kStep))) / (2 * kStep);
    }
    double variance = 0;
    for (std::size_t a = 0; a < 4; ++a) {
      for (std::size_t b = 0; b < 4; ++b)
        variance += slope[a] * slope[b] *
                    fit_.covariance_of(fit_.index_of(a / 2, a % 2), fit_.index_of(b / 2, b % 2));
    }
    // An image that shows (1 + e) times the motion changes both stage axes' gains at once.
    const std::array<double, 4> gain = {gains_.xx, gains_.xy, gains_.yx, gains_.yy};
    for (std::size_t seen = 0; seen < 2; ++seen) {
      for (std::size_t moved = 0; moved < 2; ++moved) {
        const double by =
            slope[2 * seen] * gain[2 * moved] + slope[2 * seen + 1] * gain[2 * moved + 1];
        variance += std::pow(by * image_gain_sd_, 2);
      }
    }
    return std::sqrt(std::max(0.0, variance));
  }

 private:
  Gains moved(std::size_t which, double by) const {
    Gains g = gains_;
    (which == 0 ? g.xx : which == 1 ? g.xy : which == 2 ? g.yx : g.yy) += by;
    return g;
  }
  const ResponseFit& fit_;
  double image_gain_sd_;
  Gains gains_;
};

void describe_matrix(StageCalibration& out, const ResponseFit& fit, double image_gain_sd) {
  const GainsOf of(fit, image_gain_sd);
  const Gains& g = of.gains();
  out.image_to_stage = g.inverse();
  out.image_to_stage_sd = {of.sd([](const Gains& v) { return v.inverse().a; }),
                           of.sd([](const Gains& v) { return v.inverse().b; }),
                           of.sd([](const Gains& v) { return v.inverse().c; }),
                           of.sd([](const Gains& v) { return v.inverse().d; })};
  const Geometry geometry = geometry_of(g);
  out.mirrored = geometry.mirrored;
  out.rotation_deg = geometry.rotation * 180 / std::numbers::pi;
  out.cross_talk = geometry.cross_talk;
  out.cross_talk_sd = {of.sd([](const Gains& v) { return geometry_of(v).cross_talk.x; }),
                       of.sd([](const Gains& v) { return geometry_of(v).cross_talk.y; })};
  out.scale = {std::hypot(g.xx, g.yx), std::hypot(g.xy, g.yy)};
  out.scale_sd = {of.sd([](const Gains& v) { return std::hypot(v.xx, v.yx); }),
                  of.sd([](const Gains& v) { return std::hypot(v.xy, v.yy); })};
  const auto ratio = [](const Gains& v) { return 1 / std::sqrt(std::abs(v.determinant())); };
  out.pixel_ratio = ratio(g);
  out.pixel_ratio_sd = of.sd(ratio);
}

void describe_response(StageCalibration& out, const ResponseFit& fit) {
  const ResponseShape& shape = fit.shape;
  const auto sd = [&](std::size_t n) { return std::sqrt(std::max(0.0, fit.covariance_of(n, n))); };
  out.order = shape.order;
  out.delay_us = 1e6 * std::max(0.0, shape.delay_s);
  out.delay_sd_us = 1e6 * sd(0);
  out.bandwidth_hz = shape.bandwidth_hz();
  if (shape.order == 1) {
    out.time_constant_us = 1e6 * shape.time_constant_s;
    out.time_constant_sd_us = 1e6 * shape.time_constant_s * sd(1);
    out.bandwidth_sd_hz = out.bandwidth_hz * sd(1);
    return;
  }
  out.resonance_hz = shape.frequency_hz;
  out.resonance_sd_hz = shape.frequency_hz * sd(1);
  out.damping = shape.damping;
  out.damping_sd = shape.damping * sd(2);
  ResponseShape other = shape;
  constexpr double kStep = 1e-4;
  other.damping *= 1 + kStep;
  const double by_damping = (other.bandwidth_hz() - out.bandwidth_hz) / kStep;
  const double by_frequency = out.bandwidth_hz;
  const double variance = by_frequency * by_frequency * fit.covariance_of(1, 1) +
                          2 * by_frequency * by_damping * fit.covariance_of(1, 2) +
                          by_damping * by_damping * fit.covariance_of(2, 2);
  out.bandwidth_sd_hz = std::sqrt(std::max(0.0, variance));
}

/// Standard deviations that reach to shapes that are as likely.
void widen(StageCalibration& out, const std::vector<ResponseShape>& as_likely, double period_s) {
  // A response that is over before the next frame leaves open when it began.
  if (out.bandwidth_sd_hz > kUnresolved * out.bandwidth_hz)
    out.delay_sd_us = std::max(out.delay_sd_us, 0.6e6 * period_s);
  const auto reach = [](double& sd, double found, double other) {
    sd = std::max(sd, std::abs(other - found));
  };
  for (const ResponseShape& shape : as_likely) {
    reach(out.delay_sd_us, out.delay_us, 1e6 * shape.delay_s);
    reach(out.bandwidth_sd_hz, out.bandwidth_hz, shape.bandwidth_hz());
    if (out.order == 1) continue;
    reach(*out.resonance_sd_hz, *out.resonance_hz, shape.frequency_hz);
    reach(*out.damping_sd, *out.damping, shape.damping);
  }
}

/// Channels from the third on are plays, half of them of each axis.
void describe_hysteresis(StageCalibration& out, const FitData& data, const ResponseFit& fit) {
  const std::size_t plays = (data.staircase.channels.size() - 2) / 2;
  if (plays == 0) return;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const Vec2 small{fit.linear[0][axis], fit.linear[1][axis]};
    const double size = std::hypot(small.x, small.y);
    double lagging = 0, variance = 0;
    for (std::size_t n = 0; n < plays; ++n) {
      const std::size_t channel = 2 + axis * plays + n;
      lagging += (fit.linear[0][channel] * small.x + fit.linear[1][channel] * small.y) / size;
      for (std::size_t m = 0; m < plays; ++m) {
        const std::size_t other = 2 + axis * plays + m;
        variance += (small.x * small.x *
                         fit.covariance_of(fit.index_of(0, channel), fit.index_of(0, other)) +
                     small.y * small.y *
                         fit.covariance_of(fit.index_of(1, channel), fit.index_of(1, other))) /
                    (size * size);
      }
    }
    const double whole = size + lagging;
    (axis == 0 ? out.hysteresis.x : out.hysteresis.y) = lagging / whole;
    (axis == 0 ? out.hysteresis_sd.x : out.hysteresis_sd.y) =
        std::sqrt(std::max(0.0, variance)) / whole;
  }
}

/// A value in every slot: straight lines where frames are missing.
std::vector<double> filled(const FitData& data, const std::vector<double>& values) {
  std::vector<double> all = values;
  std::size_t last = 0;
  bool any = false;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (data.slots.use[k] == SlotUse::Missing) continue;
    for (std::size_t m = any ? last + 1 : 0; m < k; ++m)
      all[m] = any ? all[last] + (all[k] - all[last]) * static_cast<double>(m - last) /
                                     static_cast<double>(k - last)
                   : all[k];
    last = k;
    any = true;
  }
  for (std::size_t m = last + 1; m < all.size(); ++m) all[m] = all[last];
  return all;
}

/// White noise of a frame that would have the spectrum's level at its upper end.
double floor_of(const std::vector<double>& density, double period_s) {
  std::vector<double> upper(
      density.begin() + static_cast<long>(kFloorFrom * static_cast<double>(density.size())),
      density.end());
  if (upper.empty()) return 0;
  return std::sqrt(median(std::move(upper)) / (2 * period_s));
}

/// The spectrum from the first frequency above 0 on: the drift's own slope is taken off.
std::vector<double> spectrum_of(const std::vector<double>& drift_nm, double period_s,
                                std::size_t window) {
  std::vector<double> density = welch(drift_nm, 1 / period_s, window, Detrend::Line).density;
  if (!density.empty()) density.erase(density.begin());
  return density;
}

void describe_noise(StageCalibration& out, const PreparedRecord& prepared,
                    const std::array<std::vector<double>, 2>& drift) {
  const double period_s = prepared.data.slots.period_s;
  std::size_t window = kWindow;
  while (window > kSmallestWindow && drift[0].size() < 4 * window) window /= 2;
  out.spectrum.x_nm2_per_hz = spectrum_of(drift[0], period_s, window);
  out.spectrum.y_nm2_per_hz = spectrum_of(drift[1], period_s, window);
  for (std::size_t f = 1; f <= out.spectrum.x_nm2_per_hz.size(); ++f)
    out.spectrum.frequency_hz.push_back(static_cast<double>(f) /
                                        (static_cast<double>(window) * period_s));
  const Vec2 floor{floor_of(out.spectrum.x_nm2_per_hz, period_s),
                   floor_of(out.spectrum.y_nm2_per_hz, period_s)};
  const Vec2 stated = prepared.stated_noise_nm;
  if (!(stated.x > 0 && stated.y > 0)) {
    out.noise_nm = floor;
    return;
  }
  // What the estimator says, unless the frames themselves show less.
  out.noise_nm = {std::min(stated.x, floor.x), std::min(stated.y, floor.y)};
  const double beyond =
      0.5 * (floor.x * floor.x - stated.x * stated.x + floor.y * floor.y - stated.y * stated.y);
  const double known = 0.5 * (stated.x * stated.x + stated.y * stated.y);
  out.stage_noise_nm = beyond > kLeastStageNoise * kLeastStageNoise * known ? std::sqrt(beyond) : 0;
}

Vec2 returned(const FitData& data, const ResponseFit& fit) {
  const std::size_t slope = fit.linear[0].size() - 1;
  Vec2 place;
  for (std::size_t i = 0; i < 2; ++i) {
    double begin = 0, end = 0;
    int begins = 0, ends = 0;
    for (std::size_t k = 0; k < data.slots.use.size(); ++k) {
      if (data.slots.use[k] == SlotUse::Missing) continue;
      const double value =
          data.moved_nm[i][k] - fit.linear[i][slope] * static_cast<double>(k) * data.slots.period_s;
      if (data.time_of(k) < data.begin_s && data.time_of(k) >= data.begin_s - kEndS) {
        begin += value;
        ++begins;
      }
      if (data.time_of(k) > data.end_s - kEndS) {
        end += value;
        ++ends;
      }
    }
    (i == 0 ? place.x : place.y) = end / std::max(1, ends) - begin / std::max(1, begins);
  }
  return place;
}

StageProposal proposal_of(const LoopWorld& world, const ControllerSettings& settings) {
  return {.image_to_stage = settings.image_to_stage,
          .delay_us = settings.stage_delay_us,
          .time_constant_us = settings.stage_time_constant_us,
          .resonance_hz = settings.stage_resonance_hz,
          .damping = settings.stage_damping,
          .integral = settings.integral,
          .proportional = settings.proportional,
          .residual_nm = forecast_residual_nm(world, settings)};
}

/// A first order that has more than this wrong of a unit step, squared and over the frames that
/// show it, is not proposed for a stage of second order: one of 150 Hz has 0.01 of it wrong, one of
/// 8 Hz 0.1.
constexpr double kWrongFrames = 0.05;

/// A dead time that is not known to a frame is no better than the configured one.
bool is_resolved(const StageCalibration& out, double period_s) {
  return out.delay_sd_us < std::max(1e6 * period_s, 0.25 * out.delay_us);
}

void propose(StageCalibration& out, const PreparedRecord& prepared, const ResponseFit& fit,
             std::array<std::vector<double>, 2> drift, const IdentificationSettings& settings) {
  const LoopWorld world{
      .drift_nm = std::move(drift),
      .noise_nm = out.noise_nm,
      .period_s = prepared.data.slots.period_s,
      .exposure_s = prepared.data.exposures.exposure_s,
      .age_s = prepared.age_s,
      .shape = fit.shape,
      .gain = {{{fit.linear[0][0], fit.linear[1][0]}, {fit.linear[0][1], fit.linear[1][1]}}}};
  out.present = proposal_of(world, settings.present);
  const ReducedResponse reduced = reduce(fit.shape);
  ControllerSettings proposed = settings.present;
  proposed.image_to_stage = out.image_to_stage;
  if (is_resolved(out, prepared.data.slots.period_s)) {
    proposed.stage_time_constant_us = 1e6 * reduced.time_constant_s;
    if (reduced.wrong_s > kWrongFrames * prepared.data.slots.period_s) {
      proposed.stage_delay_us = out.delay_us;
      proposed.stage_resonance_hz = fit.shape.frequency_hz;
      proposed.stage_damping = fit.shape.damping;
    } else {
      proposed.stage_delay_us = 1e6 * reduced.delay_s;
      proposed.stage_resonance_hz = 0;
    }
  }
  out.proposal = proposal_of(world, choose_gains(world, proposed));
}

}  // namespace

StageCalibration describe(const PreparedRecord& prepared, const ResponseFit& fit,
                          const std::vector<ResponseShape>& as_likely,
                          const IdentificationSettings& settings) {
  StageCalibration out;
  const FitData& data = prepared.data;
  describe_matrix(out, fit, settings.image_gain_sd);
  describe_response(out, fit);
  widen(out, as_likely, data.slots.period_s);
  describe_hysteresis(out, data, fit);
  const std::size_t slope = fit.linear[0].size() - 1;
  out.drift_nm_per_s = {fit.linear[0][slope], fit.linear[1][slope]};
  out.fit_residual_nm = {data.noise[0].sd(), data.noise[1].sd()};
  out.returned_nm = returned(data, fit);
  out.seconds = data.end_s;
  out.samples = static_cast<int>(data.slots.present());
  out.outliers = prepared.outliers;
  out.missing = prepared.missing;
  out.age_us = 1e6 * prepared.age_s;

  auto drift = unexplained(data, fit, true);
  for (auto& axis : drift) axis = filled(data, axis);
  describe_noise(out, prepared, drift);
  out.response = measure_step_response(data, fit, out.image_to_stage, prepared.age_s);
  propose(out, prepared, fit, std::move(drift), settings);
  return out;
}

}  // namespace driftd::control
