// SPDX-License-Identifier: MIT
// driftd-stage's configuration file and its drop-ins.
#include "clients/stage/config.hpp"

#include <stdexcept>

#include "clients/stage/interface/stage.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/option_table.hpp"

namespace driftd::fuzz {

void stage_configuration(Bytes bytes) {
  stage::Config config{};
  config::Origins origins;
  try {
    origins = config::read_texts(stage::table(), texts_of(bytes), config);
  } catch (const config::ConfigError& error) {
    return check_refusal(error.what(), text_of(bytes));
  }
  stage::Config again{};
  check_accepted(stage::table(), config, origins, again);
  for (const stage::AxisSettings* axis : {&config.x, &config.y}) {
    require(axis->min_nm < axis->max_nm, "an axis has a travel");
    require(axis->step_limit_nm <= axis->range_limit_nm, "a step lies within the range");
  }
  if (config.controller.driver == "library") return;  // loads it
  try {                                               // opens nothing
    stage::make_stage(stage::options_of(config.controller, {config.x.axis, config.y.axis}));
  } catch (const std::invalid_argument& error) {
    require(error.what()[0] != '\0', "a refusal says something");
  }
}

}  // namespace driftd::fuzz
