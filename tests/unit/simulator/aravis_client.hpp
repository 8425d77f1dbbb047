// SPDX-License-Identifier: MIT
// A client of the simulated camera as Aravis makes one, for tests.
#pragma once

#include <arv.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "simulator/live_simulation.hpp"
#include "support/catch.hpp"

namespace driftd::test {

/// Keeps every image that the simulation makes, to compare with what arrives.
class RecordingProducer final : public simulator::FrameProducer {
 public:
  explicit RecordingProducer(const simulator::Scenario& scenario)
      : simulation(scenario, [this](const simulator::TruthRecord& truth) {
          told_time_ns_ = truth.plan.camera_time_ns;
        }) {}
  simulator::MadeFrame make(const simulator::FramePlan& plan, std::span<std::byte> image) override {
    const simulator::MadeFrame made = simulation.make(plan, image);
    if (!image.empty()) {
      const std::lock_guard lock(mutex_);
      images_[plan.frame_id] = {plan, {image.begin(), image.end()}, told_time_ns_};
    }
    return made;
  }
  bool camera_away() override { return simulation.camera_away(); }
  struct Made {
    simulator::FramePlan plan;
    std::vector<std::byte> image;
    std::int64_t told_time_ns = 0;  ///< by the truth: the frame's own timestamp
  };
  Made image(std::uint64_t frame_id) {
    const std::lock_guard lock(mutex_);
    return images_[frame_id];
  }
  simulator::LiveSimulation simulation;

 private:
  std::int64_t told_time_ns_ = 0;
  std::mutex mutex_;
  std::map<std::uint64_t, Made> images_;
};

struct Unref {
  void operator()(gpointer object) const { g_object_unref(object); }
};
template <typename T>
using Owned = std::unique_ptr<T, Unref>;

/// Fails the test with Aravis' own words.
class Error {
 public:
  ~Error() { g_clear_error(&error_); }
  Error() = default;
  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;
  operator GError**() { return &error_; }  // NOLINT(google-explicit-constructor): a C out-argument
  bool set() const { return error_ != nullptr; }
  void require_none() const {
    INFO((error_ != nullptr ? error_->message : ""));
    REQUIRE(error_ == nullptr);
  }

 private:
  GError* error_ = nullptr;
};

class Client {
 public:
  explicit Client(const std::string& address) {
    Error error;
    camera_.reset(arv_camera_new(address.c_str(), error));
    error.require_none();
  }
  ArvCamera* camera() { return camera_.get(); }

  void start(ArvGvStreamPacketResend resend = ARV_GV_STREAM_PACKET_RESEND_ALWAYS) {
    arv_camera_gv_set_packet_size_adjustment(camera(), ARV_GV_PACKET_SIZE_ADJUSTMENT_NEVER);
    arv_camera_gv_set_stream_options(camera(), ARV_GV_STREAM_OPTION_PACKET_SOCKET_DISABLED);
    Error error;
    arv_camera_gv_set_packet_size(camera(), 4000, error);
    error.require_none();
    const auto payload = static_cast<std::size_t>(arv_camera_get_payload(camera(), error));
    error.require_none();
    stream_.reset(arv_camera_create_stream(camera(), nullptr, nullptr, error));
    error.require_none();
    g_object_set(stream_.get(), "socket-buffer", ARV_GV_STREAM_SOCKET_BUFFER_FIXED,
                 "socket-buffer-size", 4 << 20, "packet-resend", resend, "initial-packet-timeout",
                 0U, "packet-timeout", 1000U, "frame-retention", 50000U, nullptr);
    for (int i = 0; i < 16; ++i) {
      arv_stream_push_buffer(stream_.get(), arv_buffer_new(payload, nullptr));
    }
    arv_camera_start_acquisition(camera(), error);
    error.require_none();
  }
  void stop() {
    Error error;
    arv_camera_stop_acquisition(camera(), error);
    error.require_none();
    stream_.reset();
  }
  /// The next buffer of any status; null: none came for `timeout_ms`. Give it back with push().
  ArvBuffer* pop(int timeout_ms = 2000) {
    return arv_stream_timeout_pop_buffer(stream_.get(), static_cast<guint64>(timeout_ms) * 1000);
  }
  void push(ArvBuffer* buffer) { arv_stream_push_buffer(stream_.get(), buffer); }

 private:
  Owned<ArvCamera> camera_;
  Owned<ArvStream> stream_;
};

}  // namespace driftd::test
