// SPDX-License-Identifier: MIT
#include "clients/common/shown/lock_lines.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "base/in_words.hpp"
#include "clients/common/plain.hpp"
#include "clients/common/shown/fields.hpp"

namespace driftd::clients {
namespace shown {

using nlohmann::json;

namespace {

/// "markers 0.07 stage 0.20"; of less than a whole record both together, which it does not tell
/// apart.
std::string noise_of(const json& axis) {
  const json* markers = find(axis, "/forecast/markers_nm");
  const json* stage = find(axis, "/forecast/stage_nm");
  const json* wait = find(axis, "/forecast/stage_known_in_s");
  const bool waits = wait != nullptr && wait->is_number() && wait->get<double>() > 0;
  if (waits && markers != nullptr && stage != nullptr && markers->is_number() && stage->is_number())
    return fmt::format("noise {:.2f}", std::hypot(markers->get<double>(), stage->get<double>()));
  return "markers " + number(axis, "/forecast/markers_nm", "{:.2f}") + " stage " +
         number(axis, "/forecast/stage_nm", "{:.2f}");
}

/// " (or 27, 33, 57, 63 Hz: not followed)" of a line that frames show at the same place; " (an
/// alias of 97 Hz: not followed)" or " (verified)" of one that is known; "".
std::string look_alikes(const json& line) {
  std::string others;
  if (const json* of = find(line, "/alias_of_hz"); of != nullptr && of->is_number())
    others = fmt::format("an alias of {:.1f}", of->get<double>());
  else if (const json* known = find(line, "/verified"); known != nullptr && *known == true)
    return " (verified)";
  if (const json* list = find(line, "/look_alikes_hz"); list != nullptr && list->is_array())
    for (const json& one : *list)
      if (one.is_number())
        others += fmt::format("{}{:.3g}", others.empty() ? "or " : ", ", one.get<double>());
  if (!others.empty()) others += " Hz";
  const json* followed = find(line, "/followed");
  if (followed != nullptr && *followed == false)
    others += others.empty() ? "not followed" : ": not followed";
  return others.empty() ? others : " (" + others + ")";
}

/// "   Allan 1 s 0.035": the Allan deviation nearest to `tau_s`, of both axes together; "" where
/// none is within a factor of two.
std::string allan_at(const json& measure, int tau_s) {
  const json* list = find(measure, "/allan");
  if (list == nullptr || !list->is_array()) return "";
  for (const json& octave : *list) {
    const json* tau = find(octave, "/tau_s");
    const json* x = find(octave, "/x_nm");
    const json* y = find(octave, "/y_nm");
    if (tau == nullptr || x == nullptr || y == nullptr || !tau->is_number() || !x->is_number() ||
        !y->is_number())
      continue;
    const double ratio = tau->get<double>() / tau_s;
    if (ratio < 0.7071 || ratio > 1.4142) continue;
    return fmt::format("   Allan {} s {:.3f}", tau_s,
                       std::hypot(x->get<double>(), y->get<double>()) / std::sqrt(2.0));
  }
  return "";
}

void add_measure(const json& status, const char* pointer, const char* label,
                 std::vector<Line>& lines) {
  const json* measure = find(status, pointer);
  if (measure == nullptr || number(*measure, "/rms_x_nm") == "-") return;
  lines.push_back(pair(label, number(*measure, "/rms_x_nm", "{:.3f}"),
                       number(*measure, "/rms_y_nm", "{:.3f}"),
                       fmt::format("   noise {}{}{}", number(*measure, "/noise_x_nm", "{:.2f}"),
                                   allan_at(*measure, 1), allan_at(*measure, 16))));
}

/// Whether the lock holds the sample elsewhere than at its reference, or is about to.
bool is_moved(const json& status) {
  const std::string phase = text(status, "/move/phase");
  const bool at_reference = number(status, "/move/x_nm", "{:+.1f}") == "+0.0" &&
                            number(status, "/move/y_nm", "{:+.1f}") == "+0.0";
  return phase != "-" && phase != "unlocked" && !(phase == "resting" && at_reference);
}

/// What is left of `drift` beside the set-point that the sample was moved to.
std::string left_of(const json& drift, const json& status, const char* drift_key,
                    const char* move_key) {
  const json* nm = find(drift, drift_key);
  const json* set_nm = find(status, move_key);
  if (nm == nullptr || set_nm == nullptr || !nm->is_number() || !set_nm->is_number()) return "-";
  return fmt::format("{:+.3f}", nm->get<double>() - set_nm->get<double>());
}

/// "turned +0.012 +-0.002 mrad"; "" where it is not known.
std::string with_sd(const json& pattern, const char* what, const char* value, const char* sd,
                    const char* format, const char* unit) {
  if (number(pattern, value) == "-") return "";
  std::string plain = format;
  if (const auto plus = plain.find('+'); plus != std::string::npos) plain.erase(plus, 1);
  return fmt::format("{} {} +-{} {}", what, number(pattern, value, format),
                     number(pattern, sd, plain.c_str()), unit);
}

}  // namespace

Tone tone_of_state(const std::string& state) {
  if (state == "locked") return Tone::Good;
  if (state == "lost" || state == "fault") return Tone::Bad;
  return state == "idle" ? Tone::Plain : Tone::Warning;
}

std::string limits(const json& correction) {
  const json* limited = find(correction, "/limited");
  if (limited == nullptr || !limited->is_array() || limited->empty()) return {};
  std::string names;
  for (const json& limit : *limited) {
    if (limit.is_string()) names += ' ' + limit.get<std::string>();
  }
  return "   limited:" + names;
}

Line gate_line(const char* name, const json& lock, bool silent) {
  const std::string in_lock = fmt::format("{:<12}", name);
  const json* open = find(lock, "/gate/in_lock");
  if (silent || open == nullptr || !open->is_boolean()) return {in_lock + "-", Tone::Dim};
  if (open->get<bool>()) return {in_lock + "yes", Tone::Good};
  return {in_lock + "no: " + why_not_in_lock(lock.at("gate")), Tone::Plain};
}

void add_law(const char* name, const json& lock, std::vector<Line>& lines) {
  const json* control = find(lock, "/control");
  if (control == nullptr) return;
  const std::string law = text(*control, "/law");
  if (law == "-" || law.empty()) return;
  const std::string reason = text(*control, "/reason");
  std::string line = fmt::format("{:<12}{}", name, law);
  if (reason == "worse_than_pi")
    line += " (the observer left more, and is tried again later)";
  else if (reason == "driver_too_slow")
    line += " (the stage's driver takes too few corrections for the observer)";
  else if (reason == "not_ready")
    line += " (until the observer knows stage and frame rate)";
  else if (reason != "configured")
    line += " (" + in_words(reason) + ")";
  if (number(*control, "/left_nm") != "-")
    line += fmt::format("   leaves {} nm with its noise, PI would {}",
                        number(*control, "/left_nm", "{:.2f}"),
                        number(*control, "/pi_left_nm", "{:.2f}"));
  const bool relieved = reason == "worse_than_pi" || reason == "driver_too_slow";
  lines.push_back({line, relieved ? Tone::Warning : Tone::Plain});
  const json* axes = find(*control, "/axes");
  if (axes == nullptr || !axes->is_array()) return;
  for (const json& axis : *axes) {
    const std::string label = "  stage " + text(axis, "/axis") + ":";
    if (number(axis, "/forecast/total_nm") != "-")
      lines.push_back({fmt::format("{:<12}{} nm foretold: motion {} {} lag {}", label,
                                   number(axis, "/forecast/total_nm", "{:.2f}"),
                                   number(axis, "/forecast/motion_nm", "{:.2f}"), noise_of(axis),
                                   number(axis, "/forecast/lag_nm", "{:.2f}")),
                       Tone::Dim});
    const json* found = find(axis, "/lines");
    if (found == nullptr || !found->is_array() || found->empty()) continue;
    std::string list;
    for (const json& one : *found)
      list += fmt::format("{}{} Hz {} nm{}", list.empty() ? "" : ", ",
                          number(one, "/frequency_hz", "{:.1f}"),
                          number(one, "/amplitude_nm", "{:.2f}"), look_alikes(one));
    lines.push_back({fmt::format("{:<12}{}", label, list), Tone::Dim});
  }
}

void add_residual(const json& status, std::vector<Line>& lines) {
  add_measure(status, "/residual/in_loop", "in loop rms", lines);
  add_measure(status, "/residual/out_of_loop", "out of loop", lines);
  if (number(status, "/residual/out_of_loop/sample_x_nm") == "-") return;
  lines.push_back({fmt::format("{:<12}beyond the witnesses' noise the sample moved {} / {} nm rms",
                               "", number(status, "/residual/out_of_loop/sample_x_nm", "{:.2f}"),
                               number(status, "/residual/out_of_loop/sample_y_nm", "{:.2f}")),
                   Tone::Dim});
}

Line drift_line(const json& newest, const json& status) {
  const std::string rest = fmt::format("   sd {} / {}", number(newest, "/x_sd_nm", "{:.3f}"),
                                       number(newest, "/y_sd_nm", "{:.3f}"));
  if (is_moved(status))
    return pair("residual", left_of(newest, status, "/x_nm", "/move/x_nm"),
                left_of(newest, status, "/y_nm", "/move/y_nm"), rest);
  return pair("drift", number(newest, "/x_nm", "{:+.3f}"), number(newest, "/y_nm", "{:+.3f}"),
              rest);
}

void add_set_point(const json& status, std::vector<Line>& lines) {
  if (!is_moved(status)) return;
  const json* move = find(status, "/move");
  const std::string phase = text(*move, "/phase");
  const std::string x = number(*move, "/x_nm", "{:+.1f}"), y = number(*move, "/y_nm", "{:+.1f}");
  std::string rest;
  if (phase != "resting")
    rest = fmt::format("   {}: place {} of {}", phase, number(*move, "/place"),
                       number(*move, "/places"));
  lines.push_back(pair("set-point", x, y, rest));
}

void add_pattern(const json& status, std::vector<Line>& lines) {
  const json* pattern = find(status, "/pattern");
  if (pattern == nullptr || !pattern->is_object()) return;
  const auto add = [&](const char* label, const std::string& first, const std::string& second) {
    if (first.empty() && second.empty()) return;
    const char* between = first.empty() || second.empty() ? "" : ", ";
    lines.push_back({fmt::format("{:<12}{}{}{}", label, first, between, second), Tone::Plain});
  };
  add("pattern",
      with_sd(*pattern, "turned", "/rotation_mrad", "/rotation_sd_mrad", "{:+.4f}", "mrad"),
      with_sd(*pattern, "grown", "/scale_ppm", "/scale_sd_ppm", "{:+.1f}", "ppm"));
  add("  tilted", with_sd(*pattern, "x", "/tilt_x_mrad", "/tilt_x_sd_mrad", "{:+.3f}", "mrad"),
      with_sd(*pattern, "y", "/tilt_y_mrad", "/tilt_y_sd_mrad", "{:+.3f}", "mrad"));
}

void add_stage(const char* name, const json& lock, std::vector<Line>& lines) {
  const json* driver = find(lock, "/stage_driver");
  const std::string looks = text(lock, "/stage");
  const std::string stage = fmt::format("{:<12}", name);
  // A program that only subscribes moves the stage.
  if (looks == "stuck" && driver != nullptr && driver->is_null())
    lines.push_back({stage + "no driver is connected", Tone::Bad});
  else if (looks != "-" && looks != "following")
    lines.push_back({stage + looks_in_words(looks), Tone::Warning});
  if (driver == nullptr || !driver->is_object()) return;
  const std::string state = text(*driver, "/state");
  lines.push_back(
      {cut(fmt::format("{}{}: {}", stage, text(*driver, "/driver"), in_words(state)), kColumns),
       state == "ready" ? Tone::Plain : Tone::Bad});
  if (state != "ready") add_text(*driver, "/text", Tone::Bad, lines);
  const json* axes = find(*driver, "/axes");
  std::string places;
  for (const json& axis : axes != nullptr && axes->is_array() ? *axes : json::array()) {
    places += fmt::format("{}{} {} nm", places.empty() ? "" : ", ", text(axis, "/axis"),
                          number(axis, "/position_nm", "{:.1f}"));
  }
  lines.push_back({fmt::format("{:<12}at {}   off {} nm", "", places.empty() ? "-" : places,
                               number(*driver, "/off_nm", "{:.1f}"))});
  lines.push_back({fmt::format("{:<12}{} moves/s   p50 {}   p99 {} us   refused {}", "",
                               number(*driver, "/rate_hz"), number(*driver, "/latency_us/p50"),
                               number(*driver, "/latency_us/p99"), number(*driver, "/refused"))});
}

std::string since_and_why(const json& lock, const json* told_ns, double since_told_s) {
  std::string words;
  const json* since = find(lock, "/state_since_ns");
  const bool known = since != nullptr && since->is_number() && told_ns != nullptr &&
                     told_ns->is_number() && since->get<double>() > 0;
  // Time up to the status counts by the daemon's clock, which may be another computer's, and
  // since by ours.
  if (known)
    words +=
        " for " + duration((told_ns->get<double>() - since->get<double>()) * 1e-9 + since_told_s);
  const std::string reason = text(lock, "/reason");
  if (reason != "-" && reason != "none")
    words += " (" +
             in_words(reason, lock.value("held_for", "none"), lock.value("held_first", "none")) +
             ")";
  return words;
}

}  // namespace shown

std::string why_not_in_lock(const nlohmann::json& gate) {
  const std::string reason = shown::text(gate, "/reason");
  const bool of_z = gate.is_object() && gate.contains("residual_z_nm");
  const auto numbers = [&](const char* what) {
    const nlohmann::json* x = shown::find(gate, of_z ? "/residual_z_nm" : "/residual_x_nm");
    const nlohmann::json* y = of_z ? x : shown::find(gate, "/residual_y_nm");
    if (x == nullptr || y == nullptr || !x->is_number() || !y->is_number()) return in_words(reason);
    return fmt::format(
        "{} {:.3g} nm{}, tolerance {} nm ({})", what, std::max(x->get<double>(), y->get<double>()),
        reason == "moved" ? "" : " rms", shown::number(gate, "/tolerance_nm", "{:g}"),
        of_z ? "gate.z_tolerance_nm" : "gate.tolerance_nm");
  };
  if (reason == "residual") return numbers("residual");
  if (reason == "settling") return numbers("settling at");
  if (reason == "moved") return numbers("a frame was off by");
  if (reason == "axial") return "z does not lie still, or is not held";
  return in_words(reason);
}

}  // namespace driftd::clients
