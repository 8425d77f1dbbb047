// SPDX-License-Identifier: MIT
// What the stage's driver reports, as rows of a record.
#pragma once

#include <cstdint>

#include "daemon/stage/stage_report.hpp"
#include "record/rows.hpp"

namespace driftd::daemon {

record::StageRow stage_row(const StageReport& report, std::int64_t received_ns);

}  // namespace driftd::daemon
