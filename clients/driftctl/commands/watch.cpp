// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/watch.hpp"

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/monotonic.hpp"
#include "base/process/option_range.hpp"
#include "base/process/stop_signal.hpp"
#include "clients/common/plain.hpp"
#include "clients/common/shown/daemon_view.hpp"
#include "clients/common/shown/display.hpp"
#include "clients/common/subscriber.hpp"

namespace driftd::clients {
namespace {

void print_lines(const std::vector<Line>& lines) {
  for (const Line& line : lines) fmt::print("{}\n", line.text);
}

void print_status(const CommonOptions& options) {
  const Reply reply = send(options, {{"command", "status"}});
  if (options.json) {
    fmt::print("{}\n", reply.body.at("status").dump());
    return;
  }
  DaemonView view;
  const std::int64_t now_ns = monotonic_ns();
  view.set_status(reply.body.at("status"), now_ns);
  print_lines(view.summary(now_ns));
}

void watch(const CommonOptions& options, double for_s) {
  constexpr int kQueueMessages = 10'000;
  StopSignal stop;
  // Says at once when nobody is there, which a subscription alone never would.
  const std::vector<std::string> endpoints = publishers_of(options, true);
  Subscriber subscriber(endpoints, {}, kQueueMessages, sockets_of(options).keys);
  DaemonView view;
  view.set_status(send(options, {{"command", "status"}}).body.at("status"), monotonic_ns());
  Display display;
  const std::int64_t end_ns = monotonic_ns() + static_cast<std::int64_t>(for_s * 1e9);
  while (!stop.raised() && (for_s <= 0 || monotonic_ns() < end_ns)) {
    const auto message = subscriber.receive(std::chrono::milliseconds(100));
    if (message) view.update(*message, monotonic_ns());
    if (!options.json) {
      display.show(view, "");
    } else if (message) {
      fmt::print("{} {}\n", plain(message->topic), plain(message->text));
      std::fflush(stdout);
    }
  }
}

}  // namespace

void add_status(CLI::App& app, const CommonOptions& options) {
  app.add_subcommand("status", "Print the state, the camera, the drift and the latency")
      ->callback([&options] { print_status(options); });
}

void add_watch(CLI::App& app, const CommonOptions& options) {
  const auto for_s = std::make_shared<double>(0);  // until interrupted
  CLI::App* command = app.add_subcommand(
      "watch", "The same and the markers, live, until Ctrl-C; one line a second into a pipe");
  command->add_option("--for", *for_s, "Stop after this many seconds")
      ->check(in_range(1e-3, 1e8, "POSITIVE"));
  command->callback([for_s, &options] { watch(options, *for_s); });
}

}  // namespace driftd::clients
