// SPDX-License-Identifier: MIT
// GvcpProbe: asks one GigE Vision address whether a camera is there, with a single discovery packet
// (GigE Vision control protocol, GVCP), and what a register of it holds, without control. Opening a
// camera that is away blocks Aravis for 2.5 s; this takes no longer than it is told, so the
// supervisor can ask often and open at the right moment.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace driftd::camera::aravis {

class GvcpProbe {
 public:
  /// @param address  IPv4 in dotted form; anything else makes a probe that never gets an answer
  explicit GvcpProbe(const std::string& address);
  ~GvcpProbe();
  GvcpProbe(const GvcpProbe&) = delete;
  GvcpProbe& operator=(const GvcpProbe&) = delete;

  /// Sends one question and waits for its answer.
  bool answered(std::chrono::milliseconds timeout) noexcept;
  /// The name that a user gave the camera; "" where it has none or does not answer.
  std::string user_name(std::chrono::milliseconds timeout) noexcept;
  /// A bootstrap register's value; nothing where it is not there, may not be read or nobody
  /// answers.
  std::optional<std::uint32_t> read_register(std::uint32_t address,
                                             std::chrono::milliseconds timeout) noexcept;
  /// Whether a program controls the camera; nothing where that cannot be read.
  std::optional<bool> controlled(std::chrono::milliseconds timeout) noexcept;

 private:
  using Answer = std::array<std::uint8_t, 1024>;
  /// Asks `command` and waits for its acknowledge. @returns its bytes; 0: none came, or a refusal
  std::size_t ask(std::uint8_t command, std::span<const std::uint8_t> data,
                  std::chrono::milliseconds timeout, Answer& answer) noexcept;

  int socket_ = -1;
  unsigned request_ = 0;
};

/// Whether `text` is an IPv4 address in dotted form.
bool is_ipv4(const std::string& text) noexcept;
/// Whether it lies in 127.0.0.0/8.
bool is_loopback(const std::string& address) noexcept;

}  // namespace driftd::camera::aravis
