// SPDX-License-Identifier: MIT
#include "clients/stage/program.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "base/monotonic.hpp"
#include "base/process/realtime.hpp"
#include "base/process/watchdog.hpp"
#include "clients/stage/joined_stage.hpp"
#include "clients/stage/port_thread.hpp"
#include "clients/stage/report.hpp"
#include "clients/stage/sockets.hpp"

namespace driftd::stage {
namespace {

constexpr std::int64_t kReport_ns = kNanosecondsPerSecond / 20;
constexpr std::int64_t kLogFigures_ns = 60 * kNanosecondsPerSecond;

std::string new_instance() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

int signal_descriptor() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, signal);
  const int descriptor = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
  return descriptor;
}

std::uint64_t watchdog_period_us() {
  std::uint64_t period_us = 0;
  return sd_watchdog_enabled(0, &period_us) > 0 ? period_us : 0;
}

/// Starts the context's threads. Corrections come through them: without real-time scheduling a busy
/// computer delays them by more than their 20 ms.
zmq::context_t& with_threads(zmq::context_t& context, const Scheduling& realtime) {
  std::optional<ScheduledMeanwhile> meanwhile;
  if (realtime.mode != config::RealTimeMode::Off) meanwhile.emplace(realtime.priority);
  const zmq::socket_t first(context, zmq::socket_type::pair);
  return context;
}

class Program {
 public:
  Program(const Config& config, std::unique_ptr<Stage> stage);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ExitCode run();

 private:
  bool set_up_realtime(const std::string& refused_scheduling);
  void wait();
  void take_signals();
  void report(bool ended);
  void hear_daemon();
  void tell_daemon_trouble(std::int64_t now_ns);
  void tell_systemd(const DriverState& state, std::int64_t now_ns);
  void tell_figures();

  const Config config_;
  std::unique_ptr<Stage> stage_;
  Board board_;
  zmq::context_t context_{1};
  ReportSocket reports_;
  const Introduction introduction_;
  int signals_;
  int nudges_;
  Watchdog watchdog_;
  bool end_ = false;
  bool ready_ = false;  ///< said to systemd
  std::int64_t next_report_ns_ = 0;
  std::int64_t next_figures_ns_;
  std::uint64_t told_carried_out_ = 0;
  std::string told_trouble_, told_refusal_, told_status_;
};

Program::Program(const Config& config, std::unique_ptr<Stage> stage)
    : config_(config),
      stage_(std::move(stage)),
      reports_(with_threads(context_, config.realtime), config.daemon.commands),
      introduction_{new_instance(), config.controller.driver, config.motion.max_rate_hz},
      signals_(signal_descriptor()),
      nudges_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      watchdog_(watchdog_period_us(), [] { sd_notify(0, "WATCHDOG=1"); }),
      next_figures_ns_(monotonic_ns() + kLogFigures_ns) {}

Program::~Program() {
  close(nudges_);
  close(signals_);
}

ExitCode Program::run() {
  Driver driver(*stage_, config_, board_, [this] {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(nudges_, &one, sizeof one);
  });
  ExitCode code = Clean;
  {
    const PortThread port(driver, board_, context_, config_);
    if (!set_up_realtime(port.refused_scheduling())) return RealTime;
    while (!end_) {
      wait();
      take_signals();
      hear_daemon();
      const std::int64_t now_ns = monotonic_ns();
      const DriverState state = board_.state();
      if (!state.ever_connected && state.failed_attempts > 0 &&
          !config_.connection.start_without_controller) {
        spdlog::critical("no controller at start: {}", state.trouble);
        code = NoController;
        break;
      }
      report(false);
      tell_daemon_trouble(now_ns);
      tell_systemd(state, now_ns);
      if (now_ns >= next_figures_ns_) {
        next_figures_ns_ = now_ns + kLogFigures_ns;
        if (std::exchange(told_carried_out_, state.carried_out) != state.carried_out)
          spdlog::info("{}", figures(state, board_.latency.summary(), now_ns));
      }
    }
  }  // the last target is on its way; none follows
  sd_notify(0, "STOPPING=1");
  report(true);
  if (code == Clean) tell_figures();
  return code;
}

