// SPDX-License-Identifier: MIT
#include "clients/common/measure/advice.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "clients/common/axial_lock.hpp"
#include "control/law/observer/disturbance_model.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

/// A part of the residual that is worth words: this share of its square.
constexpr double kWorthShare = 0.2;
/// A line that is worth words: its amplitude, and against what is left anyhow.
constexpr double kWorthLineNm = 0.1, kWorthLineShare = 0.3;
constexpr double kSurprised = 1.7;  // as docs/internals/observer.md
/// The stage differs from its description by so much that it should be described anew.
constexpr double kGainOff = 0.1, kLateUs = 300;
/// What is left and what was foretold differ by so much.
constexpr double kFarFromForecast = 1.3;
/// A line that is as sharp as this turns evenly.
constexpr double kSharp = 300, kBlunt = 30;

double number(const json& object, const char* path) {
  const json::json_pointer pointer(path);
  if (!object.contains(pointer) || !object.at(pointer).is_number()) return std::nan("");
  return object.at(pointer).get<double>();
}

double both(double x, double y) {
  return std::sqrt(0.5 * (x * x + y * y));
}

std::string text(const json& object, const char* path) {
  const json::json_pointer pointer(path);
  return object.contains(pointer) && object.at(pointer).is_string()
             ? object.at(pointer).get<std::string>()
             : "";
}

/// What shakes like this, most often.
std::string guess(double frequency_hz, double q) {
  for (const double mains_hz : {50.0, 60.0})
    for (const int harmonic : {1, 2, 3})
      if (q > kSharp && std::abs(frequency_hz - harmonic * mains_hz) < 0.005 * harmonic * mains_hz)
        return "the mains: a transformer near the stage, or a loop of its cables";
  if (frequency_hz < 8 && q < kSharp) return "the table on its legs, or the building";
  if (q > kSharp) return "something that turns evenly: a fan or a pump";
  if (q < kBlunt) return "a part that rings when it is knocked: objective, holder or shelf";
  return "a fan or a pump, or a part that rings with it";
}

class Axis {
 public:
  Axis(const json& axis, double rate_hz, std::vector<Advice>& list)
      : axis_(axis),
        list_(list),
        rate_hz_(rate_hz),
        name_(text(axis, "/axis")),
        total_nm_(number(axis, "/forecast/total_nm")) {}

  void advise() {
    if (!axis_.value("learnt", false)) {
      add("learning", "the observer has not learnt yet how the sample moves: " + what_is_needed());
      return;
    }
    if (number(axis_, "/forecast/stage_known_in_s") > 0) {
      add("learning",
          fmt::format(
              "{:.2f} nm can be held: the sample's own motion {:.2f}, the noise of markers "
              "and stage together {:.2f}, its lag {:.2f} nm. Which of both is noisy is told "
              "from a whole record, in {:.0f} s of lock",
              total_nm_, part("motion"), std::hypot(part("markers"), part("stage")), part("lag"),
              std::ceil(number(axis_, "/forecast/stage_known_in_s"))));
    } else if (std::isfinite(total_nm_)) {
      add("forecast",
          fmt::format("{:.2f} nm can be held: the sample's own motion {:.2f}, the "
                      "markers' noise {:.2f}, the stage's {:.2f}, its lag {:.2f} nm",
                      total_nm_, part("motion"), part("markers"), part("stage"), part("lag")));
      advise_parts();
    }
    advise_lines();
    advise_stage();
    if (number(axis_, "/surprise") > kSurprised)
      add("surprise",
          "the sample moves otherwise than it did before: what was learnt is being mended");
  }

