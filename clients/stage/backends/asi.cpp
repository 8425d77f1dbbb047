// SPDX-License-Identifier: MIT
// ASI MS-2000 and Tiger, by a serial line (or TCP behind a serial server). Facts and their sources:
// commands and their answers under `VB F=0`: ASI "Tiger TG-1000 Instruction Manual", programming
// section, and Micro-Manager DeviceAdapters/ASITiger (ASIHub.cpp, ASIXYStage.cpp), ASIStage; CR
// ends a command, CR LF an answer; positions count 1/(UM) mm, limits are in mm; an order of axes in
// one answer is not promised (ASIXYStage.cpp), so each is asked alone.
//
// Each move is answered (":A" or ":N-code"); the answer is read before the next command, not
// waited for behind the move, and at the latest by prepare(), before the next target is judged.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "clients/stage/backends/backends.hpp"
#include "clients/stage/backends/refusal.hpp"
#include "clients/stage/transport/connection.hpp"

namespace driftd::stage {

namespace {

constexpr double kNmPerMm = 1e6;
constexpr int kDigits = 2;  ///< of a target in its unit, 0.1 um unless UM was changed: 1 nm
constexpr int kOutOfRange = -4;

struct ErrorText {
  int code;
  const char* text;
};
constexpr std::array<ErrorText, 7> kErrors{{{-1, "unknown command"},
                                            {-2, "unknown axis"},
                                            {-3, "a parameter is missing"},
                                            {kOutOfRange, "a parameter is out of range"},
                                            {-5, "the operation failed"},
                                            {-6, "undefined error"},
                                            {-21, "halted by command"}}};

std::string error_text(int code) {
  for (const ErrorText& known : kErrors) {
    if (known.code == code) return ":N" + std::to_string(code) + ": " + known.text;
  }
  return ":N" + std::to_string(code) + ": see the controller's manual";
}

struct AsiAxis {
  double units_per_nm = 1e-2;
  bool motor_on = true;
};

class Asi final : public Stage {
 public:
  explicit Asi(const StageOptions& options)
      : options_(options), line_(options.device, options.baud, false, options.timeout_ms) {
    for (const std::string& axis : options.axes) {
      if (axis.size() != 1 || axis[0] < 'A' || axis[0] > 'Z') {
        throw std::invalid_argument("axis '" + axis + "' is no ASI axis, expected A to Z");
      }
    }
  }

  std::vector<Axis> connect() override;
  void disconnect() noexcept override { line_.drop(); }
  std::string description() const override { return description_; }
  bool prepare() override;
  bool move_to(std::span<const double> nm) override;
  void read(std::span<double> nm) override;
  Health health() override;

 private:
  struct Answer {
    std::string line;
    int error = 0;  ///< of ":N-4": -4
  };

  Answer ask(const std::string& question);
  std::string ask_well(const std::string& question);
  double number(const std::string& question, const std::string& axis);
  std::optional<bool> motor_on(const std::string& axis);
  void identify();
  Axis ask_axis(std::size_t i);
  void collect();
  bool busy();