bool Program::set_up_realtime(const std::string& refused_scheduling) {
  const config::RealTimeMode mode = config_.realtime.mode;
  if (mode == config::RealTimeMode::Off) return true;
  bool complete = true;
  for (const std::string& refused : {refused_scheduling, keep_in_memory().value_or("")}) {
    if (refused.empty()) continue;
    complete = false;
    if (mode == config::RealTimeMode::Require)
      spdlog::critical("realtime.mode is `require`: {}", refused);
    else
      spdlog::info("{}", refused);
  }
  return complete || mode == config::RealTimeMode::Prefer;
}

void Program::wait() {
  const std::int64_t left_ns = next_report_ns_ - monotonic_ns();
  const long timeout_ms = left_ns <= 0 ? 0 : static_cast<long>(left_ns / 1'000'000 + 1);
  std::array<zmq_pollitem_t, 3> items = {{{nullptr, signals_, ZMQ_POLLIN, 0},
                                          {nullptr, nudges_, ZMQ_POLLIN, 0},
                                          {reports_.handle(), 0, ZMQ_POLLIN, 0}}};
  zmq_poll(items.data(), static_cast<int>(items.size()), timeout_ms);
  std::uint64_t nudges = 0;
  if (read(nudges_, &nudges, sizeof nudges) > 0) next_report_ns_ = 0;
}

void Program::take_signals() {
  signalfd_siginfo info{};
  while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGUSR1)
      tell_figures();
    else
      end_ = true;
  }
}

void Program::report(bool ended) {
  const std::int64_t now_ns = monotonic_ns();
  if (now_ns < next_report_ns_ && !ended) return;
  next_report_ns_ = now_ns + kReport_ns;
  const std::int64_t since_ns = board_.waits_since_ns.load();
  const std::int64_t waits_ns = since_ns == 0 ? 0 : now_ns - since_ns;
  reports_.send(
      report_json(introduction_, board_.state(), board_.latency.summary(), waits_ns, ended, now_ns),
      now_ns);
}

void Program::hear_daemon() {
  while (const auto word = reports_.receive()) {
    board_.muted.store(!word->ok && word->code == "busy");
    board_.lock_is_over.store(word->ok && word->state != "locked" && word->state != "holding");
    const std::string refusal = word->ok ? "" : word->error + " (" + word->code + ')';
    if (refusal != std::exchange(told_refusal_, refusal)) {
      if (refusal.empty())
        spdlog::info("driftd takes the reports again");
      else
        spdlog::warn("driftd does not take the reports: {}", refusal);
    }
  }
}

void Program::tell_daemon_trouble(std::int64_t now_ns) {
  const std::string trouble = reports_.trouble(now_ns);
  board_.daemon_answers.store(trouble.empty());
  if (!trouble.empty()) board_.muted.store(false);  // nobody says so any more
  if (trouble == told_trouble_) return;
  if (trouble.empty())
    spdlog::info("driftd answers");
  else
    spdlog::info("{}", trouble);
  told_trouble_ = trouble;
}

void Program::tell_systemd(const DriverState& state, std::int64_t now_ns) {
  if (!ready_ && (state.connected || state.failed_attempts > 0)) {
    ready_ = true;
    sd_notify(0, "READY=1");
    spdlog::info("driftd-stage ready");
  }
  watchdog_.turn({.loop_turns = board_.beats.load(), .publisher_idle = true}, now_ns);
  const Standing standing = stage::standing(state, 0);
  std::string status = std::string(standing.state);
  if (!standing.text.empty()) status += ": " + standing.text;
  if (status == told_status_) return;
  told_status_ = status;
  sd_notifyf(0, "STATUS=%s", status.c_str());
}

void Program::tell_figures() {
  fmt::print("{}\n", figures(board_.state(), board_.latency.summary(), monotonic_ns()));
  std::fflush(stdout);
}

}  // namespace

std::unique_ptr<Stage> make_stage(const Config& config) {
  if (config.x.controller == config.y.controller)
    return make_stage(options_of(config.controller, {config.x.axis, config.y.axis}));
  const auto part = [&](const AxisSettings& axis) {
    return make_stage(
        options_of(axis.controller == Which::First ? config.controller : config.second_controller,
                   {axis.axis}));
  };
  return std::make_unique<JoinedStage>(part(config.x), part(config.y));
}

ExitCode run(const Config& config, std::unique_ptr<Stage> stage) {
  return Program(config, std::move(stage)).run();
}

}  // namespace driftd::stage
