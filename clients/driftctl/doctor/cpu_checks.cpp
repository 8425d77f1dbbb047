// SPDX-License-Identifier: MIT
// What delays the threads that must not wait: rights, frequency, sleep, memory nodes, clock.
#include <linux/capability.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <sstream>

#include "clients/driftctl/doctor/doctor.hpp"

namespace driftd::clients::doctor {
namespace {

constexpr long kUnlimited = std::numeric_limits<long>::max();
constexpr const char* kCpus = "sys/devices/system/cpu";

/// The daemon's, else this program's, which was started by the same shell.
std::string process(const Machine& machine) {
  return "proc/" + (machine.daemon_pid > 0 ? std::to_string(machine.daemon_pid) : "self");
}

/// The soft limit of a line of /proc/PID/limits; nothing where it has no such line.
std::optional<long> limit(const Machine& machine, const std::string& name) {
  std::istringstream lines(machine.text(process(machine) + "/limits").value_or(""));
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with(name)) continue;
    std::istringstream fields(line.substr(name.size()));
    std::string soft;
    fields >> soft;
    if (soft == "unlimited") return kUnlimited;
    long value = 0;
    const auto [end, error] = std::from_chars(soft.data(), soft.data() + soft.size(), value);
    if (error == std::errc{}) return value;
  }
  return std::nullopt;
}

/// Root alone is no answer: in a container it has but some of its rights.
bool has_capability(const Machine& machine, int number) {
  constexpr std::string_view kEffective = "\nCapEff:\t";
  const std::string text = machine.text(process(machine) + "/status").value_or("");
  const std::size_t at = text.find(kEffective);
  if (at == std::string::npos) return false;
  std::uint64_t bits = 0;
  std::from_chars(text.data() + at + kEffective.size(), text.data() + text.size(), bits, 16);
  return (bits >> number & 1) != 0;
}

/// Limits of a shell say nothing of a daemon that the unit will start.
bool unit_will_give(const Machine& machine) {
  return !machine.status && machine.daemon_pid == 0 && machine.has_service();
}

/// Lines for a group bind its members alone.
std::string limit_command(const Machine& machine, const char* what) {
  const bool member = std::ranges::find(machine.groups, "driftd") != machine.groups.end();
  return fmt::format("echo '{} - {}' | sudo tee -a /etc/security/limits.d/driftd.conf",
                     member ? "@driftd" : machine.user, what);
}

std::string whose(const Machine& machine) {
  return machine.daemon_pid > 0 ? fmt::format("of the daemon (process {})", machine.daemon_pid)
                                : "of this shell";
}

/// A right that the unit gives: with `require` the daemon does not start without.
Level level_without_rights(const Machine& machine) {
  return machine.config.realtime.mode == config::RealTimeMode::Require ? Level::Fail : Level::Warn;
}

/// What the daemon says that it has, whatever its limits are now.
bool daemon_has(const Machine& machine, const char* right) {
  return machine.status &&
         machine.status->value(nlohmann::json::json_pointer(right), nlohmann::json()) == true;
}

constexpr const char* kUnitGives =
    "The unit driftd.service gives it. For a daemon started by hand, log in anew after:";
constexpr const char* kAlready = "the unit driftd.service gives it to the daemon";

/// cpu0, cpu1, ..: not cpufreq, cpuidle.
std::vector<std::string> cpus(const Machine& machine) {
  std::vector<std::string> cpus = machine.names(kCpus);
  std::erase_if(cpus, [](const std::string& name) {
    return !name.starts_with("cpu") || name.size() < 4 || name[3] < '0' || name[3] > '9';
  });
  return cpus;
}

/// "0-3,8" holds 2.
bool holds(const std::string& list, int cpu) {
  std::istringstream parts(list);
  std::string part;
  while (std::getline(parts, part, ',')) {
    int first = 0;
    int last = 0;
    char dash = 0;
    std::istringstream range(part);
    range >> first;
    if (!(range >> dash >> last)) last = first;
    if (cpu >= first && cpu <= last) return true;
  }
  return false;
}

