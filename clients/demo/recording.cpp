// SPDX-License-Identifier: MIT
#include "clients/demo/recording.hpp"

namespace driftd::clients {

void Recording::add(const Message& message) {
  const nlohmann::json& body = message.body;
  const auto time = [&](const char* key) { return body.at(key).get<std::int64_t>(); };
  const auto axes = [&](const char* x, const char* y) {
    return PerAxis{body.at(x).get<double>(), body.at(y).get<double>()};
  };
  missed_ += message.lost;
  if (message.topic == "truth") {
    add(TrueFrame{time("camera_time_ns"), time("time_ns"), axes("sample_x_nm", "sample_y_nm"),
                  axes("disturbance_x_nm", "disturbance_y_nm"), body.at("sent").get<bool>(),
                  body.value("sample_z_nm", 0.0), body.value("disturbance_z_nm", 0.0)});
  } else if (message.topic == "position") {
    const auto z_state = body.find("z_state");
    const bool has_z = z_state != body.end() && z_state->is_string();
    add(PublishedPosition{time("camera_time_ns"), time("arrival_ns"),
                          body.at("state").get<std::string>(),
                          has_z ? z_state->get<std::string>() : std::string()});
  } else if (message.topic == "correction") {
    add(PublishedCorrection{time("sent_ns"), axes("delta_x_nm", "delta_y_nm")});
  } else if (message.topic == "axial") {
    add_axial(PublishedCorrection{time("sent_ns"), {body.at("delta_z_nm").get<double>(), 0}});
  }
}

Recording Recording::axial() const {
  Recording z;
  for (TrueFrame frame : truth_) {
    frame.sample_nm = {frame.sample_z_nm, 0};
    frame.disturbance_nm = {frame.disturbance_z_nm, 0};
    z.add(frame);
  }
  for (PublishedPosition position : positions_) {
    position.state = position.z_state;
    z.add(position);
  }
  z.corrections_ = axial_corrections_;
  return z;
}

void Recording::add(const PublishedPosition& position) {
  position_by_camera_time_[position.camera_time_ns] = positions_.size();
  positions_.push_back(position);
}

const PublishedPosition* Recording::position_of(const TrueFrame& frame) const {
  const auto found = position_by_camera_time_.find(frame.camera_time_ns);
  return found == position_by_camera_time_.end() ? nullptr : &positions_[found->second];
}

}  // namespace driftd::clients
