// SPDX-License-Identifier: MIT
// A thousand random samples behind one cylinder lens: what share of the markers' z counts in the
// frame after the sample moved, and what share of that is wrong by more than five of the standard
// deviations that are told with it. By the estimators of the daemon, with a reference of 50 frames
// before. Table to stdout; --wrong lists each one that is wrong.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <string>

#include "bench/axial/readings.hpp"
#include "support/axial_sample.hpp"

namespace driftd::bench {
namespace {

using simulator::Random;

constexpr int kMarkers = 8, kReference = 50;
constexpr double kAstigmatism = 0.075, kReadNoise = 3;

enum class Kind { Clean, Neighbour, NewNeighbour };
constexpr std::array<const char*, 3> kKinds = {"alone", "beside a neighbour",
                                               "a neighbour arrived"};

/// A pupil as it is somewhere in the field.
test::AxialScene scene_of(Random& random, double spread) {
  simulator::OpticsModel optics;
  optics.shape = simulator::SpotShape::Pupil;
  const auto about = [&](double mean, double sd) { return mean + spread * sd * random.normal(); };
  optics.pupil.astigmatism_waves = about(kAstigmatism, 0.02 * kAstigmatism);
  optics.pupil.astigmatism_deg = about(0, 3);
  optics.pupil.coma_waves = about(0, 0.01);
  optics.pupil.coma_deg = 360 * random.uniform();
  optics.pupil.spherical_waves = about(0, 0.01);
  return {optics, 20, kReadNoise};
}

struct Marker {
  Kind kind = Kind::Clean;
  std::vector<simulator::Spot> before, after;
  double moved_nm = 0;
  simulator::Vec2 shift_px;
};

double between(Random& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

/// A sample: tilted, its markers at heights, of unlike brightness, some of them with a neighbour.
std::vector<Marker> sample_of(Random& random, const AxialSetup& setup) {
  const bool far = random.uniform() < 0.2;
  const double z = far ? between(random, -1400, 1400) : 150 * random.normal();
  const double moved = far ? 200 * random.normal() : 60 * random.normal();
  const double photons = std::exp(between(random, std::log(500.0), std::log(6e4)));
  const simulator::Vec2 tilt = {2 * random.normal(), 2 * random.normal()};
  const simulator::Vec2 shift = {0.2 * random.normal(), 0.2 * random.normal()};
  std::vector<Marker> markers(kMarkers);
  for (Marker& marker : markers) {
    simulator::Spot spot =
        spot_anywhere(setup,
                      z + tilt.x * between(random, -12, 12) + tilt.y * between(random, -12, 12) +
                          60 * random.normal(),
                      photons * std::exp(0.3 * random.normal()), random);
    marker.before = {spot};
    if (random.uniform() < 0.3) {
      marker.kind = random.uniform() < 0.5 ? Kind::Neighbour : Kind::NewNeighbour;
      simulator::Spot other = spot;
      const double angle = between(random, 0, 6.283185307), away = between(random, 2, 11);
      other.x_px += away * std::cos(angle), other.y_px += away * std::sin(angle);
      other.z_nm += 100 * random.normal();
      other.electrons *= std::exp(between(random, std::log(0.03), 0));
      marker.before.push_back(other);
    }
    marker.moved_nm = moved;
    marker.shift_px = shift;
    marker.after = marker.before;
    if (marker.kind == Kind::NewNeighbour) marker.before.pop_back();
    for (simulator::Spot& each : marker.after)
      each.z_nm += moved, each.x_px += shift.x, each.y_px += shift.y;
  }
  return markers;
}

struct Count {
  double markers = 0, known = 0, read = 0, wrong = 0, wrong_absolute = 0, read_absolute = 0,
         squares = 0;
};

void print(const char* name, const Count& c) {
  std::printf("%-20s %8.0f %7.1f%% %7.1f%% %8.0f %9.2f/1000 | %9.2f/1000 %6.2f\n", name, c.markers,
              100 * c.known / c.markers, 100 * c.read / c.markers, c.wrong, 1000 * c.wrong / c.read,
              1000 * c.wrong_absolute / c.read_absolute, std::sqrt(c.squares / c.read));
}

int run(int scenes, std::uint64_t seed, bool list, bool one_curve, bool surroundings) {
  AxialSetup setup;
  setup.covariance = false;
  Random optics_random(seed, 1);
  Stack stack{.seed = seed};
  if (one_curve) stack.dimness = {1e-3};
  const auto curves = calibrated(setup, scene_of(optics_random, 0), stack);
  const control::WidthCurve& curve = curves.curves()[one_curve ? 0 : 1];
  std::vector<test::AxialScene> pupils;
  for (int i = 0; i < 12; ++i) pupils.push_back(scene_of(optics_random, 1));
  std::array<Count, 3> counts;
  Count all;
  int frames = 0, wrong_frames = 0;
  for (int i = 0; i < scenes; ++i) {
    Random random(seed, 100 + static_cast<std::uint64_t>(i));
    test::AxialScene scene = pupils[static_cast<std::size_t>(12 * random.uniform())];
    scene.set_background(std::exp(between(random, std::log(5.0), std::log(100.0))));
    const std::vector<Marker> markers = sample_of(random, setup);
    test::AxialSample sample(setup, curves, markers.size());
    const auto spots = [&](std::vector<simulator::Spot> Marker::*when) {
      test::AxialSample::Markers all_spots;
      for (const Marker& marker : markers) all_spots.push_back(marker.*when);
      return all_spots;
    };
    sample.reference(scene, spots(&Marker::before), kReference, random, surroundings);
    const std::uint32_t zero = sample.zeros();
    std::vector<bool> known;
    for (std::size_t k = 0; k < markers.size(); ++k) known.push_back(sample.referenced(k));
    const control::AxialEstimate& z =
        sample.expose(scene, spots(&Marker::after), 1, random, surroundings);
    for (std::size_t k = 0; k < markers.size(); ++k) {
      const Marker& marker = markers[k];
      const control::AxialResult& result = sample.result(k);
      Count& count = counts[static_cast<std::size_t>(marker.kind)];
      const double off_curve = std::abs(result.z_nm - marker.after[0].z_nm);
      const bool counts_now = z.valid && known[k] && sample.zeros() == zero &&
                              result.reason == control::AxialReason::Measured;
      const double off = result.displacement_nm - marker.moved_nm;
      const double sds = off / sample.sd_nm(k);
      const bool wrong = counts_now && std::abs(sds) > 5;
      for (Count* c : {&count, &all}) {
        c->markers += 1, c->known += known[k] ? 1 : 0;
        if (result.read) {
          c->read_absolute += 1;
          c->wrong_absolute += off_curve > 5 * result.sd_nm ? 1 : 0;
        }
        if (counts_now) c->read += 1, c->wrong += wrong ? 1 : 0, c->squares += sds * sds;
      }
      if (!wrong || !list) continue;
      const auto& spot = marker.after[0];
      std::printf(
          "scene %d, %s: z %.0f moved %.0f, %.0f photons over %.0f: off %.0f nm, %.1f sds of "
          "%.1f; sigma %.2f %.2f",
          i, kKinds[static_cast<std::size_t>(marker.kind)], spot.z_nm, marker.moved_nm,
          spot.electrons, scene.background_e(), off, sds, sample.sd_nm(k),
          static_cast<double>(sample.seen(k).sigma_x_px),
          static_cast<double>(sample.seen(k).sigma_y_px));
      if (marker.after.size() > 1) {
        const auto& other = marker.after[1];
        std::printf("; neighbour %.2f at %.1f %.1f px", other.electrons / spot.electrons,
                    other.x_px - spot.x_px, other.y_px - spot.y_px);
      }
      std::printf("\n");
    }
    if (z.valid && sample.zeros() == zero) {
      const double off = z.frame_z_nm - markers[0].moved_nm;
      const bool wrong = std::abs(off) > 5 * z.frame_sd_nm();
      frames += 1, wrong_frames += wrong ? 1 : 0;
      if (wrong && list)
        std::printf("scene %d: frame off %.1f nm of %.0f, sd %.1f, %d markers\n", i, off,
                    markers[0].moved_nm, z.frame_sd_nm(), z.markers_used);
    }
  }
  std::printf("%d samples of %d markers; curve from %.0f to %.0f nm\n", scenes, kMarkers,
              curve.lower_nm(), curve.upper_nm());
  std::printf("%-20s %8s %8s %8s %8s %14s | %14s %6s\n", "marker", "", "known", "read", "wrong",
              "of those read", "by the truth", "rms sd");
  for (std::size_t k = 0; k < counts.size(); ++k) print(kKinds[k], counts[k]);
  print("all", all);
  std::printf("samples with a z: %d; wrong: %d\n", frames, wrong_frames);
  return 0;
}

}  // namespace
}  // namespace driftd::bench

int main(int argc, char** argv) {
  CLI::App app("z of markers in random samples: read, and wrong in silence");
  int scenes = 1000;
  std::uint64_t seed = 1;
  bool wrong = false, one_curve = false, blind = false;
  app.add_flag("--one-curve", one_curve, "the curve of markers of 3e4 photons alone");
  app.add_flag("--no-surroundings", blind, "what is around the ROIs is not looked at");
  app.add_option("--scenes", scenes, "random samples")->capture_default_str();
  app.add_option("--seed", seed, "of them")->capture_default_str();
  app.add_flag("--wrong", wrong, "list each reading that is wrong");
  CLI11_PARSE(app, argc, argv);
  return driftd::bench::run(scenes, seed, wrong, one_curve, !blind);
}
