// SPDX-License-Identifier: MIT
// Where the recordings with reference results lie; a test that needs them and finds none is
// skipped.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

#include "support/source_dir.hpp"

namespace driftd::test {

/// The folder of recordings: $DRIFTD_TEST_DATA, else ../shared/data beside the source tree.
/// Empty when it is absent; prints the line by which ctest counts the case as skipped.
inline std::optional<std::filesystem::path> test_data() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): tests read the environment before they start threads
  const char* named = std::getenv("DRIFTD_TEST_DATA");
  const std::filesystem::path folder =
      named != nullptr ? std::filesystem::path(named)
                       : driftd::test::source_dir().parent_path() / "shared/data";
  if (std::filesystem::is_directory(folder)) return folder;
  std::cout << "SKIPPED: no recordings in " << folder << " (set DRIFTD_TEST_DATA)\n";
  return std::nullopt;
}

}  // namespace driftd::test
