// SPDX-License-Identifier: MIT
#include "daemon/stage/stage_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "daemon/wire/answer.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxText = 300;  // bytes
constexpr std::size_t kMaxAxes = 6;
constexpr double kMaxNm = 1e9;      // a metre
constexpr double kMaxRate = 1e6;    // Hz
constexpr double kMaxCount = 9e15;  // what a double counts exactly

constexpr std::array<std::pair<DriverState, const char*>, 7> kStates = {
    {{DriverState::Ready, "ready"},
     {DriverState::ServoOff, "servo_off"},
     {DriverState::NotReferenced, "not_referenced"},
     {DriverState::Limit, "limit"},
     {DriverState::Error, "error"},
     {DriverState::Disconnected, "disconnected"},
     {DriverState::Stopped, "stopped"}}};

[[noreturn]] void refuse(const std::string& what) {
  throw CommandRefused{Refusal::BadRequest, "stage: " + what};
}

/// The fields of one object of the report; a field may be missing where it has a fallback.
class Fields {
 public:
  Fields(const json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {
    if (!object.is_object()) refuse("`" + prefix_ + "` is an object");
  }

  bool has(const char* key) const { return object_.contains(key) && !object_.at(key).is_null(); }
  /// Null, too.
  bool names_any(std::initializer_list<const char*> keys) const {
    return std::ranges::any_of(keys, [this](const char* key) { return object_.contains(key); });
  }

  /// A line: what a log shows must not look like two.
  std::string text(const char* key, bool required = false) const {
    if (!has(key)) {
      if (required) refuse(named(key) + " is missing: a text");
      return {};
    }
    const json& value = object_.at(key);
    if (!value.is_string()) refuse(named(key) + " is a text");
    auto text = value.get<std::string>();
    if (text.size() > kMaxText)
      refuse(named(key) + " has at most " + std::to_string(kMaxText) + " bytes");
    std::ranges::replace_if(
        text, [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
    if (required && text.empty()) refuse(named(key) + " is not empty");
    return text;
  }

  std::optional<double> number(const char* key, double min, double max) const {
    if (!has(key)) return std::nullopt;
    const json& value = object_.at(key);
    const double number =
        value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (!(number >= min && number <= max)) {
      refuse(named(key) + " is a number from " + json(min).dump() + " to " + json(max).dump());
    }
    return number;
  }

  std::uint64_t count(const char* key) const {
    return static_cast<std::uint64_t>(number(key, 0, kMaxCount).value_or(0));
  }

  std::optional<bool> flag(const char* key) const {
    if (!has(key)) return std::nullopt;
    if (!object_.at(key).is_boolean()) refuse(named(key) + " is true, false or null");
    return object_.at(key).get<bool>();
  }

  const json& at(const char* key) const { return object_.at(key); }
  std::string named(const char* key) const {
    return "`" + (prefix_.empty() ? "" : prefix_ + ".") + key + "`";
  }

 private:
  const json& object_;
  std::string prefix_;
};

StageAxis read_axis(const json& object, std::size_t i) {
  const Fields fields(object, "axes[" + std::to_string(i) + "]");
  StageAxis axis;
  axis.axis = fields.text("axis", true);
  if (axis.axis != "x" && axis.axis != "y" && axis.axis != "z")
    refuse(fields.named("axis") + " is x, y or z");
  axis.name = fields.text("name");
  axis.min_nm = fields.number("min_nm", -kMaxNm, kMaxNm).value_or(-kMaxNm);
  axis.max_nm = fields.number("max_nm", -kMaxNm, kMaxNm).value_or(kMaxNm);
  if (axis.min_nm > axis.max_nm) refuse(fields.named("min_nm") + " is not above `max_nm`");
  axis.resolution_nm = fields.number("resolution_nm", 0, kMaxNm).value_or(0);
  axis.closed_loop = fields.flag("closed_loop").value_or(false);
  axis.position_nm = fields.number("position_nm", -kMaxNm, kMaxNm);
  axis.target_nm = fields.number("target_nm", -kMaxNm, kMaxNm);
  return axis;
}

std::vector<StageAxis> read_axes(const Fields& fields) {
  if (!fields.has("axes")) return {};
  const json& list = fields.at("axes");
  if (!list.is_array() || list.size() > kMaxAxes)
    refuse("`axes` is a list of at most " + std::to_string(kMaxAxes));
  std::vector<StageAxis> axes;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    axes.push_back(read_axis(list[i], i));
    if (!seen.insert(axes.back().axis).second) refuse("`axes` has " + axes.back().axis + " twice");
  }
  return axes;
}

DriverState read_state(const Fields& fields) {
  const std::string name = fields.text("state", true);
  for (const auto& [state, known] : kStates) {
    if (name == known) return state;
  }
  refuse("`state` is one of ready, servo_off, not_referenced, limit, error, disconnected, stopped");
}

StageReport::Latency read_latency(const Fields& fields) {
  if (!fields.has("latency_us")) return {};
  const Fields latency(fields.at("latency_us"), "latency_us");
  constexpr double kMaxUs = 1e12;
  return {.n = latency.count("n"),
          .p50_us = latency.number("p50", 0, kMaxUs),
          .p99_us = latency.number("p99", 0, kMaxUs),
          .max_us = latency.number("max", 0, kMaxUs)};
}

}  // namespace

const char* name_of(DriverState state) noexcept {
  for (const auto& [value, name] : kStates) {
    if (value == state) return name;
  }
  return "error";
}

bool StageReport::is_of(AxisGroup group) const noexcept {
  const auto is_z = [](const StageAxis& axis) { return axis.axis == "z"; };
  if (group == AxisGroup::Axial) return axes.empty() ? names_z : std::ranges::any_of(axes, is_z);
  return axes.empty() ? names_xy || !names_z : !std::ranges::all_of(axes, is_z);
}

StageReport read_stage_report(const json& request) {
  const Fields fields(request, "");
  StageReport report;
  report.instance = fields.text("instance", true);
  report.driver = fields.text("driver", true);
  report.description = fields.text("description");
  report.axes = read_axes(fields);
  report.state = read_state(fields);
  report.text = fields.text("text");
  report.error = std::llround(fields.number("error", -1e15, 1e15).value_or(0));
  report.on_target = fields.flag("on_target");
  report.time_ns = std::llround(fields.number("time_ns", 0, 9e18).value_or(0));
  report.session = fields.text("session");
  report.lock_id = fields.count("lock_id");
  const auto x_nm = fields.number("total_x_nm", -kMaxNm, kMaxNm);
  const auto y_nm = fields.number("total_y_nm", -kMaxNm, kMaxNm);
  if (x_nm && y_nm) report.total_nm = Vec2{*x_nm, *y_nm};
  report.z_session = fields.text("z_session");
  report.z_lock_id = fields.count("z_lock_id");
  report.total_z_nm = fields.number("total_z_nm", -kMaxNm, kMaxNm);
  report.names_xy = fields.names_any({"session", "lock_id", "total_x_nm", "total_y_nm"});
  report.names_z = fields.names_any({"z_session", "z_lock_id", "total_z_nm"});
  report.carried_out = fields.count("carried_out");
  report.ignored = fields.count("ignored");
  report.refused = fields.count("refused");
  report.rate_hz = fields.number("rate_hz", 0, kMaxRate).value_or(0);
  report.max_rate_hz = fields.number("max_rate_hz", 0, kMaxRate).value_or(0);
  report.latency = read_latency(fields);
  return report;
}

}  // namespace driftd::daemon
