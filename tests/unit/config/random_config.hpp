// SPDX-License-Identifier: MIT
// Random values for property tests of the configuration.
#pragma once

#include <random>
#include <string>

#include "config/options.hpp"

namespace driftd::test {

using Random = std::mt19937_64;

/// A value that the option allows on its own; limits and odd texts come up often.
config::Value random_value(const config::Option& option, Random& random);

/// A valid configuration far from the defaults: `changes` options are set to random values, each
/// only where the whole still makes sense.
config::Config random_config(Random& random, int changes = 300);

/// Keys whose values differ; compares every option of the table.
std::vector<std::string> differences(const config::Config& a, const config::Config& b);

/// A file whose only entry is `entry` ("key: value", YAML in flow style), in the option's section.
std::string file_with(const config::Option& option, const std::string& entry);

/// The whole text of a file below the project's root; fails the test when there is none.
std::string project_file(const std::string& path);

}  // namespace driftd::test
