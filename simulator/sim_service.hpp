// SPDX-License-Identifier: MIT
// The whole simulator as a service: camera, stage, truth and control sockets. Owned by main() (or a
// test); runs from construction to destruction on threads of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "simulator/device_registers.hpp"
#include "simulator/scenario.hpp"

namespace driftd::simulator {

struct ServiceSettings {
  CameraIdentity identity;
  std::string stage_endpoint;  ///< the daemon's wire.corrections; empty: the stage stands still
  std::string stage_input;     ///< file of a UNIX datagram socket that moves the stage; empty: none
  std::string truth_endpoint;  ///< PUB, bound; empty: none
  std::string control_endpoint;  ///< REP, bound; empty: none
};

class SimService {
 public:
  /// @throws ScenarioError, std::invalid_argument for an impossible setting or two ways to move
  ///   the stage, std::runtime_error
  ///   when an address or endpoint cannot be had
  SimService(const Scenario& scenario, const ServiceSettings& settings);
  ~SimService();
  SimService(const SimService&) = delete;
  SimService& operator=(const SimService&) = delete;

  std::uint64_t frames_sent() const noexcept;
  std::uint64_t frames_late() const noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace driftd::simulator
