// SPDX-License-Identifier: MIT
// The controllers that make_stage() knows: one function each, in the file of that name. They check
// the options and open nothing yet. All throw std::invalid_argument.
#pragma once

#include <memory>

#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

std::unique_ptr<Stage> make_pi_gcs2(const StageOptions& options);
std::unique_ptr<Stage> make_lc400(const StageOptions& options);
std::unique_ptr<Stage> make_asi(const StageOptions& options);
std::unique_ptr<Stage> make_piezoconcept(const StageOptions& options);
std::unique_ptr<Stage> make_thorlabs_apt(const StageOptions& options);
std::unique_ptr<Stage> make_library(const StageOptions& options);
std::unique_ptr<Stage> make_program(const StageOptions& options);
std::unique_ptr<Stage> make_simulator(const StageOptions& options);

}  // namespace driftd::stage
