// SPDX-License-Identifier: MIT
// A sample on a stage of z, as a sweep sees it: images of the simulator's pupil, fitted as the lock
// fits them, while the stage goes where a plan tells it. Stage, sample and light have the faults
// that are set. Deterministic for a seed; no clock.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "control/axial/axial_estimator.hpp"
#include "control/axial/calibration/sweep_record.hpp"
#include "fitter/fitter.hpp"
#include "support/axial_scene.hpp"

namespace driftd::control::test {

struct SweepWorld {
  // Optics; of a marker they differ by a share.
  double astigmatism_waves = 0.075, astigmatism_deg = 0, coma_waves = 0, spherical_waves = 0;
  double astigmatism_spread = 0;
  // Markers.
  std::size_t markers = 6;
  double photons = 3e4, background_e = 20, read_noise_e = 1.6, heights_nm = 60, tilt_nm_per_um = 2,
         wobble_nm_per_um = 0;
  // The sample.
  double start_nm = 0;                     ///< from the middle between the foci
  double drift_nm_per_s = 0, walk_nm = 0;  ///< the walk: of a second
  double drift_x_nm_per_s = 0, walk_x_nm = 0;
  double bleached_share = 0;          ///< in 20 s
  double jump_nm = 0, jump_x_nm = 0;  ///< it is pushed, after jump_s
  double jump_s = 0;
  // The stage.
  double gain = 1, tilt_x_nm_per_um = 0, tilt_y_nm_per_um = 0;
  double hysteresis_nm = 0;  ///< down less up
  double hysteresis_reach_nm =
      0;  ///< the way after a turn on which it builds up; 0: of that length
  double slew_nm_per_s = 1e9;
  double time_constant_s = 0, uneven_nm = 0,
         slip_nm = 0;                         ///< the slip: before the steps at the end
  double stuck_s = 1e9, stuck_until_s = 1e9;  ///< it stands still meanwhile
  double end_nm = 1e9;                        ///< of its travel upwards
  double reversed_s = 1e9;                    ///< it goes the other way from then on
  AxialMethod method = AxialMethod::Astigmatic;
  int roi_px = 13;
  std::uint64_t seed = 1;
};

/// Without a lens, so many nanometres to one side of the focus.
inline SweepWorld without_lens(double start_nm) {
  SweepWorld world;
  world.method = AxialMethod::Defocus;
  world.astigmatism_waves = 0;
  world.roi_px = 17;
  world.start_nm = start_nm;
  world.heights_nm = 20;
  return world;
}

/// The stage of a world: what it is told goes through play, its speed, and a first-order lag.
class SweepStageModel {
 public:
  explicit SweepStageModel(const SweepWorld& world) : world_(world) {}

  /// Told to be there for a while that ends at `seconds`.
  void step(double told_nm, double seconds, double took_s) {
    if (seconds >= world_.reversed_s && !reversed_at_nm_) reversed_at_nm_ = told_nm;
    const bool is_stuck = seconds >= world_.stuck_s && seconds <= world_.stuck_until_s;
    if (is_stuck) return;
    const double x = world_.gain * (reversed_at_nm_ ? 2 * *reversed_at_nm_ - told_nm : told_nm);
    const double reach =
        world_.hysteresis_reach_nm > 0 ? world_.hysteresis_reach_nm : world_.hysteresis_nm;
    play_nm_ = std::clamp(play_nm_, x - reach / 2, x + reach / 2);
    const double lost = reach > 0 ? world_.hysteresis_nm * (play_nm_ - x) / reach : 0;
    const double aim = std::min(x + lost, world_.end_nm), most = world_.slew_nm_per_s * took_s;
    slewed_nm_ += std::clamp(aim - slewed_nm_, -most, most);
    const double left = world_.time_constant_s > 0 ? std::exp(-took_s / world_.time_constant_s) : 0;
    at_nm_ = slewed_nm_ + left * (at_nm_ - slewed_nm_);
  }
  double at_nm() const noexcept { return at_nm_; }

 private:
  const SweepWorld& world_;
  double play_nm_ = 0, slewed_nm_ = 0, at_nm_ = 0;
  std::optional<double> reversed_at_nm_;
};

class SweepBench {
 public:
  static constexpr double kPixelNm = 100, kFramesHz = 200, kNmPerS = 1000;

  explicit SweepBench(const SweepWorld& world) : world_(world), random_(world.seed, 7) {
    constexpr std::size_t kPupils = 2;
    for (std::size_t i = 0; i < kPupils; ++i) {
      const double sign = i == 0 ? 1 : -1;
      const double coma_deg = world.coma_waves > 0 ? 180 * random_.uniform() : 0;
      scenes_.push_back(
          scene_of(world.astigmatism_waves * (1 + sign * world.astigmatism_spread), coma_deg));
    }
    for (std::size_t i = 0; i < world.markers; ++i) {
      const double x_px = 20 + 200 * random_.uniform(), y_px = 20 + 200 * random_.uniform();
      const double height = world.heights_nm * random_.normal() +
                            world.tilt_nm_per_um * (x_px - 120) * kPixelNm / 1000;
      markers_.push_back({x_px, y_px, height, random_.uniform() - 0.5, random_.uniform() - 0.5,
                          6.28 * static_cast<double>(i) / static_cast<double>(world.markers)});
    }
    seen_.resize(world.markers);
  }

