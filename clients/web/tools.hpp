// SPDX-License-Identifier: MIT
// What driftd-web does by itself for a page, beside the daemon's commands: writes what a
// calibration found, and what somebody chose, beside the configuration, and has driftctl measure,
// calibrate the camera and make a report. At most one driftctl runs for an instance, and never for
// long. Of one instance; one thread, which waits for none of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clients/common/calibration_file.hpp"
#include "clients/web/axial_proposal.hpp"
#include "clients/web/instance.hpp"
#include "clients/web/program.hpp"
#include "clients/web/server.hpp"
#include "clients/web/stage_proposal.hpp"

namespace driftd::web {

class Tools {
 public:
  using Done = std::function<void(Response)>;

  /// @param instance  outlives this
  Tools(Instance& instance, Instance::Tell tell);
  ~Tools();
  Tools(const Tools&) = delete;
  Tools& operator=(const Tools&) = delete;

  /// What a tab asks for: {"tool":"NAME", ...} (docs/internals/web.md). `done` is called once, now
  /// or later.
  /// @param forbidden  why this visitor may not act, whatever the daemon lets; "": they may
  void use(const nlohmann::json& asked, const std::string& forbidden, std::int64_t now_ns,
           const Done& done);
  void turn(std::int64_t now_ns);
  /// How far each is or was, for a new tab.
  std::vector<std::string> past() const;

 private:
  struct Job {
    std::string tool;
    Program program;
    std::int64_t begin_ns, end_ns;  ///< it is ended then
    double takes_s;                 ///< 0: its own words say how far it is
    std::filesystem::path result;   ///< a file that it makes; empty: what it prints
  };

  void write_camera(std::int64_t now_ns, const Done& done);
  /// What somebody chose of the running daemon (clients/common/kept_choice.hpp).
  struct Choice {
    const char* command;  ///< of the daemon's and of driftctl's
    clients::CalibrationFile (*file)(const std::filesystem::path& config, const std::string& by,
                                     const nlohmann::json& status);
    clients::KeyValues (*values)(const nlohmann::json& reply, const nlohmann::json& status);
  };
  static const Choice kMarkers, kExposure;
  void write_choice(const Choice& choice, std::int64_t now_ns, const Done& done);
  void write_or_refuse(const std::string& command, const Done& done,
                       const std::function<void(const std::filesystem::path& config)>& write);
  void check_gain() const;
  /// Has the daemon read it, too, where it does so while it runs.
  void write_and_load(const clients::CalibrationFile& file, const clients::KeyValues& values,
                      std::int64_t now_ns, const Done& done);
  void give_snapshot(std::int64_t now_ns, const Done& done);
  void ask_snapshot(std::int64_t now_ns);
  void start(const nlohmann::json& asked, std::int64_t now_ns, const Done& done);
  std::vector<std::string> driftctl() const;
  std::filesystem::path folder();
  void tell_job(const std::string& tool, nlohmann::json news);
  void end_job(bool on_time);

  Instance& instance_;
  StageProposal stage_;
  AxialProposal axial_;
  Instance::Tell tell_;
  std::unique_ptr<Job> job_;
  struct Told {
    nlohmann::json news;
    std::int64_t at_ns;
  };
  std::map<std::string, Told> told_;  ///< the last of each tool
  nlohmann::json camera_;             ///< what its calibration found last
  std::string report_;                ///< a page
  std::filesystem::path folder_;      ///< for what driftctl writes; empty: none yet
  std::int64_t told_ns_ = 0, snapshot_ns_ = 0;
  std::vector<Done> await_snapshot_;  ///< who asked for a whole picture
  bool snapshot_asked_ = false;
};

}  // namespace driftd::web
