// SPDX-License-Identifier: MIT
// The simulated stage as something that a stage's driver, or an emulator of its controller, reaches
// without ZeroMQ: a UNIX datagram socket. "move X Y" sends the stage to an absolute place ("move X
// Y Z" where there is a focus stage, which "focus Z" moves alone), "read" is answered by where it
// is and where it was sent, anything else by "error: ..." (all nm, stage axes; README.md). Owned by
// SimService, used by its wire thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/vec2.hpp"

namespace driftd::simulator {

class LiveSimulation;

struct StageRequest {
  enum class Kind : std::uint8_t { Move, Focus, Read, Mistake };
  Kind kind = Kind::Mistake;
  Vec2 target_nm;                     ///< of a Move
  std::optional<double> target_z_nm;  ///< of a Focus; of a Move that has it
  std::string mistake;                ///< of a Mistake, for people
};

/// What a datagram asks for.
/// @param has_focus_stage  whether there is `focus`, and a move may have a third number
StageRequest parse_stage_request(std::string_view datagram, bool has_focus_stage = false);

class StageInput {
 public:
  /// Binds `path`. A socket file whose program has gone is replaced.
  /// @throws std::runtime_error when the path cannot be had
  explicit StageInput(std::string path);
  /// Closes, and removes the socket file unless another one has taken its place.
  ~StageInput();
  StageInput(const StageInput&) = delete;
  StageInput& operator=(const StageInput&) = delete;

  /// To be polled; readable when serve() has something to do.
  int descriptor() const noexcept { return socket_; }
  /// Carries out and answers all that has come, oldest first. Never blocks on a client.
  /// @return how many moves the stage was sent
  std::uint64_t serve(LiveSimulation& simulation);

 private:
  std::string path_;
  int socket_ = -1;
  std::uint64_t device_ = 0;  ///< with inode_: which file is ours
  std::uint64_t inode_ = 0;
};

}  // namespace driftd::simulator
