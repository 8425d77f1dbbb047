// SPDX-License-Identifier: MIT
#include "simulator/stream_sender.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace driftd::simulator {
namespace {

constexpr int kSendBufferBytes = 4 << 20;
constexpr std::uint16_t kPayloadTypeImage = 1;

sockaddr_in destination(const Acquisition& acquisition) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(acquisition.host_port);
  address.sin_addr.s_addr = htonl(acquisition.host_address);
  return address;
}

void put_stream_header(std::uint8_t* out, gvcp::Status status, std::uint16_t frame_id,
                       gvcp::Content content, std::uint32_t packet) {
  gvcp::put16(out, static_cast<std::uint16_t>(status));
  gvcp::put16(out + 2, frame_id);
  gvcp::put32(out + 4, (static_cast<std::uint32_t>(content) << 24) | (packet & 0xffffff));
}

}  // namespace

/// Packets on their way out in one system call.
class StreamSender::Burst {
 public:
  Burst(std::size_t packets, sockaddr_in destination) : destination_(destination) {
    headers_.reserve(packets);
    vectors_.reserve(2 * packets);
  }

  /// Room for headers of up to leader size; valid until flush().
  std::uint8_t* add(std::size_t header_bytes, const std::byte* data, std::size_t bytes) {
    headers_.emplace_back();
    std::uint8_t* header = headers_.back().data();
    vectors_.push_back({header, header_bytes});
    // sendmmsg reads only; its interface is not const.
    vectors_.push_back({const_cast<std::byte*>(data), bytes});  // NOLINT
    return header;
  }

  std::size_t size() const { return headers_.size(); }

  /// @param mtu_bytes  what the network carries at most; larger packets are left out
  void flush(int socket, std::size_t mtu_bytes) {
    std::vector<mmsghdr> messages;
    for (std::size_t i = 0; i < headers_.size(); ++i) {
      const std::size_t bytes = vectors_[2 * i].iov_len + vectors_[2 * i + 1].iov_len;
      if (bytes + gvcp::kIpUdpBytes > mtu_bytes) continue;
      msghdr& message = messages.emplace_back().msg_hdr;
      message.msg_name = &destination_;
      message.msg_namelen = sizeof(destination_);
      message.msg_iov = &vectors_[2 * i];
      message.msg_iovlen = 2;
    }
    std::size_t sent = 0;
    while (sent < messages.size()) {
      const int count =
          sendmmsg(socket, &messages[sent], static_cast<unsigned>(messages.size() - sent), 0);
      if (count <= 0) break;  // nobody listens there any more: lost, as on a cable
      sent += static_cast<std::size_t>(count);
    }
  }

 private:
  static constexpr std::size_t kHeaderRoom = gvcp::kStreamHeaderBytes + gvcp::kLeaderBytes;
  sockaddr_in destination_;
  std::vector<std::array<std::uint8_t, kHeaderRoom>> headers_;
  std::vector<iovec> vectors_;
};

StreamSender::StreamSender(const std::string& address)
    : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in local{};
  local.sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &local.sin_addr);
  socklen_t length = sizeof(local);
  if (socket_ < 0 || bind(socket_, reinterpret_cast<sockaddr*>(&local), sizeof(local)) != 0 ||
      getsockname(socket_, reinterpret_cast<sockaddr*>(&local), &length) != 0) {
    if (socket_ >= 0) close(socket_);
    throw std::runtime_error("cannot open a stream socket on " + address);
  }
  port_ = ntohs(local.sin_port);
  setsockopt(socket_, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof(kSendBufferBytes));
}

StreamSender::~StreamSender() {
  close(socket_);
}

std::span<std::byte> StreamSender::begin(std::size_t bytes) {
  Kept& frame = kept_[next_];
  {
    const std::lock_guard lock(mutex_);
    frame.header.id = 0;  // the control thread keeps off while the image is drawn
  }
  frame.image.resize(bytes);
  return frame.image;
}

std::size_t StreamSender::payload_bytes(const Kept& frame) noexcept {
  return frame.acquisition.packet_size_bytes - gvcp::kIpUdpBytes - gvcp::kStreamHeaderBytes;
}

std::uint32_t StreamSender::last_packet(const Kept& frame) noexcept {
  const std::size_t payload = payload_bytes(frame);
  return static_cast<std::uint32_t>((frame.image.size() + payload - 1) / payload + 1);
}

