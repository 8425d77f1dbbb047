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
