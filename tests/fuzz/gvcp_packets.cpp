// SPDX-License-Identifier: MIT
// GVCP packets to the simulated camera from two peers, and the GVSP packets that they make it send.
// An input is packets, each behind a byte for its peer and one for its length. The program is
// linked with --wrap for sendmmsg: no packet leaves.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>

#include "fuzz/fuzz.hpp"
#include "simulator/gvcp_control.hpp"

namespace driftd::fuzz {
namespace {

using namespace simulator;

constexpr int kSensorPx = 64;
constexpr std::size_t kMtuBytes = 1500;
std::size_t sent_packets = 0;

CameraModel small_camera() {
  CameraModel model;
  model.width_px = model.height_px = kSensorPx;
  return model;
}

struct Camera {
  DeviceRegisters registers{{}, small_camera()};
  StreamSender sender{"127.0.0.1"};
  GvcpControl control{registers, sender,
                      [](std::int64_t time_ns) { return static_cast<std::uint64_t>(time_ns); }};
};

/// What a camera does with an image that was exposed.
void stream(Camera& camera) {
  const Acquisition acquisition = camera.registers.acquisition();
  const auto image =
      camera.sender.begin(packed_bytes(acquisition.sensor.format, acquisition.sensor.pixels()));
  std::ranges::fill(image, std::byte{7});
  camera.sender.transmit(camera.sender.keep({.id = 1, .camera_ticks = 2}, acquisition, {}));
}

void check_registers(const DeviceRegisters& registers) {
  const Acquisition a = registers.acquisition();
  const SensorSettings& s = a.sensor;
  require(s.width_px >= 1 && s.height_px >= 1 && s.offset_x_px >= 0 && s.offset_y_px >= 0 &&
              (s.offset_x_px + s.width_px) * s.binning_x <= kSensorPx &&
              (s.offset_y_px + s.height_px) * s.binning_y <= kSensorPx,
          "the region is on the sensor",
          std::to_string(s.offset_x_px) + "+" + std::to_string(s.width_px) + "*" +
              std::to_string(s.binning_x) + ", " + std::to_string(s.offset_y_px) + "+" +
              std::to_string(s.height_px) + "*" + std::to_string(s.binning_y));
  require(s.exposure_us >= 10 && s.exposure_us <= 1e6, "the exposure is one that there is");
  require(std::isfinite(s.gain_db) && a.period_ns > 0, "gain and period are numbers");
  require(a.packet_size_bytes >= kMinPacketBytes && a.packet_size_bytes <= kMaxPacketBytes,
          "packets have a size");
  require(a.host_address == 0 || a.host_address >> 24 == 127, "the stream stays on this computer");
}

void check_answer(Bytes packet, Bytes answer) {
  if (answer.empty()) return;
  require(packet.size() >= gvcp::kHeaderBytes, "what is no packet gets no answer");
  require(answer.size() >= gvcp::kHeaderBytes &&
              answer.size() <= gvcp::kHeaderBytes + gvcp::kMaxDataBytes,
          "an answer has the size of one", std::to_string(answer.size()));
  require(gvcp::get16(&answer[4]) == answer.size() - gvcp::kHeaderBytes,
          "an answer says how long it is");
  require(gvcp::get16(&answer[6]) == gvcp::get16(&packet[6]), "an answer says to what it is one");
}

}  // namespace

/// In the place of the kernel.
int take_packets(const mmsghdr* messages, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    const msghdr& message = messages[i].msg_hdr;
    const auto& to = *static_cast<const sockaddr_in*>(message.msg_name);
    const std::uint32_t host = ntohl(to.sin_addr.s_addr);
    require(host == 0 || host >> 24 == 127, "a packet stays on this computer");
    std::size_t bytes = gvcp::kIpUdpBytes;
    for (std::size_t part = 0; part < message.msg_iovlen; ++part)
      bytes += message.msg_iov[part].iov_len;
    require(bytes <= kMtuBytes, "a packet is not larger than the network carries");
  }
  sent_packets += count;
  return static_cast<int>(count);
}

void gvcp_packets(Bytes bytes) {
  static Camera camera;
  camera.control.power_on();
  camera.sender.clear();
  camera.sender.carry_at_most(kMtuBytes);
  sent_packets = 0;
  stream(camera);
  Choices choices(bytes);
  std::size_t packets = 0;
  for (; !choices.empty() && packets < 100; ++packets) {
    const auto peer = choices.take<std::uint8_t>();
    const Bytes taken = choices.take_bytes(choices.take<std::uint8_t>());
    const std::vector<std::uint8_t> packet(taken.begin(), taken.end());  // nothing behind it
    const bool other = camera.control.controlled() && (peer & 1U) != 0;
    const std::uint32_t width = camera.registers.get(feature::kWidth);
    const auto answer = camera.control.answer_to(packet, {0x0100007f, std::uint16_t(peer & 1U)});
    check_answer(packet, answer);
    check_registers(camera.registers);
    if (other && camera.registers.get(feature::kWidth) != width)
      require(camera.control.controlled(), "nobody writes but who is in control");
    if ((peer & 2U) != 0) stream(camera);
    camera.control.take_trigger(std::chrono::nanoseconds(0));
  }
  // The largest frame has 8192 bytes; every packet may ask for a resend of all, and for a stream.
  require(sent_packets <= (packets + 1) * 60, "a packet does not set off a flood",
          std::to_string(sent_packets));
}

}  // namespace driftd::fuzz

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" int __wrap_sendmmsg(int, mmsghdr* messages, unsigned count, int) {
  return driftd::fuzz::take_packets(messages, count);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
