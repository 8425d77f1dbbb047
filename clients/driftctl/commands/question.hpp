// SPDX-License-Identifier: MIT
// Questions to the person at the terminal, on standard error. One thread.
#pragma once

#include <string>

#include "base/process/stop_signal.hpp"

namespace driftd::clients {

/// Whether a person sits there: reads what is asked, and can answer.
bool is_answerable();

/// False as well on the input's end. @throws std::runtime_error on Ctrl-C
bool ask(const std::string& question, StopSignal& stop);

}  // namespace driftd::clients
