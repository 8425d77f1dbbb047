// SPDX-License-Identifier: MIT
// Piezoconcept USB controllers: lines that LF ends, at 115200 baud. Facts and their sources:
// Micro-Manager DeviceAdapters/PIEZOCONCEPT/PIEZOCONCEPT.cpp (VERS_, INFOX, MOVEX, Ok; it also
// sends _RAZ_, outputs to 0 V, at its start: this driver never does) and OzoraIso's
// PiezoConcept_stage_manipulation, Piezo_concept_LF2.py (INFOS, GET_X, REOFF, RE_ON).
//
// Each move is answered by Ok, or by a line that says why not. There is no question for servo, busy
// or errors. MOVEX and MOVEY are sent, not MOXYZ: that would need a place for the third axis.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "clients/stage/backends/backends.hpp"
#include "clients/stage/backends/refusal.hpp"
#include "clients/stage/transport/connection.hpp"

namespace driftd::stage {

namespace {

constexpr double kNmPerUm = 1e3;
constexpr double kSteps = 65535;  ///< of the whole travel (CPiezoConceptXYStage::Initialize)
constexpr int kDigits = 3;        ///< of a target in um, as its own software sends it
constexpr double kSmallestNm = 1;

/// nm in the unit that stands behind a number: "u", "um", "n", "nm", or um with a Greek mu in
/// Latin-1 or UTF-8. Nothing for another one.
std::optional<double> unit_nm(std::string_view unit) {
  if (unit == "n" || unit == "nm") return 1.0;
  if (unit == "u" || unit == "um" || unit == "\xb5m" || unit == "\xc2\xb5m" ||
      unit == "\xce\xbcm") {
    return kNmPerUm;
  }
  return std::nullopt;
}

/// Reads "50.123 um" and "50.123um".
std::optional<double> length_nm(std::string_view text) {
  text = trimmed(text);
  const std::size_t end = std::min(text.find_first_not_of("+-.0123456789"), text.size());
  const auto value = parse_number(text.substr(0, end));
  const auto unit = unit_nm(trimmed(text.substr(end)));
  if (!value || !unit) return std::nullopt;
  return *value * *unit;
}

class Piezoconcept final : public Stage {
 public:
  explicit Piezoconcept(const StageOptions& options)
      : options_(options), line_(options.device, options.baud, false, options.timeout_ms) {
    for (const std::string& axis : options.axes) {
      if (axis != "X" && axis != "Y" && axis != "Z") {
        throw std::invalid_argument("axis '" + axis + "' is none of Piezoconcept's X, Y and Z");
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
  std::string ask(const std::string& question, std::string_view expected);
  void collect();
  void identify();
  std::optional<double> travel_nm(const std::string& axis);
  std::vector<double> travels_of_listing();

  StageOptions options_;
  Connection line_;
  std::vector<Axis> axes_;
  std::string description_;
  std::string command_;
  std::size_t answers_due_ = 0;  ///< of moves
  Refusal refusal_;
  Refusal late_;  ///< of the last move, until prepare() has told it
};

/// The answers of the last move, which are due before anything else is asked.
void Piezoconcept::collect() {
  for (; answers_due_ > 0; --answers_due_) {
    const std::string line = line_->read_line('\n', "Ok");
    if (trimmed(line) != "Ok") {
      const std::string said(trimmed(line));
      refusal_ = {.condition = Condition::Error,
                  .code = 0,
                  .text = "move refused: it answered '" + printable(said) + "', expected 'Ok'"};
      late_ = refusal_;
    }
  }
}

/// health() may have told the reason before.
bool Piezoconcept::prepare() {
  collect();
  if (!late_.happened()) return true;
  refusal_ = std::exchange(late_, {});
  return false;
}

std::string Piezoconcept::ask(const std::string& question, std::string_view expected) {
  collect();
  line_->write(question + "\n");
  return line_->read_line('\n', expected);
}

std::vector<Axis> Piezoconcept::connect() {
  line_.open();
  refusal_ = {};
  late_ = {};
  answers_due_ = 0;
  axes_.clear();
  identify();
  std::vector<double> travels;
  for (const std::string& axis : options_.axes) {
    const auto travel = travel_nm(axis);
    if (!travel) {
      travels = travels_of_listing();
      break;
    }
    travels.push_back(*travel);
  }
  for (std::size_t i = 0; i < travels.size(); ++i) {
    if (travels[i] <= 0) {
      throw StageError(line_->name() + ": axis " + options_.axes[i] + " has a travel of " +
                       text_nm(travels[i]) + ", expected more: is it there?");
    }
    axes_.push_back({.name = options_.axes[i],
                     .min_nm = 0,
                     .max_nm = travels[i],
                     .resolution_nm = std::max(kSmallestNm, travels[i] / kSteps),
                     .closed_loop = true});
  }
  try {
    std::vector<double> place(axes_.size());
    read(place);
  } catch (const NoAnswer& error) {
    throw StageError(std::string(error.what()) +
                     "; were its answers switched off (REOFF)? RE_ON switches them on");
  }
  return axes_;
}

/// An Arduino-like controller may start anew when its line is opened, and say nothing or an empty
/// line at first: asked up to three times.
void Piezoconcept::identify() {
  constexpr int kAttempts = 3;
  constexpr std::string_view kExpected = "Version NUMBER";
  std::string version;
  for (int attempt = 1; version.empty() && attempt <= kAttempts; ++attempt) {
    try {
      version = trimmed(ask("VERS_", kExpected));
    } catch (const NoAnswer&) {
      line_->discard_until_quiet(50);
    }
  }
  description_ = "Piezoconcept";
  if (!version.empty()) {
    if (!version.starts_with("Version ")) line_->refuse(version, kExpected);
    description_ += ", firmware " + printable(version.substr(8));
  }
  if (!line_->remark().empty()) description_ += "; " + line_->remark();
}

/// "L,100": the travel in um of a linear axis; nothing where INFOX is not known.
std::optional<double> Piezoconcept::travel_nm(const std::string& axis) {
  constexpr std::string_view kLinear = "L,";
  try {
    const std::string line(trimmed(ask("INFO" + axis, "L,TRAVEL")));
    if (!line.starts_with(kLinear)) {
      line_->discard_until_quiet(50);
      return std::nullopt;
    }
    std::string_view travel = std::string_view(line).substr(kLinear.size());
    travel = travel.substr(0, travel.find(','));
    if (const auto um = parse_number(travel)) return *um * kNmPerUm;
    if (const auto nm = length_nm(travel)) return *nm;
    line_->refuse(line, "L,TRAVEL in um");
  } catch (const NoAnswer&) {
    line_->discard_until_quiet(50);
    return std::nullopt;
  }
}

/// Reads the answer to INFOS, which lists what the product is and ends in "Travel range Y : 100 um"
/// for each axis.
std::vector<double> Piezoconcept::travels_of_listing() {
  std::vector<double> travels(options_.axes.size(), -1);
  std::size_t missing = travels.size();
  line_->write("INFOS\n");
  for (int lines = 0; missing > 0; ++lines) {
    const std::string line = line_->read_line('\n', "Travel range AXIS : LENGTH");
    if (lines == 50) line_->refuse("50 lines", "Travel range AXIS : LENGTH for each axis");
    for (std::size_t i = 0; i < travels.size(); ++i) {
      const std::size_t at = line.find("Travel range " + options_.axes[i]);
      const std::size_t colon = line.find(':');
      if (at == std::string::npos || colon == std::string::npos || travels[i] >= 0) continue;
      const auto travel = length_nm(std::string_view(line).substr(colon + 1));
      if (!travel) line_->refuse(line, "Travel range " + options_.axes[i] + " : LENGTH in um");
      travels[i] = *travel;
      --missing;
    }
  }
  line_->discard_until_quiet(50);  // axes that are not ours
  return travels;
}

bool Piezoconcept::move_to(std::span<const double> nm) {
  if (Refusal refusal = refusal_of(nm, axes_); refusal.happened()) {
    refusal_ = std::move(refusal);  // one before that is not told yet stays otherwise
    return false;
  }
  collect();
  command_.clear();
  std::size_t told = 0;
  for (std::size_t i = 0; i < nm.size(); ++i) {
    if (stays(nm[i])) continue;
    ++told;
    command_ += "MOVE";
    command_ += options_.axes[i];
    command_ += ' ';
    append_fixed(command_, nm[i] / kNmPerUm, kDigits);
    command_ += "u\n";
  }
  line_->write(command_);
  answers_due_ = told;
  return true;
}

void Piezoconcept::read(std::span<double> nm) {
  for (std::size_t i = 0; i < nm.size(); ++i) {
    const std::string line = ask("GET_" + options_.axes[i], "NUMBER um");
    const auto place = length_nm(line);
    if (!place) line_->refuse(line, "NUMBER um, or nm");
    nm[i] = *place;
  }
}

/// Only the answers to moves tell anything; without a move, whether it still answers.
Health Piezoconcept::health() {
  Health health;
  if (answers_due_ > 0) {
    collect();
  } else {
    std::vector<double> place(1);
    read(place);
  }
  refusal_.move_into(health);
  return health;
}

}  // namespace

std::unique_ptr<Stage> make_piezoconcept(const StageOptions& options) {
  return std::make_unique<Piezoconcept>(options);
}

}  // namespace driftd::stage
