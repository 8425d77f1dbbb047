// SPDX-License-Identifier: MIT
// A driver as a program of its own, in any language: one request a line, one answer a line
// (docs/use/stages.md, "A driver of your own"). It is a child of this program, or listens at a
// socket.
//
// A program that says `gone`, or was understood otherwise, is asked `hello` again; one that died,
// was late, or wrote what is no answer is killed, and started anew at the next connection.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/monotonic.hpp"
#include "clients/stage/backends/backends.hpp"
#include "clients/stage/backends/refusal.hpp"
#include "clients/stage/transport/child.hpp"
#include "clients/stage/transport/open_stream.hpp"

namespace driftd::stage {

namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kHello = "hello 1 DESCRIPTION";
constexpr std::string_view kAxis =
    "axis MIN MAX RESOLUTION closed or open, with - for a number not known";
constexpr std::string_view kHealth =
    "health STATE with the state one of ready, servo_off, not_referenced, limit, error";
constexpr int kTargetDigits = 4;  // of nm
constexpr std::int64_t kMs_ns = 1'000'000;

/// Takes the first word off.
std::string_view next_word(std::string_view& text) {
  text = trimmed(text);
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  text = trimmed(text);
  return word;
}

/// A text of the program for people, who read it in the report and in the log.
std::string sentence(std::string_view text) {
  constexpr std::size_t kMostBytes = 300;
  std::string line(text.substr(0, kMostBytes));
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return line;
}

std::optional<Condition> condition_of(std::string_view word) {
  if (word == "ready") return Condition::Ready;
  if (word == "servo_off") return Condition::ServoOff;
  if (word == "not_referenced") return Condition::NotReferenced;
  if (word == "limit") return Condition::Limit;
  if (word == "error") return Condition::Error;
  return std::nullopt;
}

/// Takes the controller's code off a text for people, where it begins with one. A whole number that
/// is too large for a code, as Windows' are without their sign, stays in the text.
/// @return nothing where it begins with no whole number
std::optional<int> take_code(std::string_view& text) {
  std::string_view behind = text;
  const std::string_view word = next_word(behind);
  const auto code = parse_whole(word);
  if (code) text = behind;
  const std::string_view digits = word.substr(word.starts_with('-') ? 1 : 0);
  const bool too_large =
      !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  return code || !too_large ? code : 0;
}

class ProgramStage final : public Stage {
 public:
  explicit ProgramStage(const StageOptions& options) : options_(options) {
    const bool listens = options.device.starts_with(kUnix);
    if (options.command.empty() != listens || (!listens && !options.device.empty())) {
      throw std::invalid_argument(
          "driver program needs its command, or the device unix:/PATH where it listens, and not "
          "both");
    }
    for (const std::string& axis : options.axes) {
      if (sentence(axis) != axis)  // it is a line's
        throw std::invalid_argument("axis '" + printable(axis) +
                                    "' is no name of one line, of at most 300 bytes");
    }
    if (listens)
      check_device(options.device, options.baud);
    else
      child_.emplace(options.command, options.timeout_ms);
  }
  ~ProgramStage() override {
    if (!in_step_ && !greets_) disconnect();  // hello moves nothing
    line_.reset();                            // its input ends
  }
  ProgramStage(const ProgramStage&) = delete;
  ProgramStage& operator=(const ProgramStage&) = delete;

  std::vector<Axis> connect() override;
  void disconnect() noexcept override;
  std::string description() const override { return description_; }
  void expires_at(std::int64_t expires_ns) override { expires_ns_ = expires_ns; }
  bool move_to(std::span<const double> nm) override;
  void read(std::span<double> nm) override;
  Health health() override;

 private:
  const std::string& name() const { return child_ ? options_.command : options_.device; }
  void say(const std::string& request);
  std::string answer(std::string_view expected);
  std::string ask(const std::string& request, std::string_view expected);
  void greet();
  Axis axis(const std::string& axis);
  void understood() { in_step_ = true; }
  [[noreturn]] void tell_end(const Closed& error);

