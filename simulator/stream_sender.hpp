// SPDX-License-Identifier: MIT
// Sends images as GVSP packets and keeps the last 64 of them for resend requests. The stream thread
// calls begin() and send(); the control thread calls resend() and send_test_packet().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "simulator/device_registers.hpp"
#include "simulator/random.hpp"

namespace driftd::simulator {

/// What a client is told about an image besides its pixels.
struct FrameHeader {
  std::uint16_t id = 0;            ///< 1 to 65535
  std::uint64_t camera_ticks = 0;  ///< of the camera's clock
};

/// Faults of the stream for one frame.
struct StreamFaults {
  bool withhold_packet = false;  ///< one packet is never sent, not even on request
  double packet_loss = 0;        ///< share of packets lost on their first way
};

class StreamSender {
 public:
  static constexpr std::size_t kFramesKept = 64;
  /// @throws std::runtime_error when the socket cannot be opened on `address`
  explicit StreamSender(const std::string& address);
  ~StreamSender();
  StreamSender(const StreamSender&) = delete;
  StreamSender& operator=(const StreamSender&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  /// Larger packets, IP header included, are lost. Before any is sent.
  void carry_at_most(std::size_t bytes) noexcept { mtu_bytes_ = bytes; }
  /// The buffer for the next image, `bytes` long; what the oldest image held is gone.
  std::span<std::byte> begin(std::size_t bytes);
  /// Puts the image of begin() aside for transmit(); it stays until kFramesKept more were made.
  std::size_t keep(const FrameHeader& header, const Acquisition& acquisition,
                   const StreamFaults& faults);
  /// Sends what keep() put into `slot` to where its acquisition says.
  void transmit(std::size_t slot);
  /// Sends packets `first` to `last` of a frame again; "unavailable" for those no longer there.
  void resend(std::uint16_t frame_id, std::uint32_t first, std::uint32_t last,
              const Acquisition& acquisition);
  /// A packet of the full size for the client's packet size test.
  void send_test_packet(const Acquisition& acquisition);
  /// Forgets all frames (power cut).
  void clear();
  std::uint64_t resent_packets() const;

 private:
  struct Kept {
    FrameHeader header;   ///< id 0: nothing to resend here
    FrameHeader waiting;  ///< what header becomes when it is sent
    Acquisition acquisition;
    double packet_loss = 0;
    std::vector<std::byte> image;
    std::uint32_t withheld = 0;  ///< packet id; 0: none
  };
  class Burst;
  void append(Burst& burst, const Kept& frame, std::uint32_t packet) const;
  static std::size_t payload_bytes(const Kept& frame) noexcept;
  static std::uint32_t last_packet(const Kept& frame) noexcept;

  int socket_ = -1;
  std::uint16_t port_ = 0;
  std::size_t mtu_bytes_ = 65535;
  Random loss_{1, 60};
  mutable std::mutex mutex_;  ///< guards which frames may be read
  std::array<Kept, kFramesKept> kept_;
  std::size_t next_ = 0;
  std::uint64_t resent_ = 0;
};

}  // namespace driftd::simulator
