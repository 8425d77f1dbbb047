// SPDX-License-Identifier: MIT
// `driftctl snapshot --every S`: one picture kept fresh. Nobody ever reads half of one: each is
// written beside it and takes its place by rename. Main thread.
#pragma once

#include <filesystem>
#include <functional>

#include "clients/common/command_client.hpp"

namespace driftd::clients {

struct KeepSnapshot {
  std::filesystem::path file;
  double every_s = 1;
  double for_s = 0;  ///< 0: until Ctrl-C
  bool json = false;
};

/// Writes pictures until a signal comes or the time is over. It says once that the daemon or its
/// camera is away, and once that it is back; for the first picture the daemon has to be there.
/// @param ask  for a snapshot
/// @throws Unreachable, Refused for the first; std::runtime_error when the file cannot be written
void keep_snapshot(const KeepSnapshot& settings, const std::function<Reply()>& ask);

/// Draws the snapshot into a file beside `file` and renames it.
/// @throws std::runtime_error, and leaves nothing behind
void replace_snapshot(const Reply& snapshot, const std::filesystem::path& file);

}  // namespace driftd::clients
