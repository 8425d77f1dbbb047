// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "control/lock/acquisition_gate.hpp"
#include "support/catch.hpp"

using driftd::control::AcquisitionGate;
using driftd::control::name_of;
using driftd::control::Vec2;

namespace {

struct Fixture {
  AcquisitionGate gate{{.tolerance_nm = 1, .average_s = 0.1}};
  std::int64_t now_ns = 1'000'000'000;
  std::int64_t interval_ns = 2'000'000;
  int sign = 1;

  /// Frames whose residual in x has this rms, and none in y.
  void frames(int count, double rms_nm) {
    for (int i = 0; i < count; ++i) {
      sign = -sign;
      frame({sign * rms_nm, 0});
    }
  }
  void frame(Vec2 residual_nm) {
    now_ns += interval_ns;
    gate.measured(residual_nm, now_ns);
  }
  bool in_lock() const { return gate.state().in_lock; }
  std::string reason() const { return name_of(gate.state().reason); }
};

}  // namespace

TEST_CASE("a still sample is in lock once it was still for the time of the average") {
  Fixture f;
  CHECK(f.reason() == "not_locked");
  f.frames(50, 0.5);
  CHECK_FALSE(f.in_lock());
  CHECK(f.reason() == "settling");
  f.frames(1, 0.5);
  CHECK(f.in_lock());
  CHECK(f.reason() == "in_lock");
  CHECK(f.gate.state().since_ns == f.now_ns);
  CHECK(f.gate.state().residual_nm.x == Approx(0.5));
  CHECK(f.gate.state().residual_nm.y == Approx(0).margin(1e-9));
}

TEST_CASE("a residual about the tolerance does not open and close the gate") {
  Fixture f;
  f.frames(500, 1.1);
  CHECK(f.reason() == "residual");
  f.frames(500, 0.9);
  CHECK(f.in_lock());
  f.frames(500, 1.1);
  CHECK(f.in_lock());
  f.frames(500, 1.3);
  CHECK(f.reason() == "residual");
  f.frames(500, 1.1);
  CHECK_FALSE(f.in_lock());
  CHECK(f.gate.state().closed == 1);
}

TEST_CASE("either axis closes it") {
  Fixture f;
  f.frames(500, 0.1);
  for (int i = 0; i < 500; ++i) f.frame({0, 2});
  CHECK(f.reason() == "residual");
  CHECK(f.gate.state().residual_nm.y == Approx(2).epsilon(0.01));
}

TEST_CASE("one frame far away closes it at once, and what was before is forgotten") {
  Fixture f;
  f.frames(500, 0.1);
  const double residual_nm = GENERATE(4.1, -4.1, 1e9, std::numeric_limits<double>::quiet_NaN(),
                                      std::numeric_limits<double>::infinity());
  f.frame(GENERATE_COPY(Vec2{residual_nm, 0}, Vec2{0, residual_nm}));
  CHECK_FALSE(f.in_lock());
  CHECK(f.reason() == "moved");
  CHECK(f.gate.state().since_ns == f.now_ns);
  f.frames(50, 0.1);
  CHECK(f.reason() == "settling");
  f.frames(1, 0.1);
  CHECK(f.in_lock());
  CHECK(f.gate.state().residual_nm.x == Approx(0.1));
}

TEST_CASE("without a lock it is closed, whatever was measured before") {
  Fixture f;
  f.gate.not_locked(1);
  CHECK(f.gate.state().closed == 0);
  f.frames(500, 0.1);
  f.gate.not_locked(++f.now_ns);
  f.gate.not_locked(f.now_ns + 1000);
  CHECK(f.reason() == "not_locked");
  CHECK(f.gate.state().closed == 1);
  CHECK(f.gate.state().since_ns == f.now_ns);
  CHECK(std::isnan(f.gate.state().residual_nm.x));
  f.frames(50, 0.1);
  CHECK(f.reason() == "settling");
}

TEST_CASE("a slow camera opens it after a few frames") {
  Fixture f;
  f.interval_ns = 500'000'000;
  f.frames(AcquisitionGate::kLeastFrames - 1, 0.5);
  CHECK(f.reason() == "settling");
  f.frames(1, 0.5);
  CHECK(f.in_lock());
}

TEST_CASE("after too large a residual the sample has to be still for as long again") {
  Fixture f;
  f.frames(500, 1.01);
  REQUIRE(f.reason() == "residual");
  int frames = 0;
  for (; !f.in_lock(); ++frames) f.frames(1, 0.9);
  CHECK(frames > 50);
  CHECK(frames < 80);
}

TEST_CASE("the rms of a fast camera is over all the time that is asked for") {
  Fixture f;
  f.gate.change_settings({.tolerance_nm = 1, .average_s = 60});
  f.interval_ns = 1'000'000;
  f.frames(100'000, 0.1);
  REQUIRE(f.in_lock());
  int frames = 0;
  for (; f.in_lock(); ++frames) f.frames(1, 2);
  // 4 (1 - exp(-t / 60 s)) = 1.5625
  CHECK(frames * 1e-3 == Approx(29.7).epsilon(0.03));
}

TEST_CASE("a narrower tolerance holds from the next frame on") {
  Fixture f;
  f.frames(500, 0.5);
  f.gate.change_settings({.tolerance_nm = 0.2, .average_s = 0.1});
  f.frames(1, 0.5);
  CHECK(f.reason() == "residual");
}

TEST_CASE("noise of four fifths of the tolerance leaves it open") {
  Fixture f;
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.8);
  f.frames(100, 0.8);
  for (int i = 0; i < 300'000; ++i) f.frame({noise(random), noise(random)});
  CHECK(f.gate.state().closed <= 3);  // ten minutes
  CHECK(f.in_lock());
}

TEST_CASE("a sample that is moved is in lock again when it was still for long enough after it") {
  Fixture f;
  f.frames(200, 0.3);
  REQUIRE(f.in_lock());
  f.gate.moving(++f.now_ns);
  CHECK_FALSE(f.in_lock());
  CHECK(f.reason() == "moving");
  CHECK(f.gate.state().closed == 1);
  CHECK(std::isnan(f.gate.state().residual_nm.x));
  f.gate.moving(++f.now_ns);
  CHECK(f.gate.state().closed == 1);
  f.frames(1, 0.3);
  CHECK(f.reason() == "settling");
  int frames = 1;
  for (; !f.in_lock(); ++frames) f.frames(1, 0.3);
  CHECK(frames == 51);  // 0.1 s at 500 frames/s: nothing of before counts
}
