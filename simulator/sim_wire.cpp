// SPDX-License-Identifier: MIT
#include "simulator/sim_wire.hpp"

#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

namespace driftd::simulator {
namespace {

using nlohmann::json;

/// Takes a number out of a request. @return false when it is there but wrong
bool take_number(const json& request, const char* key, double low, double high, double& value) {
  const auto found = request.find(key);
  if (found == request.end()) return true;
  if (!found->is_number()) return false;
  const double number = found->get<double>();
  if (!(number >= low && number <= high)) return false;
  value = number;
  return true;
}

std::string refuse(const std::string& why) {
  return json{{"ok", false}, {"error", why}}.dump();
}

/// The first key of a request that no fault has, or "".
std::string unknown_key(const json& request) {
  static constexpr std::array<const char*, 11> kKnown = {"command", "seconds", "share",  "x_nm",
                                                         "y_nm",    "z_nm",    "axes",   "index",
                                                         "factor",  "degrees", "shift_s"};
  for (const auto& item : request.items()) {
    bool known = false;
    for (const char* key : kKnown) known = known || item.key() == key;
    if (!known) return item.key();
  }
  return "";
}

using Outcome = CorrectionReader::Outcome;

/// @param y_key  null: there is no second length
Outcome read_correction(const std::string& message, const std::string& topic, const char* x_key,
                        const char* y_key, std::int64_t now_ns, Vec2 commanded_nm, auto& lock,
                        Vec2& target_nm) {
  if (message.rfind(topic, 0) != 0) return Outcome::Rejected;
  const json body = json::parse(message.begin() + static_cast<std::ptrdiff_t>(topic.size()),
                                message.end(), nullptr, false);
  if (!body.is_object()) return Outcome::Rejected;
  Vec2 total;
  const auto take = [&](const char* key, double& nm) {
    const auto found = body.find(key);
    if (found == body.end() || !found->is_number()) return false;
    nm = found->get<double>();
    return std::isfinite(nm);
  };
  if (!take(x_key, total.x) || (y_key != nullptr && !take(y_key, total.y)))
    return Outcome::Rejected;
  const json session = body.value("session", json(""));
  const json lock_id = body.value("lock_id", json(0));
  const json expires_ns = body.value("expires_ns", json(std::numeric_limits<std::int64_t>::max()));
  if (!session.is_string() || !lock_id.is_number_integer() || !expires_ns.is_number_integer()) {
    return Outcome::Rejected;
  }
  if (expires_ns.get<std::int64_t>() < now_ns) return Outcome::Expired;
  if (session.get<std::string>() != lock.session || lock_id.get<std::int64_t>() != lock.lock_id) {
    lock = {session.get<std::string>(), lock_id.get<std::int64_t>(), commanded_nm};
  }
  target_nm = {lock.zero_nm.x + total.x, lock.zero_nm.y + total.y};
  return Outcome::Move;
}

}  // namespace

Outcome CorrectionReader::read(const std::string& message, std::int64_t now_ns, Vec2 commanded_nm,
                               Vec2& target_nm) {
  return read_correction(message, "correction ", "total_x_nm", "total_y_nm", now_ns, commanded_nm,
                         lateral_, target_nm);
}

Outcome CorrectionReader::read_axial(const std::string& message, std::int64_t now_ns,
                                     double commanded_z_nm, double& target_z_nm) {
  Vec2 target_nm;
  const Outcome outcome = read_correction(message, "axial ", "total_z_nm", nullptr, now_ns,
                                          {commanded_z_nm, 0}, axial_, target_nm);
  if (outcome == Outcome::Move) target_z_nm = target_nm.x;
  return outcome;
}

std::string truth_message(const TruthRecord& record, std::uint64_t seq) {
  // Formatted by hand: 500 of these a second are made on the stream thread.
  std::array<char, 1024> text{};
  const Truth& truth = record.truth;
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  const int length = std::snprintf(
      text.data(), text.size(),
      "truth {\"v\":1,\"seq\":%" PRIu64 ",\"frame_id\":%u,\"frame_count\":%" PRIu64
      ",\"sent\":%s,\"camera_time_ns\":%" PRId64 ",\"time_ns\":%" PRId64
      ",\"sample_x_nm\":%.4f,\"sample_y_nm\":%.4f,\"disturbance_x_nm\":%.4f,"
      "\"disturbance_y_nm\":%.4f,\"stage_x_nm\":%.4f,\"stage_y_nm\":%.4f,"
      "\"commanded_x_nm\":%.4f,\"commanded_y_nm\":%.4f,\"camera_away\":%s,"
      "\"markers_hidden\":%s,\"stage_stuck\":%s,\"line1_high\":%s,\"sample_z_nm\":%.4f,"
      "\"disturbance_z_nm\":%.4f,\"stage_z_nm\":%.4f,\"commanded_z_nm\":%.4f,"
      "\"stage_z_stuck\":%s}",
      seq, static_cast<unsigned>(record.plan.frame_id), record.plan.frame_count, flag(record.sent),
      record.plan.camera_time_ns, record.middle_ns, truth.sample_nm.x, truth.sample_nm.y,
      truth.disturbance_nm.x, truth.disturbance_nm.y, truth.stage_nm.x, truth.stage_nm.y,
      truth.commanded_nm.x, truth.commanded_nm.y, flag(record.camera_away),
      flag(truth.markers_hidden), flag(truth.stage_stuck), flag(record.plan.line1_high),
      truth.sample_z_nm, truth.disturbance_z_nm, truth.stage_z_nm, truth.commanded_z_nm,
      flag(truth.stage_z_stuck));
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string answer_command(const std::string& request, LiveSimulation& simulation,
                           const CameraState& camera, const CorrectionCounts& corrections) {
  const json body = json::parse(request, nullptr, false);
  if (!body.is_object() || !body.contains("command") || !body["command"].is_string()) {
    return refuse("expected a JSON object with \"command\"");
  }
  const std::string command = body["command"];
  if (command == "status") {
    const Vec2 commanded = simulation.commanded_nm();
    return json{{"ok", true},
                {"time_s", simulation.time_s()},
                {"camera_away", simulation.camera_away()},
                {"frames_sent", camera.frames_sent},
                {"frames_late", camera.frames_late},
                {"resent_packets", camera.resent_packets},
                {"controlled", camera.controlled},
                {"corrections", corrections.obeyed},
                {"corrections_expired", corrections.expired},
                {"axial_corrections", corrections.axial_obeyed},
                {"axial_corrections_expired", corrections.axial_expired},
                {"stage_moves", corrections.moves},
                {"commanded_x_nm", commanded.x},
                {"commanded_y_nm", commanded.y},
                {"commanded_z_nm", simulation.commanded_z_nm()}}
        .dump();
  }
  Fault fault;
  if (!fault_from_name(command, fault.kind)) return refuse("unknown command \"" + command + "\"");
  if (const std::string key = unknown_key(body); !key.empty()) {
    return refuse("unknown key \"" + key + "\"");
  }
  double index = 0;
  if (!take_number(body, "seconds", 0, 1e7, fault.seconds)) return refuse("seconds: 0 to 1e7");
  if (!take_number(body, "share", 0, 1, fault.share)) return refuse("share: 0 to 1");
  if (!take_number(body, "x_nm", -1e6, 1e6, fault.x_nm)) return refuse("x_nm: -1e6 to 1e6");
  if (!take_number(body, "y_nm", -1e6, 1e6, fault.y_nm)) return refuse("y_nm: -1e6 to 1e6");
  if (!take_number(body, "z_nm", -1e6, 1e6, fault.z_nm)) return refuse("z_nm: -1e6 to 1e6");
  if (const json axes = body.value("axes", json("xy")); axes == "z") {
    fault.axes = FaultAxes::Axial;
  } else if (axes != "xy") {
    return refuse("axes: \"xy\" or \"z\"");
  }
  if (!take_number(body, "factor", 0, 1000, fault.factor)) return refuse("factor: 0 to 1000");
  if (!take_number(body, "degrees", -360, 360, fault.degrees))
    return refuse("degrees: -360 to 360");
  if (!take_number(body, "shift_s", -1e7, 1e7, fault.shift_s))
    return refuse("shift_s: -1e7 to 1e7");
  if (!take_number(body, "index", 0, 1e6, index) || index != std::floor(index)) {
    return refuse("index: a whole number from 0 on");
  }
  fault.index = static_cast<int>(index);
  if (!simulation.inject(fault))
    return refuse(fault.axes == FaultAxes::Axial ? "there is no focus stage"
                                                 : "no marker with this index");
  return json{{"ok", true}, {"command", command}}.dump();
}

}  // namespace driftd::simulator
