// SPDX-License-Identifier: MIT
// The doctor's checks on computers that are made of files in a folder: a good one, on which nothing
// is found, and the same with one thing wrong.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <tuple>

#include "clients/driftctl/doctor/doctor.hpp"
#include "clients/driftctl/doctor/holders.hpp"
#include "support/catch.hpp"
#include "support/source_dir.hpp"

using namespace driftd;
using namespace driftd::clients::doctor;
namespace fs = std::filesystem;

namespace {

/// Two cores, one node, a camera at 192.168.10.5 on eth1 with jumbo frames, all rights.
class World {
 public:
  World() {
    std::string name = fs::temp_directory_path() / "driftd-doctor-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    machine.root = name;
    write("proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max locked memory         unlimited            unlimited            bytes     \n"
          "Max realtime priority     99                   99                             \n");
    for (const std::string cpu : {"cpu0", "cpu1"}) {
      write("sys/devices/system/cpu/" + cpu + "/cpufreq/scaling_governor", "performance\n");
      write("sys/devices/system/cpu/" + cpu + "/cpuidle/state1/latency", "2\n");
      write("sys/devices/system/cpu/" + cpu + "/cpuidle/state2/latency", "890\n");
      write("sys/devices/system/cpu/" + cpu + "/cpuidle/state2/name", "C6\n");
      write("sys/devices/system/cpu/" + cpu + "/cpuidle/state2/disable", "1\n");
    }
    write("sys/devices/system/cpu/cpufreq/boost", "1\n");
    write("sys/devices/system/node/node0/cpulist", "0-1\n");
    write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    write("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet \n");
    write("proc/sys/net/core/rmem_max", "33554432\n");
    write("sys/class/net/eth1/mtu", "9000\n");
    write("proc/net/route",
          "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
          "eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
          "eth1\t000AA8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n");
    write("sys/module/usbcore/parameters/usbfs_memory_mb", "16\n");
    fs::create_directories(machine.root / "var/log");
    machine.config = config::default_config();
    machine.config.camera.id = "192.168.10.5";
    machine.file = "/etc/driftd/driftd.yaml";
    machine.state = "/var/lib/driftd";
    machine.user = "alice";
    machine.groups = {"alice", "driftd"};
    machine.status = nlohmann::json{
        {"version", "0.1.0"}, {"state", "locked"}, {"camera", {{"connected", true}}}};
    machine.free_bytes = [this](const fs::path&) { return free; };
    machine.nic = [this](const std::string&) { return nic; };
    machine.ask_camera = [this](const std::string&) { return camera; };
    machine.find_cameras = [this] { return found; };
    machine.hook_problem = [](const fs::path&) { return ""; };
    camera = GigeCamera{.privilege = 2,
                        .holder_address = "192.168.10.1",
                        .holder_port = 41234,
                        .packet_delay_ticks = 0,
                        .tick_hz = 1'000'000'000};
  }
  ~World() { fs::remove_all(machine.root); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((machine.root / path).parent_path());
    std::ofstream(machine.root / path) << text;
  }
  /// The one finding of a check that is not ok.
  Finding bad(std::string_view code) const {
    std::vector<Finding> found_bad;
    for (const Result& result : examine(machine)) {
      if (result.finding.level != Level::Ok) {
        INFO(result.code << ": " << result.finding.found);
        CHECK(result.code == code);
        found_bad.push_back(result.finding);
      }
    }
    REQUIRE(found_bad.size() == 1);
    CHECK_FALSE(found_bad[0].todo.empty());
    return found_bad[0];
  }
  void is_fine() const {
    for (const Result& result : examine(machine)) {
      INFO(result.code << ": " << result.finding.found);
      CHECK(result.finding.level == Level::Ok);
    }
  }

  Machine machine;
  std::optional<std::uintmax_t> free = 50'000'000'000;
  NicSettings nic{.rx_ring = 4096, .rx_ring_most = 4096, .rx_wait_us = 10, .large_receive = false};
  std::optional<GigeCamera> camera;
  std::vector<driftd::camera::ListedCamera> found;
};

driftd::camera::ListedCamera listed(const std::string& address, const std::string& serial) {
  return {.id = "Basler-acA1440-" + serial,
          .address = address,
          .vendor = "Basler",
          .model = "acA1440",
          .serial = serial,
          .hardware = "",
          .user_name = ""};
}

}  // namespace

TEST_CASE("a good computer has every check and nothing to do", "[doctor]") {
  const World world;
  world.is_fine();
  const auto results = examine(world.machine);
  for (const Check& check : checks()) {
    INFO(check.code);
    CHECK(std::ranges::count(results, check.code, &Result::code) >= 1);
  }
  CHECK(worst(results) == Level::Ok);
  CHECK(to_lines(results).back() == "0 to mend, 0 to think about");
}

TEST_CASE("docs/use/doctor.md has the table of checks", "[doctor]") {
  std::ifstream page(driftd::test::source_dir() / "docs/use/doctor.md");
  REQUIRE(page);
  // driftctl doctor --list prints it.
  CHECK_THAT(std::string(std::istreambuf_iterator<char>(page), {}), contains(markdown()));
}

TEST_CASE("the worst finding decides, and each has its command", "[doctor]") {
  World world;
  world.write("proc/sys/net/core/rmem_max", "212992\n");
  world.camera = std::nullopt;
  const auto results = examine(world.machine);
  CHECK(worst(results) == Level::Fail);
  CHECK(to_lines(results).back() == "1 to mend, 1 to think about");
  const nlohmann::json json = to_json(results);
  CHECK(json["worst"] == "fail");
  CHECK(json["findings"].size() == results.size());
  for (const auto& finding : json["findings"]) {
    INFO(finding.dump());
    CHECK((finding["level"] == "ok") == finding["command"].get<std::string>().empty());
    if (finding["check"] == "socket_buffer")
      CHECK_THAT(finding["command"].get<std::string>(), contains("/etc/sysctl.d/90-driftd.conf"));
  }
}

TEST_CASE("rights that are missing", "[doctor]") {
  World world;
  const std::string limits =
      "Max locked memory         8388608              8388608              bytes     \n"
      "Max realtime priority     0                    0                              \n";
  world.write("proc/self/limits", limits);
  auto results = examine(world.machine);
  CHECK(worst(results) == Level::Warn);
  world.machine.config.realtime.mode = config::RealTimeMode::Require;
  results = examine(world.machine);
  CHECK(to_lines(results).back() == "2 to mend, 0 to think about");
  world.machine.user = "root";  // as in a container: without the capabilities
  world.write("proc/self/status", "Name:\tdriftctl\nCapEff:\t00000000a80425fb\n");
  CHECK(to_lines(examine(world.machine)).back() == "2 to mend, 0 to think about");
  world.write("proc/self/status", "Name:\tdriftctl\nCapEff:\t000001ffffffffff\n");
  world.is_fine();
  world.write("proc/self/status", "");
  world.machine.user = "alice";
  // What the daemon has counts, and of a running one its own limits do.
  (*world.machine.status)["realtime"] = {{"scheduled", true}, {"memory_locked", true}};
  world.is_fine();
  world.machine.status->erase("realtime");
  world.write("proc/77/limits",
              "Max locked memory         unlimited  unlimited  bytes\n"
              "Max realtime priority     50         50\n");
  world.machine.daemon_pid = 77;
  const Finding finding = world.bad("realtime");
  CHECK_THAT(finding.found, contains("55 is wanted") && contains("process 77) is 50"));
  CHECK_THAT(finding.command, contains("'@driftd - rtprio 99'"));
  world.machine.groups = {"alice"};
  CHECK_THAT(world.bad("realtime").command, contains("'alice - rtprio 99'"));
  // CAP_SYS_NICE, bit 23, is a right of its own.
  world.write("proc/77/status", "Name:\tdriftd\nCapEff:\t0000000000800000\n");
  world.is_fine();
}

TEST_CASE("CPUs that slow down or sleep deeply", "[doctor]") {
  const World world;
  world.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
  Finding finding = world.bad("governor");
  CHECK_THAT(finding.found, contains("1 CPU runs by `powersave`"));
  CHECK(finding.command == "sudo cpupower frequency-set -g performance");
  world.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n");
  world.write("sys/devices/system/cpu/cpu1/cpuidle/state2/disable", "0\n");
  finding = world.bad("idle_states");
  CHECK_THAT(finding.found, contains("C6 takes 890 us"));
}

TEST_CASE("a slow clock", "[doctor]") {
  const World world;
  const std::string folder = "sys/devices/system/clocksource/clocksource0/";
  world.write(folder + "current_clocksource", "hpet\n");
  CHECK_THAT(world.bad("clock_source").command, contains("echo tsc | sudo tee /sys/"));
  world.write(folder + "available_clocksource", "hpet acpi_pm\n");
  CHECK_THAT(world.bad("clock_source").command, contains("dmesg"));
}

TEST_CASE("a loop on another node than the camera's card", "[doctor]") {
  World world;
  world.write("sys/devices/system/node/node1/cpulist", "2-3,8\n");
  world.write("sys/class/net/eth1/device/numa_node", "1\n");
  CHECK_THAT(world.bad("numa").todo, contains("2-3,8"));
  world.machine.config.realtime.loop_cpu = 1;
  CHECK_THAT(world.bad("numa").found, contains("loop_cpu 1 is not"));
  for (const int cpu : {2, 3, 8}) {
    world.machine.config.realtime.loop_cpu = cpu;
    world.is_fine();
  }
}

TEST_CASE("the network to the camera", "[doctor]") {
  World world;
  SECTION("socket buffer") {
    world.write("proc/sys/net/core/rmem_max", "212992\n");
    const Finding finding = world.bad("socket_buffer");
    CHECK_THAT(finding.found, contains("212992"));
    CHECK_THAT(finding.command,
               contains("net.core.rmem_max=" +
                        std::to_string(world.machine.config.camera.socket_buffer_bytes)));
  }
  SECTION("MTU") {
    world.write("sys/class/net/eth1/mtu", "1500\n");
    CHECK(world.bad("mtu").command == "sudo ip link set eth1 mtu 9000");
  }
  SECTION("offloads") {
    world.nic.rx_ring = 256;
    CHECK(world.bad("nic_offloads").command == "sudo ethtool -G eth1 rx 4096");
    world.nic = {.rx_ring = {}, .rx_ring_most = {}, .rx_wait_us = 125, .large_receive = {}};
    CHECK(world.bad("nic_offloads").command == "sudo ethtool -C eth1 rx-usecs 10");
    world.nic = {.rx_ring = {}, .rx_ring_most = {}, .rx_wait_us = {}, .large_receive = true};
    CHECK(world.bad("nic_offloads").command == "sudo ethtool -K eth1 lro off");
    world.nic = {};
    world.is_fine();
  }
  SECTION("the camera on the way to the world") {
    world.write("proc/net/route",
                "Iface\n"
                "eth1\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
                "eth1\t000AA8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n");
    CHECK_THAT(world.bad("route").found, contains("eth1 has the default route"));
  }
  SECTION("the camera behind a router, or on this computer") {
    world.machine.config.camera.id = "10.1.2.3";
    CHECK(driftd::interface_to(world.machine.routes(), "10.1.2.3") == "eth0");
    world.machine.config.camera.id = "127.0.0.9";
    world.write("proc/sys/net/core/rmem_max", "33554432\n");
    world.is_fine();
  }
  SECTION("no interface in the camera's network: of none is spoken as the camera's") {
    world.write("sys/class/net/eth0/mtu", "1500\n");
    world.camera.reset();
    for (const char* address : {"169.254.7.2", "10.1.2.3"}) {
      world.machine.config.camera.id = address;
      const Finding finding = world.bad("camera");
      CHECK_THAT(finding.found, contains("no interface of this computer is in the network of"));
      CHECK_THAT(finding.command, contains("ip route get "));
    }
  }
  SECTION("a camera that answers behind a router is reached over the router's interface") {
    world.write("sys/class/net/eth0/mtu", "1500\n");
    world.machine.config.camera.id = "10.1.2.3";
    const auto results = examine(world.machine);
    CHECK(std::ranges::any_of(results, [](const Result& result) {
      return result.code == "mtu" && result.finding.found == "eth0 has an MTU of 1500 bytes";
    }));
  }
  SECTION("packet delay") {
    (*world.machine.status)["camera"]["lost"] = 12;
    CHECK_THAT(world.bad("packet_delay").found, contains("12 frames were lost"));
    (*world.machine.status)["camera"] = {
        {"connected", true}, {"lost", 0}, {"width_px", 512}, {"height_px", 512}};
    world.machine.config.camera.frame_rate_hz = 500;
    world.camera->packet_delay_ticks = 10'000;  // 10 us for each of some 400 packets: 4 ms of 2
    CHECK_THAT(world.bad("packet_delay").found, contains("10.0 us"));
    world.camera->packet_delay_ticks = 100;
    world.is_fine();
  }
}

TEST_CASE("who holds the camera", "[doctor]") {
  World world;
  (*world.machine.status)["camera"]["connected"] = false;
  SECTION("a process of this computer") {
    // Port 41234 is 0xA112.
    world.write("proc/net/udp",
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"
                "  timeout inode ref pointer drops\n"
                "  12: 010AA8C0:A112 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000"
                "        0 4242 2 0000000000000000 0\n");
    fs::create_directories(world.machine.root / "proc/4073/fd");
    fs::create_symlink("socket:[4242]", world.machine.root / "proc/4073/fd/9");
    world.write("proc/4073/comm", "arv-viewer-0.8\n");
    const Finding finding = world.bad("camera");
    CHECK(finding.level == Level::Fail);
    CHECK_THAT(finding.found, contains("process 4073 (arv-viewer-0.8)"));
    CHECK(finding.command == "kill 4073");
  }
  SECTION("another computer") {
    world.camera->holder_address = "192.168.10.77";
    CHECK_THAT(world.bad("camera").found, contains("192.168.10.77, port 41234"));
  }
  SECTION("a camera that does not tell") {
    world.camera = GigeCamera{
        .privilege = 0, .may_read = false, .holder_address = "", .packet_delay_ticks = {}};
    CHECK_THAT(world.bad("camera").found, contains("does not tell"));
  }
  SECTION("nobody") {
    world.camera->privilege = 0;
    world.is_fine();
  }
  SECTION("no camera") {
    world.camera = std::nullopt;
    CHECK_THAT(world.bad("camera").found, contains("no camera answers at 192.168.10.5"));
  }
}

TEST_CASE("a camera by its serial number", "[doctor]") {
  World world;
  world.machine.config.camera.id = "Basler-acA1440-40123456";
  CHECK(world.machine.camera_address().empty());
  world.found = {listed("192.168.10.4", "40999999"), listed("192.168.10.5", "40123456")};
  CHECK(world.machine.camera_address() == "192.168.10.5");
  (*world.machine.status)["camera"]["description"] = "Basler acA1440 40123456 at 192.168.10.8";
  CHECK(world.machine.camera_address() == "192.168.10.8");
}

TEST_CASE("a camera is meant as driftd means it", "[doctor]") {
  World world;
  world.found = {listed("192.168.10.5", "40123456"), listed("192.168.10.4", "40999999")};
  world.found[1].user_name = "lock-in";
  world.found[1].hardware = "00:30:53:28:11:22";
  const auto address_of = [&](const char* id) {
    world.machine.config.camera.id = id;
    return world.machine.camera_address();
  };
  CHECK(address_of("") == "192.168.10.5");
  CHECK(address_of("40999999") == "192.168.10.4");
  CHECK(address_of("Basler-acA1440-40999999") == "192.168.10.4");
  CHECK(address_of("lock-in") == "192.168.10.4");
  CHECK(address_of("00:30:53:28:11:22") == "192.168.10.4");
  CHECK(address_of("4099").empty());
  world.camera->privilege = 0;
  (*world.machine.status)["camera"]["connected"] = false;
  CHECK_THAT(world.bad("camera").found,
             contains("camera.id is `4099`, and there are: Basler-acA1440-40123456 (192.168.10.5), "
                      "Basler-acA1440-40999999 (192.168.10.4)"));
  (*world.machine.status)["camera"]["connected"] = true;  // by the configuration before
  (*world.machine.status)["camera"]["description"] = "Basler acA1440 40123456 at 192.168.10.5";
  CHECK_THAT(world.bad("camera").found,
             contains("not by this configuration: camera.id is `4099`, and there are: Basler-"));
  CHECK(world.bad("camera").level == Level::Fail);  // started again, driftd has none
  (*world.machine.status)["camera"]["description"] = "Basler acA1440 20000001";  // others' USB
  CHECK(world.bad("camera").level == Level::Warn);
  address_of("192.168.10.4");
  (*world.machine.status)["camera"]["description"] = "Basler acA1440 40123456 at 192.168.10.5";
  Finding other = world.bad("camera");
  CHECK(other.level == Level::Warn);
  CHECK_THAT(other.found, contains("driftd has Basler acA1440 40123456 at 192.168.10.5, not by") &&
                              contains("camera.id is `192.168.10.4`") && contains("nobody's"));
  world.camera->privilege = 2;
  other = world.bad("camera");
  CHECK(other.level == Level::Fail);
  CHECK_THAT(other.found, contains("another program's"));
  world.camera->privilege = 0;
  (*world.machine.status)["camera"] = {{"connected", false}};
  address_of("");
  world.is_fine();
  world.found.clear();
  CHECK_THAT(world.bad("camera").found, contains("no camera is found") && !contains("camera.id"));
  address_of("4099");
  CHECK_THAT(world.bad("camera").found, contains("camera.id is `4099`, and no camera is found"));
  address_of("192.168.10.7");
  world.camera.reset();
  world.found = {listed("192.168.10.5", "40123456")};
  CHECK_THAT(world.bad("camera").found,
             contains("no camera answers at 192.168.10.7; there are: Basler-acA1440-40123456"));
}

TEST_CASE("a command's tool that is not there is told with its package", "[doctor]") {
  World world;
  world.nic.rx_ring = 256;
  CHECK_THAT(world.bad("nic_offloads").todo, contains("`ethtool` is in the package ethtool."));
  world.write("usr/sbin/ethtool", "");
  CHECK_THAT(world.bad("nic_offloads").todo, !contains("package"));
  world.nic.rx_ring = 4096;
  world.camera.reset();
  world.write("bin/ping", "");
  CHECK_THAT(world.bad("camera").todo, !contains("package"));
}

TEST_CASE("cameras are listed with interface and holder", "[doctor]") {
  World world;
  CHECK(camera_lines(world.machine).front() == "no camera is found");
  CHECK(camera_list(world.machine).empty());
  world.found = {listed("192.168.10.5", "40123456"), listed("169.254.7.2", "40999999"),
                 listed("", "21000000")};
  world.machine.ask_camera = [&](const std::string& address) -> std::optional<GigeCamera> {
    if (address == "192.168.10.5") return world.camera;
    return std::nullopt;
  };
  const std::string device = "sys/bus/usb/devices/2-1";
  world.write(device + ":1.0/bInterfaceClass", "ef\n");
  world.write(device + ":1.0/bInterfaceSubClass", "05\n");
  world.write(device + "/serial", "21000000\n");
  world.write(device + "/busnum", "2\n");
  world.write(device + "/devnum", "3\n");
  const std::vector<std::string> expected{
      "address       serial    model           interface  held by",
      "192.168.10.5  40123456  Basler acA1440  eth1       driftd",
      "169.254.7.2   40999999  Basler acA1440  -          -",
      "-             21000000  Basler acA1440  USB        -",
      std::string("Without an interface: give the camera an address of one's network, or the ") +
          "interface one of the camera's."};
  CHECK(camera_lines(world.machine) == expected);
  fs::create_directories(world.machine.root / "proc/4073/fd");
  fs::create_symlink("/dev/bus/usb/002/003", world.machine.root / "proc/4073/fd/9");
  world.write("proc/4073/comm", "viewer\n");
  (*world.machine.status)["camera"]["connected"] = false;
  const nlohmann::json list = camera_list(world.machine);
  CHECK(list[0]["held_by"] == "a program at 192.168.10.1, port 41234");
  CHECK(list[1]["held_by"].is_null());
  CHECK(list[1]["interface"].is_null());
  CHECK(list[2]["held_by"] == "process 4073 (viewer)");
  CHECK(list[2]["address"].is_null());
  world.camera->privilege = 0;
  CHECK(camera_list(world.machine)[0]["held_by"] == "nobody");
}

TEST_CASE("a USB camera", "[doctor]") {
  World world;
  world.machine.config.camera.id = "";
  (*world.machine.status)["camera"]["description"] = "FLIR BFS-U3-16S2M 21000000";
  const std::string device = "sys/bus/usb/devices/2-1";
  world.write(device + ":1.0/bInterfaceClass", "ef\n");
  world.write(device + ":1.0/bInterfaceSubClass", "05\n");
  world.write(device + "/speed", "5000\n");
  world.write(device + "/busnum", "2\n");
  world.write(device + "/devnum", "3\n");
  world.write("dev/bus/usb/002/003", "");
  const fs::path node = world.machine.root / "dev/bus/usb/002/003";
  const auto belongs_to_group = [&](gid_t group) {  // another than its own takes root
    return chown(node.c_str(), static_cast<uid_t>(-1), group) == 0;
  };
  fs::permissions(node, static_cast<fs::perms>(0660));
  REQUIRE(belongs_to_group(getegid() == 0 ? 44 : getegid()));
  CHECK_THAT(world.bad("usb").command, contains("echo 1000 | sudo tee /sys/module/usbcore"));
  world.write("sys/module/usbcore/parameters/usbfs_memory_mb", "1000\n");
  world.is_fine();
  world.write(device + "/speed", "480\n");
  CHECK_THAT(world.bad("usb").found, contains("480 Mbit/s"));
  world.write(device + "/speed", "5000\n");
  fs::permissions(node, static_cast<fs::perms>(0600));
  CHECK(world.bad("usb").level == Level::Fail);
  CHECK_THAT(world.bad("usb").command, contains("GROUP=\"plugdev\""));
  world.write("etc/group", "root:x:0:\ndriftd:x:990:\n");
  CHECK_THAT(world.bad("usb").command, contains("GROUP=\"driftd\"") && contains(" trigger"));
  world.write("usr/lib/udev/rules.d/60-driftd-usb3vision.rules", "");
  CHECK_THAT(world.bad("usb").command, !contains("tee"));
  fs::permissions(node, static_cast<fs::perms>(0666));
  world.is_fine();
  fs::permissions(node, static_cast<fs::perms>(0664));  // as the kernel makes it
  if (belongs_to_group(0)) {
    CHECK_THAT(world.bad("usb").found, contains("only root may use"));
  } else {
    WARN("SKIPPED: not root, so no file is of root's group");
  }
}

TEST_CASE("a GPU that is asked for and not there", "[doctor]") {
  World world;
  world.machine.config.fitter.backend = config::Backend::Cuda;
  CHECK(world.bad("gpu").level == Level::Fail);
  world.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module\n");
  CHECK_THAT(world.bad("gpu").command, contains("nvidia-modprobe"));
  world.write("dev/nvidiactl", "");
  world.write("dev/nvidia-uvm", "");
  world.is_fine();
}

TEST_CASE("a disk that fills up", "[doctor]") {
  World world;
  // /var/lib/driftd is not there yet: what will hold it counts. Records may lie elsewhere.
  fs::create_directories(world.machine.root / "home");
  fs::create_directories(world.machine.root / "data/night");
  std::string full;
  std::uintmax_t left = 500'000'000;
  world.machine.free_bytes = [&](const fs::path& path) -> std::optional<std::uintmax_t> {
    return path == world.machine.root / full ? left : 50'000'000'000;
  };
  for (const auto& [state, records, place] :
       {std::tuple{"/var/lib/driftd", "", "var"},
        std::tuple{"/home/alice/.local/state/driftd", "", "home"},
        std::tuple{"/var/lib/driftd", "/data/night", "data/night"},
        std::tuple{"", "/data/night", "data/night"}}) {
    INFO(state << ' ' << records);
    world.machine.state = state;
    world.machine.config.record.directory = records;
    full = place;
    left = 500'000'000;
    CHECK(world.bad("disk").level == Level::Warn);
    left = 50'000'000;
    CHECK(world.bad("disk").level == Level::Fail);
  }
  left = 5'000'000'000;
  world.is_fine();
  world.machine.config.record.keep_free_mb = 10'000;
  CHECK_THAT(world.bad("disk").found, contains("5.0 GB free for /data/night"));
}

TEST_CASE("configuration, daemon and group", "[doctor]") {
  World world;
  SECTION("one of several daemons") {
    world.write("usr/lib/systemd/system/driftd.service", "");
    world.machine.instance = "left";
    world.machine.file.clear();
    CHECK_THAT(world.bad("configuration").command, contains(" /etc/driftd/driftd-left.yaml"));
    world.machine.file = "/etc/driftd/driftd-left.yaml";
    world.machine.status.reset();
    world.camera->privilege = 0;
    CHECK(world.bad("daemon").command == "sudo systemctl start driftd@left");
  }
  SECTION("mistakes of the file") {
    world.machine.problem = "/etc/driftd/driftd.yaml:3:1: lock.at_strat: found an unknown key";
    const Finding finding = world.bad("configuration");
    CHECK(finding.level == Level::Fail);
    CHECK(finding.command == "driftd --config /etc/driftd/driftd.yaml --check-config");
  }
  SECTION("a hook that will not be run") {
    world.machine.config.hook.on_event = "/etc/driftd/hook";
    world.machine.hook_problem = [](const fs::path&) { return "/etc/driftd/hook may not be run"; };
    CHECK_THAT(world.bad("configuration").found, contains("/etc/driftd/hook may not be run"));
    CHECK_THAT(world.bad("configuration").command, contains("install -Dm755"));
    world.write("etc/driftd/hook", "");
    CHECK(world.bad("configuration").command == "sudo chmod 755 /etc/driftd/hook");
  }
  SECTION("a shell without the rights that the unit gives") {
    world.write("usr/lib/systemd/system/driftd.service", "");
    world.write("proc/self/limits",
                "Max locked memory         8388608  8388608  bytes\n"
                "Max realtime priority     0        0\n");
    CHECK(to_lines(examine(world.machine)).back() == "0 to mend, 2 to think about");
    world.machine.status.reset();  // about a daemon that runs already they may say something
    world.camera->privilege = 0;
    CHECK(world.bad("daemon").level == Level::Warn);
    CHECK(to_lines(examine(world.machine)).back() == "0 to mend, 1 to think about");
  }
  SECTION("no permission") {
    world.write("usr/lib/systemd/system/driftd.service", "");
    world.machine.status.reset();
    world.machine.daemon_problem = "no permission to connect to ipc:///run/driftd/commands";
    world.machine.groups = {"alice"};
    world.camera->privilege = 0;
    const auto lines = to_lines(examine(world.machine));
    CHECK(lines.back() == "1 to mend, 1 to think about");
    CHECK(std::ranges::count(lines, "                   $ sudo usermod -aG driftd alice") == 1);
    CHECK(std::ranges::count(lines, "                   $ sudo systemctl start driftd") == 1);
  }
}
