// SPDX-License-Identifier: MIT
// Where driftd keeps what outlives it: the first that is set to an absolute path of
// $STATE_DIRECTORY (systemd sets it, for each instance its own), $XDG_STATE_HOME/driftd and
// $HOME/.local/state/driftd. Any thread; a file system may make it wait, so never the loop.
#pragma once

#include <filesystem>

namespace driftd {

/// Empty where none of the three is set.
std::filesystem::path state_directory();

/// Makes a folder, and those on the way to it, with mode 0750 less the umask; one that is there is
/// left as it is. @throws std::filesystem::filesystem_error with the path that could not be made
void make_directory(const std::filesystem::path& folder);

}  // namespace driftd
