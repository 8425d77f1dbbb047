// SPDX-License-Identifier: MIT
// driftd's configuration file and its drop-ins.
#include "config/config.hpp"

#include "config/drop_ins.hpp"
#include "config/options.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/option_table.hpp"

namespace driftd::fuzz {

void configuration(Bytes bytes) {
  try {
    config::Origins origins;
    const config::Config config = config::load_texts(texts_of(bytes), {}, &origins);
    config::Config again{};
    check_accepted(config::table(), config, origins, again);
    require(config::to_yaml(config) == config::to_yaml(again), "what is written twice is the same");
    require(config::not_reloadable_changes(config, again, false).empty(),
            "the same configuration can be reloaded");
    const double least_px = config::least_side_px(config);
    require(least_px > 0 && least_px < 1e7, "an image has a least size", std::to_string(least_px));
  } catch (const config::ConfigError& error) {
    check_refusal(error.what(), text_of(bytes));
  }
}

}  // namespace driftd::fuzz
