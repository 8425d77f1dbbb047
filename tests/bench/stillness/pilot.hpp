// SPDX-License-Identifier: MIT
// Who holds the sample: the daemon's own parts with a control law, or the best controller there is.
// A run calls it once per frame that arrives. One thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/lock/set_point.hpp"
#include "control/lock/supervisor.hpp"
#include "simulator/simulation.hpp"
#include "tests/bench/stillness/bound.hpp"
#include "tests/bench/stillness/observed_flight.hpp"
#include "tests/bench/stillness/world.hpp"

namespace driftd::stillness {

/// The name of the bound's own controller.
inline constexpr const char* kBestLaw = "best";
/// Nobody moves the stage once the reference is taken.
inline constexpr const char* kNoLaw = "none";

/// A frame that arrives, as the world knows it: `truth` is the mean over its exposure.
struct Frame {
  simulator::Truth truth;
  std::int64_t number = 0;  ///< frames since the scenario's start, those that are missing included
  std::int64_t taken_ns = 0;  ///< middle of the exposure, the daemon's clock
  std::int64_t now_ns = 0;    ///< when a correction would reach the stage
};

/// What is published of a frame's drift, beside what was true.
struct PublishedDrift {
  Vec2 error_nm;  ///< the references' included
  Vec2 sd_nm;
};

class Pilot {
 public:
  Pilot() = default;
  Pilot(const Pilot&) = delete;
  Pilot& operator=(const Pilot&) = delete;
  virtual ~Pilot() = default;
  /// Where the stage is to go now, from its place at the start; nothing: no command.
  virtual std::optional<Vec2> fly(const Frame& frame) = 0;
  /// The stage is under control since some frame.
  virtual bool engaged() const = 0;
  virtual bool locked() const = 0;
  /// Locked, and a law decides where the stage goes.
  virtual bool acts() const { return locked(); }
  /// While not locked: why, in the daemon's words.
  virtual std::string reason() const { return {}; }
  virtual std::optional<PublishedDrift> published() const { return std::nullopt; }
  /// What the stage looks like, in the daemon's words.
  virtual std::string looks() const { return {}; }
  /// What was found out of the stage; "" where nothing was.
  virtual std::string stage_found() const { return {}; }
  /// The residual's mean square that the law expects of itself, mean of both axes.
  virtual std::optional<double> foretold_nm2() const { return std::nullopt; }
  /// How an observer under the supervisor found the stage to differ from what it was told.
  virtual std::array<control::StageError, control::kAxes> stage_errors() const { return {}; }
  /// What the law has learnt of the sample; of one that flies with what was learnt elsewhere, that.
  virtual Learnt learnt() const { return {}; }

  /// The camera is to send its frames later by control::kSlowerShare.
  virtual bool wants_slower_frames() const { return false; }

  // Moves under lock, of what can make them.
  /// @returns false when it is not locked
  virtual bool begin_move(const control::MovePath& /*path*/) { return false; }
  virtual control::SetPoint set_point() const { return {}; }
  virtual bool in_lock() const { return false; }  ///< as published
  virtual Vec2 reference_nm() const {
    return {};
  }  ///< the true place that the reference stands for
};

/// The control laws that the daemon has; with "-alone" after it, each without the supervisor; and
/// kBestLaw.
std::vector<std::string> law_names();

/// Estimator, supervisor and servo of the daemon, as docs/internals/drift-and-lock.md has them.
/// @param frozen  what an observer flies with, and learns no more; null: it learns
/// @throws std::invalid_argument when the daemon has no law of that name
std::unique_ptr<Pilot> make_daemon_pilot(const World& world, simulator::Simulation& simulation,
                                         const std::string& law, const Learnt* frozen = nullptr);
/// Supervisor and servo of the daemon for an axial world. @throws std::invalid_argument
std::unique_ptr<Pilot> make_axial_pilot(const World& world, const std::string& law);
/// What the daemon would be told of such a world.
control::SupervisorSettings daemon_settings(const World& world, control::ControlLaw law);
std::int64_t period_ns(const World& world);
/// The best controller, axis by axis; of lines it is told all, of a ramp nothing: leave it out of
/// the scenario.
std::unique_ptr<Pilot> make_best_pilot(const World& world, double noise_nm);

}  // namespace driftd::stillness
