// SPDX-License-Identifier: MIT
// Lets a program describe its own command line, from which its man page and its shell completion
// are made (tools/pages), so that an option is written down once. Called by main() before parsing.
#pragma once

namespace CLI {
class App;
}

namespace driftd {

/// Adds the option --describe-command-line, which --help does not show: it prints the options and
/// commands of `app` as JSON and ends the program as --help does.
void add_description(CLI::App& app);

}  // namespace driftd
