// SPDX-License-Identifier: MIT
// What a daemon that measures z tells beside the protocol's flat examples.
#pragma once

#include <nlohmann/json.hpp>

namespace driftd::test {

/// `status.axial` while z is measured.
inline nlohmann::json axial_example() {
  return {{"method", "astigmatic"},
          {"curve", "/etc/driftd/curve.yaml"},
          {"valid", true},
          {"reason", "measured"},
          {"text", ""},
          {"z_nm", -31.25},
          {"sd_nm", 1.5},
          {"witness_z_nm", -30.5},
          {"in_range", 13},
          {"markers_used", 11},
          {"markers_total", 13},
          {"distance_from_crossing_nm", 42.0},
          {"range_below_nm", 400.0},
          {"range_above_nm", 380.0},
          {"warning", ""}};
}

/// `status.axial.lock` while z is locked and moved, by a stage that is not x and y's.
inline nlohmann::json axial_lock_example() {
  return {{"state", "locked"},
          {"reason", "reference_taken"},
          {"cure", ""},
          {"held_for", "none"},
          {"held_first", "none"},
          {"state_since_ns", 90'010'000'000},
          {"reference_frames_left", 0},
          {"lock_id", 2},
          {"stage", "following"},
          {"acquaintance", {{"state", "told"}, {"text", ""}, {"stage", nullptr}}},
          {"warning", ""},
          {"total_z_nm", -18.25},
          {"gate",
           {{"in_lock", false},
            {"reason", "residual"},
            {"since_ns", 90'110'000'000},
            {"residual_z_nm", 7.25},
            {"tolerance_nm", 5.0},
            {"closed", 3}}},
          {"move",
           {{"move", 1},
            {"phase", "resting"},
            {"moving", false},
            {"ended", "done"},
            {"z_nm", 50.0},
            {"goal_z_nm", 50.0},
            {"place", 1},
            {"places", 1},
            {"repeats_left", 0}}},
          {"control",
           {{"law", "observer"},
            {"reason", "configured"},
            {"left_nm", 1.5},
            {"pi_left_nm", 2.5},
            {"axes",
             {{{"axis", "z"},
               {"learnt", true},
               {"frames_to_learn", 0},
               {"walk_nm_per_sqrt_s", 2.0},
               {"noise_nm", 1.0},
               {"sd_nm", 0.5},
               {"surprise", 1.0},
               {"stage_gain", 1.25},
               {"stage_late_us", 200.0},
               {"lines", nlohmann::json::array()},
               {"forecast",
                {{"total_nm", 0.61},
                 {"motion_nm", 0.3},
                 {"markers_nm", 0.45},
                 {"stage_nm", 0.25},
                 {"lag_nm", 0.1},
                 {"stage_known_in_s", 0.0}}}}}}}},
          {"stage_driver",
           {{"driver", "simulator"},
            {"description", "a z stage"},
            {"state", "ready"},
            {"text", ""},
            {"error", 0},
            {"on_target", true},
            {"age_ms", 31.0},
            {"axes", {{{"axis", "z"}, {"name", "z"}, {"position_nm", 49'981.75}}}},
            {"lock_id", 2},
            {"total_z_nm", -18.5},
            {"off_nm", 0.4},
            {"rate_hz", 499.0},
            {"refused", 0},
            {"latency_us", {{"n", 10}, {"p50", 90.0}, {"p99", 400.0}, {"max", 500.0}}}}}};
}

/// `status.axial` of a daemon that holds z, too.
inline nlohmann::json axial_held_example() {
  nlohmann::json axial = axial_example();
  axial["lock"] = axial_lock_example();
  return axial;
}

/// The same while it is not.
inline nlohmann::json no_axial_example() {
  nlohmann::json axial = axial_example();
  axial.update({{"valid", false},
                {"reason", "out_of_range"},
                {"text", "z of 1 of 13 tracking markers is read, and 3 are needed"},
                {"z_nm", nullptr},
                {"sd_nm", nullptr},
                {"witness_z_nm", nullptr},
                {"in_range", 1},
                {"markers_used", 0},
                {"distance_from_crossing_nm", nullptr}});
  return axial;
}

/// A `position`, or a marker of `markers`, of a daemon that does not measure z.
inline nlohmann::json without_z(nlohmann::json message) {
  for (const char* key : {"z_nm", "z_sd_nm", "frame_z_nm", "frame_z_sd_nm", "witness_z_nm",
                          "sigma_x_px", "sigma_y_px", "dz_nm", "residual_z_nm", "z_reason"})
    if (message.contains(key)) message[key] = nullptr;
  return message;
}

/// `status.pattern` with z.
inline nlohmann::json pattern_example() {
  return {{"rotation_mrad", 0.0123}, {"rotation_sd_mrad", 0.0041}, {"scale_ppm", -3.2},
          {"scale_sd_ppm", 4.1},     {"markers_used", 16},         {"tilt_x_mrad", 0.25},
          {"tilt_x_sd_mrad", 0.08},  {"tilt_y_mrad", -0.5},        {"tilt_y_sd_mrad", 0.09}};
}

}  // namespace driftd::test
