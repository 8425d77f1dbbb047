// SPDX-License-Identifier: MIT
// Markers far out of focus, on images of a pupil: the bright middle of their rings looks like a
// marker in focus, and must give no z.
#include <cmath>
#include <vector>

#include "support/axial_sample.hpp"
#include "support/catch.hpp"

using namespace driftd;
using control::AxialReason;
using test::AxialSample;

namespace {

struct Pupil {
  bench::AxialSetup setup;
  test::AxialScene scene;
  control::BrightnessCurves curves;
  double focus_nm;
};

Pupil calibrated_pupil(control::AxialMethod method) {
  simulator::OpticsModel optics;
  optics.shape = simulator::SpotShape::Pupil;
  bench::AxialSetup setup{.method = method, .covariance = false};
  bench::Stack stack{.dimness = {3e-4, 3e-3}, .markers = 25, .exposures = 6};
  const bool astigmatic = method == control::AxialMethod::Astigmatic;
  if (!astigmatic) stack.dimness = {1e-3};
  if (astigmatic) {
    optics.pupil.astigmatism_waves = 0.075;
  } else {
    setup.roi_px = 17;
    stack.lowest_nm = 150, stack.highest_nm = 750;
  }
  const test::AxialScene scene(optics, 20, 3);
  return {setup, scene, bench::calibrated(setup, scene, stack), astigmatic ? 0.0 : 520.0};
}

const Pupil& pupil(control::AxialMethod method) {
  static const Pupil astigmatic = calibrated_pupil(control::AxialMethod::Astigmatic);
  static const Pupil defocus = calibrated_pupil(control::AxialMethod::Defocus);
  return method == control::AxialMethod::Astigmatic ? astigmatic : defocus;
}

AxialSample::Markers markers_at(const Pupil& optics, std::size_t count, double z_nm,
                                double photons) {
  simulator::Random random(3, 7);
  AxialSample::Markers markers;
  for (std::size_t i = 0; i < count; ++i) {
    const double height_nm = 30 * random.normal();
    markers.push_back({bench::spot_anywhere(optics.setup, z_nm + height_nm, photons, random)});
  }
  return markers;
}

/// The frames of a walk with a z that is not the sample's.
struct Walk {
  int wrong = 0, out_of_range = 0, frames = 0;
};

Walk jump_to(const Pupil& optics, AxialSample& sample, const std::vector<double>& places_nm,
             double photons, bool surroundings) {
  simulator::Random random(5, 1);
  Walk walk;
  for (const double z_nm : places_nm) {
    const auto markers = markers_at(optics, 6, z_nm, photons);
    for (int frame = 0; frame < 20; ++frame) {
      const auto& z = sample.expose(optics.scene, markers, 1, random, surroundings);
      const double off_nm = z.z_nm - (z_nm - optics.focus_nm);
      ++walk.frames;
      if (z.valid && std::abs(off_nm) > 100) ++walk.wrong;
      if (!z.valid && z.reason == AxialReason::OutOfRange) ++walk.out_of_range;
    }
  }
  return walk;
}

std::vector<double> far_places() {
  std::vector<double> places;
  for (const double side : {1.0, -1.0})
    for (const double away : {1100.0, 1200.0, 1300.0, 1400.0, 1600.0})
      places.push_back(side * away);
  return places;
}

}  // namespace

TEST_CASE("markers that jump far out of focus have no z", "[axial]") {
  const auto method = GENERATE(control::AxialMethod::Astigmatic, control::AxialMethod::Defocus);
  const bool surroundings = GENERATE(true, false);
  const double photons = GENERATE(1e4, 3e4, 3e5);
  CAPTURE(static_cast<int>(method), surroundings, photons);
  const Pupil& optics = pupil(method);
  AxialSample sample(optics.setup, optics.curves, 6);
  simulator::Random random(4, 1);
  const auto focused = markers_at(optics, 6, optics.focus_nm, photons);
  REQUIRE(sample.reference(optics.scene, focused, 50, random, surroundings).valid);
  const Walk walk = jump_to(optics, sample, far_places(), photons, surroundings);
  CHECK(walk.wrong == 0);
  if (photons == 3e4) CHECK(walk.out_of_range > walk.frames / 3);
  // Back in focus z is there at once.
  CHECK(sample.expose(optics.scene, focused, 1, random, surroundings).valid);
}

