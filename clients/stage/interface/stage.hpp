// SPDX-License-Identifier: MIT
// A stage's controller as driftd-stage sees it: one interface, one small file for each kind of
// controller behind it (backends/). One thread owns a Stage. Positions are the controller's own, in
// nm, one for each axis of StageOptions::axes in that order; signs, scales, limits and zeros are
// not known here.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace driftd::stage {

constexpr double kMetre_nm = 1e9;  ///< longer than any stage

/// As a target: the axis is left as it is, whoever sent it there. Only stages that have z among
/// other axes are told so, and never of all axes: x and y are always told together.
constexpr double kStays = std::numeric_limits<double>::quiet_NaN();
inline bool stays(double target_nm) {
  return std::isnan(target_nm);
}

struct Axis {
  std::string name;   ///< as the controller calls it
  double min_nm = 0;  ///< travel that the controller allows
  double max_nm = 0;
  double resolution_nm = 0;  ///< smallest step of a target that the link or the controller can tell
  bool closed_loop = true;
};

/// Whether the stage would obey. Each value has one word on the wire (docs/reference/protocol.md).
enum class Condition : std::uint8_t {
  Ready,
  ServoOff,       ///< open loop: targets are ignored or not reached
  NotReferenced,  ///< it does not know where it is
  Limit,          ///< a target was beyond what it allows
  Error,          ///< it reports an error
  Disconnected,
};

/// Something that is wrong with one axis alone.
struct AxisFault {
  std::size_t axis;  ///< of StageOptions::axes
  Condition condition;
  std::string text;
  int error = 0;
};

/// What is wrong with the controller beside that.
struct CommonFault {
  Condition condition = Condition::Ready;
  std::string text = {};
  int error = 0;
};

struct Health {
  Condition condition = Condition::Ready;  ///< of all together, as error and text
  bool on_target = false;
  bool tells_on_target = false;  ///< controllers that do not say leave on_target false
  int error = 0;                 ///< the controller's own code; 0: none
  std::string text;              ///< what is wrong, for people; empty when ready
  /// None: nothing is wrong, or the controller does not tell with which axis.
  std::vector<AxisFault> of_axes = {};
  CommonFault common = {};  ///< where there are some
  std::string hint = {};    ///< the end of `text`, what to do about a servo that is off
};

struct StageOptions {
  std::string driver;             ///< pi_gcs2, lc400, ...: make_stage.cpp has them all
  std::string device;             ///< tcp://HOST:PORT, /dev/tty..., or what the driver takes
  std::vector<std::string> axes;  ///< the controller's names
  int baud = 115200;              ///< of a serial line
  std::string library;            ///< file of the vendor's library, driver `library` alone
  std::string command;            ///< the program and its arguments, driver `program` alone
  bool switch_servo_on = false;   ///< at connect(), where the controller has servos that are off
  int timeout_ms = 500;           ///< for an answer
  int start_timeout_ms = 10'000;  ///< for the first one, driver `program` alone
};

/// The connection is gone, the device is another one than it should be, or an answer makes no
/// sense. The text says what, where, what was found and what was expected.
struct StageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What is being connected needs longer, and goes on with that: connect() is to be called again, at
/// once.
struct Starting : StageError {
  using StageError::StageError;
};

/// A target, or the rest of one, would have come later than its time; what to tell where that goes
/// on.
struct TooLate : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Stage {
 public:
  virtual ~Stage() = default;
  /// Opens the connection (again, after a StageError) and asks who is there and how far it goes.
  /// Moves nothing, and switches nothing but servos where StageOptions::switch_servo_on, and what
  /// would be taken for answers.
  /// @throws StageError, Starting
  virtual std::vector<Axis> connect() = 0;
  /// Closes the connection; what was sent and has not left is dropped.
  virtual void disconnect() noexcept {}
  /// Maker, model, serial number and firmware, once connected.
  virtual std::string description() const = 0;
  /// Collects what the controller owes of the last target, so that none is sent before it has dealt
  /// with that. Called after each move_to(), before anything else and before a correction is
  /// chosen. False: it did not take the target, and says so only now; health() says why. @throws
  /// StageError
  virtual bool prepare() { return true; }
  /// Sets when the next move_to() expires, CLOCK_MONOTONIC: a driver that sends to several
  /// controllers sends nothing after that.
  virtual void expires_at(std::int64_t /*expires_ns*/) {}
  /// Sends a target, or kStays, for each axis and does not wait until it is reached. False: the
  /// controller did not take it; health() says why. Where the answer comes later, prepare() tells.
  /// @throws StageError, TooLate
  virtual bool move_to(std::span<const double> nm) = 0;
  /// Where the stage is now, by its own sensors. @throws StageError
  virtual void read(std::span<double> nm) = 0;
  /// Asked some ten times a second, between moves. @throws StageError
  virtual Health health() = 0;
};

/// @throws std::invalid_argument for a driver that does not exist or options that it cannot use;
/// opens nothing yet
std::unique_ptr<Stage> make_stage(const StageOptions& options);

}  // namespace driftd::stage
