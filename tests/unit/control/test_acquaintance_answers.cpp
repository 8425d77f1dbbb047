// SPDX-License-Identifier: MIT
// What an acquaintance makes of the answers that it gets, one by one.
#include "control/lock/acquaintance.hpp"
#include "control/lock/supervisor.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

namespace driftd::control {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr double kUsualNm = 0.4;

/// One that has begun, at 500 frames/s, and got to the frame in which the stage rests after moves.
struct Begun {
  Begun() {
    REQUIRE(it.begin({.centre_nm = {},
                      .sd_nm = kUsualNm,
                      .period_s = 0.002,
                      .largest_step_nm = 5,
                      .low_nm = {-1000, -1000},
                      .high_nm = {1000, 1000},
                      .described = described,
                      .now_ns = now_ns}));
    frame();
  }
  void frame() {
    now_ns += 2 * kMs;
    const Vec2 told = it.wanted_nm({}, now_ns);
    it.saw(StageFrame{}, StageMove{now_ns, told}, 0, now_ns);
  }
  AcquaintanceEnd hear(const SeenGain& gain, std::uint32_t run) {
    it.hear({.run = run,
             .ask = AcquaintanceAsk::Find,
             .finding = {.known = true, .gain = gain, .stage = described, .noise_nm = kUsualNm}},
            kUsualNm, now_ns);
    return it.take_end();
  }
  AcquaintanceEnd hear(const SeenGain& gain) { return hear(gain, it.frame().run); }

  StageModelSettings described{.image_to_stage = {}, .delay_us = 3000, .time_constant_us = 0};
  Acquaintance it;
  std::int64_t now_ns = 1000 * kMs;
};

SeenGain known_within(double sd) {
  return {.xx_sd = sd, .xy_sd = sd, .yx_sd = sd, .yy_sd = sd};
}

TEST_CASE("a stage is adopted at once whose gain is known well") {
  Begun begun;
  CHECK(begun.hear(known_within(0.02)) == AcquaintanceEnd::Found);
  CHECK_FALSE(begun.it.is_under_way());
}

TEST_CASE("a gain that is not known well yet takes more moves") {
  Begun begun;
  CHECK(begun.hear(known_within(0.1)) == AcquaintanceEnd::None);
  CHECK(begun.it.is_under_way());
  SeenGain better = known_within(0.02);
  better.xx = 0.9;
  CHECK(begun.hear(better) == AcquaintanceEnd::Found);
  CHECK(begun.it.finding().gain.xx == 0.9);
}

TEST_CASE("an answer to a record before counts for nothing") {
  Begun begun;
  CHECK(begun.hear(known_within(0.02), begun.it.frame().run + 1) == AcquaintanceEnd::None);
  CHECK(begun.it.is_under_way());
}

TEST_CASE("each element alone can be at fault, and each has to be right") {
  double SeenGain::*const along[] = {&SeenGain::xx, &SeenGain::yy};
  for (const auto element : along) {
    CAPTURE(element == &SeenGain::xx);
    SeenGain gain = known_within(0.02);
    gain.*element = 0.3;
    CHECK(Begun().hear(gain) == AcquaintanceEnd::Fault);
    gain.*element = 0.52;  // it may be 0.5 or less: neither is sure
    Begun begun;
    CHECK(begun.hear(gain) == AcquaintanceEnd::None);
    CHECK(begun.hear(gain) == AcquaintanceEnd::None);
    CHECK(begun.hear(gain) == AcquaintanceEnd::GaveUp);
  }
  double SeenGain::*const across[] = {&SeenGain::xy, &SeenGain::yx};
  for (const auto element : across) {
    for (const double sign : {-1.0, 1.0}) {
      CAPTURE(element == &SeenGain::xy, sign);
      SeenGain gain = known_within(0.02);
      gain.*element = 0.7 * sign;
      Begun begun;
      CHECK(begun.hear(gain) == AcquaintanceEnd::Fault);
      CHECK(begun.it.looks() == StageLooks::TurnedOrSwapped);
      gain.*element = 0.48 * sign;
      CHECK(Begun().hear(gain) == AcquaintanceEnd::None);
      gain.*element = 0.4 * sign;
      CHECK(Begun().hear(gain) == AcquaintanceEnd::Found);
    }
  }
}

TEST_CASE("a glimpse finds no fault where the stage as described may as well follow") {
  SeenGain reversed = known_within(0.3);
  reversed.xx = -1.1;
  SeenGain stuck = known_within(0.02);
  stuck.xx = 0;
  struct Case {
    std::optional<SeenGain> as_described;
    AcquaintanceEnd end;
  };
  for (const Case& c :
       {Case{std::nullopt, AcquaintanceEnd::Fault}, Case{stuck, AcquaintanceEnd::Fault},
        Case{known_within(0.3), AcquaintanceEnd::None}}) {
    Begun begun;
    begun.it.hear({.run = begun.it.frame().run,
                   .ask = AcquaintanceAsk::Glimpse,
                   .finding = {.known = true,
                               .gain = reversed,
                               .as_described = c.as_described,
                               .stage = begun.described,
                               .noise_nm = kUsualNm}},
                  kUsualNm, begun.now_ns);
    CHECK(begun.it.take_end() == c.end);
  }
}

TEST_CASE("a lock gets acquainted with its stage where it is asked to") {
  for (const auto when : {AcquaintWhen::First, AcquaintWhen::Held, AcquaintWhen::Never}) {
    SupervisorSettings settings = driftd::test::default_supervisor_settings();
    settings.acquaintance.when = when;
    Supervisor supervisor(settings, FramePeriod());
    std::int64_t now_ns = 1000 * kMs;
    DriftEstimate drift;
    drift.valid = true;
    drift.markers_used = 8;
    drift.drift_nm = drift.frame_drift_nm = {};
    drift.covariance_nm2 = drift.frame_covariance_nm2 = {0.16, 0, 0.16};
    drift.frames_averaged = 1;
    const auto frame = [&](bool reference) {
      now_ns += 2 * kMs;
      supervisor.arrived(now_ns);
      supervisor.decide({.now_ns = now_ns,
                         .taken_ns = now_ns - kMs,
                         .new_reference = reference,
                         .drift = &drift});
      supervisor.prepare();
    };
    for (int i = 0; i < 100; ++i) frame(false);
    supervisor.command(LockEvent::CommandLock, now_ns);
    frame(true);
    REQUIRE(supervisor.lock().state == LockState::Locked);
    CHECK(supervisor.is_acquainting() == (when == AcquaintWhen::First));
  }
}

}  // namespace
}  // namespace driftd::control