  SweepRecord record(const SweepSettings& settings) {
    SweepRecord record(SweepPlan(settings), markers_.size());
    double seconds = 0, told = 0, walked = 0;
    walked_x_ = 0;
    SweepStageModel stage(world_);
    const auto& places = record.plan().places();
    std::size_t checks = 0;
    for (std::size_t p = 0; p < places.size(); ++p) {
      const SweepPlace& place = places[p];
      if (place.part == SweepPart::Check) ++checks;
      const double way_s = std::abs(place.z_nm - told) / kNmPerS;
      const double took_s = way_s + settings.settle_s;
      const int ticks = static_cast<int>(std::ceil(took_s * kFramesHz));
      const double from = told;
      for (int tick = 1; tick <= ticks; ++tick) {
        const double share = std::min(1.0, tick * took_s / ticks / std::max(way_s, 1e-9));
        told = from + share * (place.z_nm - from);
        stage.step(told, seconds + tick * took_s / ticks, took_s / ticks);
      }
      told = place.z_nm;
      const double slip = checks > 0 ? world_.slip_nm : 0;
      walked += world_.walk_nm * std::sqrt(took_s) * random_.normal();
      walked_x_ += world_.walk_x_nm * std::sqrt(took_s) * random_.normal();
      seconds += took_s;
      const double uneven = place.step % 2 == 1 ? world_.uneven_nm : 0;
      for (int frame = 0; frame < place.frames; ++frame) {
        seconds += 1 / kFramesHz;
        stage.step(told, seconds, 1 / kFramesHz);
        walked += world_.walk_nm * std::sqrt(1 / kFramesHz) * random_.normal();
        walked_x_ += world_.walk_x_nm * std::sqrt(1 / kFramesHz) * random_.normal();
        const double jumped = seconds > world_.jump_s ? world_.jump_nm : 0;
        const double z =
            stage.at_nm() + slip + uneven + jumped + walked + world_.drift_nm_per_s * seconds;
        add_frame(record, p, seconds, z, stage.at_nm());
      }
    }
    return record;
  }

  /// z read by a curve over z, of all markers near the start.
  double slope_of(const WidthCurve& curve) {
    double n = 0, slopes = 0;
    for (std::size_t i = 0; i < markers_.size(); ++i) {
      double count = 0, z = 0, r = 0, zz = 0, zr = 0;
      for (double at = -100; at <= 100; at += 25) {
        for (const MarkerObservation& o : observe(i, world_.start_nm + at, at, 16)) {
          const SpotFit fit = spot_fit(o, units());
          const AxialReading read = curve.read(fit.sigma_x_px, fit.sigma_y_px, fit.variance);
          if (!read.measured) continue;
          count += 1, z += at, r += read.z_nm, zz += at * at, zr += at * read.z_nm;
        }
      }
      if (count < 50) continue;
      slopes += (count * zr - z * r) / (count * zz - z * z);
      n += 1;
    }
    return n > 0 ? slopes / n : 0;
  }

  CurveFits fits() const {
    const fitter::FitOptions o = options();
    return {.model = o.model,
            .estimator = o.estimator,
            .integrated = false,
            .roi_px = world_.roi_px,
            .pixel_size_nm = kPixelNm,
            .gain_e_per_adu = 1};
  }

 private:
  struct Marker {
    double x_px, y_px, height_nm, dx_px, dy_px, wobble_rad;
  };
  /// An image that is taken again for the next frame: they take long.
  struct Seen {
    double z_nm = 0, electrons = 0, x_px = 0;
    std::vector<double> pixels;
  };
  static constexpr double kSameNm = 0.3;

  /// Pupils take long: those that were made before are taken again.
  driftd::test::AxialScene scene_of(double astigmatism_waves, double coma_deg) const {
    simulator::OpticsModel optics;
    optics.pixel_size_nm = kPixelNm;
    optics.shape = simulator::SpotShape::Pupil;
    simulator::PupilModel& pupil = optics.pupil;
    pupil.range_nm = 850;
    pupil.astigmatism_waves = astigmatism_waves;
    pupil.astigmatism_deg = world_.astigmatism_deg;
    pupil.coma_waves = world_.coma_waves;
    pupil.coma_deg = coma_deg;
    pupil.spherical_waves = world_.spherical_waves;
    static std::map<std::array<double, 5>, driftd::test::AxialScene> made;
    const std::array<double, 5> key = {astigmatism_waves, pupil.astigmatism_deg, pupil.coma_waves,
                                       coma_deg, pupil.spherical_waves};
    return made.try_emplace(key, optics, world_.background_e, world_.read_noise_e).first->second;
  }