  StageOptions options_;
  std::optional<Child> child_;  ///< none: it listens at options_.device
  std::optional<ByteStream> line_;
  bool in_step_ = true;  ///< nothing is asked, and the last answer was one
  bool greets_ = false;  ///< hello is asked, and its answer owed
  std::int64_t hello_ns_ = 0;
  std::int64_t expires_ns_ = std::numeric_limits<std::int64_t>::max();
  std::string description_;
  std::string request_;
  Refusal refusal_;
};

/// Throws the error of a line that was closed, and says what became of the program, too.
void ProgramStage::tell_end(const Closed& error) {
  const auto how = child_ ? child_->how_it_ended() : std::nullopt;
  if (!how) throw error;
  throw StageError(fmt::format("{}; the program {}", error.what(), *how));
}

/// Whatever came unasked was no answer, and neither would be the next.
void ProgramStage::say(const std::string& request) {
  if (!line_) throw StageError(name() + ": not connected");
  const bool unasked = in_step_;
  in_step_ = false;
  try {
    if (unasked && line_->input_waiting()) {
      const std::string line = line_->read_line('\n', "nothing before the next request");
      line_->drop();
      throw StageError(name() + ": wrote '" + printable(line) +
                       "' unasked, expected nothing before the next request");
    }
    line_->write(request + "\n");
  } catch (const Closed& error) {
    tell_end(error);
  }
}

std::string ProgramStage::answer(std::string_view expected) {
  std::string line;
  try {
    line = line_->read_line('\n', expected);
  } catch (const Closed& error) {
    tell_end(error);
  }
  std::string_view rest = line;
  if (next_word(rest) != "gone") return line;
  understood();
  throw StageError(name() + ": " + (rest.empty() ? "the stage is gone" : sentence(rest)));
}

std::string ProgramStage::ask(const std::string& request, std::string_view expected) {
  say(request);
  return answer(expected);
}

std::vector<Axis> ProgramStage::connect() {
  greet();
  std::vector<Axis> axes;
  for (const std::string& name : options_.axes) axes.push_back(axis(name));
  refusal_ = {};
  return axes;
}

/// What opens its stage only now may need longer than the timeout of an answer: it is waited for
/// once more by each call, so that the caller gets on meanwhile.
void ProgramStage::greet() {
  if (!greets_) {
    if (!line_) {
      line_.emplace(child_
                        ? child_->start()
                        : open_stream(options_.device, options_.baud, false, options_.timeout_ms));
    }
    say("hello 1");
    greets_ = true;
    hello_ns_ = monotonic_ns();
  }
  bool came = false;
  try {
    came = line_->input_waiting(options_.timeout_ms);
  } catch (const Closed& error) {
    tell_end(error);
  }
  if (!came && monotonic_ns() - hello_ns_ < options_.start_timeout_ms * kMs_ns) {
    throw Starting(
        fmt::format("{}: is starting, which may take {} ms", name(), options_.start_timeout_ms));
  }
  greets_ = false;
  if (!came) {
    throw StageError(fmt::format("{}: no answer to 'hello 1' within {} ms, expected '{}'", name(),
                                 options_.start_timeout_ms, kHello));
  }
  const std::string line = answer(kHello);
  std::string_view rest = line;
  if (next_word(rest) != "hello" || next_word(rest) != "1") line_->refuse(line, kHello);
  understood();
  description_ = sentence(rest);
}

Axis ProgramStage::axis(const std::string& name) {
  const std::string line = ask("axis " + name, kAxis);
  std::string_view rest = line;
  const bool is_axis = next_word(rest) == "axis";
  const auto number = [&](double unknown) -> std::optional<double> {
    const std::string_view word = next_word(rest);
    return word == "-" ? unknown : parse_number(word);
  };
  const auto min_nm = number(-kMetre_nm);
  const auto max_nm = number(kMetre_nm);
  const auto resolution_nm = number(0);
  const std::string_view loop = next_word(rest);
  if (!is_axis || !min_nm || !max_nm || !resolution_nm || !(*min_nm < *max_nm) ||
      *resolution_nm < 0 || (loop != "closed" && loop != "open"))
    line_->refuse(line, kAxis);
  understood();
  return {.name = rest.empty() ? name : sentence(rest),
          .min_nm = *min_nm,
          .max_nm = *max_nm,
          .resolution_nm = *resolution_nm,
          .closed_loop = loop == "closed"};
}

void ProgramStage::disconnect() noexcept {
  if (in_step_) return;  // nothing is on its way: it is asked again
  if (line_) line_->drop();
  line_.reset();
  if (child_) child_->kill();
  in_step_ = true;
  greets_ = false;
}

bool ProgramStage::move_to(std::span<const double> nm) {
  if (!are_targets(nm)) {
    refusal_ = not_a_number();
    return false;
  }
  request_ = "move";
  for (const double value : nm) {
    request_ += ' ';
    if (stays(value))
      request_ += '-';
    else
      append_fixed(request_, value, kTargetDigits);
  }
  request_ += ' ' + std::to_string(expires_ns_);
  constexpr std::string_view kExpected = "ok, late, or refused CODE TEXT";
  const std::string line = ask(request_, kExpected);
  std::string_view rest = line;
  const std::string_view word = next_word(rest);
  if (word != "ok" && word != "late" && word != "refused") line_->refuse(line, kExpected);
  understood();
  if (word == "late") throw TooLate("the program gets its targets later than a correction lives");
  if (word == "ok") return true;
  const int code = take_code(rest).value_or(0);
  refusal_ = {.condition = Condition::Error, .code = code, .text = sentence(rest)};
  if (refusal_.text.empty()) refusal_.text = "the program refused a target and does not say why";
  return false;
}

void ProgramStage::read(std::span<double> nm) {
  constexpr std::string_view kExpected = "place and the position of each axis in nm";
  const std::string line = ask("read", kExpected);
  std::string_view rest = line;
  bool understood_all = next_word(rest) == "place";
  for (double& value : nm) {
    const auto number = parse_number(next_word(rest));
    understood_all = understood_all && number;
    value = number.value_or(std::nan(""));
  }
  if (!understood_all || !rest.empty()) line_->refuse(line, kExpected);
  understood();
}

Health ProgramStage::health() {
  const std::string line = ask("health", kHealth);
  std::string_view rest = line;
  const bool is_health = next_word(rest) == "health";
  const auto condition = condition_of(next_word(rest));
  const std::string_view on_target = next_word(rest);
  const auto error = rest.empty() ? std::optional(0) : take_code(rest);
  const bool tells = on_target == "yes" || on_target == "no";
  if (!is_health || !condition || !error || !(tells || on_target.empty() || on_target == "-"))
    line_->refuse(line, kHealth);
  understood();
  Health health{.condition = *condition,
                .on_target = on_target == "yes",
                .tells_on_target = tells,
                .error = *error,
                .text = sentence(rest)};
  if (health.condition == Condition::Ready)
    health.text.clear();
  else if (health.text.empty())
    health.text = "the program does not say why";
  if (health.condition == Condition::Ready) refusal_.move_into(health);
  refusal_ = {};
  return health;
}

}  // namespace

std::unique_ptr<Stage> make_program(const StageOptions& options) {
  return std::make_unique<ProgramStage>(options);
}

}  // namespace driftd::stage
