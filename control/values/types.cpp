// SPDX-License-Identifier: MIT
#include "control/values/types.hpp"

namespace driftd::control {

const char* name_of(MarkerHealth health) noexcept {
  switch (health) {
    case MarkerHealth::Good:
      return "good";
    case MarkerHealth::OutsideFrame:
      return "outside_frame";
    case MarkerHealth::FitFailed:
      return "fit_failed";
    case MarkerHealth::Implausible:
      return "implausible";
    case MarkerHealth::Outlier:
      return "outlier";
    case MarkerHealth::Unreferenced:
      return "unreferenced";
  }
  return "unknown";
}

}  // namespace driftd::control
