// SPDX-License-Identifier: MIT
// `driftfit merge`: joins the shards of one stack to the files that one run would have written, to
// the bit, and is the judge of what may be joined. It works through the shards' files a few
// thousand rows at a time, and removes them when its own files have their names, so it can be
// ended at any moment and run again. One thread.
#pragma once

#include <functional>
#include <string>

namespace driftd::tools {

struct MergeOptions {
  std::string output;  ///< as the shards were given
  bool overwrite = false;
};

/// Returns what was done, in lines.
/// @param stop  asked between shards, true ends the run
/// @throws InputError for shards that make no whole; OutputError, Interrupted
std::string merge_shards(const MergeOptions& options, const std::function<bool()>& stop);

}  // namespace driftd::tools
