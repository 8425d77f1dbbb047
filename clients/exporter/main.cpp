// SPDX-License-Identifier: MIT
// driftd-exporter: tells Prometheus of a driftd. It subscribes and serves; it asks the daemon
// nothing and cannot command it. Command line, logging, exit codes.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <optional>
#include <thread>

#include "base/command_line.hpp"
#include "base/monotonic.hpp"
#include "base/process/stop_signal.hpp"
#include "clients/common/find_daemon.hpp"
#include "clients/exporter/daemon_watch.hpp"
#include "clients/exporter/http_server.hpp"
#include "clients/exporter/metrics.hpp"
#include "config/config.hpp"
#include "config/endpoint.hpp"

namespace driftd::exporter {
namespace {

enum ExitCode : int { Clean = 0, Internal = 1, Usage = 2, Socket = 5 };

constexpr const char* kFooter =
    "Exit codes: 0 stopped by a signal, 1 internal failure, 2 wrong usage or configuration,\n"
    "5 the address cannot be listened on.";

using std::chrono::milliseconds;

/// Follows the daemon, wherever it listens and whenever it starts.
class Follower {
 public:
  Follower(std::string endpoint, clients::ServerKeys keys, DaemonWatch& watch)
      : endpoint_(std::move(endpoint)), keys_(std::move(keys)), watch_(watch) {}

  /// One turn of at most 0.2 s.
  void turn() {
    if (!subscriber_ && !connect()) {
      std::this_thread::sleep_for(kTurn);
      return;
    }
    if (const auto message = subscriber_->receive(kTurn)) {
      watch_.take(*message, monotonic_ns());
    } else if (monotonic_ns() >= look_again_ns_ && watch_.is_silent(monotonic_ns())) {
      subscriber_.reset();  // it may be in another folder by now
    }
  }

 private:
  static constexpr milliseconds kTurn{200};
  static constexpr int kQueueMessages = 10'000;
  static constexpr std::int64_t kLookAgainNs = 10 * kNanosecondsPerSecond;

  bool connect() {
    try {
      const std::string place = clients::find_endpoint(endpoint_);
      subscriber_.emplace(std::vector{place}, std::vector<std::string>{"status", "event"},
                          kQueueMessages, keys_);
      look_again_ns_ = monotonic_ns() + kLookAgainNs;
      if (place != place_ || !problem_.empty()) spdlog::info("subscribed at {}", place);
      place_ = place;
      problem_.clear();
      return true;
    } catch (const clients::Unreachable& error) {
      if (problem_ != error.what()) spdlog::warn("{}", error.what());
      problem_ = error.what();
      return false;
    }
  }

  std::string endpoint_;
  clients::ServerKeys keys_;
  DaemonWatch& watch_;
  std::optional<clients::Subscriber> subscriber_;
  std::string place_, problem_;  ///< told last
  std::int64_t look_again_ns_ = 0;
};

Page serve(const DaemonWatch& watch, const HttpRequest& request) {
  if (request.path == "/metrics") {
    const Format format = format_for(request.accept);
    return {.type = std::string(content_type(format)),
            .body = exposition(watch.document(monotonic_ns()), format)};
  }
  if (request.path == "/")
    return {.type = "text/html; charset=utf-8",
            .body =
                "<!DOCTYPE html><title>driftd-exporter</title>"
                "<p>driftd-exporter: <a href=\"/metrics\">metrics</a>\n"};
  return {.status = 404, .body = "there is /metrics\n"};
}

int run(const config::Wire& wire, const clients::ServerKeys& keys, const std::string& listen) {
  StopSignal stop;
  DaemonWatch watch(wire.status_interval_ms * std::int64_t{1'000'000}, DRIFTD_VERSION);
  HttpServer server(listen, [&](const HttpRequest& request) { return serve(watch, request); });
  spdlog::info("serving http://{}/metrics", server.address());
  std::thread serving([&] { server.run(); });
  const auto local = std::ranges::find_if_not(wire.publish, config::is_tcp);
  Follower follower(local != wire.publish.end() ? *local : wire.publish.front(), keys, watch);
  try {
    while (!stop.raised()) follower.turn();
  } catch (...) {
    server.stop();
    serving.join();
    throw;
  }
  server.stop();
  serving.join();
  return Clean;
}

int start(int argc, char** argv) {
  CLI::App app("driftd-exporter tells Prometheus of a running driftd.");
  app.footer(kFooter);
  std::filesystem::path file;
  std::string publish;
  std::string listen = "127.0.0.1:19539";
  bool list = false;
  clients::KeyFiles keys;
  app.add_option("--config", file,
                 "Configuration file of driftd, for its endpoint; without: the default one")
      ->check(CLI::ExistingFile);
  app.add_option("--publish", publish, "Publishing endpoint of driftd, over the file's");
  app.add_option("--key", keys.key,
                 "File with the key of this program, for a driftd on another computer");
  app.add_option("--server-key", keys.server, "File with the public key of that driftd");
  app.add_option("--listen", listen, "ADDRESS:PORT to serve on; whoever reaches it may read")
      ->capture_default_str();
  app.add_flag("--list-metrics", list, "Print a table of the metrics, and exit");
  add_standard_flags(app, "driftd-exporter");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? Clean : Usage;
  }
  if (list) {
    std::cout << markdown();
    return Clean;
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("driftd-exporter"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  try {
    config::Wire wire = (file.empty() ? config::default_config() : config::load(file)).wire;
    if (!publish.empty()) wire.publish = {publish};
    clients::ServerKeys server_keys;
    if (!keys.key.empty() || !keys.server.empty())
      server_keys = clients::read_server_keys(keys, wire.publish.front());
    return run(wire, server_keys, listen);
  } catch (const config::ConfigError& error) {
    std::cerr << error.what() << '\n';
    return Usage;
  } catch (const clients::BadEndpoint& error) {
    spdlog::critical("{}", error.what());
    return Usage;
  } catch (const ListenError& error) {
    spdlog::critical("{}", error.what());
    return Socket;
  } catch (const std::exception& error) {
    spdlog::critical("internal failure: {}", error.what());
    return Internal;
  }
}

}  // namespace
}  // namespace driftd::exporter

int main(int argc, char** argv) {
  return driftd::exporter::start(argc, argv);
}
