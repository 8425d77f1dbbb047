// SPDX-License-Identifier: MIT
// What the exporter knows of the daemon: its newest status, how old that is, and what is counted
// here, because the daemon cannot (its own restarts) or does not (its events). The receiving thread
// gives messages, the serving thread takes documents.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "clients/common/subscriber.hpp"

namespace driftd::exporter {

class DaemonWatch {
 public:
  /// @param interval_ns  of `status`, as far as it is known
  /// @param version  the exporter's own
  DaemonWatch(std::int64_t interval_ns, std::string version)
      : interval_ns_(interval_ns), version_(std::move(version)) {}

  void take(const clients::Message& message, std::int64_t now_ns);
  /// Nothing has come for so long that the daemon may listen elsewhere by now.
  bool is_silent(std::int64_t now_ns) const;
  /// {"exporter": .., "status": ..}, from which the metrics are made.
  nlohmann::json document(std::int64_t now_ns) const;

 private:
  bool is_up(std::int64_t now_ns) const;
  void take_status(const clients::Message& message, std::int64_t now_ns);
  void count_event(const nlohmann::json& event);

  mutable std::mutex mutex_;  // for all below
  std::int64_t interval_ns_;
  std::string version_;
  nlohmann::json status_;
  std::int64_t status_ns_ = 0;  ///< when it came; 0: none has
  std::string session_;
  std::uint64_t restarts_ = 0, lost_ = 0;
  std::map<std::string, std::map<std::string, std::uint64_t>> events_;  ///< by level and code
  std::size_t codes_ = 0;
};

}  // namespace driftd::exporter
