// SPDX-License-Identifier: MIT
// A controller played from a script, on a thread: it expects bytes and answers with others, by TCP
// on the loopback or on a pseudo-terminal. What came otherwise than scripted stands in problem().
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "clients/stage/interface/stage.hpp"

namespace driftd::stage::test {

struct Step {
  std::string expect = {};  ///< empty: do not wait
  std::string answer = {};  ///< empty: nothing
  int gap_ms = 0;           ///< before each byte of the answer
  bool hang_up = false;     ///< after the answer
};
using Script = std::vector<Step>;

/// The one and then the other.
inline Script with(Script script, const Script& more) {
  script.insert(script.end(), more.begin(), more.end());
  return script;
}

/// "46 06 d0" -> three bytes.
std::string hex(std::string_view digits);

class ScriptedPeer {
 public:
  enum class Over { Tcp, Pty };

  /// One script for each connection, in turn. `passed_over`: messages that may stand between
  /// others.
  ScriptedPeer(Over over, std::vector<Script> scripts, std::vector<std::string> passed_over = {});
  ~ScriptedPeer();
  ScriptedPeer(const ScriptedPeer&) = delete;
  ScriptedPeer& operator=(const ScriptedPeer&) = delete;

  /// tcp://... or /dev/pts/...
  const std::string& device() const { return device_; }
  /// Ends the peer. Empty: all came as scripted, and nothing more.
  std::string problem();
  /// The baud rate that was set at the pseudo-terminal.
  unsigned baud() const;

 private:
  void listen();
  void serve();
  int wait_for_client();
  bool play(int fd, const Script& script);
  bool expect(int fd, const std::string& bytes);
  bool send(int fd, const Step& step);
  void note(const std::string& text);
  int next_byte(int fd, int wait_ms, char& byte);

  bool begins_passed_over(const std::string& found) const;

  Over over_;
  std::vector<Script> scripts_;
  std::vector<std::string> passed_over_;
  std::string device_;
  int fd_ = -1;  ///< listening socket, or the pseudo-terminal's own side
  std::atomic<bool> ended_{false};
  std::string problem_;
  std::thread thread_;
};

/// Limits for an answer: one that a loaded machine keeps, and one where the script stays silent.
constexpr int kAmpleMs = 10'000;
constexpr int kSilentMs = 400;

inline StageOptions options_of(const char* driver, const ScriptedPeer& peer,
                               std::vector<std::string> axes, int timeout_ms) {
  StageOptions options;
  options.driver = driver;
  options.device = peer.device();
  options.axes = std::move(axes);
  options.timeout_ms = timeout_ms;
  return options;
}

}  // namespace driftd::stage::test
