// SPDX-License-Identifier: MIT
// A GigE Vision camera on a loopback address: a control thread that answers GVCP on port 3956 (one
// controller at a time, with heartbeat, discovery and packet resend) and a stream thread that is
// paced by the clock, has each image made by a FrameProducer and sends it. The caller owns both;
// the threads run from construction to destruction.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "simulator/device_registers.hpp"
#include "simulator/gvcp_control.hpp"
#include "simulator/simulation.hpp"
#include "simulator/stream_sender.hpp"

namespace driftd::simulator {

/// One exposure as the camera plans it.
struct FramePlan {
  SensorSettings sensor;
  std::int64_t start_ns = 0;        ///< of the exposure, CLOCK_MONOTONIC
  std::int64_t camera_time_ns = 0;  ///< the same on the camera's clock
  std::uint16_t frame_id = 0;       ///< as sent; 0 when the camera does not stream
  std::uint64_t frame_count = 0;    ///< frames since the simulator started, this one included
  bool line1_high = false;          ///< the camera's output, then
};

struct MadeFrame {
  FrameFate fate = FrameFate::Send;
  double packet_loss = 0;
  std::int64_t time_error_ns = 0;      ///< of this frame's own time, beside the clock's
  std::int64_t delivery_delay_ns = 0;  ///< it waits so long before it is sent
};

/// Makes the images. make() and camera_away() are called on the stream thread only.
class FrameProducer {
 public:
  virtual ~FrameProducer() = default;
  FrameProducer() = default;
  FrameProducer(const FrameProducer&) = delete;
  FrameProducer& operator=(const FrameProducer&) = delete;
  /// Called right after the exposure. `image` is empty when the camera does not stream.
  virtual MadeFrame make(const FramePlan& plan, std::span<std::byte> image) = 0;
  /// Called when that image is sent: the time until the next one, of the same settings, is free.
  virtual void prepare(const SensorSettings& /*settings*/) {}
  /// Whether the cable is out now.
  virtual bool camera_away() = 0;
  /// What the camera's clock shows too much at `time_ns` (CLOCK_MONOTONIC); nothing: it shows none.
  /// Any thread.
  virtual std::optional<std::int64_t> clock_error_ns(std::int64_t /*time_ns*/) { return 0; }
};

class GigeCamera {
 public:
  /// @throws std::invalid_argument, or std::runtime_error when the address is taken
  GigeCamera(const CameraIdentity& identity, const CameraModel& model, FrameProducer& producer);
  ~GigeCamera();
  GigeCamera(const GigeCamera&) = delete;
  GigeCamera& operator=(const GigeCamera&) = delete;

  std::uint64_t frames_sent() const noexcept { return frames_sent_; }
  /// Exposures that could not start in time because the machine was busy.
  std::uint64_t frames_late() const noexcept { return frames_late_; }
  std::uint64_t resent_packets() const { return sender_.resent_packets(); }
  bool controlled() const { return control_.controlled(); }

 private:
  class Socket {
   public:
    Socket(const std::string& address, bool shared);
    ~Socket();
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    int get() const noexcept { return descriptor_; }

   private:
    int descriptor_;
  };

  void run_control();
  void receive(int socket);

  void run_stream();
  void make_and_send(const Acquisition& acquisition, std::int64_t start_ns);
  void deliver(std::size_t slot, std::int64_t delay_ns);
  void deliver_until(std::int64_t time_ns);
  void update_power();
  std::int64_t camera_time_ns(std::int64_t time_ns);

  CameraIdentity identity_;
  CameraModel model_;
  FrameProducer& producer_;
  DeviceRegisters registers_;
  Socket control_socket_;
  std::optional<Socket> discovery_socket_;  ///< for broadcasts; none when the port is taken
  StreamSender sender_;

  GvcpControl control_;

  std::atomic<bool> away_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> frames_sent_{0};
  std::atomic<std::uint64_t> frames_late_{0};
  std::uint16_t frame_id_ = 0;  ///< of the last frame; stream thread
  std::uint64_t frame_count_ = 0;
  /// Frames on their way, sent in this order, whichever is due; stream thread.
  struct Waiting {
    std::size_t slot = 0;
    std::int64_t due_ns = 0;
  };
  std::deque<Waiting> waiting_;
  std::uint32_t sent_changes_ = 0;  ///< Acquisition::changes of the last one
  std::thread control_thread_;
  std::thread stream_thread_;
};

}  // namespace driftd::simulator
