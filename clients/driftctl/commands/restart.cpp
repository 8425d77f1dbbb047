// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/restart.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "clients/driftctl/commands/question.hpp"

namespace driftd::clients {
namespace {

constexpr double kAnewS = 20;  // a camera that has to be found takes seconds

/// Returns once the next session answers: the one that ends refuses everything from now on, and a
/// request that comes as it closes its socket is lost.
void wait_for_answer(const CommonOptions& options, StopSignal& stop) {
  using Clock = std::chrono::steady_clock;
  constexpr double kAskForS = 1;
  constexpr std::chrono::milliseconds kAskEvery(50);
  CommonOptions brief = options;
  brief.timeout_s = std::min(options.timeout_s, kAskForS);
  const double patience_s = std::max(options.timeout_s, kAnewS);
  const auto begin = Clock::now();
  for (;;) {
    std::string why;
    try {
      send(brief, {{"command", "status"}});
      return;
    } catch (const Refused& refused) {
      if (refused.code != "stopping") throw;
      why = refused.what();
    } catch (const Unreachable& unreachable) {
      why = unreachable.what();
    }
    if (Clock::now() - begin > std::chrono::duration<double>(patience_s))
      throw Unreachable(fmt::format(
          "driftd took the command and has not come back within {:g} s: {}. Its journal "
          "says why; where wire.commands or the keys are others by now, it is asked there",
          patience_s, why));
    if (stop.raised()) throw std::runtime_error("not waited for: driftd is starting anew");
    std::this_thread::sleep_for(kAskEvery);
  }
}

void restart(const CommonOptions& options, bool yes) {
  StopSignal stop;
  const nlohmann::json before = send(options, {{"command", "restart"}, {"check", true}}).body;
  if (!options.json) {
    for (const nlohmann::json& lost : before.at("loses"))
      fmt::print("lost by it: {}\n", lost.get<std::string>());
    if (before.at("stays_unlocked").get<bool>())
      fmt::print("it stays unlocked, as it was left, though lock.at_start is on\n");
    std::fflush(stdout);
  }
  if (!yes && !before.at("loses").empty()) {
    if (!is_answerable())
      throw Refused(
          fmt::format("not restarted: {} would be lost by it, and nobody can be asked here; --yes "
                      "has it restarted nonetheless",
                      fmt::join(before["loses"].get<std::vector<std::string>>(), "; ")),
          "refused");
    if (!clients::ask("Restart driftd?", stop)) return;
  }
  const nlohmann::json body = send(options, {{"command", "restart"}}).body;
  wait_for_answer(options, stop);
  if (options.json)
    fmt::print("{}\n", body.dump());
  else
    fmt::print("driftd has started anew\n");
}

}  // namespace

void add_restart(CLI::App& app, const CommonOptions& options) {
  const auto yes = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "restart",
      "Have driftd start anew, while the lock is idle, with what a reload cannot change; tell what "
      "is lost by it first. Returns once it answers again");
  command->add_flag("--yes", *yes,
                    "Ask nothing before that; needed without a terminal where something is lost");
  command->callback([&options, yes] { restart(options, *yes); });
}

}  // namespace driftd::clients
