// SPDX-License-Identifier: MIT
#include "clients/demo/claimed_folder.hpp"

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "support/catch.hpp"

using driftd::clients::ClaimedFolder;

TEST_CASE("a folder that a demo writes into is refused to another one until that is over") {
  std::string name = (std::filesystem::temp_directory_path() / "driftd-claim-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  const std::filesystem::path folder = std::filesystem::path(name) / "build" / "demo";
  std::optional<ClaimedFolder> first(std::in_place, folder);
  CHECK_THROWS_WITH(ClaimedFolder(folder), contains("Another demo is running and writes into"));
  CHECK_NOTHROW(ClaimedFolder(folder.parent_path() / "other"));
  first.reset();
  CHECK_NOTHROW(ClaimedFolder(folder));
  std::filesystem::remove_all(name);
}
