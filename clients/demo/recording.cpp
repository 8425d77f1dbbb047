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
                  axes("disturbance_x_nm", "disturbance_y_nm"), body.at("sent").get<bool>()});
  } else if (message.topic == "position") {
    add(PublishedPosition{time("camera_time_ns"), time("arrival_ns"),
                          body.at("state").get<std::string>()});
  } else if (message.topic == "correction") {
    add(PublishedCorrection{time("sent_ns"), axes("delta_x_nm", "delta_y_nm")});
  }
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