 private:
  bool is_z() const { return name_ == "z"; }
  void add(const char* code, std::string text) { list_.push_back({code, name_, std::move(text)}); }
  std::string what_is_needed() const {
    const double frames = number(axis_, "/frames_to_learn");
    if (!(frames > 0))
      return "the frames seen until now say no more than it knew before; it looks again and again";
    std::string text = fmt::format("it needs {:.0f} frames more while locked", frames);
    if (rate_hz_ > 0)
      text += fmt::format(", {:.0f} s at {:.3g} frames/s", std::ceil(frames / rate_hz_), rate_hz_);
    return text;
  }
  double part(const char* name) const {
    return number(axis_, (std::string("/forecast/") + name + "_nm").c_str());
  }
  bool is_worth(const char* name) const {
    return part(name) * part(name) > kWorthShare * total_nm_ * total_nm_;
  }
  double without(const char* name) const {
    return std::sqrt(std::max(0.0, total_nm_ * total_nm_ - part(name) * part(name)));
  }

  void advise_parts() {
    if (is_worth("markers"))
      add("markers",
          fmt::format("brighter markers, or more of them, would help: without their noise "
                      "{:.2f} nm would be left",
                      without("markers")));
    else
      add("markers", fmt::format("more light would not help: without the markers' noise {:.2f} nm "
                                 "would be left",
                                 without("markers")));
    if (is_worth("stage"))
      add("stage_noise",
          fmt::format("the stage's own noise is {:.2f} of {:.2f} nm, and no lock "
                      "removes it: a quieter amplifier, a smaller range, softer cables",
                      part("stage"), total_nm_));
    if (is_worth("motion"))
      add("motion",
          fmt::format("the sample moves {:.2f} nm before a command can know of it: a higher "
                      "frame rate and a stage that answers sooner would help, and to stop "
                      "what shakes it",
                      part("motion")));
    if (is_worth("lag"))
      add("lag",
          fmt::format("the stage does not follow {:.2f} nm of what is foreseen: it is too slow "
                      "for that, or {}.step_limit_nm and {}.rate_limit_nm_per_s are too small",
                      part("lag"), is_z() ? "axial" : "control", is_z() ? "axial" : "control"));
  }

  void advise_lines() {
    if (!axis_.contains("lines")) return;
    for (const json& line : axis_.at("lines")) {
      const double hz = number(line, "/frequency_hz"), nm = number(line, "/amplitude_nm");
      const double q = number(line, "/q");
      const bool matters = nm > kWorthLineNm && !(nm < kWorthLineShare * total_nm_);
      if (!matters) continue;
      const std::string others = look_alikes(line);
      const double alias_of_hz = number(line, "/alias_of_hz");
      if (alias_of_hz > 0)
        add("alias",
            fmt::format("a line of {:.1f} nm is seen at {:.1f} Hz; it is an alias of {:.1f} "
                        "Hz, as a slower frame rate has shown, and the lock does not follow "
                        "it: what shakes the sample so fast?",
                        nm, hz, alias_of_hz));
      else if (line.value("followed", true))
        add("line", fmt::format("a line of {:.1f} nm at {:.1f} Hz (Q {:.0f}): {}?{}", nm, hz, q,
                                guess(hz, q), others.empty() ? "" : " Or it is" + others));
      else
        add("alias", fmt::format("a line of {:.1f} nm is seen at {:.1f} Hz; it is that{}. The lock "
                                 "does not follow it: below {:.0f} frames/s most are faster than "
                                 "they look, and from there on it is not verified yet. At another "
                                 "camera.frame_rate_hz it is seen elsewhere, if it is one of the "
                                 "others",
                                 nm, hz, others.empty() ? "" : ", or" + others,
                                 control::kLeastRateForLinesHz));
    }
  }

  /// " 27, 33, 57, 63 Hz, which look the same at this frame rate"
  static std::string look_alikes(const json& line) {
    std::string list;
    const auto found = line.find("look_alikes_hz");
    if (found == line.end() || !found->is_array()) return list;
    for (const json& other : *found)
      if (other.is_number())
        list += fmt::format("{}{:.3g}", list.empty() ? " " : ", ", other.get<double>());
    return list.empty() ? list : list + " Hz, which look the same at this frame rate";
  }

