// SPDX-License-Identifier: MIT
#include "fitter/localization.hpp"

namespace driftd::fitter {

const char* name_of(FitStatus status) noexcept {
  switch (status) {
    case FitStatus::ConvergedResiduum:
      return "converged (residuum)";
    case FitStatus::ConvergedDecrease:
      return "converged (decrease)";
    case FitStatus::ConvergedStep:
      return "converged (step)";
    case FitStatus::IterationLimit:
      return "iteration limit";
    case FitStatus::NotConverged:
      return "not converged";
    case FitStatus::BadInput:
      return "bad input";
  }
  return "unknown";
}

}  // namespace driftd::fitter
