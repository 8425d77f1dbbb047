// SPDX-License-Identifier: MIT
// driftd: command line, logging, exit codes.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <optional>

#include "base/command_line.hpp"
#include "base/process/realtime.hpp"
#include "camera/frame_source.hpp"
#include "config/access_rules.hpp"
#include "config/drop_ins.hpp"
#include "config/hook_program.hpp"
#include "config/log_level.hpp"
#include "config/options.hpp"
#include "daemon/housekeeping.hpp"
#include "daemon/loop/publisher.hpp"
#include "daemon/setup/axial_curve.hpp"
#include "daemon/wire/socket_path.hpp"

namespace {

enum ExitCode : int {
  Clean = 0,
  Internal = 1,
  Configuration = 2,
  Camera = 3,
  RealTime = 4,
  Socket = 5,
  Gpu = 6,
};

constexpr const char* kFooter =
    "Exit codes: 0 stopped by a signal or at the end of a recording, 1 internal failure,\n"
    "2 wrong usage or configuration, 3 camera or recording cannot be used at start, 4 real-time\n"
    "set-up required and refused, 5 a socket cannot be bound, 6 the GPU asked for cannot be had.\n"
    "SIGHUP reloads the configuration.";

/// Housekeeping takes these from a descriptor; blocked before any thread is made, so in all of
/// them.
void block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Whoever started the daemon may ignore it, and then no hook's exit status could be had.
  signal(SIGCHLD, SIG_DFL);  // NOLINT(cert-err33-c): cannot fail for SIGCHLD
  signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): cannot fail for SIGPIPE
  // A limit on files' sizes (RLIMIT_FSIZE) ends a record, not the daemon.
  signal(SIGXFSZ, SIG_IGN);  // NOLINT(cert-err33-c): nor for this
}

/// A connection takes a descriptor, and libzmq aborts when there is none for the next. The soft
/// limit is 1024 nearly everywhere, for programs that use select(): this one does not.
void raise_descriptor_limit() {
  constexpr rlim_t kEnough = 65'536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kEnough));
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// @returns an exit code; nothing: driftd is to start anew
/// @param unlocked  somebody left the one before unlocked, and so it stays
std::optional<int> run(const driftd::config::Config& config, const std::filesystem::path& file,
                       bool& unlocked) {
  try {
    driftd::daemon::Housekeeping housekeeping(config, file);
    if (unlocked) housekeeping.stay_unlocked();
    housekeeping.run();
    unlocked = housekeeping.stays_unlocked();
    if (housekeeping.starts_anew()) return std::nullopt;
    return Clean;
  } catch (const driftd::camera::CameraError& error) {
    spdlog::critical("{}", error.what());
    return Camera;
  } catch (const driftd::config::ConfigError& error) {  // of files with keys, of memory
    spdlog::critical("{}", error.what());
    return Configuration;
  } catch (const driftd::RealTimeError& error) {
    spdlog::critical("{}", error.what());
    return RealTime;
  } catch (const driftd::daemon::SocketError& error) {
    spdlog::critical("{}", error.what());
    return Socket;
  } catch (const driftd::fitter::FitterError& error) {
    spdlog::critical("fitter.backend is `cuda`: {}", error.what());
    return Gpu;
  } catch (const std::exception& error) {
    spdlog::critical("internal failure: {}", error.what());
    return Internal;
  }
}

/// What would keep the daemon from starting here and now, or its hook from being run, though the
/// configuration is right.
void tell_obstacles(const driftd::config::Config& config, const std::filesystem::path& file,
                    const driftd::config::Origins& origins) {
  const driftd::config::Wire& wire = config.wire;
  const auto from = [&](const char* key) { return driftd::config::origin_of(key, file, origins); };
  const auto tell = [&](const char* key, const driftd::config::Endpoints& endpoints) {
    for (const std::string& endpoint : endpoints) {
      if (const auto obstacle = driftd::daemon::obstacle(endpoint)) {
        std::cout << fmt::format("{}: {}: {} cannot be bound now and by this user: {}\n", from(key),
                                 key, endpoint, *obstacle);
      }
    }
  };
  tell("wire.publish", wire.publish);
  tell("wire.corrections", wire.corrections);
  tell("wire.commands", wire.commands);
  try {
    driftd::config::read_access(config.access);
  } catch (const driftd::config::ConfigError& error) {
    std::cout << fmt::format("{}: access: {}\n", from("access.server_key"), error.what());
  }
  const std::string hook = driftd::config::hook_problem(config.hook.on_event);
  if (!hook.empty())
    std::cout << fmt::format("{}: hook.on_event: {}\n", from("hook.on_event"), hook);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("driftd holds a microscope sample still: camera frames in, stage corrections out.");
  app.footer(kFooter);
  std::filesystem::path file;
  bool check = false;
  bool print = false;
  app.add_option("--config,-c", file, "configuration file (YAML); FILE.d/*.yaml are read over it");
  app.add_flag("--check-config", check, "check the configuration, say what is wrong, and exit");
  app.add_flag("--print-config", print,
               "print every value with the file and line that it is from, and exit");
  driftd::add_standard_flags(app, "driftd");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? Clean : Configuration;
  }

  spdlog::set_default_logger(spdlog::stderr_color_mt("driftd"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  if (file.empty()) {
    std::cerr << "driftd: --config FILE is needed (see config/examples)\n";
    return Configuration;
  }
  driftd::config::Config config;
  driftd::config::Origins origins;
  try {
    config = driftd::config::load(file, &origins);
    driftd::daemon::with_curve(config);
  } catch (const driftd::config::ConfigError& error) {
    std::cerr << error.what() << '\n';
    return Configuration;
  }
  if (print) std::cout << driftd::config::to_yaml(driftd::config::table(), config, &origins);
  if (check && !print) {
    std::cout << driftd::config::no_mistakes(file, origins);
    tell_obstacles(config, file, origins);
  }
  if (check || print) return Clean;
  block_signals();
  raise_descriptor_limit();
  bool unlocked = false;
  for (;;) {
    spdlog::set_level(driftd::config::log_level(config.log.level));
    spdlog::info("configuration: {}", driftd::config::with_drop_ins(file, origins));
    if (const auto code = run(config, file, unlocked)) return *code;
    try {
      origins.clear();
      config = driftd::config::load(file, &origins);
    } catch (const driftd::config::ConfigError& error) {  // since the command was taken
      spdlog::critical("{}", error.what());
      return Configuration;
    }
  }
}
