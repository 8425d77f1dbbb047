// SPDX-License-Identifier: MIT
#include "clients/stage/program.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <deque>
#include <functional>
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
void start_threads(zmq::context_t& context, const Scheduling& realtime) {
  std::optional<ScheduledMeanwhile> meanwhile;
  if (realtime.mode != config::RealTimeMode::Off) meanwhile.emplace(realtime.priority);
  const zmq::socket_t first(context, zmq::socket_type::pair);
}

/// What tells the daemon of one group of axes, and hears what it says to that.
struct Teller {
  Teller(zmq::context_t& context, const Config& part, Group of)
      : group(of),
        introduction{.instance = new_instance(),
                     .driver = controller_of(part, letters_of(of)).driver,
                     .max_rate_hz = part.motion.max_rate_hz,
                     .group = of},
        reports(context, part.daemon.commands) {}
  /// "z: ", where several groups are told of.
  std::string prefix(bool several) const {
    return several ? std::string(letters_of(group)) + ": " : "";
  }

  Group group;
  Board board;
  Introduction introduction;
  ReportSocket reports;
  std::uint64_t told_carried_out = 0, told_beats = 0;
  std::string told_trouble, told_refusal;
};

/// Stages that have nothing to do with one another each have a thread.
struct Part {
  Part(zmq::context_t& context, PartOfStage given, const std::function<void()>& nudge)
      : config(std::move(given.config)), stage(std::move(given.stage)) {
    for (const Group group : groups_of(config.motion.axes)) {
      tellers.emplace_back(context, config, group);
      boards.push_back(&tellers.back().board);
    }
    driver.emplace(*stage, config, boards, nudge);
  }

  const Config config;
  std::unique_ptr<Stage> stage;
  std::deque<Teller> tellers;
  std::vector<Board*> boards;
  std::optional<Driver> driver;
};

class Program {
 public:
  Program(const Config& config, std::vector<PartOfStage> parts);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ExitCode run();

 private:
  bool set_up_realtime(const std::vector<std::string>& refused_scheduling);
  bool may_go_on();
  void wait();
  void take_signals();
  void report(bool ended);
  void hear_daemon(Teller& teller);
  void tell_daemon_trouble(Teller& teller, std::int64_t now_ns);
  void tell_systemd(std::int64_t now_ns);
  void log_figures(std::int64_t now_ns);
  void tell_figures();
  void nudge() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(nudges_, &one, sizeof one);
  }

  const Config config_;
  zmq::context_t context_{1};
  int signals_;
  int nudges_;
  std::deque<Part> parts_;
  std::vector<Teller*> tellers_;  ///< of all parts
  Watchdog watchdog_;
  std::uint64_t turns_ = 0;  ///< grows when all parts get on
  bool end_ = false;
  bool ready_ = false;  ///< said to systemd
  std::int64_t next_report_ns_ = 0;
  std::int64_t next_figures_ns_;
  std::string told_status_;
};

Program::Program(const Config& config, std::vector<PartOfStage> parts)
    : config_(config),
      signals_(signal_descriptor()),
      nudges_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      watchdog_(watchdog_period_us(), [] { sd_notify(0, "WATCHDOG=1"); }),
      next_figures_ns_(monotonic_ns() + kLogFigures_ns) {
  start_threads(context_, config.realtime);
  for (PartOfStage& part : parts) {
    parts_.emplace_back(context_, std::move(part), [this] { nudge(); });
    for (Teller& teller : parts_.back().tellers) tellers_.push_back(&teller);
  }
}

Program::~Program() {
  close(nudges_);
  close(signals_);
}

ExitCode Program::run() {
  ExitCode code = Clean;
  {
    std::deque<PortThread> ports;
    std::vector<std::string> refused_scheduling;
    for (Part& part : parts_) {
      ports.emplace_back(*part.driver, part.boards, context_, part.config);
      refused_scheduling.push_back(ports.back().refused_scheduling());
    }
    if (!set_up_realtime(refused_scheduling)) return RealTime;
    while (!end_) {
      wait();
      take_signals();
      for (Teller* const teller : tellers_) hear_daemon(*teller);
      const std::int64_t now_ns = monotonic_ns();
      if (!may_go_on()) {
        code = NoController;
        break;
      }
      report(false);
      for (Teller* const teller : tellers_) tell_daemon_trouble(*teller, now_ns);
      tell_systemd(now_ns);
      log_figures(now_ns);
    }
  }  // the last target is on its way; none follows
  sd_notify(0, "STOPPING=1");
  report(true);
  if (code == Clean) tell_figures();
  return code;
}

bool Program::may_go_on() {
  if (config_.connection.start_without_controller) return true;
  for (const Teller* const teller : tellers_) {
    const DriverState state = teller->board.state();
    if (state.ever_connected || state.failed_attempts == 0) continue;
    spdlog::critical("no controller at start: {}", state.trouble);
    return false;
  }
  return true;
}

bool Program::set_up_realtime(const std::vector<std::string>& refused_scheduling) {
  const config::RealTimeMode mode = config_.realtime.mode;
  if (mode == config::RealTimeMode::Off) return true;
  bool complete = true;
  std::vector<std::string> all = refused_scheduling;
  all.push_back(keep_in_memory().value_or(""));
  for (auto refused = all.begin(); refused != all.end(); ++refused) {
    if (refused->empty() || std::find(all.begin(), refused, *refused) != refused) continue;
    complete = false;
    if (mode == config::RealTimeMode::Require)
      spdlog::critical("realtime.mode is `require`: {}", *refused);
    else
      spdlog::info("{}", *refused);
  }
  return complete || mode == config::RealTimeMode::Prefer;
}

