// SPDX-License-Identifier: MIT
// driftd-web: serves a page that shows running daemons and, where it may, commands them. Command
// line, logging, exit codes.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <csignal>
#include <functional>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/command_line.hpp"
#include "base/monotonic.hpp"
#include "base/process/stop_signal.hpp"
#include "clients/common/find_daemon.hpp"
#include "clients/web/listener.hpp"
#include "clients/web/logins.hpp"
#include "clients/web/page_files.hpp"
#include "clients/web/page_site.hpp"
#include "clients/web/server.hpp"
#include "clients/web/tls.hpp"
#include "clients/web/watched_files.hpp"
#include "config/config.hpp"

namespace driftd::web {
namespace {

enum ExitCode : int { Clean = 0, Internal = 1, Usage = 2, Socket = 5 };

constexpr const char* kFooter =
    "Exit codes: 0 stopped by a signal, 1 internal failure, 2 wrong usage or configuration,\n"
    "5 the address cannot be listened on. SIGHUP reads certificate, key and logins anew.";
constexpr std::chrono::milliseconds kTurn(20);

struct Options {
  std::vector<std::string> configs;  ///< [NAME=]FILE
  std::string listen = "127.0.0.1:19540";
  std::vector<std::string> hosts;
  TlsFiles tls;
  std::filesystem::path logins;
  std::filesystem::path page;
  bool operate = false;

  bool by_tls() const { return !tls.certificate.empty(); }
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

Rules rules_of(const Options& options) {
  Rules rules = {.hosts = {"localhost", "127.0.0.1", "[::1]"},
                 .by_tls = options.by_tls(),
                 .token = random_token()};
  if (!options.listen.starts_with("unix:")) rules.hosts.emplace_back(name_of_host(options.listen));
  for (const std::string& host : options.hosts) {
    if (name_of_host(host) != host || host.empty())
      throw config::ConfigError("--host " + host +
                                ": a name without a port is allowed, such as lab.example.org");
    rules.hosts.push_back(host);
  }
  return rules;
}

/// Why these options do not go together, or "".
std::string conflict_of(const Options& options) {
  if (options.tls.certificate.empty() != options.tls.key.empty())
    return "--certificate and --key: one is of no use without the other";
  if (!options.tls.client_ca.empty() && (!options.by_tls() || options.logins.empty()))
    return "--client-ca: needs --certificate and --key, and --logins that names the certificates";
  if (is_of_this_computer(options.listen) || (options.by_tls() && !options.logins.empty()))
    return {};
  return "--listen " + options.listen +
         ": beside loopback (127.0.0.1:19540, [::1]:19540) and unix:/PATH an address is listened "
         "on "
         "only by TLS and with a login: --certificate, --key and --logins (docs/use/web.md). "
         "Without them other computers reach it behind a proxy that has both, or by "
         "`ssh -L 19540:localhost:19540`";
}

/// A cookie is sent to all ports of a computer: each port has its own.
std::string cookie_at(const std::string& listen) {
  const bool is_file = listen.starts_with("unix:");
  return "__Host-driftd" + (is_file ? std::string() : '-' + listen.substr(listen.rfind(':') + 1));
}

/// What is read from files while it runs: certificate, key and logins.
class Secrets {
 public:
  explicit Secrets(const Options& options)
      : options_(options),
        files_({options.tls.certificate, options.tls.key, options.tls.client_ca, options.logins}) {
    if (!options.logins.empty()) read_logins_file();
    if (options.by_tls()) tls_ = read_tls(options.tls);
  }

  std::vector<Login> logins() const { return logins_; }
  void apply(Server& server) const {
    if (tls_) server.speak_tls(*tls_);
  }

  /// Logins and certificate each for itself: a token is taken back though the certificate is over.
  void read_again(Server& server, PageSite& site) {
    const bool has_logins = options_.logins.empty() || is_read([this] { read_logins_file(); });
    const bool has_tls = !options_.by_tls() || is_read([this] { tls_ = read_tls(options_.tls); });
    if (has_logins && !options_.logins.empty()) site.let_in(logins_);
    if (has_tls) apply(server);
    if (has_logins && has_tls) spdlog::info("read again: {}", in_words());
  }
  bool changed() {
    constexpr std::int64_t kLookNs = kNanosecondsPerSecond;
    if (monotonic_ns() - looked_at_ns_ < kLookNs) return false;
    looked_at_ns_ = monotonic_ns();
    return files_.changed();
  }
  std::string in_words() const {
    const std::string until = tls_ ? "the certificate is good until " + tls_->until : "no TLS";
    return until + "; " +
           (logins_.empty() ? "no logins" : std::to_string(logins_.size()) + " logins");
  }

 private:
  void read_logins_file() { logins_ = read_logins(options_.logins); }
  static bool is_read(const std::function<void()>& read) {
    try {
      read();
      return true;
    } catch (const std::exception& error) {
      spdlog::error("nothing is changed by this file: {}", error.what());
      return false;
    }
  }

  const Options& options_;
  WatchedFiles files_;
  std::optional<TlsContext> tls_;
  std::vector<Login> logins_;
  std::int64_t looked_at_ns_ = 0;
};

int run(const Options& options) {
  StopSignal stop(StopSignal::Hangup::Counted);
  Secrets secrets(options);
  std::optional<Sessions> sessions;
  if (!options.logins.empty()) sessions.emplace(secrets.logins(), cookie_at(options.listen));
  PageSite site(instances_of(options),
                options.page.empty() ? embedded_page() : read_page(options.page), rules_of(options),
                std::move(sessions), DRIFTD_VERSION);
  Server server(options.listen, site);
  secrets.apply(server);
  const bool is_file = server.address().starts_with("unix:");
  const std::string scheme = options.by_tls() ? "https://" : "http://";
  spdlog::info("serving {}{}", is_file ? "" : scheme, server.address() + (is_file ? "" : "/"));
  if (options.by_tls() || !options.logins.empty()) spdlog::info("{}", secrets.in_words());
  server.every(kTurn, [&] {
    if (stop.raised()) server.stop();
    if (stop.hung_up() || secrets.changed()) secrets.read_again(server, site);
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
  app.add_option(
         "--listen", options.listen,
         "ADDRESS:PORT on loopback to serve on, or unix:/PATH; whoever reaches it may look, "
         "unless --logins says who. Another address: with TLS and logins alone")
      ->capture_default_str();
  app.add_option(
      "--certificate", options.tls.certificate,
      "File with the certificate to serve by TLS with, and those that it is signed by; PEM");
  app.add_option("--key", options.tls.key,
                 "File with the key of the certificate, which others may not read; PEM");
  app.add_option("--logins", options.logins,
                 "File that names who may look and who may command: tokens and certificates");
  app.add_option("--client-ca", options.tls.client_ca,
                 "File with the authorities whose certificates browsers may show; PEM");
  app.add_option(
      "--host", options.hosts,
      "A name that browsers call this server by, such as a proxy's; several may be given");
  app.add_flag(
      "--operate", options.operate,
      "Whoever reaches it, or logs in with the role operate, may command, too, as far as driftd "
      "lets the user of this program");
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
  if (const std::string conflict = conflict_of(options); !conflict.empty()) {
    spdlog::critical("{}", conflict);
    return Usage;
  }
  try {
    return run(options);
  } catch (const config::ConfigError& error) {
    std::cerr << error.what() << '\n';
    return Usage;
  } catch (const TlsError& error) {
    spdlog::critical("{}", error.what());
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
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of a file's size fails, and is told
  return driftd::web::start(argc, argv);
}