  StageOptions options_;
  Connection line_;
  std::vector<AsiAxis> axes_;
  std::string description_;
  std::string command_;
  std::size_t next_motor_ = 0;  ///< whose motor health() asks for
  bool tells_motor_ = true;
  bool answer_due_ = false;  ///< of a move
  Refusal refusal_;
  Refusal late_;  ///< of the last move, until prepare() has told it
};

/// The answer of the last move, which is due before anything else is asked.
void Asi::collect() {
  if (!answer_due_) return;
  answer_due_ = false;
  const std::string line = line_->read_line('\n', ":A");
  if (line.starts_with(":N")) {
    const auto error = parse_whole(std::string_view(line).substr(2));
    if (!error) line_->refuse(line, ":A or :N-CODE");
    refusal_ = {.condition = *error == kOutOfRange ? Condition::Limit : Condition::Error,
                .code = *error,
                .text = "move refused, " + error_text(*error)};
    late_ = refusal_;
  } else if (trimmed(line) != ":A") {
    line_->refuse(line, ":A or :N-CODE");
  }
}

/// health() may have told the reason before.
bool Asi::prepare() {
  collect();
  if (!late_.happened()) return true;
  refusal_ = std::exchange(late_, {});
  return false;
}

Asi::Answer Asi::ask(const std::string& question) {
  collect();
  line_->write(question + "\r");
  Answer answer{.line = line_->read_line('\n', "a line that starts with :")};
  if (!answer.line.starts_with(':')) line_->refuse(answer.line, "a line that starts with :");
  if (answer.line.starts_with(":N")) {
    const auto error = parse_whole(std::string_view(answer.line).substr(2));
    if (!error) line_->refuse(answer.line, ":N-CODE");
    answer.error = *error;
  }
  return answer;
}

std::string Asi::ask_well(const std::string& question) {
  Answer answer = ask(question);
  if (answer.error != 0) line_->refuse(answer.line, ":A (" + error_text(answer.error) + ")");
  return std::move(answer.line);
}

/// Reads the number from ":A X=1.5", ":X=1.5 A" or ":A 1.5": firmwares differ.
double Asi::number(const std::string& question, const std::string& axis) {
  const std::string line = ask_well(question);
  for (std::string_view word : words(std::string_view(line).substr(1))) {
    if (word == "A") continue;
    if (word.starts_with(axis + "=")) word.remove_prefix(axis.size() + 1);
    if (const auto value = parse_number(word)) return *value;
    break;
  }
  line_->refuse(line, ":A " + axis + "=NUMBER");
}

/// Nothing for an axis without a motor, or a firmware that does not say.
std::optional<bool> Asi::motor_on(const std::string& axis) {
  const Answer answer = ask("MC " + axis + "?");
  if (answer.error != 0) return std::nullopt;
  const std::vector<std::string_view> said = words(std::string_view(answer.line).substr(1));
  for (const std::string_view word : said) {
    if (word == "1" || word == axis + "=1") return true;
    if (word == "0" || word == axis + "=0") return false;
  }
  line_->refuse(answer.line, ":A 1 or :A 0");
}

std::vector<Axis> Asi::connect() {
  line_.open();
  refusal_ = {};
  late_ = {};
  answer_due_ = false;
  tells_motor_ = true;
  next_motor_ = 0;
  axes_.assign(options_.axes.size(), {});
  identify();
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < axes_.size(); ++i) axes.push_back(ask_axis(i));
  return axes;
}

void Asi::identify() {
  try {
    // The syntax of answers that all firmwares have; those that know no other refuse the command.
    ask("VB F=0");
  } catch (const StageError&) {  // half a line of an earlier program, or the other syntax
    line_->discard_until_quiet(50);
    ask("VB F=0");
  }
  ask("VB Z=2");  // positions with 1 nm; where it is refused they come with fewer digits
  std::string version = ask_well("V").substr(1);
  if (version.starts_with("A")) version.erase(0, 1);
  description_ = "ASI " + std::string(trimmed(version));
  if (!line_->remark().empty()) description_ += "; " + line_->remark();
}

Axis Asi::ask_axis(std::size_t i) {
  const std::string& name = options_.axes[i];
  const double units_per_mm = number("UM " + name + "?", name);
  if (units_per_mm < 1) {
    line_->refuse(std::to_string(units_per_mm), "1 unit or more in a mm of axis " + name);
  }
  axes_[i].units_per_nm = units_per_mm / kNmPerMm;
  const double lower_mm = number("SL " + name + "?", name);
  const double upper_mm = number("SU " + name + "?", name);
  std::optional<bool> motor = motor_on(name);
  if (motor == false && options_.switch_servo_on) {
    ask_well("MC " + name + "+");
    motor = motor_on(name);
  }
  tells_motor_ = tells_motor_ && motor.has_value();
  axes_[i].motor_on = motor.value_or(true);
  return {.name = name,
          .min_nm = std::min(lower_mm, upper_mm) * kNmPerMm,
          .max_nm = std::max(lower_mm, upper_mm) * kNmPerMm,
          .resolution_nm = std::pow(10.0, -kDigits) / axes_[i].units_per_nm,
          .closed_loop = axes_[i].motor_on};
}

bool Asi::move_to(std::span<const double> nm) {
  if (!are_targets(nm)) {
    refusal_ = not_a_number();
    return false;
  }
  collect();
  command_ = "M";
  for (std::size_t i = 0; i < nm.size(); ++i) {
    if (stays(nm[i])) continue;
    command_ += ' ';
    command_ += options_.axes[i];
    command_ += '=';
    append_fixed(command_, nm[i] * axes_.at(i).units_per_nm, kDigits);
  }
  command_ += '\r';
  line_->write(command_);
  answer_due_ = true;
  return true;
}

void Asi::read(std::span<double> nm) {
  for (std::size_t i = 0; i < nm.size(); ++i) {
    nm[i] = number("W " + options_.axes[i], options_.axes[i]) / axes_.at(i).units_per_nm;
  }
}

/// "/" is answered by B or N, without ":A" by MS-2000 and with it by some Tigers.
bool Asi::busy() {
  collect();
  line_->write("/\r");
  const std::string line = line_->read_line('\n', "B or N");
  std::string_view state = trimmed(line);
  if (state.starts_with(":A")) state = trimmed(state.substr(2));
  if (!state.starts_with('B') && !state.starts_with('N')) line_->refuse(line, "B or N");
  return state.starts_with('B');
}

/// One motor at a time: at 9600 baud every question costs some 12 ms.
Health Asi::health() {
  Health health;
  health.tells_on_target = true;
  health.on_target = !busy();
  if (tells_motor_ && !axes_.empty()) {
    axes_[next_motor_].motor_on = motor_on(options_.axes[next_motor_]).value_or(true);
    next_motor_ = (next_motor_ + 1) % axes_.size();
  }
  refusal_.move_into(health);
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].motor_on) continue;
    add_axis_fault(health,
                   {i, Condition::ServoOff, "the motor of axis " + options_.axes[i] + " is off"});
  }
  if (health.condition == Condition::ServoOff) add_hint(health, kServoHint);
  return health;
}

}  // namespace

std::unique_ptr<Stage> make_asi(const StageOptions& options) {
  return std::make_unique<Asi>(options);
}

}  // namespace driftd::stage
