// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/measure.hpp"

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/monotonic.hpp"
#include "base/process/option_range.hpp"
#include "base/process/stop_signal.hpp"
#include "clients/common/measure/advice.hpp"
#include "clients/common/measure/measurement.hpp"
#include "clients/common/measure/recommendations.hpp"
#include "clients/common/subscriber.hpp"

namespace driftd::clients {
namespace {

void measure(const CommonOptions& options, double seconds) {
  constexpr int kQueueMessages = 10'000;
  StopSignal stop;
  const std::vector<std::string> endpoints =
      publishers_of(options, false);  // nobody there: says so
  Subscriber subscriber(endpoints, {"position", "markers", "event"}, kQueueMessages,
                        sockets_of(options).keys);
  Measurement measurement;
  const std::int64_t end_ns = monotonic_ns() + static_cast<std::int64_t>(seconds * 1e9);
  while (!stop.raised() && monotonic_ns() < end_ns && measurement.problem().empty()) {
    const auto message = subscriber.receive(std::chrono::milliseconds(100));
    if (!message) continue;
    if (message->topic == "position") measurement.add_position(message->body);
    if (message->topic == "markers") measurement.add_markers(message->body);
    if (message->topic == "event") measurement.add_event(message->body);
  }
  if (!measurement.problem().empty())
    throw std::runtime_error(measurement.problem() + ": measure again");
  send(options, {{"command", "status"}});  // is it still there?
  const MeasurementReport report = measurement.report();
  const auto config =
      options.config.empty() ? std::nullopt : std::optional(config::load(options.config));
  const std::vector<Advice> to_do = recommendations(report, config);
  if (options.json) {
    nlohmann::json told = to_json(report);
    told["recommendations"] = to_json(to_do);
    fmt::print("{}\n", told.dump());
    return;
  }
  for (const std::string& line : to_lines(report)) fmt::print("{}\n", line);
  for (const Advice& one : to_do)
    fmt::print("{}{}\n", one.axis.empty() ? "" : one.axis + ": ", one.text);
}

void advise(const CommonOptions& options) {
  const nlohmann::json status = send(options, {{"command", "status"}}).body.at("status");
  const auto advice = advice_of(status);
  if (options.json) {
    fmt::print("{}\n", to_json(advice).dump());
    return;
  }
  for (const Advice& one : advice)
    fmt::print("{}{}\n", one.axis.empty() ? "" : "stage " + one.axis + ": ", one.text);
}

}  // namespace

void add_measure(CLI::App& app, const CommonOptions& options) {
  const auto seconds = std::make_shared<double>(0);
  CLI::App* command = app.add_subcommand(
      "measure",
      "Watch for some seconds, move nothing, and tell drift, noise, vibrations, Allan deviation "
      "and which markers hurt. Ctrl-C: of what has come until then");
  command->add_option("seconds", *seconds, "How long")
      ->required()
      ->check(in_range(1e-3, 21'600, "POSITIVE"));
  command->callback([seconds, &options] { measure(options, *seconds); });
}

void add_advise(CLI::App& app, const CommonOptions& options) {
  app.add_subcommand("advise",
                     "Say how still the lock could be, what is left by what it comes from, which "
                     "vibrations there are, and what would help")
      ->callback([&options] { advise(options); });
}

}  // namespace driftd::clients
