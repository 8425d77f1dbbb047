// SPDX-License-Identifier: MIT
#include "simulator/gige_camera.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/monotonic.hpp"
#include "simulator/device_clock.hpp"

namespace driftd::simulator {
namespace {

/// How often a camera that does not stream looks at its state.
constexpr std::int64_t kIdlePeriodNs = 10'000'000;
constexpr int kPollMs = 20;

void sleep_until(std::int64_t time_ns) {
  const timespec until{time_ns / 1'000'000'000, time_ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

}  // namespace

GigeCamera::Socket::Socket(const std::string& address, bool shared)
    : descriptor_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in local{};
  local.sin_family = AF_INET;
  local.sin_port = htons(gvcp::kPort);
  inet_pton(AF_INET, address.c_str(), &local.sin_addr);
  const int on = 1;
  if (shared) setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (descriptor_ < 0 ||
      bind(descriptor_, reinterpret_cast<sockaddr*>(&local), sizeof(local)) != 0) {
    if (descriptor_ >= 0) close(descriptor_);
    throw std::runtime_error("cannot listen on " + address + " port " +
                             std::to_string(gvcp::kPort) + ": is another simulator there?");
  }
}

GigeCamera::Socket::~Socket() {
  close(descriptor_);
}

GigeCamera::GigeCamera(const CameraIdentity& identity, const CameraModel& model,
                       FrameProducer& producer)
    : identity_(identity),
      model_(model),
      producer_(producer),
      registers_(identity, model),
      control_socket_(identity.address, false),
      sender_(identity.address),
      control_(registers_, sender_, [this](std::int64_t time_ns) {
        return static_cast<std::uint64_t>(
            to_ticks(camera_time_ns(time_ns), model_.dialect.tick_hz));
      }) {
  registers_.set_stream_source_port(sender_.port());
  sender_.carry_at_most(static_cast<std::size_t>(model.network_mtu_bytes));
  frame_id_ = static_cast<std::uint16_t>(model.first_frame_id - 1);
  try {
    discovery_socket_.emplace("255.255.255.255", true);
  } catch (const std::runtime_error&) {
    // Another program keeps the port to itself: still found by address.
  }
  control_thread_ = std::thread([this] { run_control(); });
  stream_thread_ = std::thread([this] { run_stream(); });
}

GigeCamera::~GigeCamera() {
  stopping_ = true;
  control_.end_waiting();
  control_thread_.join();
  stream_thread_.join();
}

void GigeCamera::run_control() {
  pthread_setname_np(pthread_self(), "sim-control");
  std::array<pollfd, 2> sockets = {
      {{control_socket_.get(), POLLIN, 0},
       {discovery_socket_ ? discovery_socket_->get() : -1, POLLIN, 0}}};
  while (!stopping_) {
    poll(sockets.data(), sockets.size(), kPollMs);
    for (const pollfd& socket : sockets) {
      if ((socket.revents & POLLIN) != 0) receive(socket.fd);
    }
    control_.check_heartbeat();
  }
}

void GigeCamera::receive(int socket) {
  std::array<std::uint8_t, gvcp::kHeaderBytes + gvcp::kMaxDataBytes> packet{};
  sockaddr_in from{};
  socklen_t length = sizeof(from);
  const ssize_t bytes = recvfrom(socket, packet.data(), packet.size(), 0,
                                 reinterpret_cast<sockaddr*>(&from), &length);
  const bool from_loopback = ntohl(from.sin_addr.s_addr) >> 24 == 127;
  if (away_ || !from_loopback || bytes < 0) return;
  const std::vector<std::uint8_t> answer = control_.answer_to(
      {packet.data(), static_cast<std::size_t>(bytes)}, {from.sin_addr.s_addr, from.sin_port});
  if (answer.empty()) return;
  // From the control socket even when a broadcast was answered: the reply carries our address.
  sendto(control_socket_.get(), answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from),
         length);
}

void GigeCamera::run_stream() {
  pthread_setname_np(pthread_self(), "sim-stream");
  prctl(PR_SET_TIMERSLACK, 1000UL);  // wake within a microsecond instead of fifty
  std::int64_t next_ns = monotonic_ns();
  while (!stopping_) {
    update_power();
    const Acquisition acquisition = registers_.acquisition();
    const bool streaming = acquisition.running && !away_;
    // Not what waits of a single frame, which ends by itself.
    if (away_ || (!streaming && acquisition.changes != sent_changes_)) waiting_.clear();
    deliver_until(monotonic_ns());
    if (streaming && acquisition.trigger == TriggerSource::Software) {
      if (control_.take_trigger(std::chrono::nanoseconds(kIdlePeriodNs))) {
        next_ns = monotonic_ns();
        sleep_until(next_ns + std::llround(acquisition.sensor.exposure_us * 1e3));
        make_and_send(acquisition, next_ns);
      }
      continue;
    }
    next_ns += acquisition.period_ns;
    if (monotonic_ns() > next_ns + acquisition.period_ns) {
      if (streaming && frames_sent_ > 0) ++frames_late_;
      next_ns = monotonic_ns();
    }
    if (!streaming && next_ns > monotonic_ns() + kIdlePeriodNs)
      next_ns = monotonic_ns() + kIdlePeriodNs;
    const std::int64_t end_ns = next_ns + std::llround(acquisition.sensor.exposure_us * 1e3);
    deliver_until(end_ns);
    sleep_until(end_ns);
    make_and_send(acquisition, next_ns);
  }
}

void GigeCamera::update_power() {
  const bool away = producer_.camera_away();
  if (away == away_) return;
  away_ = away;
  if (away) {
    control_.power_on();  // what it wakes up with; nobody can ask before
    sender_.clear();
    frame_id_ = static_cast<std::uint16_t>(model_.first_frame_id - 1);
  }
}

std::int64_t GigeCamera::camera_time_ns(std::int64_t time_ns) {
  const auto error_ns = producer_.clock_error_ns(time_ns);
  if (!error_ns) return 0;
  return whole_ticks_ns(time_ns + model_.clock_offset_ns + *error_ns, model_.dialect.tick_hz);
}

namespace {

/// Moves the lines of a packed image apart, from the last on. Widths are such that each line is
/// whole bytes.
void pad_lines(std::span<std::byte> image, std::size_t lines, std::size_t padding) {
  if (padding == 0 || lines == 0) return;
  const std::size_t bytes = image.size() / lines - padding;
  for (std::size_t line = lines; line-- > 0;) {
    std::byte* to = image.data() + line * (bytes + padding);
    std::memmove(to, image.data() + line * bytes, bytes);
    std::memset(to + bytes, 0xa5, padding);
  }
}

}  // namespace

void GigeCamera::make_and_send(const Acquisition& acquisition, std::int64_t start_ns) {
  // The settings of before the exposure hold; whether the client stopped meanwhile does not.
  const bool streaming = acquisition.running && !away_ && registers_.acquisition().running;
  FramePlan plan;
  plan.sensor = acquisition.sensor;
  plan.start_ns = start_ns;
  plan.camera_time_ns = camera_time_ns(start_ns);
  plan.frame_count = frame_count_;
  plan.line1_high = acquisition.line1_high;
  if (!streaming) {
    producer_.make(plan, {});
    return;
  }
  ++frame_id_;
  if (frame_id_ == 0 && !model_.dialect.counts_zero) frame_id_ = 1;
  plan.frame_id = frame_id_;
  plan.frame_count = ++frame_count_;
  const std::size_t bytes = packed_bytes(plan.sensor.format, plan.sensor.pixels());
  const auto lines = static_cast<std::size_t>(plan.sensor.height_px);
  const auto padding = static_cast<std::size_t>(acquisition.line_padding_bytes);
  const auto image = sender_.begin(bytes + lines * padding);
  const MadeFrame made = producer_.make(plan, image.first(bytes));
  pad_lines(image, lines, padding);
  // First: the client may ask for the next one as soon as it has this.
  if (acquisition.single_frame) registers_.end_acquisition(acquisition);
  if (made.fate != FrameFate::Drop) {
    const std::int64_t time_ns = plan.camera_time_ns + made.time_error_ns;
    const FrameHeader header{frame_id_,
                             static_cast<std::uint64_t>(to_ticks(time_ns, model_.dialect.tick_hz))};
    const StreamFaults faults{made.fate == FrameFate::Corrupt, made.packet_loss};
    deliver(sender_.keep(header, acquisition, faults), made.delivery_delay_ns);
    sent_changes_ = acquisition.changes;
  }
  if (waiting_.empty()) producer_.prepare(plan.sensor);  // else one may be due meanwhile
}

void GigeCamera::deliver(std::size_t slot, std::int64_t delay_ns) {
  ++frames_sent_;
  if (delay_ns <= 0 && waiting_.empty()) {
    sender_.transmit(slot);
    return;
  }
  waiting_.push_back({slot, monotonic_ns() + delay_ns});
  // Before its place in the sender's ring is needed for another image.
  if (waiting_.size() > StreamSender::kFramesKept / 2) {
    sender_.transmit(waiting_.front().slot);
    waiting_.pop_front();
  }
}

void GigeCamera::deliver_until(std::int64_t time_ns) {
  while (!waiting_.empty() && waiting_.front().due_ns <= time_ns) {
    sleep_until(waiting_.front().due_ns);
    sender_.transmit(waiting_.front().slot);
    waiting_.pop_front();
  }
}

}  // namespace driftd::simulator
