// SPDX-License-Identifier: MIT
// Configuration, daemon, permissions, disk, GPU.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "clients/driftctl/doctor/doctor.hpp"

namespace driftd::clients::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMega = 1'000'000;

std::string start_command(const Machine& machine) {
  if (machine.has_service()) return "sudo systemctl start " + machine.unit();
  return machine.file.empty() ? "" : fmt::format("driftd --config {}", machine.file.string());
}

std::string gigabytes(std::uintmax_t bytes) {
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) * 1e-9);
}

/// Folders come with the first start; what will hold them has their space.
fs::path first_that_exists(const Machine& machine, const fs::path& folder) {
  fs::path path = folder;
  while (path.has_relative_path() && !machine.exists(path.relative_path()))
    path = path.parent_path();
  return machine.root / path.relative_path();
}

}  // namespace

std::vector<Finding> look_at_configuration(const Machine& machine) {
  if (machine.file.empty())
    return {{Level::Warn,
             fmt::format("no configuration was given, and {} is not there",
                         machine.service_file().string()),
             "Copy an example and say which: driftctl --config FILE doctor.",
             "sudo install -Dm644 /usr/share/doc/driftd/examples/gige.yaml " +
                 machine.service_file().string()}};
  if (!machine.problem.empty())
    return {{Level::Fail, machine.problem, "Mend these places of the file.",
             fmt::format("driftd --config {} --check-config", machine.file.string())}};
  std::vector<Finding> findings{{Level::Ok, machine.sources + ": no mistakes"}};
  const fs::path& hook = machine.config.hook.on_event;
  const std::string problem = hook.empty() ? "" : machine.hook_problem(hook);
  if (!problem.empty())
    findings.push_back(
        {Level::Warn, "hook.on_event will not be run: " + problem,
         "Make it a program that only its owner may write.",
         machine.exists(hook.relative_path())
             ? fmt::format("sudo chmod 755 {}", hook.string())
             : fmt::format("sudo install -Dm755 /usr/share/doc/driftd/examples/mail-on-event {}",
                           hook.string())});
  return findings;
}

std::vector<Finding> look_at_daemon(const Machine& machine) {
  if (!machine.status)
    return {{Level::Warn, machine.daemon_problem, "Start it, and see its journal if it ends.",
             start_command(machine)}};
  const auto& status = *machine.status;
  std::vector<Finding> findings{
      {Level::Ok, fmt::format("driftd {} runs ({}), state {}", status.value("version", "?"),
                              machine.daemon_pid > 0 ? fmt::format("process {}", machine.daemon_pid)
                                                     : "process not known",
                              status.value("state", "?"))}};
  const auto notes = status.value("/realtime/notes"_json_pointer, nlohmann::json::array());
  for (const auto& note : notes) {
    if (note.is_string())
      findings.push_back({Level::Warn, note.get<std::string>(),
                          "See the checks realtime and locked_memory, then start it anew.",
                          "sudo systemctl restart " + machine.unit()});
  }
  return findings;
}

std::vector<Finding> look_at_permissions(const Machine& machine) {
  if (machine.status) return {{Level::Ok, machine.user + " may watch and command the daemon"}};
  if (std::ranges::find(machine.groups, "driftd") != machine.groups.end())
    return {{Level::Ok, machine.user + " is in the group driftd"}};
  const bool forbidden = machine.daemon_problem.find("no permission") != std::string::npos;
  if (!forbidden && (!machine.has_service() || machine.user == "root"))
    return {{Level::Ok, machine.user + " runs what daemon there is"}};
  return {{forbidden ? Level::Fail : Level::Warn, machine.user + " is not in the group driftd",
           "Join it, then log in anew.", "sudo usermod -aG driftd " + machine.user}};
}

std::vector<Finding> look_at_disk(const Machine& machine) {
  constexpr std::uintmax_t kLittle = 1000 * kMega;
  constexpr std::uintmax_t kTooLittle = 100 * kMega;
  const config::Record& record = machine.config.record;
  const auto kept_free =
      std::max(kLittle, static_cast<std::uintmax_t>(record.keep_free_mb) * kMega);
  const fs::path records =
      record.directory.empty() ? machine.state : fs::absolute(record.directory);
  std::vector<std::pair<fs::path, std::uintmax_t>> folders{{records, kept_free}};
  if (records != machine.state) folders.emplace_back(machine.state, kLittle);
  folders.emplace_back("/var/log", kLittle);
  std::vector<Finding> findings;
  for (const auto& [folder, little] : folders) {
    if (folder.empty()) continue;
    const auto free = machine.free_bytes(first_that_exists(machine, folder));
    if (!free) continue;
    const std::string found = fmt::format("{} free for {}", gigabytes(*free), folder.string());
    if (*free >= little) {
      findings.push_back({Level::Ok, found});
    } else {
      findings.push_back({*free < kTooLittle ? Level::Fail : Level::Warn, found,
                          "Make room: old records, the journal.",
                          fmt::format("sudo du -xh --max-depth=2 {} | sort -h | tail; sudo "
                                      "journalctl --vacuum-size=500M",
                                      folder.string())});
    }
  }
  if (findings.empty()) findings.push_back({Level::Warn, "the free space cannot be told"});
  return findings;
}

std::vector<Finding> look_at_gpu(const Machine& machine) {
  const auto backend = machine.config.fitter.backend;
  const auto driver = machine.line("proc/driver/nvidia/version");
  if (!driver) {
    if (backend != config::Backend::Cuda) return {{Level::Ok, "none: fits run on the CPU"}};
    return {{Level::Fail, "fitter.backend is `cuda`, and there is no NVIDIA driver",
             "Install it, or set fitter.backend to auto.", "sudo apt install nvidia-driver"}};
  }
  if (backend == config::Backend::Cpu)
    return {{Level::Ok, "there is one, and fitter.backend is `cpu`"}};
  for (const char* node : {"dev/nvidiactl", "dev/nvidia-uvm"}) {
    if (machine.exists(node)) continue;
    return {{backend == config::Backend::Cuda ? Level::Fail : Level::Warn,
             fmt::format("the driver is there, and /{} is not", node),
             "Make the device nodes before the daemon starts: a sandboxed one cannot.",
             "sudo nvidia-modprobe -c 0 -u"}};
  }
  return {{Level::Ok, *driver}};
}

}  // namespace driftd::clients::doctor
