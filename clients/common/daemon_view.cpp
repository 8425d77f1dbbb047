// SPDX-License-Identifier: MIT
#include "clients/common/daemon_view.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/in_words.hpp"
#include "clients/common/axial_lock.hpp"
#include "clients/common/plain.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

constexpr double kSilentAfter_s = 2.0;  // positions come per frame, status every second or so
constexpr std::size_t kEventsKept = 4;
constexpr std::size_t kColumns = 80;

const json* find(const json& object, const char* pointer) {
  const json::json_pointer path(pointer);
  return object.is_object() && object.contains(path) ? &object.at(path) : nullptr;
}

/// The number at `pointer` by an fmt format; "-" when there is none.
std::string number(const json& object, const char* pointer, const char* format = "{:.0f}") {
  const json* value = find(object, pointer);
  if (value == nullptr || !value->is_number()) return "-";
  return fmt::format(fmt::runtime(format), value->get<double>());
}

std::string text(const json& object, const char* pointer) {
  const json* value = find(object, pointer);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "-";
}

/// Formats seconds out of a message, which may be any number.
std::string duration(double seconds) {
  constexpr double kMost = 1e11;
  const auto whole = static_cast<long>(seconds > 0 ? std::min(seconds, kMost) : 0.0);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

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

Line pair(const char* label, const std::string& x, const std::string& y, const std::string& rest) {
  return {fmt::format("{:<12}{:>11}{:>11} nm{}", label, x, y, rest), Tone::Plain};
}

/// @param lock  `status`, or the lock of z in it
Line gate_line(const char* name, const json& lock, bool silent) {
  const std::string in_lock = fmt::format("{:<12}", name);
  const json* open = find(lock, "/gate/in_lock");
  if (silent || open == nullptr || !open->is_boolean()) return {in_lock + "-", Tone::Dim};
  if (open->get<bool>()) return {in_lock + "yes", Tone::Good};
  return {in_lock + "no: " + why_not_in_lock(lock.at("gate")), Tone::Plain};
}

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

/// " (or 27, 33, 57, 63 Hz: not followed)" of a line that frames show at the same place; "".
std::string look_alikes(const json& line) {
  std::string others;
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

/// Which law holds the lock, and which vibrations the observer has found.
void add_law(const char* name, const json& lock, std::vector<Line>& lines) {
  const json* control = find(lock, "/control");
  const std::string law = control != nullptr ? text(*control, "/law") : "-";
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

/// The residual in and out of the loop, and what the difference means.
void add_residual(const json& status, std::vector<Line>& lines) {
  add_measure(status, "/residual/in_loop", "in loop rms", lines);
  add_measure(status, "/residual/out_of_loop", "out of loop", lines);
  if (number(status, "/residual/out_of_loop/sample_x_nm") == "-") return;
  lines.push_back({fmt::format("{:<12}beyond the witnesses' noise the sample moved {} / {} nm rms",
                               "", number(status, "/residual/out_of_loop/sample_x_nm", "{:.2f}"),
                               number(status, "/residual/out_of_loop/sample_y_nm", "{:.2f}")),
                   Tone::Dim});
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

/// The drift from the reference; of a sample that was moved from the set-point.
Line drift_line(const json& newest, const json& status) {
  const std::string rest = fmt::format("   sd {} / {}", number(newest, "/x_sd_nm", "{:.3f}"),
                                       number(newest, "/y_sd_nm", "{:.3f}"));
  if (is_moved(status))
    return pair("residual", left_of(newest, status, "/x_nm", "/move/x_nm"),
                left_of(newest, status, "/y_nm", "/move/y_nm"), rest);
  return pair("drift", number(newest, "/x_nm", "{:+.3f}"), number(newest, "/y_nm", "{:+.3f}"),
              rest);
}

/// Where the lock is to hold the sample, once it was moved.
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

std::uint64_t count(const json& object, const char* pointer) {
  const json* value = find(object, pointer);
  return value != nullptr && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
}

Line camera_line(const json& status) {
  const json* connected = find(status, "/camera/connected");
  if (connected == nullptr || !connected->is_boolean() || !connected->get<bool>()) {
    return {"camera      not connected", Tone::Bad};
  }
  return {fmt::format("camera      {}, {} x {} {}", text(status, "/camera/description"),
                      number(status, "/camera/width_px"), number(status, "/camera/height_px"),
                      text(status, "/camera/pixel_format")),
          Tone::Plain};
}

/// Breaks a text into lines of whole words, below what they belong to.
void add_words(std::string rest, Tone tone, std::vector<Line>& lines) {
  constexpr std::size_t kIndent = 12;
  while (!rest.empty()) {
    std::size_t end = rest.size();
    if (end > kColumns - kIndent) end = rest.rfind(' ', kColumns - kIndent);
    if (end == std::string::npos || end == 0) end = kColumns - kIndent;
    if (end == kColumns - kIndent) end = cut(rest, end).size();
    lines.push_back({std::string(kIndent, ' ') + rest.substr(0, end), tone});
    rest.erase(0, std::min(rest.size(), end + (end < rest.size() && rest[end] == ' ' ? 1 : 0)));
  }
}

/// A text of `status`; none where it is empty.
void add_text(const json& status, const char* pointer, Tone tone, std::vector<Line>& lines) {
  if (const std::string words = text(status, pointer); words != "-") add_words(words, tone, lines);
}

/// Whether the daemon measures z at all.
bool has_axial(const json& status) {
  const json* axial = find(status, "/axial");
  return axial != nullptr && axial->is_object();
}

/// z from its reference and, where there is none, why. Nothing of a daemon that does not measure
/// it.
/// @param position  the newest, or null: then as of the last status
void add_z(const json& status, const json& position, std::vector<Line>& lines) {
  if (!has_axial(status)) return;
  const json& axial = status.at("axial");
  const bool live = position.is_object() && position.contains("z_nm");
  const std::string z =
      live ? number(position, "/z_nm", "{:+.3f}") : number(axial, "/z_nm", "{:+.3f}");
  if (z != "-") {
    std::string rest = fmt::format(
        "   sd {}   {} of {} markers",
        live ? number(position, "/z_sd_nm", "{:.3f}") : number(axial, "/sd_nm", "{:.3f}"),
        number(axial, "/markers_used"), number(axial, "/markers_total"));
    const std::string off = number(axial, "/distance_from_crossing_nm", "{:+.0f}");
    if (off != "-") rest += fmt::format(", {} nm from focus", off);
    lines.push_back({fmt::format("{:<12}{:>11} nm{}", "z", z, rest), Tone::Plain});
  } else {
    const std::string why = text(axial, "/text");
    const std::string reason = text(axial, "/reason");
    lines.push_back({"z           not measured", Tone::Warning});
    add_words(why.empty() || why == "-" ? (reason == "-" ? "" : in_words(reason)) : why,
              Tone::Warning, lines);
  }
  add_text(axial, "/warning", Tone::Warning, lines);
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

/// How the markers' pattern lies against its reference.
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

/// What the camera took otherwise than asked, a line each.
void add_camera_warnings(const json& status, std::vector<Line>& lines) {
  const json* notes = find(status, "/camera/notes");
  if (notes == nullptr || !notes->is_array()) return;
  for (const json& note : *notes) {
    if (text(note, "/severity") != "warning") continue;
    const std::string line = fmt::format("{:<12}{}: asked {}, has {}", "", text(note, "/key"),
                                         text(note, "/asked"), text(note, "/got"));
    lines.push_back({cut(line, kColumns), Tone::Warning});
  }
}

Line frames_line(const json& status) {
  // Gaps in the frames' ids, which incomplete ones and those without a buffer leave, too.
  const std::uint64_t lost = count(status, "/camera/lost");
  const bool bad =
      lost + count(status, "/camera/incomplete") + count(status, "/camera/underruns") > 0;
  return {fmt::format("frames      {}   {} Hz   lost {}   skipped {}   stale {}   reconnects {}",
                      number(status, "/camera/frames"), number(status, "/camera/rate_hz", "{:.1f}"),
                      lost, number(status, "/camera/superseded"), number(status, "/loop/stale"),
                      number(status, "/camera/reconnects")),
          bad ? Tone::Warning : Tone::Plain};
}

Line markers_line(const json& status) {
  if (number(status, "/markers/tracking") == "0" && number(status, "/markers/witness") == "0")
    return {"markers     none are known yet", Tone::Warning};
  return {fmt::format("markers     {} of {} used, {} witnesses", number(status, "/markers/used"),
                      number(status, "/markers/tracking"), number(status, "/markers/witness")),
          Tone::Plain};
}

/// What the stage's driver says of itself; nothing of one that only subscribes.
/// @param lock  `status`, or the lock of z in it
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

/// " for 0:03:12 (recovered)": since when a lock is in its state, up to `told_ns`, and why.
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

/// The lock of z: its state, why and what helps, whether it lies still, where its stage was told to
/// be, and what that does. Nothing where z was never held.
/// @param correction  the newest of z, or null: then as of the last status
/// @param since_told_s  how old `status` is
void add_axial_lock(const json& status, const json& correction, double since_told_s,
                    std::vector<Line>& lines) {
  const json& lock = axial_lock(status);
  if (!lock.is_object()) return;
  const std::string state = text(lock, "/state");
  lines.push_back({"z lock      " + state +
                       since_and_why(lock, find(status, "/time_ns"), since_told_s) + "   lock " +
                       number(lock, "/lock_id"),
                   tone_of_state(state)});
  add_text(lock, "/cure", Tone::Warning, lines);
  add_text(lock, "/warning", Tone::Warning, lines);
  if (state == "idle") return;
  add_text(lock, "/acquaintance/text", Tone::Plain, lines);
  lines.push_back(gate_line("z in lock", lock, since_told_s > kSilentAfter_s));
  const std::string set_nm = number(lock, "/move/z_nm", "{:+.1f}");
  const std::string phase = text(lock, "/move/phase");
  if (set_nm != "-" && !(phase == "resting" && set_nm == "+0.0"))
    lines.push_back({fmt::format("{:<12}{:>11} nm{}", "z set-point", set_nm,
                                 phase == "resting" ? "" : "   " + phase)});
  add_law("z law", lock, lines);
  const json& total = correction.is_object() ? correction : lock;
  lines.push_back({fmt::format("{:<12}{:>11} nm{}", "z stage at",
                               number(total, "/total_z_nm", "{:+.3f}"), limits(correction))});
  add_stage("z stage", lock, lines);
}

bool is_true(const json& object, const char* pointer) {
  const json* flag = find(object, pointer);
  return flag != nullptr && flag->is_boolean() && flag->get<bool>();
}

std::string text_or_nothing(const json& object, const char* pointer) {
  const std::string said = text(object, pointer);
  return said == "-" ? "" : said;
}

/// A recording under way, or why there is none any more; nothing where that is as ordered.
void add_record(const json& status, std::vector<Line>& lines) {
  if (is_true(status, "/record/recording")) {
    const std::uint64_t left_out = count(status, "/record/not_recorded");
    const json* seconds = find(status, "/record/seconds");
    std::string line = fmt::format(
        "record      {}, for {}: {} frames, {:.1f} MB",
        text(status, "/record/by") == "lock" ? "of the lock" : "by command",
        duration(seconds != nullptr && seconds->is_number() ? seconds->get<double>() : 0),
        number(status, "/record/frames"),
        1e-6 * static_cast<double>(count(status, "/record/bytes")));
    if (left_out > 0) line += fmt::format(", {} left out", left_out);
    lines.push_back({cut(line, kColumns), left_out > 0 ? Tone::Warning : Tone::Plain});
    add_text(status, "/record/file", Tone::Plain, lines);
  } else if (!text_or_nothing(status, "/record/problem").empty()) {
    const bool began = !text_or_nothing(status, "/record/file").empty();
    lines.push_back(
        {began ? "record      has ended, and nothing is recorded:" : "record      could not begin:",
         Tone::Bad});
    add_text(status, "/record/problem", Tone::Bad, lines);
  }
  if (is_true(status, "/raw_frames/saving")) lines.push_back({"raw frames  being saved"});
  if (text_or_nothing(status, "/raw_frames/problem").empty()) return;
  lines.push_back({"raw frames  not all are saved:", Tone::Bad});
  add_text(status, "/raw_frames/problem", Tone::Bad, lines);
}

Line latency_line(const json& status) {
  return {fmt::format(
              "latency     p50 {}   p99 {}   p99.9 {}   max {} us",
              number(status, "/latency_us/total/p50"), number(status, "/latency_us/total/p99"),
              number(status, "/latency_us/total/p99_9"), number(status, "/latency_us/total/max")),
          Tone::Plain};
}

Line fitter_line(const json& status) {
  const json* scheduled = find(status, "/realtime/scheduled");
  const json* locked = find(status, "/realtime/memory_locked");
  const auto is = [](const json* flag) {
    return flag != nullptr && flag->is_boolean() && flag->get<bool>() ? "yes" : "no";
  };
  return {fmt::format("fitter      {}, {} x {} px   real time: scheduled {}, memory locked {}",
                      text(status, "/fitter/description"), number(status, "/fitter/roi_px"),
                      number(status, "/fitter/roi_px"), is(scheduled), is(locked)),
          Tone::Plain};
}

/// Why a marker counts less than another, or not at all; empty of one that counts in full.
std::string doubt(const json& marker) {
  const std::string reason = text(marker, "/reputation_reason");
  if (reason == "-" || reason == "good") return {};
  const json* excluded = find(marker, "/excluded");
  const bool out = excluded != nullptr && excluded->is_boolean() && excluded->get<bool>();
  return (out ? "  excluded: " : "  ") + in_words(reason);
}

/// Whether z of any of them is measured, or could be.
bool have_z(const json& markers) {
  return std::any_of(markers.begin(), markers.end(), [](const json& marker) {
    return number(marker, "/z_nm") != "-" || number(marker, "/sigma_y_px") != "-";
  });
}

Line marker_line(const json& marker, bool with_z) {
  const std::string health = text(marker, "/health");
  const std::string why = doubt(marker);
  Tone tone = Tone::Bad;
  if (health == "good") tone = why.empty() ? Tone::Good : Tone::Warning;
  if (health == "unreferenced") tone = Tone::Plain;
  return {
      fmt::format("{:>3}  {:<9}{:<14}{:>5}{:>9}{:>9}{:>10}{:>10}{:>9}{:>7}{}{}",
                  number(marker, "/id"), text(marker, "/role"), in_words(health),
                  number(marker, "/reputation", "{:.2f}"), number(marker, "/x_px", "{:.2f}"),
                  number(marker, "/y_px", "{:.2f}"), number(marker, "/residual_x_nm", "{:+.2f}"),
                  number(marker, "/residual_y_nm", "{:+.2f}"), number(marker, "/x_sd_nm", "{:.2f}"),
                  number(marker, "/sigma_px", "{:.2f}"),
                  with_z ? fmt::format("{:>9}{:>10}", number(marker, "/z_nm", "{:+.1f}"),
                                       number(marker, "/residual_z_nm", "{:+.1f}"))
                         : "",
                  why),
      tone};
}

}  // namespace

std::string why_not_in_lock(const nlohmann::json& gate) {
  const std::string reason = text(gate, "/reason");
  const bool of_z = gate.is_object() && gate.contains("residual_z_nm");
  const auto numbers = [&](const char* what) {
    const json* x = find(gate, of_z ? "/residual_z_nm" : "/residual_x_nm");
    const json* y = of_z ? x : find(gate, "/residual_y_nm");
    if (x == nullptr || y == nullptr || !x->is_number() || !y->is_number()) return in_words(reason);
    return fmt::format("{} {:.3g} nm{}, tolerance {} nm ({})", what,
                       std::max(x->get<double>(), y->get<double>()),
                       reason == "moved" ? "" : " rms", number(gate, "/tolerance_nm", "{:g}"),
                       of_z ? "gate.z_tolerance_nm" : "gate.tolerance_nm");
  };
  if (reason == "residual") return numbers("residual");
  if (reason == "settling") return numbers("settling at");
  if (reason == "moved") return numbers("a frame was off by");
  if (reason == "axial") return "z does not lie still";
  return in_words(reason);
}

void DaemonView::update(const Message& message, std::int64_t now_ns) {
  lost_ += message.lost;
  if (message.restarted) {
    // One restart shows on every topic; the start of the new session's status counts it once.
    if (message.topic == "status") ++restarts_;
    if (message.topic == "position") correction_ = axial_ = nullptr;
  }
  last_ns_ = now_ns;
  const json* state = find(message.body, "/state");
  const bool of_xy = text(message.body, "/code") != "axial_state_changed";
  if (of_xy && state != nullptr && state->is_string()) state_ = state->get<std::string>();
  if (message.topic == "status") {
    status_ = message.body;
    status_ns_ = now_ns;
    // No frames come: the last position tells of a past.
    const json* rate = find(status_, "/camera/rate_hz");
    if (rate != nullptr && rate->is_null()) position_ = nullptr;
  }
  if (message.topic == "position") position_ = message.body;
  if (message.topic == "correction") correction_ = message.body;
  if (message.topic == "axial") axial_ = message.body;
  if (message.topic == "markers") markers_ = message.body;
  if (message.topic == "event") {
    const std::string level = text(message.body, "/level");
    const Tone tone = level == "error" ? Tone::Bad : level == "warning" ? Tone::Warning : Tone::Dim;
    events_.push_back({text(message.body, "/text"), tone});
    if (events_.size() > kEventsKept) events_.pop_front();
  }
}

void DaemonView::set_status(const json& status, std::int64_t now_ns) {
  Message message;
  message.topic = "status";
  message.body = status;
  update(message, now_ns);
}

double DaemonView::silence_s(std::int64_t now_ns) const noexcept {
  return last_ns_ == 0 ? -1.0 : static_cast<double>(now_ns - last_ns_) * 1e-9;
}

Line DaemonView::state_line(std::int64_t now_ns) const {
  const double silence_s = this->silence_s(now_ns);
  if (silence_s > kSilentAfter_s) {
    return {
        fmt::format("state       unknown: no message for {:.0f} s (last: {})", silence_s, state_),
        Tone::Bad};
  }
  std::string line = "state       " + state_;
  // The status may be older than the state; its reason then belongs to another state.
  if (text(status_, "/state") == state_)
    line += since_and_why(status_, find(status_, "/time_ns"),
                          static_cast<double>(now_ns - status_ns_) * 1e-9) +
            fmt::format("   lock {}", number(status_, "/lock_id"));
  return {line, tone_of_state(state_)};
}

std::vector<Line> DaemonView::summary(std::int64_t now_ns) const {
  std::vector<Line> lines;
  const json* uptime = find(status_, "/uptime_s");
  lines.push_back(
      {fmt::format(
           "driftd {}   up {}", text(status_, "/version"),
           uptime != nullptr && uptime->is_number() ? duration(uptime->get<double>()) : "-"),
       Tone::Heading});
  if (lost_ > 0 || restarts_ > 0) {
    lines.push_back({fmt::format("received    {} messages missing, {} restarts of driftd seen",
                                 lost_, restarts_),
                     Tone::Warning});
  }
  lines.push_back(state_line(now_ns));
  if (text(status_, "/state") == state_) add_text(status_, "/cure", Tone::Warning, lines);
  add_text(status_, "/acquaintance/text", Tone::Plain, lines);
  add_text(status_, "/interrupted/text", Tone::Warning, lines);
  lines.push_back(camera_line(status_));
  add_text(status_, "/camera/problem", Tone::Bad, lines);  // why there is none
  add_camera_warnings(status_, lines);
  lines.push_back(frames_line(status_));
  lines.push_back(markers_line(status_));
  lines.push_back({fmt::format("{:<12}{:>11}{:>11}", "", "x", "y"), Tone::Dim});
  // Live when subscribed to positions, else as of the last status.
  const json drift = find(status_, "/drift") != nullptr ? status_.at("drift") : json(nullptr);
  const json& newest = position_.is_object() ? position_ : drift;
  lines.push_back(drift_line(newest, status_));
  add_set_point(status_, lines);
  add_z(status_, position_, lines);
  lines.push_back(pair("drift rms", number(drift, "/rms_x_nm", "{:.3f}"),
                       number(drift, "/rms_y_nm", "{:.3f}"), "   last seconds"));
  add_residual(status_, lines);
  lines.push_back(gate_line("in lock", status_, silence_s(now_ns) > kSilentAfter_s));
  add_law("law", status_, lines);
  if (position_.is_object()) {
    const std::string z = number(position_, "/witness_z_nm", "{:+.3f}");
    lines.push_back(pair("witnesses", number(position_, "/witness_x_nm", "{:+.3f}"),
                         number(position_, "/witness_y_nm", "{:+.3f}"),
                         z == "-" || !has_axial(status_) ? "" : "   z " + z + " nm"));
  }
  add_pattern(status_, lines);
  const json& total = correction_.is_object() ? correction_ : drift;
  lines.push_back(pair("correction", number(total, "/total_x_nm", "{:+.3f}"),
                       number(total, "/total_y_nm", "{:+.3f}"), limits(correction_)));
  add_stage("stage", status_, lines);
  add_axial_lock(status_, axial_, static_cast<double>(now_ns - status_ns_) * 1e-9, lines);
  add_record(status_, lines);
  lines.push_back(latency_line(status_));
  lines.push_back(fitter_line(status_));
  add_text(status_, "/fitter/size_reason", Tone::Plain, lines);
  add_text(status_, "/fitter/reason", Tone::Plain, lines);
  add_words(text(status_, "/fitter/estimator") + ", " + text(status_, "/fitter/estimator_reason"),
            Tone::Plain, lines);
  return lines;
}

std::vector<Line> DaemonView::marker_table(std::size_t max_lines) const {
  const json* markers = find(markers_, "/markers");
  if (markers == nullptr || !markers->is_array() || max_lines < 2) return {};
  std::vector<Line> lines;
  const bool with_z = have_z(*markers);
  lines.push_back(
      {fmt::format("{:>3}  {:<9}{:<14}{:>5}{:>9}{:>9}{:>10}{:>10}{:>9}{:>7}{}", "id", "role",
                   "health", "trust", "x px", "y px", "res x nm", "res y nm", "sd x nm", "sigma",
                   with_z ? fmt::format("{:>9}{:>10}", "z nm", "res z nm") : ""),
       Tone::Dim});
  for (const json& marker : *markers) {
    if (lines.size() + 1 == max_lines && markers->size() + 1 > max_lines) {
      lines.push_back(
          {fmt::format("     and {} more", markers->size() + 1 - lines.size()), Tone::Dim});
      break;
    }
    lines.push_back(marker_line(marker, with_z));
  }
  return lines;
}

std::vector<Line> DaemonView::events() const {
  return {events_.begin(), events_.end()};
}

std::string DaemonView::one_line(std::int64_t now_ns) const {
  const double silence_s = this->silence_s(now_ns);
  if (silence_s > kSilentAfter_s) {
    return fmt::format("no message for {:.0f} s (last state: {})", silence_s, state_);
  }
  std::string z =
      has_axial(status_) ? fmt::format("  z {:>8} nm", number(position_, "/z_nm", "{:+.2f}")) : "";
  if (const std::string lock = text(axial_lock(status_), "/state"); lock != "-" && lock != "idle")
    z += " " + lock;
  return fmt::format(
      "{:<11} drift {:>8} {:>8} nm{}  rms {:>6} {:>6} nm  markers {}/{}  {} Hz  p50 {} p99 {} us",
      state_, number(position_, "/x_nm", "{:+.2f}"), number(position_, "/y_nm", "{:+.2f}"), z,
      number(status_, "/drift/rms_x_nm", "{:.2f}"), number(status_, "/drift/rms_y_nm", "{:.2f}"),
      number(status_, "/markers/used"), number(status_, "/markers/tracking"),
      number(status_, "/camera/rate_hz", "{:.1f}"), number(status_, "/latency_us/total/p50"),
      number(status_, "/latency_us/total/p99"));
}

}  // namespace driftd::clients
