// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/write_calibration.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstdio>

#include "clients/driftctl/commands/question.hpp"

namespace driftd::clients {

void write_and_tell(const CalibrationFile& file, const KeyValues& values, bool asks,
                    StopSignal& stop) {
  if (asks && !ask("Write this to " + file.path().string() + "?", stop)) {
    fmt::print(stderr, "Nothing was written.\n");
    return;
  }
  for (const std::string& line : told_of(file, values, write_calibration(file, values)))
    fmt::print(stderr, "{}\n", line);
}

}  // namespace driftd::clients
