// SPDX-License-Identifier: MIT
// What no file tells: the network card's settings, cameras, groups, disk.
#include <arpa/inet.h>
#include <grp.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/state_directory.hpp"
#include "camera/aravis/gvcp_probe.hpp"
#include "clients/driftctl/doctor/machine.hpp"
#include "config/drop_ins.hpp"
#include "config/hook_program.hpp"

namespace driftd::clients::doctor {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kAnswerTime{300};

/// One question to a card's driver; false where it does not answer.
template <typename Question>
bool ask_driver(const std::string& interface, Question& question) {
  const int descriptor = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  ifreq request{};
  interface.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
  request.ifr_data = reinterpret_cast<char*>(&question);
  const bool answered = ioctl(descriptor, SIOCETHTOOL, &request) == 0;
  close(descriptor);
  return answered;
}

NicSettings nic_settings(const std::string& interface) {
  NicSettings settings;
  ethtool_ringparam ring{};
  ring.cmd = ETHTOOL_GRINGPARAM;
  if (ask_driver(interface, ring)) {
    settings.rx_ring = static_cast<int>(ring.rx_pending);
    settings.rx_ring_most = static_cast<int>(ring.rx_max_pending);
  }
  ethtool_coalesce coalesce{};
  coalesce.cmd = ETHTOOL_GCOALESCE;
  if (ask_driver(interface, coalesce))
    settings.rx_wait_us = static_cast<int>(coalesce.rx_coalesce_usecs);
  ethtool_value flags{};
  flags.cmd = ETHTOOL_GFLAGS;
  if (ask_driver(interface, flags)) settings.large_receive = (flags.data & ETH_FLAG_LRO) != 0;
  return settings;
}

std::string dotted(std::uint32_t address) {
  const in_addr bytes{htonl(address)};
  std::array<char, INET_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET, &bytes, text.data(), text.size());
}

/// Registers of GigE Vision 2.0, section "Bootstrap registers".
std::optional<GigeCamera> ask_camera(const std::string& address) {
  constexpr std::uint32_t kPrivilege = 0x0a00;
  constexpr std::uint32_t kHolderPort = 0x0a04;
  constexpr std::uint32_t kHolderAddress = 0x0a14;
  constexpr std::uint32_t kTicksHigh = 0x093c;
  constexpr std::uint32_t kTicksLow = 0x0940;
  constexpr std::uint32_t kPacketDelay = 0x0d08;
  camera::aravis::GvcpProbe probe(address);
  if (!probe.answered(kAnswerTime)) return std::nullopt;
  GigeCamera camera;
  const auto privilege = probe.read_register(kPrivilege, kAnswerTime);
  camera.may_read = privilege.has_value();
  if (!privilege) return camera;
  camera.privilege = *privilege;
  camera.holder_port = static_cast<int>(probe.read_register(kHolderPort, kAnswerTime).value_or(0));
  const std::uint32_t holder = probe.read_register(kHolderAddress, kAnswerTime).value_or(0);
  if (holder != 0) camera.holder_address = dotted(holder);
  camera.packet_delay_ticks = probe.read_register(kPacketDelay, kAnswerTime);
  const std::uint64_t high = probe.read_register(kTicksHigh, kAnswerTime).value_or(0);
  camera.tick_hz = high << 32U | probe.read_register(kTicksLow, kAnswerTime).value_or(0);
  return camera;
}

std::optional<std::uintmax_t> free_bytes(const fs::path& path) {
  std::error_code error;
  const fs::space_info space = fs::space(path, error);
  return error ? std::nullopt : std::optional(space.available);
}

/// Bytes of a user's or a group's entry, names of all members included.
constexpr std::size_t kMostOfAnEntry = 1 << 20;

std::string own_name() {
  std::vector<char> text(kMostOfAnEntry);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, text.data(), text.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return std::to_string(geteuid());
}

std::vector<std::string> own_groups() {
  std::vector<gid_t> ids(static_cast<std::size_t>(std::max(0, getgroups(0, nullptr))));
  ids.resize(
      static_cast<std::size_t>(std::max(0, getgroups(static_cast<int>(ids.size()), ids.data()))));
  ids.push_back(getegid());
  std::vector<std::string> names;
  std::vector<char> text(kMostOfAnEntry);
  for (const gid_t id : ids) {
    group entry{};
    group* found = nullptr;
    if (getgrgid_r(id, &entry, text.data(), text.size(), &found) == 0 && found != nullptr)
      names.emplace_back(found->gr_name);
  }
  return names;
}

}  // namespace

Machine this_machine(const fs::path& config_file, const std::string& instance) {
  Machine machine;
  machine.instance = instance;
  machine.config = config::default_config();
  machine.file = config_file;
  std::error_code error;
  if (machine.file.empty() && fs::exists(machine.service_file(), error))
    machine.file = machine.service_file();
  if (!machine.file.empty()) {
    try {
      config::Origins origins;
      machine.config = config::load(machine.file, &origins);
      machine.sources = config::with_drop_ins(machine.file, origins);
    } catch (const config::ConfigError& mistake) {
      machine.problem = mistake.what();
    }
  }
  machine.state =
      machine.has_service() ? fs::path("/var/lib/driftd") / instance : state_directory();
  machine.user = own_name();
  machine.groups = own_groups();
  machine.free_bytes = free_bytes;
  machine.nic = nic_settings;
  // Both wait for answers, and several checks ask: once will do.
  machine.ask_camera = [known = std::map<std::string, std::optional<GigeCamera>>()](
                           const std::string& address) mutable {
    const auto before = known.find(address);
    return before != known.end() ? before->second : known[address] = ask_camera(address);
  };
  machine.find_cameras = [found = std::optional<std::vector<camera::ListedCamera>>()]() mutable {
    if (!found) found = camera::list_cameras();
    return *found;
  };
  machine.hook_problem = config::hook_problem;
  return machine;
}

}  // namespace driftd::clients::doctor