TEST_CASE("markers that drift through and beyond the range have no z there", "[axial]") {
  const Pupil& optics = pupil(control::AxialMethod::Astigmatic);
  const double side = GENERATE(1.0, -1.0);
  AxialSample sample(optics.setup, optics.curves, 6);
  simulator::Random random(4, 1);
  REQUIRE(sample.reference(optics.scene, markers_at(optics, 6, 0, 3e4), 50, random, false).valid);
  std::vector<double> places;
  for (double z = 0; z < 1700; z += 50) places.push_back(side * z);
  const Walk walk = jump_to(optics, sample, places, 3e4, false);
  CHECK(walk.wrong == 0);
  CHECK(walk.out_of_range > 5 * 20);
}

TEST_CASE("a lock taken far out of focus has no z", "[axial]") {
  const auto method = GENERATE(control::AxialMethod::Astigmatic, control::AxialMethod::Defocus);
  const double z_nm = GENERATE(-1600.0, -1400.0, -1200.0, 1200.0, 1300.0, 1600.0);
  CAPTURE(static_cast<int>(method), z_nm);
  const Pupil& optics = pupil(method);
  AxialSample sample(optics.setup, optics.curves, 6);
  simulator::Random random(4, 1);
  const auto markers = markers_at(optics, 6, z_nm, 3e4);
  sample.reference(optics.scene, markers, 50, random);
  for (int frame = 0; frame < 20; ++frame)
    CHECK_FALSE(sample.expose(optics.scene, markers, 1, random).valid);
}

TEST_CASE("a single marker far out of focus does not count among others", "[axial]") {
  const Pupil& optics = pupil(control::AxialMethod::Astigmatic);
  AxialSample sample(optics.setup, optics.curves, 6);
  simulator::Random random(4, 1);
  auto markers = markers_at(optics, 6, 0, 3e4);
  markers[2] = markers_at(optics, 1, 1300, 3e4)[0];
  sample.reference(optics.scene, markers, 50, random);
  CHECK(sample.expose(optics.scene, markers, 1, random).valid);
  CHECK_FALSE(sample.referenced(2));
  CHECK(sample.result(2).reason == AxialReason::OutOfRange);
  CHECK(sample.referenced(1));
}

TEST_CASE("a lamp that is turned down leaves z where it is", "[axial]") {
  Pupil optics = pupil(control::AxialMethod::Astigmatic);
  AxialSample sample(optics.setup, optics.curves, 6);
  simulator::Random random(4, 1);
  REQUIRE(sample.reference(optics.scene, markers_at(optics, 6, 0, 6e4), 50, random).valid);
  test::AxialScene darker = optics.scene;
  darker.set_background(2);
  const auto& z = sample.expose(darker, markers_at(optics, 6, 0, 6e3), 20, random);
  CHECK(z.valid);
  CHECK(std::abs(z.z_nm) < 5 * std::sqrt(z.variance_nm2));
}

TEST_CASE("a marker that is joined by another does not count", "[axial]") {
  const Pupil& optics = pupil(control::AxialMethod::Astigmatic);
  AxialSample sample(optics.setup, optics.curves, 6);
  simulator::Random random(4, 1);
  auto markers = markers_at(optics, 6, 0, 3e3);
  REQUIRE(sample.reference(optics.scene, markers, 50, random).valid);
  simulator::Spot other = markers[1][0];
  other.x_px += 0.05, other.electrons *= 0.7;
  markers[1].push_back(other);
  CHECK(sample.expose(optics.scene, markers, 5, random).valid);
  CHECK(sample.result(1).reason == AxialReason::Implausible);
  CHECK(sample.result(2).reason == AxialReason::Measured);
}