void StreamSender::append(Burst& burst, const Kept& frame, std::uint32_t packet) const {
  using gvcp::Content;
  using gvcp::kStreamHeaderBytes;
  const std::uint32_t last = last_packet(frame);
  const auto& sensor = frame.acquisition.sensor;
  if (packet == 0) {
    std::uint8_t* out = burst.add(kStreamHeaderBytes + gvcp::kLeaderBytes, nullptr, 0);
    put_stream_header(out, gvcp::Status::Success, frame.header.id, Content::Leader, packet);
    out += kStreamHeaderBytes;
    gvcp::put16(out, 0);
    gvcp::put16(out + 2, kPayloadTypeImage);
    gvcp::put32(out + 4, static_cast<std::uint32_t>(frame.header.camera_ticks >> 32));
    gvcp::put32(out + 8, static_cast<std::uint32_t>(frame.header.camera_ticks & 0xffffffffU));
    gvcp::put32(out + 12, frame.acquisition.pixel_format);
    gvcp::put32(out + 16, static_cast<std::uint32_t>(sensor.width_px));
    gvcp::put32(out + 20, static_cast<std::uint32_t>(sensor.height_px));
    gvcp::put32(out + 24, static_cast<std::uint32_t>(sensor.offset_x_px));
    gvcp::put32(out + 28, static_cast<std::uint32_t>(sensor.offset_y_px));
    gvcp::put16(out + 32, static_cast<std::uint16_t>(frame.acquisition.line_padding_bytes));
    gvcp::put16(out + 34, 0);  // none behind the image
  } else if (packet < last) {
    const std::size_t from = (packet - 1) * payload_bytes(frame);
    const std::size_t bytes = std::min(payload_bytes(frame), frame.image.size() - from);
    std::uint8_t* out = burst.add(kStreamHeaderBytes, frame.image.data() + from, bytes);
    put_stream_header(out, gvcp::Status::Success, frame.header.id, Content::Payload, packet);
  } else {
    std::uint8_t* out = burst.add(kStreamHeaderBytes + gvcp::kTrailerBytes, nullptr, 0);
    put_stream_header(out, gvcp::Status::Success, frame.header.id, Content::Trailer, packet);
    gvcp::put32(out + kStreamHeaderBytes, kPayloadTypeImage);
    gvcp::put32(out + kStreamHeaderBytes + 4, static_cast<std::uint32_t>(sensor.height_px));
  }
}

std::size_t StreamSender::keep(const FrameHeader& header, const Acquisition& acquisition,
                               const StreamFaults& faults) {
  const std::size_t slot = next_;
  next_ = (next_ + 1) % kFramesKept;
  Kept& frame = kept_[slot];
  frame.waiting = header;
  frame.acquisition = acquisition;
  frame.packet_loss = faults.packet_loss;
  frame.withheld = faults.withhold_packet ? 1 + (last_packet(frame) - 1) / 2 : 0;
  return slot;
}

void StreamSender::transmit(std::size_t slot) {
  Kept& frame = kept_[slot];
  {
    const std::lock_guard lock(mutex_);
    frame.header = frame.waiting;  // from here on it may be asked for again
  }
  const std::uint32_t last = last_packet(frame);
  Burst burst(last + 1, destination(frame.acquisition));
  for (std::uint32_t packet = 0; packet <= last; ++packet) {
    if (frame.withheld != 0 && packet == frame.withheld) continue;
    if (frame.packet_loss > 0 && loss_.uniform() < frame.packet_loss) continue;
    append(burst, frame, packet);
  }
  burst.flush(socket_, mtu_bytes_);
}

void StreamSender::resend(std::uint16_t frame_id, std::uint32_t first, std::uint32_t last,
                          const Acquisition& acquisition) {
  const std::lock_guard lock(mutex_);
  const auto frame = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.header.id == frame_id && frame_id != 0;
  });
  const bool known = frame != kept_.end();
  // A request for "everything to the end" may name any last packet.
  constexpr std::uint32_t kMostUnknown = 16;
  const std::uint32_t end =
      known ? std::min(last, last_packet(*frame)) : std::min(last, first + kMostUnknown);
  if (first > end) return;
  Burst burst(end - first + 1, destination(acquisition));
  for (std::uint32_t packet = first; packet <= end; ++packet) {
    if (known && (frame->withheld == 0 || packet != frame->withheld)) {
      append(burst, *frame, packet);
      ++resent_;
    } else {
      put_stream_header(burst.add(gvcp::kStreamHeaderBytes, nullptr, 0),
                        gvcp::Status::PacketUnavailable, frame_id, gvcp::Content::Payload, packet);
    }
  }
  burst.flush(socket_, mtu_bytes_);
}

void StreamSender::send_test_packet(const Acquisition& acquisition) {
  const std::vector<std::byte> data(acquisition.packet_size_bytes - gvcp::kIpUdpBytes -
                                    gvcp::kStreamHeaderBytes);
  Burst burst(1, destination(acquisition));
  put_stream_header(burst.add(gvcp::kStreamHeaderBytes, data.data(), data.size()),
                    gvcp::Status::Success, 0, gvcp::Content::Payload, 0);
  burst.flush(socket_, mtu_bytes_);
}

void StreamSender::clear() {
  const std::lock_guard lock(mutex_);
  for (Kept& frame : kept_) frame.header.id = 0;
}

std::uint64_t StreamSender::resent_packets() const {
  const std::lock_guard lock(mutex_);
  return resent_;
}

}  // namespace driftd::simulator
