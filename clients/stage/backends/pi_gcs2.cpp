// SPDX-License-Identifier: MIT
// PI controllers that speak GCS 2.0, by TCP (port 50000) or a serial line. Facts and their sources:
// commands, answers and single bytes: PIPython 2.13 gcsbasecommands.py, gcs2commands.py; lines of
// an answer: gcsmessages.py; error codes: gcserror.py; units of models: Micro-Manager
// DeviceAdapters/PI_GCS_2/PI_GCS_2.cpp and PIGCSControllerComDevice.cpp (ReadGCSAnswer).
//
// MOV is not answered: ERR? goes out behind it, and its answer, collected before anything else is
// sent, says whether MOV was taken. So no target waits in a controller that is busy with another.
#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include "clients/stage/backends/backends.hpp"
#include "clients/stage/backends/refusal.hpp"
#include "clients/stage/transport/connection.hpp"

namespace driftd::stage {

namespace {

constexpr double kNmPerUm = 1e3;
constexpr double kNmPerMm = 1e6;
constexpr double kResolutionNm = 0.1;
constexpr std::string_view kErrorNumber = "the number of an error";

constexpr int kServoOffOrNotReferenced = 5;
constexpr int kOutOfLimits = 7;
constexpr int kServoSwitchedItselfOff = 1024;

struct ErrorText {
  int code;
  const char* text;
};
constexpr std::array<ErrorText, 14> kErrors{{
    {1, "parameter syntax error"},
    {2, "unknown command"},
    {3, "command too long"},
    {kServoOffOrNotReferenced, "move refused: servo off or axis not referenced"},
    {kOutOfLimits, "move refused: position out of limits"},
    {10, "stopped by command"},
    {15, "invalid axis identifier"},
    {17, "parameter out of range"},
    {23, "illegal axis"},
    {72, "an analog input holds the target"},
    {73, "the wave generator holds the target"},
    {93, "not allowed while moving"},
    {kServoSwitchedItselfOff, "motion error: the servo switched itself off"},
    {-1024, "motion error: position error too large"},
}};

std::string error_text(int code) {
  for (const ErrorText& known : kErrors) {
    if (known.code == code) return "error " + std::to_string(code) + ": " + known.text;
  }
  return "error " + std::to_string(code) + ": see the controller's manual";
}

/// Units of models whose PUN? is not answered.
struct ModelUnit {
  const char* model;
  double nm;
};
constexpr std::array<ModelUnit, 11> kModelUnits{{{"E-517", kNmPerUm},
                                                 {"E-709", kNmPerUm},
                                                 {"E-712", kNmPerUm},
                                                 {"E-727", kNmPerUm},
                                                 {"E-753", kNmPerUm},
                                                 {"E-754", kNmPerUm},
                                                 {"C-663", kNmPerMm},
                                                 {"C-863", kNmPerMm},
                                                 {"C-867", kNmPerMm},
                                                 {"C-884", kNmPerMm},
                                                 {"E-873", kNmPerMm}}};

class PiGcs2 final : public Stage {
 public:
  explicit PiGcs2(const StageOptions& options)
      : options_(options), line_(options.device, options.baud, false, options.timeout_ms) {
    for (const std::string& axis : options.axes) {
      const auto odd = [](char c) { return c <= ' ' || c > '~' || c == '='; };
      if (std::any_of(axis.begin(), axis.end(), odd)) {
        throw std::invalid_argument("axis '" + axis + "' is no PI axis, expected such as 1 or X");
      }
      axis_list_ += " " + axis;
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
  struct Unit {
    double nm = kNmPerUm;
    int digits = 4;  ///< of kResolutionNm
  };

  std::vector<std::string> answer(std::string_view expected);
  std::vector<std::string> ask(const std::string& question, std::string_view expected);
  std::optional<std::vector<std::string>> ask_if_known(const std::string& question);
  std::vector<std::string> values(const std::vector<std::string>& lines, std::string_view expected);
  std::vector<double> numbers(const std::string& question);
  std::optional<std::vector<double>> numbers_if_known(const std::string& question);
  std::vector<double> to_numbers(const std::vector<std::string>& lines);
  void identify();
  void find_axes();
  void find_units();
  void switch_servos_on();
  void collect();
  int parse_error(const std::vector<std::string>& lines);
  int read_error();
  void judge(int error, Health& health);
  void tell_axes(int error, Health& health) const;
  void ask_servos(int error);
  std::string axes_where(const std::vector<double>& flags, double value) const;

  StageOptions options_;
  std::string axis_list_;  ///< " 1 2"
  Connection line_;
  std::string description_;
  std::string model_;
  std::vector<Unit> units_;
  std::vector<double> servo_;
  std::vector<double> referenced_;  ///< empty where the controller knows no reference
  bool tells_on_target_ = false;
  bool on_target_ = false;
  bool ask_servo_next_ = true;
  bool answer_due_ = false;  ///< of the ERR? behind a move
  int error_ = 0;            ///< that it told, until health() has
  bool not_taken_ = false;   ///< the last move, until prepare() has told it
  Refusal refusal_;
  std::string command_;
};

std::vector<std::string> PiGcs2::ask(const std::string& question, std::string_view expected) {
  collect();
  line_->write(question + "\n");
  return answer(expected);
}

/// All its lines: each but the last ends in a space before its LF.
std::vector<std::string> PiGcs2::answer(std::string_view expected) {
  std::vector<std::string> lines;
  do {
    lines.push_back(line_->read_line('\n', expected));
    if (lines.size() > 64) line_->refuse("more than 64 lines", expected);
  } while (lines.back().ends_with(' '));
  return lines;
}

/// Nothing when the controller does not know the question: it then says nothing but sets an error.
std::optional<std::vector<std::string>> PiGcs2::ask_if_known(const std::string& question) {
  try {
    return ask(question, "an answer");
  } catch (const NoAnswer&) {
    line_->discard_input();
    if (read_error() == 0) throw;  // it knows the question: the answer was lost or is late
    return std::nullopt;
  }
}

/// "1=50.1 ", "2=49.9" -> "50.1", "49.9" for all axes in their order.
std::vector<std::string> PiGcs2::values(const std::vector<std::string>& lines,
                                        std::string_view expected) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < lines.size() && i < options_.axes.size(); ++i) {
    const std::string_view line = trimmed(lines[i]);
    const std::string key = options_.axes[i] + "=";
    if (!line.starts_with(key)) line_->refuse(lines[i], key + std::string(expected));
    found.emplace_back(trimmed(line.substr(key.size())));
  }
  if (lines.size() != options_.axes.size()) {
    line_->refuse(std::to_string(lines.size()) + " lines",
                  std::to_string(options_.axes.size()) + ", one for each axis asked");
  }
  return found;
}

std::vector<double> PiGcs2::to_numbers(const std::vector<std::string>& lines) {
  std::vector<double> found;
  for (const std::string& value : values(lines, "NUMBER")) {
    const std::optional<double> number = parse_number(value);
    if (!number) line_->refuse(value, "a number");
    found.push_back(*number);
  }
  return found;
}

std::vector<double> PiGcs2::numbers(const std::string& question) {
  return to_numbers(ask(question + axis_list_, options_.axes.front() + "=NUMBER"));
}

std::optional<std::vector<double>> PiGcs2::numbers_if_known(const std::string& question) {
  const auto lines = ask_if_known(question + axis_list_);
  if (!lines) return std::nullopt;
  return to_numbers(*lines);
}

std::vector<Axis> PiGcs2::connect() {
  line_.open();
  refusal_ = {};
  answer_due_ = not_taken_ = false;
  error_ = 0;
  identify();
  find_axes();
  find_units();
  servo_ = numbers("SVO?");
  if (options_.switch_servo_on) switch_servos_on();
  referenced_.clear();
  // Piezo axes (in um) know where they are; motors must have been referenced.
  if (units_.front().nm == kNmPerMm)
    referenced_ = numbers_if_known("FRF?").value_or(std::vector<double>{});
  const std::vector<double> least = numbers("TMN?");
  const std::vector<double> most = numbers("TMX?");
  const auto on_target = numbers_if_known("ONT?");
  tells_on_target_ = on_target.has_value();
  ask_servo_next_ = false;
  on_target_ = tells_on_target_ && axes_where(*on_target, 0.0).empty();
  read_error();  // what was before, and what the questions left that it does not know

  std::vector<Axis> axes;
  for (std::size_t i = 0; i < options_.axes.size(); ++i) {
    if (least[i] > most[i]) {
      throw StageError(line_->name() + ": axis " + options_.axes[i] + " goes from " +
                       text_nm(least[i] * units_[i].nm) + " to " + text_nm(most[i] * units_[i].nm) +
                       ", expected the lower limit first");
    }
    axes.push_back({.name = options_.axes[i],
                    .min_nm = least[i] * units_[i].nm,
                    .max_nm = most[i] * units_[i].nm,
                    .resolution_nm = kResolutionNm,
                    .closed_loop = servo_[i] != 0});
  }
  return axes;
}

void PiGcs2::identify() {
  constexpr std::string_view kExpected = "MAKER, MODEL, SERIAL, FIRMWARE";
  std::vector<std::string> lines;
  try {
    lines = ask("*IDN?", kExpected);
  } catch (const NoAnswer&) {  // half a command of an earlier program may have stood before ours
    line_->discard_input();
    lines = ask("*IDN?", kExpected);
  }
  std::vector<std::string> fields;
  std::string_view rest = lines.front();
  while (true) {
    const std::size_t comma = rest.find(',');
    fields.emplace_back(trimmed(rest.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (lines.size() != 1 || fields.size() < 4) line_->refuse(lines.front(), kExpected);
  model_ = fields[fields.size() - 3];
  description_ = "PI " + model_ + ", serial number " + fields[fields.size() - 2] + ", firmware " +
                 fields.back();
  if (!line_->remark().empty()) description_ += "; " + line_->remark();

  const std::vector<std::string> syntax = ask("CSV?", "2.0, the version of its command set");
  const std::optional<double> version = parse_number(syntax.front());
  if (!version || *version < 2.0 || *version >= 3.0) {
    line_->refuse(syntax.front(), "2.0: this driver speaks GCS 2, not GCS 1 or 3");
  }
}

void PiGcs2::find_axes() {
  std::vector<std::string> present;
  std::string listed;
  for (const std::string& line : ask("SAI?", "an axis in each line")) {
    present.emplace_back(trimmed(line));
    listed += (listed.empty() ? "" : " ") + present.back();
  }
  for (const std::string& axis : options_.axes) {
    if (std::find(present.begin(), present.end(), axis) == present.end()) {
      line_->refuse(listed, "axis " + axis + " among them");
    }
  }
}

void PiGcs2::find_units() {
  units_.assign(options_.axes.size(), {});
  std::vector<std::string> names(options_.axes.size());
  if (const auto lines = ask_if_known("PUN?" + axis_list_)) {
    names = values(*lines, "UNIT");
  } else {
    const auto known = std::find_if(kModelUnits.begin(), kModelUnits.end(),
                                    [this](const auto& m) { return model_.starts_with(m.model); });
    if (known == kModelUnits.end()) {
      throw StageError(line_->name() + ": " + model_ +
                       " does not answer PUN?, and its unit of length is not known here; expected "
                       "um or mm for each axis");
    }
    for (std::string& name : names) name = known->nm == kNmPerUm ? "um" : "mm";
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string lower;
    for (const char c : names[i]) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    if (lower == "um" || lower == "micron" || lower == "\xb5m" || lower == "\xc2\xb5m") {
      units_[i] = {.nm = kNmPerUm, .digits = 4};
    } else if (lower == "mm") {
      units_[i] = {.nm = kNmPerMm, .digits = 7};
    } else {
      line_->refuse(names[i], "um or mm for axis " + options_.axes[i]);
    }
  }
}

void PiGcs2::switch_servos_on() {
  std::string command = "SVO";
  for (std::size_t i = 0; i < servo_.size(); ++i) {
    if (servo_[i] == 0) command += " " + options_.axes[i] + " 1";
  }
  if (command == "SVO") return;
  line_->write(command + "\n");
  servo_ = numbers("SVO?");
}

void PiGcs2::collect() {
  if (!std::exchange(answer_due_, false)) return;
  error_ = parse_error(answer(kErrorNumber));
  // A servo that switched itself off, of any axis and at any time, is no refusal of this move.
  if (error_ != 0 && error_ != kServoSwitchedItselfOff) not_taken_ = true;
}

bool PiGcs2::prepare() {
  collect();
  return !std::exchange(not_taken_, false);
}

bool PiGcs2::move_to(std::span<const double> nm) {
  if (!are_targets(nm)) {
    refusal_ = not_a_number();
    return false;
  }
  collect();
  command_ = "MOV";
  for (std::size_t i = 0; i < nm.size(); ++i) {
    if (stays(nm[i])) continue;
    command_ += ' ';
    command_ += options_.axes[i];
    command_ += ' ';
    append_fixed(command_, nm[i] / units_[i].nm, units_[i].digits);
  }
  command_ += "\nERR?\n";
  line_->write(command_);
  answer_due_ = true;
  line_->wait_until_sent();
  return true;
}

void PiGcs2::read(std::span<double> nm) {
  const std::vector<double> place = numbers("POS?");
  for (std::size_t i = 0; i < nm.size(); ++i) nm[i] = place[i] * units_[i].nm;
}

int PiGcs2::parse_error(const std::vector<std::string>& lines) {
  const std::optional<int> code = parse_whole(lines.front());
  if (!code || lines.size() != 1) line_->refuse(lines.front(), kErrorNumber);
  return *code;
}

int PiGcs2::read_error() {
  return parse_error(ask("ERR?", kErrorNumber));
}

/// A controller that was without power has its servos off and its reference lost.
void PiGcs2::ask_servos(int error) {
  const bool were_off = !axes_where(servo_, 0.0).empty();
  servo_ = numbers("SVO?");
  if (referenced_.empty()) return;
  if (were_off || !axes_where(servo_, 0.0).empty() || error == kServoOffOrNotReferenced ||
      !axes_where(referenced_, 0.0).empty()) {
    referenced_ = numbers("FRF?");
  }
}

/// The error register each time; on-target and servos in turns, or the servos at once when an error
/// may come from them: on a serial line every question holds up a move.
Health PiGcs2::health() {
  Health health;
  collect();
  int error = std::exchange(error_, 0);
  if (error == 0) error = read_error();
  const bool servos = ask_servo_next_ || !tells_on_target_ || error != 0;
  if (servos) {
    ask_servos(error);
  } else {
    on_target_ = axes_where(numbers("ONT?"), 0.0).empty();
  }
  ask_servo_next_ = !servos;
  health.tells_on_target = tells_on_target_;
  health.on_target = on_target_;
  judge(error, health);
  return health;
}

void PiGcs2::judge(int error, Health& health) {
  refusal_.move_into(health);
  health.common = {health.condition, health.text, health.error};
  const std::string off = axes_where(servo_, 0.0);
  const std::string lost = axes_where(referenced_, 0.0);
  if (error != 0) {
    health.condition = error == kOutOfLimits ? Condition::Limit : Condition::Error;
    health.error = error;
    health.text = error_text(error);
  }
  if (!off.empty() || error == kServoSwitchedItselfOff) {
    health.condition = Condition::ServoOff;
    if (error == 0) health.text = "the servo is off";
    if (!off.empty()) health.text += " (axis" + off + ")";
    add_hint(health, kServoHint);
  } else if (!lost.empty() || error == kServoOffOrNotReferenced) {
    health.condition = Condition::NotReferenced;
    if (error == 0) health.text = "not referenced";
    if (!lost.empty()) health.text += " (axis" + lost + ")";
  }
  tell_axes(error, health);
}

/// With which axes it is wrong, where that is all: an error that any may have stays everybody's.
void PiGcs2::tell_axes(int error, Health& health) const {
  if (error != 0 && error != kServoSwitchedItselfOff && error != kServoOffOrNotReferenced) return;
  for (std::size_t i = 0; i < options_.axes.size(); ++i) {
    const bool is_off = i < servo_.size() && servo_[i] == 0;
    const bool is_lost = i < referenced_.size() && referenced_[i] == 0;
    if (!is_off && !is_lost) continue;
    const std::string what = error != 0 ? error_text(error)
                             : is_off   ? "the servo is off"
                                        : "not referenced";
    health.of_axes.push_back({i, is_off ? Condition::ServoOff : Condition::NotReferenced,
                              what + " (axis " + options_.axes[i] + ")", error});
  }
}

/// " 1 2": the axes whose flag has the value.
std::string PiGcs2::axes_where(const std::vector<double>& flags, double value) const {
  std::string found;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] == value) found += " " + options_.axes[i];
  }
  return found;
}

}  // namespace

std::unique_ptr<Stage> make_pi_gcs2(const StageOptions& options) {
  return std::make_unique<PiGcs2>(options);
}

}  // namespace driftd::stage
