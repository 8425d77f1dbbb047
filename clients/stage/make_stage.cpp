// SPDX-License-Identifier: MIT
// Which driver makes which Stage.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "clients/stage/backends/backends.hpp"
#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {
namespace {

struct Driver {
  const char* name;
  std::unique_ptr<Stage> (*make)(const StageOptions&);
};
constexpr std::array kDrivers{
    Driver{"pi_gcs2", make_pi_gcs2},
    Driver{"lc400", make_lc400},
    Driver{"asi", make_asi},
    Driver{"piezoconcept", make_piezoconcept},
    Driver{"thorlabs_apt", make_thorlabs_apt},
    Driver{"library", make_library},
    Driver{"program", make_program},
    Driver{"simulator", make_simulator},
};

}  // namespace

std::unique_ptr<Stage> make_stage(const StageOptions& options) {
  const auto found = std::find_if(kDrivers.begin(), kDrivers.end(),
                                  [&](const Driver& one) { return options.driver == one.name; });
  if (found == kDrivers.end()) {
    std::string names;
    for (const Driver& one : kDrivers) names += std::string(names.empty() ? "" : ", ") + one.name;
    throw std::invalid_argument("driver '" + options.driver + "' is not known, expected one of " +
                                names);
  }
  if (options.axes.empty() || options.axes.size() > 3) {
    throw std::invalid_argument("axes names " + std::to_string(options.axes.size()) +
                                " axes, expected 1 to 3");
  }
  if (std::find(options.axes.begin(), options.axes.end(), "") != options.axes.end()) {
    throw std::invalid_argument("an axis has no name");
  }
  if (options.timeout_ms < 1) {
    throw std::invalid_argument("timeout_ms is " + std::to_string(options.timeout_ms) +
                                ", expected 1 or more");
  }
  return found->make(options);
}

}  // namespace driftd::stage
