// SPDX-License-Identifier: MIT
// A controller between driftd and the simulated sample, for the demo: an emulated one, the driver
// driftd-stage for it, and the calibration that tells driftd what the stage is like. The main
// thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "clients/demo/child_process.hpp"

namespace driftd::clients {

/// What an emulated controller is to driftd-stage.
struct StageKind {
  const char* name;  ///< for the user
  const char* driver;
  const char* text;
  std::vector<const char*> emulator;  ///< further arguments
  const char* x;                      ///< names of its axes
  const char* y;
};
/// All there are; the first is the demo's usual one.
const std::vector<StageKind>& stage_kinds();

class StageRig {
 public:
  struct Places {
    std::filesystem::path programs;  ///< where driftd-stage and driftctl are
    std::filesystem::path sockets;   ///< the demo's own folder
    std::filesystem::path output;    ///< for logs, files and pictures
  };
  /// Waits until a program is as it should be; throws when it is not in time.
  using Wait = std::function<void(ChildProcess&, const std::string& what,
                                  const std::function<bool()>& done)>;

  StageRig(const StageKind& kind, Places places, Wait wait);

  /// What driftd-sim takes its stage's targets from.
  std::filesystem::path stage_input() const { return places_.sockets / "stage-input"; }
  void start_controller();
  void start_driver();
  /// `driftctl calibrate --write`: measures the stage and sets what it found in driftd's file.
  /// Returns what it printed.
  std::vector<std::string> calibrate(const std::filesystem::path& config, const Wait& wait);
  std::vector<ChildProcess*> programs() const;
  /// Ends the driver; returns whether it ended well.
  bool stop();

 private:
  const StageKind& kind_;
  Places places_;
  Wait wait_;
  std::string device_;
  std::unique_ptr<ChildProcess> controller_, driver_;
};

}  // namespace driftd::clients
