// SPDX-License-Identifier: MIT
// The loop's values as rows of a record. Pure functions; those that the loop calls neither allocate
// nor throw.
#pragma once

#include "daemon/loop/loop_values.hpp"
#include "record/rows.hpp"

namespace driftd::daemon {

record::FrameRow frame_row(const FrameResult& result, std::int64_t taken_ns,
                           std::uint32_t reference) noexcept;
/// @param measures_z  from widths
record::LocalizationRow localization_row(std::uint64_t frame_id, const control::Marker& marker,
                                         const control::MarkerObservation& observation,
                                         const control::MarkerResult& result,
                                         const control::AxialResult& axial,
                                         bool measures_z) noexcept;

}  // namespace driftd::daemon
