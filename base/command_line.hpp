// SPDX-License-Identifier: MIT
// What every program's command line has beside --help: its version, and a description of itself,
// from which its man page and its shell completion are made (tools/pages), so that an option is
// written down once. Called by main() before parsing.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace driftd {

/// Adds --version, which prints "PROGRAM VERSION", and --describe-command-line, which --help does
/// not show: it prints the options and commands of `app` as JSON. Both end the program as --help
/// does.
void add_standard_flags(CLI::App& app, const std::string& program);

}  // namespace driftd
