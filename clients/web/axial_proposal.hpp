// SPDX-License-Identifier: MIT
// What the last sweep of z found, and the files that are made of it, as `driftctl calibrate z
// --write` makes them. Of one instance; one thread, which waits for nothing but the files.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "clients/web/instance.hpp"
#include "clients/web/server.hpp"

namespace driftd::web {

class AxialProposal {
 public:
  using Done = std::function<void(Response)>;

  /// @param instance  outlives this
  explicit AxialProposal(Instance& instance) : instance_(instance) {}

  /// @param asked    `keep_curve`: the curve until now is right, and stays
  /// @param why_not  this visitor may not act; "": they may
  void propose(const nlohmann::json& asked, const std::string& why_not, std::int64_t now_ns,
               const Done& done);
  /// @param asked  `run`, of which something was proposed, and `keep_curve`
  void write(const nlohmann::json& asked, std::int64_t now_ns, const Done& done);

 private:
  /// Given the daemon's word of a sweep that is done; else `done` is told why there is none.
  void with_result(std::int64_t now_ns, const Done& done,
                   const std::function<void(const nlohmann::json& word)>& then);
  nlohmann::json proposal_of(const nlohmann::json& word, bool keep_curve,
                             const std::string& why_not) const;
  /// What was said of it where it is written already, or null.
  nlohmann::json written_of(const nlohmann::json& word) const;

  Instance& instance_;
  nlohmann::json written_;  ///< its run and what was said; or null
};

}  // namespace driftd::web