  FitUnits units() const {
    const bool likelihood = world_.method == AxialMethod::Astigmatic;
    return {.gain_e_per_adu = 1,
            .offset_adu = 0,
            .read_noise_e = world_.read_noise_e,
            .pixels = likelihood ? world_.roi_px * world_.roi_px : 0};
  }
  fitter::FitOptions options() const {
    fitter::FitOptions o;
    const bool oval = world_.method == AxialMethod::Astigmatic;
    o.model = oval ? fitter::Model::EllipticalGaussian : fitter::Model::CircularGaussian;
    o.estimator =
        oval ? fitter::Estimator::PoissonLikelihood : fitter::Estimator::ImplicitLeastSquares;
    o.noise = {1, static_cast<float>(world_.read_noise_e), 0};
    return o;
  }

  /// Exposures of a marker with the sample at a height.
  std::vector<MarkerObservation> observe(std::size_t i, double z_nm, double stage_nm,
                                         std::size_t count, double light = 1) {
    const Marker& m = markers_[i];
    const double middle = (world_.roi_px - 1) / 2.0;
    const double wobble = world_.wobble_nm_per_um * stage_nm / 1000 / kPixelNm;
    simulator::Spot spot;
    spot.x_px = middle + m.dx_px + wobble * std::cos(m.wobble_rad);
    spot.y_px = middle + m.dy_px + wobble * std::sin(m.wobble_rad);
    spot.electrons = light * world_.photons;
    spot.z_nm = z_nm + m.height_nm;
    const test_scene& scene = scenes_[i % scenes_.size()];
    Seen& seen = seen_[i];
    if (seen.pixels.empty() || std::abs(seen.z_nm - spot.z_nm) > kSameNm ||
        seen.electrons != spot.electrons || seen.x_px != spot.x_px)
      seen = {spot.z_nm, spot.electrons, spot.x_px, scene.expected({&spot, 1}, world_.roi_px)};
    const std::vector<double>& expected = seen.pixels;
    std::vector<float> pixels(count * expected.size());
    for (std::size_t k = 0; k < count; ++k)
      scene.draw(expected, random_, &pixels[k * expected.size()]);
    std::vector<fitter::Localization> spots(count);
    const fitter::Batch batch = {pixels.data(), fitter::PixelType::F32, world_.roi_px, count};
    fitter::fit_batch_cpu(batch, options(), spots, 1);
    std::vector<MarkerObservation> observations;
    for (const fitter::Localization& s : spots) {
      MarkerObservation o;
      o.fitted = fitter::converged(s.status) && s.amplitude_adu > 0;
      o.x_px = m.x_px + static_cast<double>(s.x_px) - middle;
      o.y_px = m.y_px + static_cast<double>(s.y_px) - middle;
      o.amplitude_adu = s.amplitude_adu;
      o.background_adu = s.background_adu;
      o.sigma_x_px = s.sigma_x_px;
      o.sigma_y_px = s.sigma_y_px;
      o.sigma_x_sd_px = s.sigma_x_sd_px;
      o.sigma_y_sd_px = s.sigma_y_sd_px;
      o.sigma_px = mean_width(s.sigma_x_px, s.sigma_y_px);
      o.chi_square = s.chi_square;
      observations.push_back(o);
    }
    return observations;
  }

  void add_frame(SweepRecord& record, std::size_t place, double seconds, double z_nm,
                 double stage_nm) {
    // In steps, so that images are taken again.
    const double light = 1 - 0.002 * std::round(500 * world_.bleached_share * seconds / 20);
    std::vector<MarkerObservation> observations;
    for (std::size_t i = 0; i < markers_.size(); ++i)
      observations.push_back(
          observe(i, world_.start_nm + z_nm, stage_nm, 1, std::max(light, 0.01)).front());
    SweepFrame frame;
    frame.seconds = seconds;
    frame.markers = observations;
    frame.units = units();
    // As the lock sees it: what coma does to the fits is in it.
    Vec2 seen_px{};
    for (std::size_t i = 0; i < markers_.size(); ++i)
      seen_px = {seen_px.x + observations[i].x_px - markers_[i].x_px,
                 seen_px.y + observations[i].y_px - markers_[i].y_px};
    const double nm = kPixelNm / static_cast<double>(markers_.size());
    const double jump_x = seconds > world_.jump_s ? world_.jump_x_nm : 0;
    frame.has_lateral = true;
    frame.lateral_nm = {nm * seen_px.x + stage_nm * world_.tilt_x_nm_per_um / 1000 + walked_x_ +
                            world_.drift_x_nm_per_s * seconds + jump_x,
                        nm * seen_px.y + stage_nm * world_.tilt_y_nm_per_um / 1000};
    record.add(place, frame);
  }

  using test_scene = driftd::test::AxialScene;
  SweepWorld world_;
  simulator::Random random_;
  std::vector<test_scene> scenes_;
  std::vector<Marker> markers_;
  std::vector<Seen> seen_;
  double walked_x_ = 0;
};

}  // namespace driftd::control::test
