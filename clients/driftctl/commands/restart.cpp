// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/restart.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <memory>

#include "clients/driftctl/commands/question.hpp"

namespace driftd::clients {
namespace {

void restart(const CommonOptions& options, bool asks) {
  StopSignal stop;
  const nlohmann::json before = send(options, {{"command", "restart"}, {"check", true}}).body;
  if (!options.json) {
    for (const nlohmann::json& lost : before.at("loses"))
      fmt::print("lost by it: {}\n", lost.get<std::string>());
    if (before.at("stays_unlocked").get<bool>())
      fmt::print("it stays unlocked, as it was left, though lock.at_start is on\n");
    std::fflush(stdout);
  }
  if (asks && !before.at("loses").empty() && !clients::ask("Restart driftd?", stop)) return;
  const nlohmann::json body = send(options, {{"command", "restart"}}).body;
  if (options.json)
    fmt::print("{}\n", body.dump());
  else
    fmt::print("driftd starts anew\n");
}

}  // namespace

void add_restart(CLI::App& app, const CommonOptions& options) {
  const auto yes = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "restart",
      "Have driftd start anew, while the lock is idle, with what a reload cannot change; tell what "
      "is lost by it first");
  command->add_flag("--yes", *yes, "Ask nothing before that");
  command->callback([&options, yes] { restart(options, !*yes && is_answerable()); });
}

}  // namespace driftd::clients
