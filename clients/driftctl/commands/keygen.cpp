// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/keygen.hpp"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "config/key_file.hpp"
#include "config/roles.hpp"

namespace driftd::clients {
namespace {

using std::filesystem::path;

constexpr mode_t kSecret = 0600;
constexpr mode_t kPublic = 0644;

struct KeygenOptions {
  path folder;  ///< empty: the usual one
  std::string name;
  std::string role = "observe";
  bool force = false;
};

config::KeyFile new_pair() {
  constexpr std::size_t kZ85Characters = 40;
  std::array<char, kZ85Characters + 1> public_key{};
  std::array<char, kZ85Characters + 1> secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0)
    throw std::runtime_error("this libzmq makes no CURVE keys");
  return {.public_key = public_key.data(), .secret_key = secret_key.data(), .metadata = {}};
}

void check_free(const path& file, bool force) {
  if (force || !std::filesystem::exists(std::filesystem::symlink_status(file))) return;
  throw std::runtime_error(file.string() +
                           " is there already and stays; --force makes a new pair, and whoever "
                           "has the old key is then refused");
}

/// What is to become a file: whole, on the disk, and beside it until put(); else it goes again.
class NewFile {
 public:
  /// The file has that mode from the first byte on.
  NewFile(path file, const std::string& text, mode_t mode)
      : file_(std::move(file)), temporary_(file_.string() + ".XXXXXX") {
    const int fd = mkostemp(temporary_.data(), O_CLOEXEC);  // for its owner alone
    if (fd < 0) fail();
    const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                         fchmod(fd, mode | owner_as_before(fd)) == 0 && fsync(fd) == 0;
    const int error = errno;
    close(fd);
    errno = error;
    if (written) return;
    unlink(temporary_.c_str());
    errno = error;
    fail();
  }
  ~NewFile() { unlink(temporary_.c_str()); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void put(bool force) {
    const bool done = force ? rename(temporary_.c_str(), file_.c_str()) == 0
                            : link(temporary_.c_str(), file_.c_str()) == 0;
    if (!done) fail();
  }

 private:
  /// Where root replaces the key of the daemon's user it stays that one's.
  /// @returns what its group may, where it is not the usual one
  mode_t owner_as_before(int fd) const {
    struct stat before {};
    if (lstat(file_.c_str(), &before) != 0 || !S_ISREG(before.st_mode)) return 0;
    if (before.st_uid == geteuid() && before.st_gid == getegid()) return 0;
    return fchown(fd, before.st_uid, before.st_gid) == 0 ? before.st_mode & S_IRGRP : 0;
  }

  [[noreturn]] void fail() const {
    throw std::runtime_error(file_.string() + ": " + std::generic_category().message(errno));
  }

  path file_;
  std::string temporary_;
};

/// Both or none: one new file beside an old one would be no pair.
void write_pair(const path& secret, const path& open, const config::KeyFile& pair, bool force) {
  check_free(secret, force);
  check_free(open, force);
  std::filesystem::create_directories(secret.parent_path());
  NewFile new_secret(secret, to_text(pair, "Secret key of driftd or a client: stays where it is."),
                     kSecret);
  config::KeyFile others = pair;
  others.secret_key.clear();
  NewFile new_open(open, to_text(others, "Public key of driftd or a client: may be given away."),
                   kPublic);
  new_open.put(force);
  new_secret.put(force);
  fmt::print("{}: secret, for its owner alone\n{}: public\n\n", secret.string(), open.string());
}

void make_server(const KeygenOptions& options) {
  const path folder = options.folder.empty() ? path("/etc/driftd/keys") : options.folder;
  write_pair(folder / "server.key_secret", folder / "server.key", new_pair(), options.force);
  std::filesystem::create_directories(folder / "clients");
  fmt::print(
      "Next:\n"
      "1. Let the daemon's user read the secret key: sudo chown driftd {0}/server.key_secret\n"
      "2. In the configuration of driftd:\n"
      "     access:\n"
      "       server_key: {0}/server.key_secret\n"
      "       clients: {0}/clients\n"
      "     wire:\n"
      "       commands: [\"ipc://commands\", \"tcp://*:5555\"]\n"
      "       publish: [\"ipc://publish\", \"tcp://*:5556\"]\n"
      "       corrections: [\"ipc://corrections\", \"tcp://*:5557\"]\n"
      "   and restart it: sudo systemctl restart driftd\n"
      "3. Give {0}/server.key to each client, as ~/.config/driftd/servers/HOST.key\n"
      "4. On each client: driftctl keygen client NAME\n",
      std::filesystem::absolute(folder).lexically_normal().string());
}

void make_client(const KeygenOptions& options) {
  if (!config::is_client_name(options.name))
    throw std::runtime_error("'" + options.name +
                             "' is no name for a file: letters, digits, - _ . and @");
  const auto roles = config::roles_named(options.role);
  if (!roles)
    throw std::runtime_error("'" + options.role + "' is no role: allowed are " +
                             std::string(config::kRolesAllowed));
  const path folder = options.folder.empty() ? user_folder() : options.folder;
  if (folder.empty()) throw std::runtime_error("there is no HOME for the keys: --directory");
  config::KeyFile pair = new_pair();
  pair.metadata = {{"name", options.name}, {"role", config::text_of(*roles)}};
  write_pair(folder / "client.key_secret", folder / (options.name + ".key"), pair, options.force);
  fmt::print(
      "Next:\n"
      "1. Bring {0}.key to the daemon's computer, into the folder of its access.clients, such as "
      "/etc/driftd/keys/clients/\n"
      "   (its role is {1}: whoever looks after the daemon may change that in the file)\n"
      "2. There: sudo systemctl reload driftd\n"
      "3. Put the daemon's server.key here: {2}\n"
      "4. driftctl --connect tcp://HOST:5555 status\n",
      options.name, config::text_of(*roles), (user_folder() / "servers" / "HOST.key").string());
}

}  // namespace

void add_keygen(CLI::App& app) {
  const auto options = std::make_shared<KeygenOptions>();
  CLI::App* keygen = app.add_subcommand(
      "keygen", "Make keys, for a driftd that other computers reach; prints what to do next");
  keygen->require_subcommand(1);
  const auto add = [&](const char* name, const char* text, const char* folder) {
    CLI::App* command = keygen->add_subcommand(name, text);
    command->add_option("--directory", options->folder,
                        std::string("Folder to put them in; without: ") + folder);
    command->add_flag("--force", options->force, "Replace keys that are there");
    return command;
  };
  add("server", "The daemon's own pair: server.key_secret and server.key", "/etc/driftd/keys")
      ->callback([options] { make_server(*options); });
  CLI::App* client =
      add("client", "A client's pair: client.key_secret and NAME.key", "~/.config/driftd");
  client->add_option("name", options->name, "What the daemon calls it")->required();
  client
      ->add_option("--role", options->role,
                   "What it asks to be: observe, stage, command, or several with commas between")
      ->capture_default_str();
  client->callback([options] { make_client(*options); });
}

void add_access(CLI::App& app, const CommonOptions& options) {
  app.add_subcommand("access", "Print who you are to the daemon and what you may do")
      ->callback([&options] {
        const nlohmann::json body = send(options, {{"command", "access"}}).body;
        if (options.json) {
          fmt::print("{}\n", body.dump());
          return;
        }
        fmt::print("{}: {}\nmay {}\n", body.at("name").get<std::string>(),
                   body.at("roles").get<std::string>(), body.at("commands").get<std::string>());
      });
}

}  // namespace driftd::clients
