// SPDX-License-Identifier: MIT
// Values set in a configuration file in place: what calibrations do to a user's file.
#include "clients/common/yaml_edit.hpp"

#include "config/config.hpp"
#include "config/options.hpp"
#include "fuzz/fuzz.hpp"

namespace driftd::fuzz {
namespace {

/// With that option as `changed` has it.
std::string all_but(config::Config config, const config::Config& changed, const char* key) {
  const config::Option* option = config::find_option(key);
  option->set(config, option->get(changed));
  return config::to_yaml(config);
}

}  // namespace

void yaml_edit(Bytes bytes) {
  constexpr const char* kKey = "stage.delay_us";
  const std::string text = text_of(bytes);
  std::string edited;
  try {
    edited = clients::with_values(text, {{kKey, "3100"}});
  } catch (const clients::EditError& error) {
    return require(error.what()[0] != '\0', "a refusal says something");
  }
  config::Config before{};
  try {
    before = config::load_text(text, "before");
  } catch (const config::ConfigError&) {
    return;  // as wrong as it was
  }
  try {
    const config::Config after = config::load_text(edited, "after");
    require(all_but(before, after, kKey) == config::to_yaml(after), "nothing else has changed",
            edited);
    require(clients::with_values(edited, {{kKey, "3100"}}) == edited, "twice is once", edited);
  } catch (const config::ConfigError& error) {
    require(false, "what could be loaded can be loaded", error.what());
  }
}

}  // namespace driftd::fuzz
