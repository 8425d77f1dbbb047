// SPDX-License-Identifier: MIT
#include "daemon/recorder/stage_rows.hpp"

#include <algorithm>
#include <optional>

namespace driftd::daemon {

using record::StageRow;

StageRow stage_row(const StageReport& report, std::int64_t received_ns) {
  StageRow row;
  row.received_ns = received_ns;
  row.time_ns = report.time_ns;
  row.lock_id = static_cast<std::uint32_t>(report.lock_id);
  row.state = static_cast<std::uint8_t>(report.state);
  row.on_target = report.on_target.value_or(false);
  row.error = report.error;
  if (report.total_nm) {
    row.total_x_nm = report.total_nm->x;
    row.total_y_nm = report.total_nm->y;
  }
  row.z_lock_id = static_cast<std::uint32_t>(report.z_lock_id);
  row.total_z_nm = report.total_z_nm.value_or(record::kNoneF64);
  struct Columns {
    const char* axis;
    double StageRow::*position;
    double StageRow::*target;
  };
  for (const Columns& of : {Columns{"x", &StageRow::position_x_nm, &StageRow::target_x_nm},
                            Columns{"y", &StageRow::position_y_nm, &StageRow::target_y_nm},
                            Columns{"z", &StageRow::position_z_nm, &StageRow::target_z_nm}}) {
    const auto axis = std::ranges::find(report.axes, of.axis, &StageAxis::axis);
    if (axis == report.axes.end()) continue;
    row.*of.position = axis->position_nm.value_or(record::kNoneF64);
    row.*of.target = axis->target_nm.value_or(record::kNoneF64);
  }
  row.carried_out = report.carried_out;
  row.ignored = report.ignored;
  row.refused = report.refused;
  row.rate_hz = static_cast<float>(report.rate_hz);
  const auto microseconds = [](const std::optional<double>& value) {
    return value ? static_cast<float>(*value) : record::kNone;
  };
  row.latency_p50_us = microseconds(report.latency.p50_us);
  row.latency_p99_us = microseconds(report.latency.p99_us);
  row.latency_max_us = microseconds(report.latency.max_us);
  return row;
}

}  // namespace driftd::daemon
