// SPDX-License-Identifier: MIT
// driftd-web: serves a page that shows running daemons and, where it may, commands them. Command
// line, logging, exit codes.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/random.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <iostream>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/command_line.hpp"
#include "base/process/stop_signal.hpp"
#include "clients/common/find_daemon.hpp"
#include "clients/web/listener.hpp"
#include "clients/web/page_files.hpp"
#include "clients/web/page_site.hpp"
#include "clients/web/server.hpp"
#include "config/config.hpp"

namespace driftd::web {
namespace {

enum ExitCode : int { Clean = 0, Internal = 1, Usage = 2, Socket = 5 };

constexpr const char* kFooter =
    "Exit codes: 0 stopped by a signal, 1 internal failure, 2 wrong usage or configuration,\n"
    "5 the address cannot be listened on.";
constexpr std::chrono::milliseconds kTurn(20);

struct Options {
  std::vector<std::string> configs;  ///< [NAME=]FILE
  std::string listen = "127.0.0.1:19540";
  std::vector<std::string> hosts;
  std::filesystem::path page;
  bool operate = false;
};

/// What systemd takes as an instance, less what would lead out of the folder of the sockets, or has
/// a meaning in an address.
bool is_name(const std::string& name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.";
  return !name.empty() && name.front() != '.' &&
         name.find_first_not_of(kAllowed) == std::string::npos;
}

InstanceOptions instance_of(const std::string& option, bool operate) {
  const std::size_t equals = option.find('=');
  InstanceOptions instance;
  instance.operate = operate;
  instance.in_folder = equals != std::string::npos;
  instance.file = instance.in_folder ? option.substr(equals + 1) : option;
  instance.name = instance.in_folder ? option.substr(0, equals) : instance.file.stem().string();
  if (!is_name(instance.name))
    throw config::ConfigError("--config " + option + ": '" + instance.name +
                              "' is not the name of an instance, such as lab in "
                              "lab=/etc/driftd/driftd-lab.yaml");
  instance.config = config::load(instance.file);
  return instance;
}

std::vector<InstanceOptions> instances_of(const Options& options) {
  std::vector<InstanceOptions> instances;
  std::set<std::string> names;
  for (const std::string& config : options.configs) {
    instances.push_back(instance_of(config, options.operate));
    if (!names.insert(instances.back().name).second)
      throw config::ConfigError("two instances are called " + instances.back().name +
                                ": name them, as in --config lab=" + config);
  }
  if (instances.empty())
    instances.push_back({.name = "driftd",
                         .file = {},
                         .config = config::default_config(),
                         .operate = options.operate});
  return instances;
}

std::string random_token() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::system_error(errno, std::generic_category(), "no random numbers");
  std::string token;
  for (const unsigned char byte : bytes) {
    token += kDigits[byte >> 4U];
    token += kDigits[byte & 15U];
  }
  return token;
}

Rules rules_of(const Options& options) {
  Rules rules = {.hosts = {"localhost", "127.0.0.1", "[::1]"}, .token = random_token()};
  if (!options.listen.starts_with("unix:")) rules.hosts.emplace_back(name_of_host(options.listen));
  for (const std::string& host : options.hosts) {
    if (name_of_host(host) != host || host.empty())
      throw config::ConfigError("--host " + host +
                                ": a name without a port is allowed, such as lab.example.org");
    rules.hosts.push_back(host);
  }
  return rules;
}

int run(const Options& options) {
  StopSignal stop;
  PageSite site(instances_of(options),
                options.page.empty() ? embedded_page() : read_page(options.page), rules_of(options),
                DRIFTD_VERSION);
  Server server(options.listen, site);
  const bool is_file = server.address().starts_with("unix:");
  spdlog::info("serving {}{}", is_file ? "" : "http://", server.address() + (is_file ? "" : "/"));
  server.every(kTurn, [&] {
    if (stop.raised()) server.stop();
    site.turn();
  });
  server.run();
  return Clean;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--config", options.configs,
                 "Configuration file of a driftd that is shown, for its endpoints; NAME=FILE: of "
                 "driftd@NAME; several may be given; without: the default one")
      ->type_name("[NAME=]FILE");
  app.add_option("--listen", options.listen,
                 "ADDRESS:PORT on loopback to serve on, or unix:/PATH; whoever reaches it may look")
      ->capture_default_str();
  app.add_option(
      "--host", options.hosts,
      "A name that browsers call this server by, such as a proxy's; several may be given");
  app.add_flag(
      "--operate", options.operate,
      "Whoever reaches it may command, too, as far as driftd lets the user of this program");
  app.add_option("--page", options.page, "Folder of another page, for who writes one")
      ->check(CLI::ExistingDirectory);
}

int start(int argc, char** argv) {
  CLI::App app("driftd-web serves a page to look at running driftds, and to command them.");
  app.footer(kFooter);
  Options options;
  add_options(app, options);
  add_standard_flags(app, "driftd-web");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? Clean : Usage;
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("driftd-web"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  if (!is_of_this_computer(options.listen)) {
    spdlog::critical(
        "--listen {}: only loopback (127.0.0.1:19540, [::1]:19540) and unix:/PATH are allowed, "
        "since this "
        "server knows neither TLS nor a login; other computers reach it behind a proxy that has "
        "both, or by "
        "`ssh -L 19540:localhost:19540`",
        options.listen);
    return Usage;
  }
  try {
    return run(options);
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
}  // namespace driftd::web

int main(int argc, char** argv) {
  return driftd::web::start(argc, argv);
}
