// SPDX-License-Identifier: MIT
// Where the checkout is that a test was built from. The path is compiled into one object, not into
// every test: so that compilers' caches know the others again in another checkout.
#pragma once

#include <filesystem>

namespace driftd::test {

std::filesystem::path source_dir();

}  // namespace driftd::test
