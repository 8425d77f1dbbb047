// SPDX-License-Identifier: MIT
#include "clients/demo/stage_rig.hpp"

#include <spdlog/fmt/fmt.h>

#include <fstream>
#include <stdexcept>
#include <utility>

namespace driftd::clients {
namespace {

constexpr const char* kReady = "driftd-stage-emulator ready: ";

void write_file(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

/// "... at DEVICE, unpaced"
std::string device_of(const std::string& ready) {
  constexpr std::string_view kAt = " at ";
  const std::size_t at = ready.find(kAt);
  const std::size_t from = at == std::string::npos ? 0 : at + kAt.size();
  return ready.substr(from, ready.find(',', from) - from);
}

}  // namespace

const std::vector<StageKind>& stage_kinds() {
  static const std::vector<StageKind> kinds = {
      {"pi", "pi_gcs2", "a PI controller over TCP", {"--listen", "127.0.0.1:0"}, "1", "2"},
      {"lc400", "lc400", "an nPoint LC400 over TCP", {"--listen", "127.0.0.1:0"}, "1", "2"},
      {"asi", "asi", "an ASI controller over TCP", {"--listen", "127.0.0.1:0"}, "X", "Y"},
      {"piezoconcept",
       "piezoconcept",
       "a Piezoconcept stage over TCP",
       {"--listen", "127.0.0.1:0"},
       "X",
       "Y"},
      {"thorlabs",
       "thorlabs_apt",
       "a Thorlabs controller over TCP",
       {"--listen", "127.0.0.1:0"},
       "1",
       "2"}};
  return kinds;
}

StageRig::StageRig(const StageKind& kind, Places places, Wait wait)
    : kind_(kind), places_(std::move(places)), wait_(std::move(wait)) {}

void StageRig::start_controller() {
  std::vector<std::string> arguments{kind_.driver, "--sim", stage_input().string()};
  arguments.insert(arguments.end(), kind_.emulator.begin(), kind_.emulator.end());
  controller_ = std::make_unique<ChildProcess>(DRIFTD_STAGE_EMULATOR, arguments,
                                               places_.output / "stage-emulator.log");
  wait_(*controller_, "the emulated controller did not become ready",
        [this] { return controller_->log_has_line(kReady); });
  device_ = device_of(controller_->log_line(kReady));
}

void StageRig::start_driver() {
  const std::filesystem::path file = places_.output / "stage.yaml";
  write_file(file, fmt::format("# driftd-stage for {}, as the demo runs it.\n"
                               "controller:\n"
                               "  driver: {}\n"
                               "  device: {}\n"
                               "  switch_servo_on: true   # off after power-on\n"
                               "x: {{axis: \"{}\"}}\n"
                               "y: {{axis: \"{}\"}}\n",
                               kind_.text, kind_.driver, device_, kind_.x, kind_.y));
  driver_ = std::make_unique<ChildProcess>(places_.programs / "driftd-stage",
                                           std::vector<std::string>{"--config", file.string()},
                                           places_.output / "driftd-stage.log");
}

std::vector<std::string> StageRig::calibrate(const std::filesystem::path& config,
                                             const Wait& wait) {
  ChildProcess driftctl(places_.programs / "driftctl",
                        {"--config", config.string(), "calibrate", "--write", "--yes", "--plot",
                         (places_.output / "calibration.svg").string()},
                        places_.output / "calibration.log");
  wait(driftctl, "the calibration did not end", [&] { return driftctl.ended().has_value(); });
  if (*driftctl.ended() != "exited with code 0") {
    throw std::runtime_error("the calibration " + *driftctl.ended() + ":\n" +
                             driftctl.log_tail(10));
  }
  std::vector<std::string> lines;
  std::ifstream log(driftctl.log());
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  return lines;
}

std::vector<ChildProcess*> StageRig::programs() const {
  return {controller_.get(), driver_.get()};
}

bool StageRig::stop() {
  const bool well = driver_->stop() && *driver_->ended() == "exited with code 0";
  controller_->stop();
  return well;
}

}  // namespace driftd::clients
