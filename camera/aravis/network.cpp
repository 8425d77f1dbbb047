// SPDX-License-Identifier: MIT
#include "camera/aravis/network.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "camera/aravis/features.hpp"
#include "camera/aravis/gvcp_probe.hpp"

namespace driftd::camera::aravis {
namespace {

/// Jumbo frames fit the loopback interface, whose MTU is 64 KiB. 5 times less latency than 1400.
constexpr int kLoopbackPacketBytes = 9000;
/// Fits a 1500-byte MTU with room for tunnels and VLAN tags: the fallback when sizing fails.
constexpr int kSafePacketBytes = 1400;
/// Bootstrap registers of GigE Vision.
constexpr guint64 kHeartbeatTimeout = 0x0938, kControlPrivilege = 0x0a00;

int automatic_packet_size(ArvCamera* camera, const std::string& address, KnownPackets known,
                          std::vector<CameraNote>& notes) {
  if (known.do_not_fit) {
    notes.push_back(warning("packet_size_bytes", "0", std::to_string(kSafePacketBytes),
                            "no frame came whole before; trying packets of " +
                                std::to_string(kSafePacketBytes) + " bytes"));
    return kSafePacketBytes;
  }
  if (is_loopback(address)) return kLoopbackPacketBytes;
  Failure failure;
  const guint found = arv_camera_gv_auto_packet_size(camera, failure.out());
  if (!failure && found > 0) return static_cast<int>(found);
  notes.push_back(warning("packet_size_bytes", "0", std::to_string(kSafePacketBytes),
                          "the packet size could not be found out (" + failure.text() +
                              "); trying " + std::to_string(kSafePacketBytes) +
                              " bytes: set packet_size_bytes"));
  return kSafePacketBytes;
}

/// Test packets tell whether the size that was asked for gets here. It stays: cameras and firewalls
/// may lose just these.
void test_packet_size(ArvCamera* camera, int wanted, std::vector<CameraNote>& notes) {
  constexpr int kTries = 3;  // a busy machine may lose some
  guint found = 0;
  for (int i = 0; i < kTries && found < static_cast<guint>(wanted); ++i) {
    Failure failure;
    found = arv_camera_gv_auto_packet_size(camera, failure.out());
    refusal(arv_camera_gv_set_packet_size, camera, wanted);
    if (failure || found == 0) return;
  }
  if (found >= static_cast<guint>(wanted)) return;
  notes.push_back(warning("packet_size_bytes", std::to_string(wanted), std::to_string(wanted),
                          "test packets of " + std::to_string(wanted) +
                              " bytes do not get here, of " + std::to_string(found) +
                              " they do. If no frame comes whole, raise the MTU of the network "
                              "between, or set packet_size_bytes to 0"));
}

struct Interface {
  std::string name;
  int mtu_bytes = 0;
};

/// The one of this computer that the camera sends to.
std::optional<Interface> interface_to(ArvCamera* camera) {
  GSocketAddress* address =
      arv_gv_device_get_interface_address(ARV_GV_DEVICE(arv_camera_get_device(camera)));
  sockaddr_in wanted{};
  if (address == nullptr ||
      g_socket_address_to_native(address, &wanted, sizeof(wanted), nullptr) == 0)
    return std::nullopt;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return std::nullopt;
  std::optional<Interface> found;
  for (const ifaddrs* one = all; one != nullptr && !found; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in here{};
    std::memcpy(&here, one->ifa_addr, sizeof(here));
    const bool loopback = (one->ifa_flags & IFF_LOOPBACK) != 0;  // has all of 127.0.0.0/8
    const in_addr_t mask = loopback ? htonl(0xff000000) : INADDR_NONE;
    if ((here.sin_addr.s_addr & mask) == (wanted.sin_addr.s_addr & mask))
      found = Interface{one->ifa_name, 0};
  }
  freeifaddrs(all);
  if (!found) return std::nullopt;
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  found->name.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
  if (fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0) found->mtu_bytes = request.ifr_mtu;
  if (fd >= 0) close(fd);
  return found;
}

void set_heartbeat_timeout(ArvCamera* camera, int wanted_ms, std::vector<CameraNote>& notes) {
  ArvDevice* device = arv_camera_get_device(camera);
  const auto wanted = static_cast<guint32>(wanted_ms);
  Failure refused;
  arv_device_write_register(device, kHeartbeatTimeout, wanted, refused.out());
  guint32 taken = 0;
  Failure unreadable;
  arv_device_read_register(device, kHeartbeatTimeout, &taken, unreadable.out());
  if (unreadable || taken == wanted) return;
  notes.push_back(warning("heartbeat_timeout_ms", std::to_string(wanted), std::to_string(taken),
                          "the camera stays with a daemon that died for " + std::to_string(taken) +
                              " ms instead of " + std::to_string(wanted) +
                              because(refused ? refused.text() : "")));
}

}  // namespace

void send_heartbeat(ArvCamera* camera) noexcept {
  guint32 privilege = 0;
  Failure ignored;  // where it fails, frames stay away
  arv_device_read_register(arv_camera_get_device(camera), kControlPrivilege, &privilege,
                           ignored.out());
}

std::string packets_in_words(ArvCamera* camera, int packet_size_bytes) {
  std::string words = "packets of " + std::to_string(packet_size_bytes) + " bytes";
  const auto interface = interface_to(camera);
  if (!interface) return words;
  words += " over " + interface->name;
  if (interface->mtu_bytes > 0)
    words += ", whose MTU is " + std::to_string(interface->mtu_bytes) + " bytes";
  return words;
}

int prepare_network(ArvCamera* camera, const std::string& address, const AravisSettings& settings,
                    KnownPackets known, std::vector<CameraNote>& notes) {
  // Aravis' own adjustment while it makes the stream is unreliable (its issues 774 and 1065).
  arv_camera_gv_set_packet_size_adjustment(camera, ARV_GV_PACKET_SIZE_ADJUSTMENT_NEVER);
  const bool given = settings.packet_size_bytes > 0;
  const int wanted =
      given ? settings.packet_size_bytes : automatic_packet_size(camera, address, known, notes);
  const std::string refused = refusal(arv_camera_gv_set_packet_size, camera, wanted);
  const guint taken = checked("reading the packet size", arv_camera_gv_get_packet_size, camera);
  if (taken != static_cast<guint>(wanted)) {
    notes.push_back(warning("packet_size_bytes", std::to_string(wanted), std::to_string(taken),
                            "the packet size is " + std::to_string(taken) + " bytes instead of " +
                                std::to_string(wanted) + (refused.empty() ? "" : ": " + refused)));
  }
  if (given && !known.fit) test_packet_size(camera, static_cast<int>(taken), notes);
  arv_camera_gv_set_stream_options(camera, ARV_GV_STREAM_OPTION_PACKET_SOCKET_DISABLED);
  set_heartbeat_timeout(camera, settings.heartbeat_timeout_ms, notes);
  const int buffer = socket_buffer_given(settings.socket_buffer_bytes);
  if (buffer < settings.socket_buffer_bytes) {
    notes.push_back(socket_buffer_note(settings.socket_buffer_bytes, buffer));
  }
  return static_cast<int>(taken);
}

void tune_network_stream(ArvStream* stream, const AravisSettings& settings) {
  // An initial packet time-out of 0: on a direct link a gap is a loss, so ask for it at once.
  g_object_set(stream, "socket-buffer", ARV_GV_STREAM_SOCKET_BUFFER_FIXED, "socket-buffer-size",
               settings.socket_buffer_bytes, "initial-packet-timeout", 0U, "packet-timeout",
               static_cast<guint>(settings.packet_timeout_us), "frame-retention",
               static_cast<guint>(settings.frame_retention_us), nullptr);
  // Aravis switches resend off for a camera that cannot do it: only ever switch it off here.
  if (settings.resend == Resend::Never) {
    g_object_set(stream, "packet-resend", ARV_GV_STREAM_PACKET_RESEND_NEVER, nullptr);
  }
}

int socket_buffer_given(int wanted_bytes) {
  // The stream's own socket is out of reach, so the kernel is asked on one like it.
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return wanted_bytes;
  int doubled = 0;  // the kernel reports twice what it gives to the payload (socket(7))
  socklen_t size = sizeof(doubled);
  const bool asked =
      setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted_bytes, sizeof(wanted_bytes)) == 0 &&
      getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &doubled, &size) == 0;
  close(fd);
  return asked ? std::min(doubled / 2, wanted_bytes) : wanted_bytes;
}

CameraNote socket_buffer_note(int wanted_bytes, int given_bytes) {
  return warning("socket_buffer_bytes", std::to_string(wanted_bytes), std::to_string(given_bytes),
                 "the kernel gives a socket buffer of " + std::to_string(given_bytes) +
                     " bytes instead of " + std::to_string(wanted_bytes) +
                     ", and frames may be lost: raise net.core.rmem_max (sysctl -w "
                     "net.core.rmem_max=" +
                     std::to_string(wanted_bytes) + ")");
}

}  // namespace driftd::camera::aravis
