// SPDX-License-Identifier: MIT
// z of single markers in images of a pupil: random error against the Cramer-Rao bound, whether the
// sd told is the sd, and what is read when something else than z changes. By the fitter on the CPU
// and the curves of widths. --times: processor time of the simulator's frames, by shape of the
// spots. Tables to stdout.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <ctime>
#include <functional>

#include "bench/axial/readings.hpp"
#include "simulator/simulation.hpp"

namespace driftd::bench {
namespace {

using control::AxialMethod;

constexpr double kBackground = 20, kReadNoise = 3;

test::AxialScene scene_of(double astigmatism, double coma = 0, double spherical = 0) {
  simulator::OpticsModel optics;
  optics.shape = simulator::SpotShape::Pupil;
  optics.pupil.astigmatism_waves = astigmatism;
  optics.pupil.coma_waves = coma;
  optics.pupil.spherical_waves = spherical;
  return {optics, kBackground, kReadNoise};
}

/// That of markers of 3e4 photons over 20 electrons.
const control::WidthCurve& reference_curve(const control::BrightnessCurves& curves) {
  return curves.curves()[curves.curves().size() > 1 ? 1 : 0];
}

struct Summary {
  double read = 0;  ///< share of the exposures
  double mean = 0, sd = 0, told = 0, bound = 0;
};

/// `markers` at places of their own in their pixels, `count` exposures each: the sd is that of one
/// marker's readings.
Summary read_many(const AxialSetup& setup, const test::AxialScene& scene,
                  const control::BrightnessCurves& curves, double z_nm, double photons, int markers,
                  std::size_t count, std::uint64_t seed) {
  simulator::Random random(seed, 2);
  Summary all;
  double degrees = 0, squares = 0, told = 0, bound = 0, sum = 0, n = 0;
  for (int marker = 0; marker < markers; ++marker) {
    const simulator::Spot spot = spot_anywhere(setup, z_nm, photons, random);
    const double least = scene.bound(spot, setup.roi_px).z_nm;
    bound += least * least;
    double own_n = 0, own = 0, own_squares = 0;
    for (const Fit& fit : fit_exposures(setup, scene, {&spot, 1}, count, random)) {
      const auto z = reading_of(setup, fit, curves, scene.read_noise_e());
      if (!z.measured) continue;
      own_n += 1, own += z.z_nm, own_squares += z.z_nm * z.z_nm, told += z.sd_nm * z.sd_nm;
    }
    if (own_n < 2) continue;
    squares += own_squares - own * own / own_n;
    degrees += own_n - 1;
    sum += own, n += own_n;
  }
  all.read = n / (markers * static_cast<double>(count));
  all.mean = sum / n;
  all.sd = std::sqrt(squares / degrees);
  all.told = std::sqrt(told / n);
  all.bound = std::sqrt(bound / markers);
  return all;
}

void print_errors(const char* name, const AxialSetup& setup, const test::AxialScene& scene,
                  std::span<const double> heights, const Stack& stack, int markers) {
  const auto curves = calibrated(setup, scene, stack);
  const control::WidthCurve& curve = reference_curve(curves);
  std::printf("\n%s: curve from %.0f to %.0f nm, crossing %.1f, scatter there %.2f\n", name,
              curve.lower_nm(), curve.upper_nm(), curve.crossing_nm(),
              curve.scatter(curve.crossing_nm()));
  std::printf("%8s %6s | %6s %7s %7s %6s | %7s %6s\n", "photons", "z nm", "bound", "sd", "x bound",
              "told/sd", "mean-z", "read");
  for (const double photons : {3e4, 3e3}) {
    for (const double z : heights) {
      const double at = setup.method == AxialMethod::Astigmatic ? curve.crossing_nm() + z : z;
      const Summary s = read_many(setup, scene, curves, at, photons, markers, 200, 12);
      std::printf("%8.0f %6.0f | %6.2f %7.2f %7.2f %6.2f | %7.2f %5.1f%%\n", photons, z, s.bound,
                  s.sd, s.sd / s.bound, s.told / s.sd, s.mean - at, 100 * s.read);
    }
  }
}

/// What is read after a change of something else, less what was read before, markers' means.
void print_false_z(const char* name, const AxialSetup& setup, double astigmatism,
                   std::span<const double> heights, const Stack& stack, int markers) {
  const test::AxialScene scene = scene_of(astigmatism);
  const auto curves = calibrated(setup, scene, stack);
  const double crossing_nm = reference_curve(curves).crossing_nm();
  struct Change {
    const char* name;
    std::function<test::AxialScene()> scene;
    double photons = 3e4, dx_px = 0, neighbour = 0;
  };
  const auto same = [&] { return scene; };
  const std::array changes = {
      Change{"half the photons", same, 1.5e4},
      Change{"a tenth of the photons", same, 3e3},
      Change{"background 20 to 60",
             [&] {
               auto s = scene;
               s.set_background(60);
               return s;
             }},
      Change{"x moved 20 nm", same, 3e4, 0.2},
      Change{"new neighbour, 5 %, 7 px", same, 3e4, 0, 0.05},
      Change{"spherical +0.02", [&] { return scene_of(astigmatism, 0, 0.02); }},
      Change{"coma +0.02", [&] { return scene_of(astigmatism, 0.02); }},
      Change{"astigmatism +2 %", [&] { return scene_of(1.02 * astigmatism); }}};
  std::printf("\n%s: false z, nm (sd of a mean here 0.1)\n%-26s", name, "");
  for (const double z : heights) std::printf(" %7.0f nm", z);
  std::printf("\n");
  for (const Change& change : changes) {
    if (astigmatism == 0 && change.name[0] == 'a' && change.name[1] == 's') continue;
    const test::AxialScene after = change.scene();
    std::printf("%-26s", change.name);
    for (const double z : heights) {
      const double at = setup.method == AxialMethod::Astigmatic ? crossing_nm + z : z;
      const auto mean = [&](const test::AxialScene& seen, double photons, double dx,
                            double neighbour) {
        simulator::Random random(31, 3);
        double sum = 0, n = 0;
        for (int marker = 0; marker < markers; ++marker) {
          std::vector<simulator::Spot> spots = {spot_anywhere(setup, at, photons, random)};
          spots[0].x_px += dx;
          if (neighbour > 0) {
            simulator::Spot other = spots[0];
            const double angle = 6.283185307 * marker / markers;
            other.x_px += 7 * std::cos(angle), other.y_px += 7 * std::sin(angle);
            other.electrons *= neighbour;
            spots.push_back(other);
          }
          simulator::Random noise(32, static_cast<std::uint64_t>(marker));
          for (const Fit& fit : fit_exposures(setup, seen, spots, 100, noise)) {
            const auto reading = reading_of(setup, fit, curves, seen.read_noise_e());
            if (reading.measured) sum += reading.z_nm, n += 1;
          }
        }
        return sum / n;
      };
      std::printf(" %10.2f", mean(after, change.photons, change.dx_px, change.neighbour) -
                                 mean(scene, 3e4, 0, 0));
    }
    std::printf("\n");
  }
}

double processor_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Frames of 256 x 256 with 16 markers, in turns, so that a busy machine slows all shapes.
int time_frames() {
  constexpr int kTurns = 5, kFrames = 500;
  constexpr std::array<const char*, 4> kNames = {"gaussian", "airy", "width_curve", "pupil"};
  std::array<double, 4> least{};
  for (int turn = 0; turn < kTurns; ++turn) {
    for (std::size_t shape = 0; shape < kNames.size(); ++shape) {
      simulator::Scenario scenario;
      scenario.optics.shape = static_cast<simulator::SpotShape>(shape);
      scenario.optics.pupil.astigmatism_waves = 0.075;
      scenario.markers.height_spread_nm = 60;
      simulator::Simulation world(scenario);
      simulator::SensorSettings settings;
      settings.width_px = settings.height_px = 256;
      settings.exposure_us = 1000;
      std::vector<std::uint16_t> levels(settings.pixels());
      const double begin_s = processor_s();
      for (int i = 0; i < kFrames; ++i)
        world.expose(i * std::int64_t{2'000'000}, settings, levels.data());
      const double us = (processor_s() - begin_s) * 1e6 / kFrames;
      if (turn == 0 || us < least[shape]) least[shape] = us;
    }
  }
  for (std::size_t shape = 0; shape < kNames.size(); ++shape)
    std::printf("%-12s %6.1f us a frame, %.2f of the flat one\n", kNames[shape], least[shape],
                least[shape] / least[0]);
  return 0;
}

int run(int markers, bool one_curve) {
  const std::array<double, 5> around = {-150, 0, 150, 300, 400};
  const std::array<double, 4> above = {400, 450, 500, 550};
  AxialSetup oval;
  Stack stack;
  if (one_curve) stack.dimness = {1e-3};
  for (const double waves : {0.06, 0.075, 0.1}) {
    for (const bool covariance : {true, false}) {
      oval.covariance = covariance;
      std::array<char, 80> name{};
      std::snprintf(name.data(), name.size(), "astigmatic, %.3f waves, %s", waves,
                    covariance ? "covariance" : "widths as if independent");
      print_errors(name.data(), oval, scene_of(waves), around, stack, markers);
    }
  }
  oval.covariance = false;
  const std::array<double, 3> places = {0, 150, 300};
  print_false_z("astigmatic, 0.075 waves", oval, 0.075, places, stack, markers);
  stack.lowest_nm = 150, stack.highest_nm = 750;
  AxialSetup round;
  round.method = AxialMethod::Defocus;
  round.roi_px = 17;
  print_errors("defocus, no lens, 17x17", round, scene_of(0), above, stack, markers);
  const std::array<double, 3> far = {400, 500, 600};
  print_false_z("defocus", round, 0, far, stack, markers);
  return 0;
}

}  // namespace
}  // namespace driftd::bench

int main(int argc, char** argv) {
  CLI::App app("z of markers against the Cramer-Rao bound");
  int markers = 40;
  app.add_option("--markers", markers, "for each figure, 200 exposures each")
      ->capture_default_str();
  bool one_curve = false, times = false;
  app.add_flag("--one-curve", one_curve, "the curve of markers of 3e4 photons alone");
  app.add_flag("--times", times, "processor time of the simulator's frames, and nothing else");
  CLI11_PARSE(app, argc, argv);
  return times ? driftd::bench::time_frames() : driftd::bench::run(markers, one_curve);
}
