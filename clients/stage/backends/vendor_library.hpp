// SPDX-License-Identifier: MIT
// The two families of functions that the driver `library` knows; library.cpp chooses between them
// by what the file has. Neither connects yet.
#pragma once

#include <memory>

#include "clients/stage/backends/shared_library.hpp"
#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

/// Mad City Labs' functions (MCL_InitHandle, ...). @throws std::invalid_argument
void check_mad_city_labs_axes(const StageOptions& options);
/// @throws StageError
std::unique_ptr<Stage> use_mad_city_labs(const StageOptions& options,
                                         std::shared_ptr<const SharedLibrary> library);
/// The functions of driftd_stage_library.h. @throws StageError
std::unique_ptr<Stage> use_plain_library(const StageOptions& options,
                                         std::shared_ptr<const SharedLibrary> library);

}  // namespace driftd::stage
