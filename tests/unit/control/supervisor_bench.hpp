// SPDX-License-Identifier: MIT
// What the supervisor's tests drive it with, in virtual time: frames with a drift that the test
// gives, or with that of a sample on a stage that obeys (or does not), behind a publisher that
// sends (or does not). The stage's axes are turned and mirrored against the image's.
#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "control/lock/supervisor.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

namespace driftd::control::test {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kAgeNs = 3 * kMs / 2;  ///< middle of the exposure to the verdict

/// No two figures alike, so that none can stand for another.
inline SupervisorSettings supervisor_settings() {
  SupervisorSettings s = driftd::test::default_supervisor_settings();
  s.lock = {.hold_timeout_ns = 7000 * kMs,
            .reference_timeout_ns = 4000 * kMs,
            .bad_frames_to_hold = 4,
            .good_frames_to_resume = 6};
  s.controller.image_to_stage = {0.2, -1.1, -0.9, 0.1};
  s.controller.range_limit_nm = 400;
  s.controller.travel_limit_nm = 650;
  s.reference_frames = 3;
  s.stall_timeout_ns = 90 * kMs;
  s.range_timeout_ns = 300 * kMs;
  s.max_jump_nm = 40;
  s.max_drift_nm_per_s = 5;
  return s;
}

struct Frame {
  bool stale = false, not_sent = false, refused = false, new_reference = false, valid = true;
  StageSays stage = StageSays::Nothing;
  std::optional<Vec2> excitation_nm = std::nullopt;
  bool unsent = false;
};

/// A supervisor and the facts of one frame after the other.
struct Feed {
  explicit Feed(const SupervisorSettings& s = supervisor_settings(),
                std::int64_t period_ns = 2 * kMs)
      : used(s), supervisor(s, FramePeriod()), every_ns(period_ns) {}

  /// A frame whose own drift is `frame_nm`; the mean over `averaged` frames is `mean_nm`.
  Decision frame(Vec2 frame_nm, Vec2 mean_nm, int averaged = 1, Frame what = {}) {
    now_ns += every_ns;
    DriftEstimate drift;
    drift.valid = what.valid;
    drift.frame_drift_nm = frame_nm;
    drift.drift_nm = mean_nm;
    drift.covariance_nm2 = drift.frame_covariance_nm2 = {0.04, 0, 0.04};
    drift.frames_averaged = averaged;
    supervisor.arrived(now_ns);
    last_arrival_ns = now_ns;
    return supervisor.decide({.now_ns = now_ns,
                              .taken_ns = now_ns - kAgeNs,
                              .stale = what.stale,
                              .not_sent = what.not_sent,
                              .unsent = what.unsent,
                              .refused = what.refused,
                              .new_reference = what.new_reference,
                              .stage = what.stage,
                              .excitation_nm = what.excitation_nm,
                              .drift = &drift});
  }
  Decision frame(Vec2 nm = {}) { return frame(nm, nm); }
  void lock() {
    while (supervisor.reference_frames() > used.reference_frames) frame();
    frame();
    supervisor.command(LockEvent::CommandLock, now_ns);
    frame({}, {}, 1, {.new_reference = true});
    REQUIRE(state() == LockState::Locked);
  }
  LockState state() const { return supervisor.lock().state; }
  LockReason reason() const { return supervisor.lock().reason; }

  SupervisorSettings used;
  Supervisor supervisor;
  std::int64_t every_ns;
  std::int64_t now_ns = 1'000'000 * kMs;
  std::int64_t last_arrival_ns = now_ns;
};

/// A sample on a stage that does what the model says, or nothing.
struct Bench : Feed {
  using Feed::Feed;

  Decision frame(Frame what = {}) {
    const std::int64_t next_ns = now_ns + every_ns;
    const Vec2 stage = obeys ? true_stage.at(next_ns - kAgeNs) : Vec2{};
    const Vec2 image = used.controller.image_to_stage.invert(stage);
    left_nm = {sample_nm.x + image.x, sample_nm.y + image.y};
    Vec2 seen_nm{left_nm.x - zero_nm.x + noise_nm * normal(random),
                 left_nm.y - zero_nm.y + noise_nm * normal(random)};
    if (what.new_reference) {
      zero_nm = left_nm;
      seen_nm = {};
    }
    const Decision d = Feed::frame(seen_nm, seen_nm, 1, what);
    if (d.has_correction) {
      if (leaves) true_stage.command(d.correction.total_nm, now_ns);
      ++corrections;
    }
    return d;
  }
  Decision frames(int count, Frame what = {}) {
    Decision last;
    for (int i = 0; i < count; ++i) last = frame(what);
    return last;
  }
  void lock() {
    while (supervisor.reference_frames() > used.reference_frames) frame();
    frame();
    supervisor.command(LockEvent::CommandLock, now_ns);
    frames(used.reference_frames - 1);
    true_stage.reset();
    sample_nm = {0, 0};
    frame({.new_reference = true});
    REQUIRE(state() == LockState::Locked);
  }
  /// No frame for so long, looked at every 5 ms as the loop does.
  void silence(std::int64_t time_ns, bool away = false) {
    for (const std::int64_t until_ns = now_ns + time_ns; now_ns < until_ns; now_ns += 5 * kMs)
      supervisor.without_frame(last_arrival_ns, now_ns, away);
  }

  StageModel true_stage{{.image_to_stage = used.controller.image_to_stage,
                         .delay_us = used.controller.stage_delay_us,
                         .time_constant_us = used.controller.stage_time_constant_us}};
  bool obeys = true, leaves = true;
  Vec2 sample_nm, zero_nm, left_nm;
  double noise_nm = 0.1;
  int corrections = 0;
  std::mt19937 random{7};
  std::normal_distribution<double> normal;
};

}  // namespace driftd::control::test