std::optional<int> node_of_cpu(const Machine& machine, int cpu) {
  for (const std::string& name : machine.names("sys/devices/system/node")) {
    int node = 0;
    const char* end = name.data() + name.size();
    if (!name.starts_with("node") || std::from_chars(name.data() + 4, end, node).ptr != end)
      continue;
    const auto list = machine.line("sys/devices/system/node/" + name + "/cpulist");
    if (list && holds(*list, cpu)) return node;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Finding> look_at_realtime(const Machine& machine) {
  if (machine.config.realtime.mode == config::RealTimeMode::Off)
    return {{Level::Ok, "not asked for: realtime.mode is `off`"}};
  if (daemon_has(machine, "/realtime/scheduled"))
    return {{Level::Ok, "the daemon's threads have their priorities"}};
  const int wanted = machine.config.realtime.stream_priority();  // the highest
  const auto allowed = limit(machine, "Max realtime priority");
  if (!allowed) return {{Level::Warn, "the limit RLIMIT_RTPRIO cannot be read"}};
  if (*allowed >= wanted || has_capability(machine, CAP_SYS_NICE))
    return {{Level::Ok, fmt::format("priorities up to {} may be had", wanted)}};
  if (unit_will_give(machine)) return {{Level::Ok, kAlready}};
  return {
      {level_without_rights(machine),
       fmt::format("priority {} is wanted, the limit {} is {}", wanted, whose(machine), *allowed),
       kUnitGives, limit_command(machine, "rtprio 99")}};
}

std::vector<Finding> look_at_memlock(const Machine& machine) {
  if (machine.config.realtime.mode == config::RealTimeMode::Off)
    return {{Level::Ok, "not asked for: realtime.mode is `off`"}};
  if (daemon_has(machine, "/realtime/memory_locked"))
    return {{Level::Ok, "the daemon's memory is locked"}};
  const auto allowed = limit(machine, "Max locked memory");
  if (!allowed) return {{Level::Warn, "the limit RLIMIT_MEMLOCK cannot be read"}};
  if (*allowed == kUnlimited || has_capability(machine, CAP_IPC_LOCK))
    return {{Level::Ok, "memory may be locked"}};
  if (unit_will_give(machine)) return {{Level::Ok, kAlready}};
  return {{level_without_rights(machine),
           fmt::format("the limit {} is {} bytes, and all memory is to be locked", whose(machine),
                       *allowed),
           kUnitGives, limit_command(machine, "memlock unlimited")}};
}

std::vector<Finding> look_at_governor(const Machine& machine) {
  std::map<std::string, int> governors;
  for (const std::string& cpu : cpus(machine)) {
    const auto governor = machine.line(fmt::format("{}/{}/cpufreq/scaling_governor", kCpus, cpu));
    if (governor) ++governors[*governor];
  }
  if (governors.empty())
    return {{Level::Ok, "the kernel does not change the CPUs' frequency here"}};
  const bool good = governors.size() == 1 && governors.contains("performance");
  if (good) return {{Level::Ok, "all CPUs run by `performance`"}};
  std::string found;
  for (const auto& [governor, count] : governors)
    found += fmt::format("{}{} {} by `{}`", found.empty() ? "" : ", ", count,
                         count == 1 ? "CPU runs" : "CPUs run", governor);
  return {{Level::Warn, found, "Let them run at full speed.",
           "sudo cpupower frequency-set -g performance"}};
}

std::vector<Finding> look_at_idle_states(const Machine& machine) {
  constexpr long kSlowUs = 50;
  long slowest_us = 0;
  std::string name;
  bool any = false;
  for (const std::string& cpu : cpus(machine)) {
    const std::string folder = fmt::format("{}/{}/cpuidle", kCpus, cpu);
    for (const std::string& state : machine.names(folder)) {
      const std::string at = folder + "/" + state;
      const auto latency_us = machine.number(at + "/latency");
      if (!latency_us) continue;
      any = true;
      if (machine.number(at + "/disable").value_or(0) != 0 || *latency_us <= slowest_us) continue;
      slowest_us = *latency_us;
      name = machine.line(at + "/name").value_or(state);
    }
  }
  if (!any) return {{Level::Ok, "the kernel shows none here"}};
  if (slowest_us <= kSlowUs)
    return {{Level::Ok, fmt::format("the slowest wakes up within {} us", slowest_us)}};
  return {{Level::Warn, fmt::format("{} takes {} us to wake up from", name, slowest_us),
           "Leave out what takes longer than 50 us (until the next boot).",
           "sudo cpupower idle-set -D 50"}};
}

std::vector<Finding> look_at_numa(const Machine& machine) {
  std::vector<std::string> nodes = machine.names("sys/devices/system/node");
  std::erase_if(nodes, [](const std::string& name) {
    return !name.starts_with("node") || name.size() < 5 || name[4] < '0' || name[4] > '9';
  });
  if (nodes.size() < 2) return {{Level::Ok, "one node"}};
  const std::string interface = machine.interface_to_camera(machine.camera_address());
  const auto card = machine.number("sys/class/net/" + interface + "/device/numa_node");
  if (interface.empty() || !card || *card < 0)
    return {{Level::Ok, fmt::format("{} nodes; the camera is at none of them", nodes.size())}};
  const std::string list =
      machine.line(fmt::format("sys/devices/system/node/node{}/cpulist", *card)).value_or("?");
  const int cpu = machine.config.realtime.loop_cpu;
  const auto node = cpu < 0 ? std::nullopt : node_of_cpu(machine, cpu);
  if (node && *node == *card)
    return {{Level::Ok, fmt::format("{} and CPU {} are at node {}", interface, cpu, *card)}};
  return {{Level::Warn,
           cpu < 0 ? fmt::format("{} is at node {} of {}, and the loop may run at any", interface,
                                 *card, nodes.size())
                   : fmt::format("{} is at node {}, realtime.loop_cpu {} is not", interface, *card,
                                 cpu),
           fmt::format("Set realtime.loop_cpu and stream_cpu to one of the CPUs {}.", list),
           machine.file.empty() ? "" : "sudoedit " + machine.file.string()}};
}

std::vector<Finding> look_at_clock_source(const Machine& machine) {
  const std::string folder = "sys/devices/system/clocksource/clocksource0/";
  const auto source = machine.line(folder + "current_clocksource");
  if (!source) return {{Level::Warn, "the clock source cannot be read"}};
  if (*source != "hpet" && *source != "acpi_pm" && *source != "jiffies" &&
      *source != "refined-jiffies")
    return {{Level::Ok, *source}};
  const std::string others = machine.line(folder + "available_clocksource").value_or("");
  const bool has_tsc = (" " + others + " ").find(" tsc ") != std::string::npos;
  if (has_tsc)
    return {{Level::Warn, *source + " is in use, and tsc is there", "Take tsc.",
             "echo tsc | sudo tee /" + folder + "current_clocksource"}};
  return {{Level::Warn, *source + " is in use: the kernel does not trust the CPU's own",
           "See why; a new firmware often helps.", "sudo dmesg | grep -iE 'tsc|clocksource'"}};
}

}  // namespace driftd::clients::doctor
