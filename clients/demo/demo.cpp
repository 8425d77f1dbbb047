// SPDX-License-Identifier: MIT
#include "clients/demo/demo.hpp"
#include "base/monotonic.hpp"

#include <spdlog/fmt/fmt.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "clients/demo/plot.hpp"
#include "config/drop_ins.hpp"
#include "config/local_sockets.hpp"

namespace driftd::clients {
namespace {

constexpr double kStart_s = 15;        // a program that takes longer will not start
constexpr double kLock_s = 15;         // reference frames, and time to notice that they do not come
constexpr double kCalibration_s = 60;  // it takes some 25
constexpr double kReconnect_s = 20;    // after the camera is back
constexpr int kQueueMessages = 100'000;  // a minute of everything: the recording must not lose any

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "driftd-demo-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw DemoFailure("Cannot make a folder like " + name + ".");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Demo::Demo(DemoOptions options, StopSignal& stop)
    : options_(std::move(options)),
      output_(options_.output),
      stop_(stop),
      config_(load()),
      subscriber_(
          {config_.wire.publish.front(), config_.wire.corrections.front(), sockets_.ipc("truth")},
          {}, kQueueMessages),
      daemon_commands_(config_.wire.commands.front()),
      simulator_commands_(sockets_.ipc("control")) {}

/// The demo's daemon has its sockets in the demo's folder, whatever other one runs here. A file
/// that a calibration writes beside is a copy of the demo's own.
config::Config Demo::load() {
  const char* folder = sockets_.path().c_str();
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread of ours yet
  if (setenv("RUNTIME_DIRECTORY", folder, 1) != 0) throw DemoFailure("No memory.");
  if (options_.stage != nullptr) {
    const std::filesystem::path copy = options_.output / "driftd.yaml";
    std::filesystem::copy_file(options_.config, copy,
                               std::filesystem::copy_options::overwrite_existing);
    // What the demo before this one calibrated does not count.
    std::filesystem::remove_all(config::drop_in_folder(copy));
    if (const auto drop_ins = config::drop_in_folder(options_.config);
        std::filesystem::is_directory(drop_ins))
      std::filesystem::copy(drop_ins, config::drop_in_folder(copy));
    options_.config = copy;
  }
  config::Config config = config::load(options_.config);
  config.wire.publish = {config::endpoint_in(folder, config.wire.publish.front())};
  config.wire.corrections = {config::endpoint_in(folder, config.wire.corrections.front())};
  config.wire.commands = {config::endpoint_in(folder, config.wire.commands.front())};
  return config;
}

Report Demo::run() {
  start_simulator();
  if (options_.stage != nullptr) stage_->start_controller();
  start_daemon();
  start_page();
  if (options_.stage != nullptr) {
    start_stage();
    calibrate();
  }
  watch_unlocked();
  lock();
  watch("3/5  locked: the drift is held", options_.locked_s);
  take_camera_away();
  watch("5/5  locked again", options_.recovered_s);
  return finish();
}

void Demo::start_simulator() {
  display_.print({"Starting the simulated microscope and driftd ...", Tone::Plain});
  std::vector<std::string> arguments{
      "--scenario", options_.scenario.string(), "--address", config_.camera.id,
      "--truth",    sockets_.ipc("truth"),      "--control", sockets_.ipc("control")};
  if (options_.stage == nullptr) {
    arguments.insert(arguments.end(), {"--stage", config_.wire.corrections.front()});
  } else {
    const auto wait = [this](ChildProcess& program, const std::string& what,
                             const std::function<bool()>& done) {
      wait_for(program, what, done, kStart_s);
    };
    stage_ = std::make_unique<StageRig>(
        *options_.stage, StageRig::Places{options_.programs, sockets_.path(), options_.output},
        wait);
    arguments.insert(arguments.end(), {"--stage-input", stage_->stage_input().string()});
  }
  simulator_ = std::make_unique<ChildProcess>(options_.programs / "driftd-sim", arguments,
                                              options_.output / "driftd-sim.log");
  wait_for(
      *simulator_, "driftd-sim did not become ready",
      [&] { return simulator_->log_has_line("driftd-sim ready"); }, kStart_s);
}

/// The driver reports, and the daemon has heard that the stage is ready.
void Demo::start_stage() {
  stage_->start_driver();
  if (!watch(fmt::format("driftd-stage connects to {}", options_.stage->text), kStart_s, [&] {
        const nlohmann::json& driver = view_.status().at("stage_driver");
        return driver.is_object() && driver.at("state") == "ready";
      })) {
    throw DemoFailure("No driver reported that the stage is ready.");
  }
}

/// driftd knows nothing of the stage until then.
void Demo::calibrate() {
  const std::vector<std::string> found = stage_->calibrate(
      options_.config,
      [this](ChildProcess& program, const std::string& what, const std::function<bool()>& done) {
        if (!watch("driftctl calibrate: the stage is moved to find out how it answers",
                   kCalibration_s, done)) {
          throw DemoFailure(what + ":\n" + program.log_tail(10));
        }
      });
  for (const std::string& line : found) display_.print({line, Tone::Plain});
  recording_ = {};  // the report is about the lock
  daemon_->signal(SIGHUP);
  wait_for(
      *daemon_, "driftd did not take over what was found",
      [&] { return daemon_->log_contains("configuration_reloaded"); }, kStart_s);
}

void Demo::start_daemon() {
  daemon_ = std::make_unique<ChildProcess>(
      options_.programs / "driftd", std::vector<std::string>{"--config", options_.config.string()},
      options_.output / "driftd.log");
  CommandClient soon(config_.wire.commands.front(), std::chrono::milliseconds(200));
  wait_for(
      *daemon_, "driftd did not find the camera and its markers",
      [&] {
        try {
          view_.set_status(soon.request("status").body.at("status"), monotonic_ns());
        } catch (const Unreachable&) {
          return false;
        }
        return view_.status().at("/camera/connected"_json_pointer).get<bool>() &&
               view_.status().at("/markers/tracking"_json_pointer).get<int>() > 0;
      },
      kStart_s);
  if (!watch("1/5  waiting for frames", kStart_s,
             [&] { return !recording_.positions().empty() && !recording_.truth().empty(); })) {
    throw DemoFailure("No positions came from driftd, or no truth from driftd-sim.");
  }
}

/// At a port of its own, so that no other page is in the way. It commands only where nothing is
/// measured any more.
void Demo::start_page() {
  std::vector<std::string> arguments{"--config", options_.config.string(), "--listen",
                                     "127.0.0.1:0"};
  if (options_.look) arguments.emplace_back("--operate");
  page_ = std::make_unique<ChildProcess>(options_.programs / "driftd-web", arguments,
                                         options_.output / "driftd-web.log");
  wait_for(
      *page_, "driftd-web did not serve its page",
      [&] { return !(page_address_ = page_->log_after("serving ")).empty(); }, kStart_s);
  display_.print({"Page: " + page_address_ +
                  (options_.look ? "" : "  (while the demo runs; with --look it stays)")});
}

bool Demo::holds_z() const noexcept {
  return config_.axial.method != control::AxialMethod::None && config_.axial.hold;
}

const std::string& Demo::newest_z_state() const noexcept {
  static const std::string none;
  return recording_.positions().empty() ? none : recording_.positions().back().z_state;
}

void Demo::watch_unlocked() {
  phases_.unlocked_ns = monotonic_ns();
  watch("1/5  unlocked: the sample drifts", 0.5);
  shown_zero_nm_ = start_of(recording_, phases_.unlocked_ns);
  shown_zero_z_nm_ = start_of(recording_.axial(), phases_.unlocked_ns)[kX];
  watch("1/5  unlocked: the sample drifts", options_.unlocked_s - 0.5);
}

void Demo::lock() {
  phases_.lock_ns = monotonic_ns();
  daemon_commands_.request("lock");
  std::optional<Reference> reference, z_reference;
  const bool locked = watch("2/5  locking: taking the reference", kLock_s, [&] {
    if (view_.state() == "locked") reference = reference_of(recording_, phases_.lock_ns);
    if (holds_z() && newest_z_state() == "locked")
      z_reference = reference_of(recording_.axial(), phases_.lock_ns);
    return reference.has_value() && (z_reference.has_value() || !holds_z());
  });
  if (!locked) {
    throw DemoFailure(fmt::format("The lock did not engage within {:.0f} s (state: {}{}).", kLock_s,
                                  view_.state(), holds_z() ? ", of z: " + newest_z_state() : ""));
  }
  shown_zero_nm_ = reference->sample_nm;
  if (z_reference) shown_zero_z_nm_ = z_reference->sample_nm[kX];
}

void Demo::take_camera_away() {
  phases_.fault_ns = monotonic_ns();
  phases_.fault_end_ns = phases_.fault_ns + static_cast<std::int64_t>(options_.away_s * 1e9);
  simulator_commands_.request({{"command", "vanish"}, {"seconds", options_.away_s}});
  watch(fmt::format("4/5  fault: the camera is away for {:.0f} s", options_.away_s),
        options_.away_s);
  watch("4/5  fault: the camera is back, reconnecting", kReconnect_s, [&] {
    return relocked_ns(recording_, phases_).has_value() &&
           (!holds_z() || newest_z_state() == "locked");
  });
  watch("5/5  locked again", kSettling_s);
}

Report Demo::finish() {
  phases_.end_ns = monotonic_ns();
  const nlohmann::json status = daemon_commands_.request("status").body.at("status");
  Report report = make_report(
      recording_, phases_, status,
      {config_.camera.frame_rate_hz, config_.lock.max_frame_age_ms, config_.control.step_limit_nm,
       holds_z() ? std::optional(config_.axial.step_limit_nm) : std::nullopt});
  if (!options_.look) {
    for (std::string& failure : stop_programs()) report.failures.push_back(std::move(failure));
  }
  display_.print({});
  for (const Line& line : to_lines(report)) display_.print(line);
  display_.print({draw_plot(recording_, phases_, report, options_.output)});
  const std::filesystem::path file = options_.output / "report.json";
  std::ofstream out(file);
  out << to_json(report).dump(2) << '\n';
  if (!out.flush()) throw DemoFailure("Cannot write " + file.string() + ".");
  display_.print({"Report: " + file.string()});
  if (options_.look) {
    let_look();
    for (const std::string& failure : stop_programs()) {
      display_.print({failure});
      report.failures.push_back(failure);
    }
  }
  return report;
}

void Demo::let_look() {
  recording_ = {};
  display_.print({"The sample stays locked: look at " + page_address_ + " (Ctrl-C ends it)."});
  try {
    for (;; check_programs()) {
      for (int i = 0; i < 50; ++i) subscriber_.receive(std::chrono::milliseconds(20));  // and drops
    }
  } catch (const Interrupted&) {  // as it was meant
  }
}

std::vector<std::string> Demo::stop_programs() {
  std::vector<std::string> failures;
  page_->stop();
  const bool stopped_well = daemon_->stop() && *daemon_->ended() == "exited with code 0";
  if (!stopped_well) failures.push_back("driftd " + *daemon_->ended() + " when stopped.");
  if (stage_ != nullptr && !stage_->stop())
    failures.emplace_back("driftd-stage did not end as it should.");
  simulator_->stop();
  return failures;
}

bool Demo::watch(const std::string& phase, double seconds, const std::function<bool()>& done) {
  if (phase != phase_ && !display_.terminal()) display_.print({phase});
  phase_ = phase;
  const std::int64_t end_ns = monotonic_ns() + static_cast<std::int64_t>(seconds * 1e9);
  std::int64_t next_check_ns = 0;
  for (std::int64_t now_ns = monotonic_ns(); now_ns < end_ns; now_ns = monotonic_ns()) {
    if (now_ns >= next_check_ns) {
      constexpr std::int64_t kCheck_ns = 50'000'000;
      next_check_ns = now_ns + kCheck_ns;
      check_programs();
      if (done && done()) return true;
    }
    if (const auto message = subscriber_.receive(std::chrono::milliseconds(20))) {
      recording_.add(*message);
      if (message->topic != "truth") view_.update(*message, monotonic_ns());
    }
    const double left_s = static_cast<double>(end_ns - now_ns) * 1e-9;
    display_.show(view_, done ? phase : fmt::format("{}, {:.0f} s", phase, left_s), truth_line());
  }
  return false;
}

void Demo::check_programs() {
  if (stop_.raised()) throw Interrupted();
  std::vector<ChildProcess*> programs{simulator_.get(), daemon_.get(), page_.get()};
  if (stage_) {
    for (ChildProcess* program : stage_->programs()) programs.push_back(program);
  }
  for (ChildProcess* program : programs) {
    if (program == nullptr || !program->ended()) continue;
    throw DemoFailure(fmt::format("{} {}. The end of {}:\n{}", program->name(), *program->ended(),
                                  program->log().string(), program->log_tail(5)));
  }
}

void Demo::wait_for(ChildProcess& program, const std::string& what,
                    const std::function<bool()>& done, double most_s) {
  const std::int64_t end_ns = monotonic_ns() + static_cast<std::int64_t>(most_s * 1e9);
  while (!done()) {
    check_programs();
    if (monotonic_ns() > end_ns) {
      throw DemoFailure(fmt::format("{} within {:.0f} s. The end of {}:\n{}", what, most_s,
                                    program.log().string(), program.log_tail(5)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::vector<Line> Demo::truth_line() const {
  if (recording_.truth().empty()) return {};
  const TrueFrame& now = recording_.truth().back();
  const std::string z =
      holds_z() ? fmt::format("   z {:+.3f}", now.sample_z_nm - shown_zero_z_nm_) : "";
  return {{fmt::format("{:<12}{:>+11.3f}{:>+11.3f} nm{}   of the simulator", "truth",
                       now.sample_nm[kX] - shown_zero_nm_[kX],
                       now.sample_nm[kY] - shown_zero_nm_[kY], z),
           Tone::Heading}};
}

}  // namespace driftd::clients
