// SPDX-License-Identifier: MIT
// What every `--write` shares: the question, the drop-in file, and what is said of it, on standard
// error. Main thread.
#pragma once

#include "base/process/stop_signal.hpp"
#include "clients/common/kept_choice.hpp"

namespace driftd::clients {

/// Writes the values, after a question where `asks`, and says where they are and how the daemon
/// takes them over. @throws as write_calibration()
void write_and_tell(const CalibrationFile& file, const KeyValues& values, bool asks,
                    StopSignal& stop);

}  // namespace driftd::clients
