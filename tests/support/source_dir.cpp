// SPDX-License-Identifier: MIT
#include "support/source_dir.hpp"

namespace driftd::test {

std::filesystem::path source_dir() {
  return DRIFTD_SOURCE_DIR;
}

}  // namespace driftd::test