  void advise_stage() {
    const double gain = number(axis_, "/stage_gain"), late_us = number(axis_, "/stage_late_us");
    if (std::abs(gain - 1) > kGainOff || std::abs(late_us) > kLateUs)
      add("stage_model",
          fmt::format("the axis moves {:.2f} times as far as it is told, and {:.1f} ms "
                      "{} than {}stage.delay_us says: {}",
                      gain, 1e-3 * std::abs(late_us), late_us < 0 ? "sooner" : "later",
                      is_z() ? "axial." : "",
                      is_z() ? "axial.stage.gain and it describe the stage"
                             : "`driftctl calibrate` describes it"));
  }

  const json& axis_;
  std::vector<Advice>& list_;
  double rate_hz_;
  std::string name_;
  double total_nm_;
};

/// Foretold, and measured by the witnesses without their noise. Over both axes: the forecast's are
/// the stage's, which may be turned against the image's.
void compare(const json& status, std::vector<Advice>& list) {
  const double foretold_nm = both(number(status, "/control/axes/0/forecast/total_nm"),
                                  number(status, "/control/axes/1/forecast/total_nm"));
  const double left_nm = both(number(status, "/residual/out_of_loop/sample_x_nm"),
                              number(status, "/residual/out_of_loop/sample_y_nm"));
  if (left_nm > kFarFromForecast * foretold_nm)
    list.push_back(
        {"more_than_forecast", "",
         fmt::format("the witnesses show {:.2f} nm where {:.2f} are foretold: markers that "
                     "move by themselves, or a computer that is late (`driftctl doctor`)",
                     left_nm, foretold_nm)});
}

/// How still a lock, x and y's or z's, holds, and by which law.
/// @param axis  "" of x and y
void advise_lock(const json& lock, const char* axis, double rate_hz, std::vector<Advice>& list) {
  const std::string reason = text(lock, "/control/reason");
  if (text(lock, "/control/law") == "pi")
    list.push_back(
        {"pi", axis,
         reason == "worse_than_pi"
             ? "PI holds the lock, because the observer left more: what shakes the sample "
               "may change faster than it can be learnt"
         : reason == "driver_too_slow"
             ? "PI holds the lock, because the stage's driver takes too few corrections for the "
               "observer: a faster driver, or a slower camera (camera.frame_rate_hz)"
         : reason == "not_ready" ? "PI holds the lock until the frame rate is known"
                                 : "PI holds the lock: control.law: auto may hold it stiller"});
  const json::json_pointer axes("/control/axes");
  if (lock.contains(axes) && lock.at(axes).is_array())
    for (const json& one : lock.at(axes)) Axis(one, rate_hz, list).advise();
}

}  // namespace

std::vector<Advice> advice_of(const json& status) {
  std::vector<Advice> list;
  const std::string state = text(status, "/state");
  const json& z = axial_lock(status);
  const bool z_is_locked = text(z, "/state") == "locked";
  if (state != "locked")
    list.push_back({"not_locked", "",
                    "nothing to say " + std::string(z_is_locked ? "of x and y " : "") +
                        "while the state is " + state + ": a lock shows how the sample moves"});
  const double rate_hz = number(status, "/camera/rate_hz");
  if (state == "locked") {
    advise_lock(status, "", rate_hz, list);
    compare(status, list);
  }
  if (z_is_locked) advise_lock(z, "z", rate_hz, list);
  if (list.empty())
    list.push_back(
        {"nothing_learnt", "", "nothing is known yet of how the sample moves: is control.law pi?"});
  return list;
}

json to_json(const std::vector<Advice>& advice) {
  json list = json::array();
  for (const Advice& one : advice)
    list.push_back({{"code", one.code}, {"axis", one.axis}, {"text", one.text}});
  return list;
}

}  // namespace driftd::clients
