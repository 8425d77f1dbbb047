// SPDX-License-Identifier: MIT
#include "clients/driftctl/doctor/doctor.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <sstream>

namespace driftd::clients::doctor {
namespace {

constexpr Check kChecks[] = {
    {"configuration", "what `driftd --check-config` says of the file, and the hook's program",
     "The daemon ends with exit code 2 on a mistake.", look_at_configuration},
    {"daemon", "whether a daemon answers commands", "Nothing is held still without one.",
     look_at_daemon},
    {"permissions", "whether you may connect to the daemon's sockets, by the group `driftd`",
     "`driftctl` and stage drivers connect there.", look_at_permissions},
    {"realtime", "the limit RLIMIT_RTPRIO of the daemon, else of this shell",
     "Without SCHED_FIFO other programs delay corrections by milliseconds.", look_at_realtime},
    {"locked_memory", "the limit RLIMIT_MEMLOCK, likewise",
     "Memory that is not locked may be paged out, and comes back after milliseconds.",
     look_at_memlock},
    {"governor", "the frequency governor of each CPU",
     "A CPU that slows down while it waits for a frame is late with it.", look_at_governor},
    {"idle_states", "idle states (C-states) whose wake-up takes more than 50 us",
     "Each frame finds the CPU asleep.", look_at_idle_states},
    {"numa", "nodes of the computer, and where the camera's card and the loop's CPU are",
     "Frames that cross the nodes arrive later.", look_at_numa},
    {"clock_source", "the kernel's clock source",
     "Each reading of a slow clock (hpet, acpi_pm) takes a microsecond and more.",
     look_at_clock_source},
    {"socket_buffer", "net.core.rmem_max against camera.socket_buffer_bytes",
     "A buffer that holds less than a frame loses packets when the receiver is late.",
     look_at_socket_buffer},
    {"mtu", "the MTU of the interface to a GigE camera",
     "Packets of 1500 bytes mean six times the interrupts and the losses of 9000.", look_at_mtu},
    {"packet_delay", "the camera's delay between packets, and frames lost so far",
     "Too long a delay makes frames late; none at all overruns weak cards and switches.",
     look_at_packet_delay},
    {"nic_offloads", "the interface's receive ring, held-back interrupts and joining of packets",
     "A short ring loses packets; interrupts that are held back make each frame late.",
     look_at_offloads},
    {"route", "whether the camera's interface also leads to the rest of the world",
     "GigE Vision has no authentication: whoever reaches the camera may stop it.", look_at_route},
    {"camera", "whether the camera answers, and who controls it",
     "A camera has one controller at a time.", look_at_camera},
    {"usb", "of a USB3 Vision camera: usbfs_memory_mb, the port's speed, rights on its device",
     "The kernel's usual 16 MB hold few frames.", look_at_usb},
    {"gpu", "the NVIDIA driver and its device nodes",
     "`fitter.backend: cuda` ends the daemon without them.", look_at_gpu},
    {"disk", "space where state, records and the journal lie",
     "Records end where less than record.keep_free_mb is left.", look_at_disk},
};

/// Tools that commands name and a computer may lack, and Debian's packages with them.
struct Tool {
  std::string_view name, package;
};
constexpr Tool kTools[] = {
    {"arv-tool-0.8", "aravis-tools-cli"},
    {"cpupower", "linux-cpupower"},
    {"ethtool", "ethtool"},
    {"ip", "iproute2"},
    {"lsusb", "usbutils"},
    {"nvidia-modprobe", "nvidia-modprobe"},
    {"ping", "iputils-ping"},
    {"ss", "iproute2"},
};

/// " `cpupower` is in the package linux-cpupower." for each tool of a command that is not there.
std::string packages_of(const Machine& machine, const std::string& command) {
  std::string text;
  std::istringstream words(command);
  for (std::string word; words >> word;) {
    const auto* const tool = std::ranges::find(kTools, word, &Tool::name);
    if (tool != std::end(kTools) && !machine.has_program(word))
      text += fmt::format(" `{}` is in the package {}.", tool->name, tool->package);
  }
  return text;
}

const char* word_of(Level level) {
  switch (level) {
    case Level::Ok:
      return "ok";
    case Level::Warn:
      return "warn";
    case Level::Fail:
      break;
  }
  return "fail";
}

}  // namespace

std::span<const Check> checks() {
  return kChecks;
}

std::vector<Result> examine(const Machine& machine) {
  std::vector<Result> results;
  for (const Check& check : kChecks) {
    for (Finding& finding : check.look(machine)) {
      finding.todo += packages_of(machine, finding.command);
      results.push_back({check.code, std::move(finding)});
    }
  }
  return results;
}

Level worst(const std::vector<Result>& results) {
  Level worst = Level::Ok;
  for (const Result& result : results) worst = std::max(worst, result.finding.level);
  return worst;
}

std::vector<std::string> to_lines(const std::vector<Result>& results) {
  std::vector<std::string> lines;
  int warnings = 0;
  int failures = 0;
  for (const auto& [code, finding] : results) {
    lines.push_back(fmt::format("{:<5} {:<14} {}", word_of(finding.level), code, finding.found));
    if (!finding.todo.empty()) lines.push_back(fmt::format("{:>20} {}", "do:", finding.todo));
    if (!finding.command.empty()) lines.push_back(fmt::format("{:>20} {}", "$", finding.command));
    warnings += finding.level == Level::Warn ? 1 : 0;
    failures += finding.level == Level::Fail ? 1 : 0;
  }
  lines.push_back(fmt::format("{} to mend, {} to think about", failures, warnings));
  return lines;
}

nlohmann::json to_json(const std::vector<Result>& results) {
  nlohmann::json findings = nlohmann::json::array();
  for (const auto& [code, finding] : results) {
    findings.push_back({{"check", code},
                        {"level", word_of(finding.level)},
                        {"found", finding.found},
                        {"todo", finding.todo},
                        {"command", finding.command}});
  }
  return {{"worst", word_of(worst(results))}, {"findings", findings}};
}

std::string markdown() {
  std::string text = "| check | what it looks at | why |\n| --- | --- | --- |\n";
  for (const Check& check : kChecks)
    text += fmt::format("| `{}` | {} | {} |\n", check.code, check.looks_at, check.why);
  return text;
}

}  // namespace driftd::clients::doctor
