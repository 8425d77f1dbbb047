// SPDX-License-Identifier: MIT
#include "base/command_line.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

namespace driftd {
namespace {

using nlohmann::json;

json described(const CLI::Option& option) {
  json names = json::array();
  for (const std::string& name : option.get_snames()) names.push_back('-' + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  const bool positional = names.empty();
  if (positional) names.push_back(option.get_single_name());
  return {{"names", names},
          {"positional", positional},
          {"value", option.get_type_size() == 0 ? "" : option.get_type_name()},
          {"several", option.get_items_expected_max() > 1},
          {"required", option.get_required()},
          {"default", option.get_default_str()},
          {"group", option.get_group()},
          {"text", option.get_description()}};
}

json described(const CLI::App& app) {
  json options = json::array();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) options.push_back(described(*option));
  }
  json commands = json::array();
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) commands.push_back(described(*command));
  }
  return {{"name", app.get_name()},
          {"text", app.get_description()},
          {"end", app.get_footer()},
          {"options", options},
          {"commands", commands}};
}

}  // namespace

void add_standard_flags(CLI::App& app, const std::string& program) {
  app.set_version_flag("--version", program + " " DRIFTD_VERSION);
  app.add_flag_callback("--describe-command-line",
                        [&app] {
                          std::cout << described(app).dump(1) << '\n';
                          throw CLI::Success();
                        })
      ->group("");
}

}  // namespace driftd
