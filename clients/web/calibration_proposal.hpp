// SPDX-License-Identifier: MIT
// What the last calibration of an instance found, of its stage or of z, and the files beside the
// configuration that are made of it. Whether they are written is asked of the disk each time, and
// whether driftd goes by them of driftd. One thread, which waits for nothing but the files.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clients/web/instance.hpp"
#include "clients/web/server.hpp"
#include "clients/web/tool_replies.hpp"

namespace driftd::web {

class CalibrationProposal {
 public:
  using Done = std::function<void(Response)>;

  CalibrationProposal(const CalibrationProposal&) = delete;
  CalibrationProposal& operator=(const CalibrationProposal&) = delete;
  virtual ~CalibrationProposal() = default;

  /// @param asked    the choice, a flag
  /// @param why_not  this visitor may not act; "": they may
  void propose(const nlohmann::json& asked, const std::string& why_not, std::int64_t now_ns,
               const Done& done);
  /// @param asked  `run` and `session`, of which something was proposed, and the choice
  void write(const nlohmann::json& asked, std::int64_t now_ns, const Done& done);

 protected:
  struct Kind {
    nlohmann::json question;  ///< to driftd, for its last one
    const char* name;         ///< "calibration of z"
    const char* command;      ///< of driftctl, with --write
    const char* choice;       ///< the flag by which what was found is explained the other way
  };
  /// What the configuration has already.
  struct Kept {
    std::vector<std::string> lines, keys;
    bool restart;  ///< driftd takes it over at its start only, which `lines` say
  };

  /// @param instance  outlives this
  CalibrationProposal(Instance& instance, Kind kind)
      : instance_(instance), kind_(std::move(kind)) {}

  /// Adds `findings`, `question` and `lines`. @throws std::exception
  virtual void describe(const nlohmann::json& result, bool chosen,
                        nlohmann::json& proposal) const = 0;
  /// @throws std::exception where the configuration does not load
  virtual std::optional<Kept> kept(const nlohmann::json& result) const = 0;
  /// Adds where it would go. @throws std::exception why it cannot be written
  virtual void check(const nlohmann::json& result, bool chosen, nlohmann::json& proposal) const = 0;
  /// @throws std::exception why nothing was written
  virtual WrittenFiles write_files(const nlohmann::json& result, bool chosen) const = 0;

  const Instance& instance() const noexcept { return instance_; }

 private:
  struct Proposed {
    nlohmann::json reply;
    std::optional<Kept> kept;
  };
  struct Memory {
    nlohmann::json run, session;
    std::vector<std::string> lines;
    Loaded loaded;
  };
  /// Given the daemon's word of one that is done; else `done` is told why there is none.
  void with_result(std::int64_t now_ns, const Done& done,
                   const std::function<void(const nlohmann::json& word)>& then);
  Proposed proposed(const nlohmann::json& word, bool chosen, const std::string& why_not) const;
  void ask_taken_over(Proposed found, const Loaded& loaded, const Done& done);
  bool is_remembered(const nlohmann::json& word) const;

  Instance& instance_;
  Kind kind_;
  std::optional<Memory> memory_;  ///< of what was written here last: for the words alone
};

}  // namespace driftd::web