void Program::wait() {
  const std::int64_t left_ns = next_report_ns_ - monotonic_ns();
  const long timeout_ms = left_ns <= 0 ? 0 : static_cast<long>(left_ns / 1'000'000 + 1);
  std::vector<zmq_pollitem_t> items = {{nullptr, signals_, ZMQ_POLLIN, 0},
                                       {nullptr, nudges_, ZMQ_POLLIN, 0}};
  for (Teller* const teller : tellers_)
    items.push_back({teller->reports.handle(), 0, ZMQ_POLLIN, 0});
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
  for (Teller* const teller : tellers_) {
    const Board& board = teller->board;
    const std::int64_t since_ns = board.waits_since_ns.load();
    const std::int64_t waits_ns = since_ns == 0 ? 0 : now_ns - since_ns;
    teller->reports.send(report_json(teller->introduction, board.state(), board.latency.summary(),
                                     waits_ns, ended, now_ns),
                         now_ns);
  }
}

void Program::hear_daemon(Teller& teller) {
  while (const auto word = teller.reports.receive()) {
    teller.board.muted.store(!word->ok && word->code == "busy");
    const bool of_z = teller.group == Group::Axial && !word->z_state.empty();
    const std::string& state = of_z ? word->z_state : word->state;
    teller.board.lock_is_over.store(word->ok && state != "locked" && state != "holding");
    const std::string refusal = word->ok ? "" : word->error + " (" + word->code + ')';
    if (refusal != std::exchange(teller.told_refusal, refusal)) {
      const std::string prefix = teller.prefix(tellers_.size() > 1);
      if (refusal.empty())
        spdlog::info("{}driftd takes the reports again", prefix);
      else
        spdlog::warn("{}driftd does not take the reports: {}", prefix, refusal);
    }
  }
}

void Program::tell_daemon_trouble(Teller& teller, std::int64_t now_ns) {
  const std::string trouble = teller.reports.trouble(now_ns);
  teller.board.daemon_answers.store(trouble.empty());
  if (!trouble.empty()) teller.board.muted.store(false);  // nobody says so any more
  if (trouble == teller.told_trouble) return;
  teller.told_trouble = trouble;
  if (&teller != tellers_.front()) return;  // the same daemon
  if (trouble.empty())
    spdlog::info("driftd answers");
  else
    spdlog::info("{}", trouble);
}

void Program::tell_systemd(std::int64_t now_ns) {
  bool tried = true, all_turn = true;
  std::string status;
  for (Teller* const teller : tellers_) {
    const DriverState state = teller->board.state();
    tried = tried && (state.connected || state.failed_attempts > 0);
    all_turn = all_turn && teller->board.beats.load() != teller->told_beats;
    const Standing standing = stage::standing(state, 0);
    status += (status.empty() ? "" : "; ") + teller->prefix(tellers_.size() > 1);
    status += standing.state;
    if (!standing.text.empty()) status += ": " + standing.text;
  }
  if (!ready_ && tried) {
    ready_ = true;
    sd_notify(0, "READY=1");
    spdlog::info("driftd-stage ready");
  }
  if (all_turn) {
    ++turns_;
    for (Teller* const teller : tellers_) teller->told_beats = teller->board.beats.load();
  }
  watchdog_.turn({.loop_turns = turns_, .publisher_idle = true}, now_ns);
  if (status == told_status_) return;
  told_status_ = status;
  sd_notifyf(0, "STATUS=%s", status.c_str());
}

void Program::log_figures(std::int64_t now_ns) {
  if (now_ns < next_figures_ns_) return;
  next_figures_ns_ = now_ns + kLogFigures_ns;
  for (Teller* const teller : tellers_) {
    const DriverState state = teller->board.state();
    if (std::exchange(teller->told_carried_out, state.carried_out) != state.carried_out)
      spdlog::info("{}{}", teller->prefix(tellers_.size() > 1),
                   figures(state, teller->board.latency.summary(), now_ns));
  }
}

void Program::tell_figures() {
  for (Teller* const teller : tellers_)
    fmt::print("{}{}\n", teller->prefix(tellers_.size() > 1),
               figures(teller->board.state(), teller->board.latency.summary(), monotonic_ns()));
  std::fflush(stdout);
}

}  // namespace

std::unique_ptr<Stage> make_stage(const Config& config) {
  const std::string letters = letters_of(config.motion.axes);
  std::vector<JoinedStage::Part> parts;
  for (const Which which : {Which::First, Which::Second, Which::Third}) {
    JoinedStage::Part part;
    std::vector<std::string> names;
    for (const char letter : letters) {
      const AxisSettings& axis = settings_of(config, letter);
      if (axis.controller != which) continue;
      part.letters += letter;
      names.push_back(axis.axis);
    }
    if (names.empty()) continue;
    part.stage = make_stage(options_of(controller_of(config, which), std::move(names)));
    parts.push_back(std::move(part));
  }
  if (parts.size() == 1) return std::move(parts.front().stage);
  return std::make_unique<JoinedStage>(std::move(parts), letters);
}

std::vector<PartOfStage> make_parts(const Config& config) {
  std::vector<PartOfStage> parts;
  for (Config& part : parts_of(config)) {
    std::unique_ptr<Stage> stage = make_stage(part);
    parts.push_back({std::move(part), std::move(stage)});
  }
  return parts;
}

ExitCode run(const Config& config, std::vector<PartOfStage> parts) {
  return Program(config, std::move(parts)).run();
}

}  // namespace driftd::stage
