// SPDX-License-Identifier: MIT
// Key files, roles and the folder of clients.
#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "config/access_rules.hpp"
#include "config/key_file.hpp"
#include "config/roles.hpp"
#include "support/catch.hpp"

namespace {
int entries_until_failure = -1;  // of folders that are read; -1: none fails
}

/// The C library's, but for a disk that fails within a folder.
extern "C" dirent* readdir(DIR* folder) {
  static const auto real = reinterpret_cast<dirent* (*)(DIR*)>(dlsym(RTLD_NEXT, "readdir"));
  if (entries_until_failure > 0) --entries_until_failure;
  if (entries_until_failure != 0) return real(folder);
  errno = EIO;
  return nullptr;
}

namespace driftd::config {
namespace {

namespace fs = std::filesystem;

const std::string kFirst = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
const std::string kSecond = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
const std::string kSecret = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";

class Folder {
 public:
  Folder() {
    std::string name = "/tmp/driftd-test-keys-XXXXXX";
    path = mkdtemp(name.data());
    fs::create_directory(path / "clients");
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  fs::path write(const std::string& name, const std::string& text, mode_t mode = 0644) const {
    const fs::path file = path / name;
    std::ofstream(file) << text;
    chmod(file.c_str(), mode);
    return file;
  }
  /// A client's file as pyzmq and CZMQ write it.
  fs::path client(const std::string& name, const std::string& key, const std::string& role) const {
    return write("clients/" + name, "#  a comment\n\nmetadata\n    name = \"x\"\n    role = \"" +
                                        role + "\"\ncurve\n    public-key = \"" + key + "\"\n");
  }
  fs::path server() const {
    return write(
        "server.key_secret",
        "curve\n    public-key = \"" + kFirst + "\"\n    secret-key = \"" + kSecret + "\"\n", 0600);
  }
  Access access() const {
    return {.server_key = server(),
            .clients = path / "clients",
            .observe_group = "",
            .stage_group = "",
            .command_group = ""};
  }
  fs::path path;
};

/// What is refused, without the folder.
template <typename Function>
std::string refusal(const Folder& folder, const Function& function) {
  try {
    function();
  } catch (const ConfigError& error) {
    std::string text = error.what();
    const std::string place = folder.path.string() + "/";
    while (text.find(place) != std::string::npos) text.erase(text.find(place), place.size());
    return text;
  }
  return "";
}

}  // namespace

TEST_CASE("roles are words, one or several", "[config]") {
  CHECK(roles_named("observe") == Roles{.observe = true, .stage = false, .command = false});
  CHECK(roles_named("stage, command") == Roles{.observe = false, .stage = true, .command = true});
  CHECK(roles_named(" command\tstage ") == roles_named("stage,command"));
  for (const char* text : {"", " ", ",", "boss", "observe boss", "Observe", "stagecommand"}) {
    INFO(text);
    const bool none = !roles_named(text).has_value();
    CHECK(none);
  }
  CHECK(text_of(kAllRoles) == "observe, stage, command");
  CHECK(text_of(Roles{}) == "none");
  CHECK(roles_named(text_of(kAllRoles)) == kAllRoles);
}

TEST_CASE("a key is 40 characters of Z85 that stand for 32 bytes", "[config]") {
  CHECK(is_z85_key(kFirst));
  CHECK(is_z85_key(std::string(40, '0')));
  CHECK_FALSE(is_z85_key(kFirst.substr(1)));
  CHECK_FALSE(is_z85_key(kFirst + "0"));
  CHECK_FALSE(is_z85_key("~" + kFirst.substr(1)));
  CHECK_FALSE(is_z85_key("#####" + kFirst.substr(5)));  // more than 32 bits
  CHECK_FALSE(is_z85_key(""));
}

TEST_CASE("key files are read as CZMQ and pyzmq write them, and read back as written", "[config]") {
  const Folder folder;
  const KeyFile made{.public_key = kFirst, .secret_key = kSecret, .metadata = {{"role", "stage"}}};
  const fs::path file = folder.write("own", to_text(made, "first line\nsecond"), 0600);
  const KeyFile read = read_secret_key_file(file, Readers::Nobody);
  CHECK(read.public_key == kFirst);
  CHECK(read.secret_key == kSecret);
  CHECK(read.metadata == made.metadata);
  // pyzmq quotes no metadata; another section is none of ours; Windows ends lines with \r\n.
  const fs::path other = folder.write("other",
                                      "metadata\r\n\trole = observe # why\r\nmore\r\n"
                                      "    public-key = \"no\"\r\ncurve\r\n\tpublic-key = '" +
                                          kSecond + "'\r\n");
  CHECK(read_public_key_file(other).public_key == kSecond);
  CHECK(read_public_key_file(other).metadata.at("role") == "observe");
}

TEST_CASE("what is no key file is refused with one sentence, and no key is shown", "[config]") {
  const Folder folder;
  const auto of = [&](const std::string& text) {
    const fs::path file = folder.write("f", text);
    return refusal(folder, [&] { read_public_key_file(file); });
  };
  const std::string allowed = "allowed 40 characters of Z85 between quotes";
  CHECK(of("") == "f: curve/public-key: found none; " + allowed);
  CHECK(of("public-key = \"" + kFirst + "\"\n") == "f: curve/public-key: found none; " + allowed);
  CHECK(of("curve\n    public-key = \"abc\"\n") ==
        "f:2: curve/public-key: found 3 characters; " + allowed);
  CHECK(of("curve\n    public-key = \"" + std::string(40, '~') + "\"\n") ==
        "f:2: curve/public-key: found 40 characters that are no Z85; " + allowed);
  CHECK(of("curve\n  public-key = \"" + kFirst + "\"\n  public-key = \"" + kFirst + "\"\n") ==
        "f:3: curve/public-key: found twice; allowed once");
  // Whoever reads the first one must not be told another thing than the daemon.
  CHECK(of("metadata\n  role = \"observe\"\nmetadata\n  role = \"command\"\n") ==
        "f:4: metadata/role: found twice; allowed once");
  CHECK(of("curve\n    nonsense\n") ==
        "f:2: found a line without `name = value`; allowed a key file");
  CHECK(of(std::string(70'000, '#')).find("f: found more than 65536 bytes") == 0);
  const std::string both =
      "curve\n  public-key = \"" + kFirst + "\"\n  secret-key = \"" + kSecret + "\"\n";
  CHECK(of(both).find("f: curve/secret-key: found a secret key among public ones") == 0);
  CHECK(of(both).find(kSecret) == std::string::npos);
  CHECK(refusal(folder, [&] { read_key_file(folder.path / "none"); }) ==
        "none: No such file or directory");
  CHECK(refusal(folder, [&] { read_key_file(folder.path / "clients"); }).find("is no file") !=
        std::string::npos);
}

TEST_CASE("a secret key that others may read is refused", "[config]") {
  const Folder folder;
  const fs::path file = folder.server();
  const auto with = [&](mode_t mode, Readers others) {
    chmod(file.c_str(), mode);
    return refusal(folder, [&] { read_secret_key_file(file, others); });
  };
  CHECK(with(0600, Readers::Nobody) == "");
  CHECK(with(0400, Readers::Nobody) == "");
  CHECK(with(0640, Readers::Group) == "");
  CHECK(with(0640, Readers::Nobody) ==
        "server.key_secret: found a secret key with mode 0640; allowed 0600: chmod 0600 "
        "server.key_secret");
  for (const mode_t mode : {0644U, 0604U, 0660U, 0602U}) {
    INFO(mode);
    CHECK(with(mode, Readers::Group).find("found a secret key with mode 0") != std::string::npos);
  }
  const fs::path open = folder.client("a.key", kFirst, "observe");  // a public one, by mistake
  CHECK(refusal(folder, [&] {
          read_secret_key_file(open, Readers::Nobody);
        }).find("clients/a.key: curve/secret-key: found none") == 0);
}

TEST_CASE("who else may bring keys into the folder is refused", "[config]") {
  const Folder folder;
  const fs::path key = folder.client("a.key", kSecond, "observe");
  const auto told = [&] { return refusal(folder, [&] { read_access(folder.access()); }); };
  CHECK(told() == "");
  chmod(folder.path.c_str(), 0777);
  CHECK(told().find("above it; allowed its owner or group: chmod o-w") != std::string::npos);
  chmod(folder.path.c_str(), 01777);  // as /tmp: nobody renames what is another's
  CHECK(told() == "");
  chmod(folder.path.c_str(), 0755);
  fs::create_directory(folder.path / "way");
  fs::create_directory_symlink("../clients", folder.path / "way" / "link");
  Access by_link = folder.access();
  by_link.clients = folder.path / "way" / "link";
  CHECK(read_access(by_link).clients.size() == 1);
  chmod((folder.path / "way").c_str(), 0777);  // everybody may turn the link elsewhere
  CHECK(refusal(folder, [&] { read_access(by_link); }).find("above it") != std::string::npos);
  if (geteuid() != 0) return;  // who may not give files away
  REQUIRE(chown(key.c_str(), 12345, 12345) == 0);
  CHECK(told().find("clients/a.key: found that it belongs to user 12345; allowed root or") == 0);
  REQUIRE(chown(key.c_str(), 0, 0) == 0);
  REQUIRE(chown((folder.path / "clients").c_str(), 12345, 12345) == 0);
  CHECK(told().find("clients: found that it belongs to user 12345") == 0);
  REQUIRE(chown((folder.path / "server.key_secret").c_str(), 12345, 12345) == 0);  // the daemon's
  CHECK(told() == "");
}

TEST_CASE("the clients of a folder have the names and roles of their files", "[config]") {
  const Folder folder;
  folder.client("alice.key", kSecond, "command, stage");
  folder.client("old.key.revoked", kSecond, "boss");
  folder.client(".hidden.key", kSecond, "boss");
  folder.write("clients/README", "people");
  const AccessRules rules = read_access(folder.access());
  CHECK(rules.server_public == kFirst);
  CHECK(rules.server_secret == kSecret);
  REQUIRE(rules.clients.size() == 1);
  CHECK(rules.clients.at(kSecond) ==
        Client{"alice", {.observe = false, .stage = true, .command = true}});
  Access none = folder.access();
  none.server_key.clear();
  CHECK(read_access(none).clients.empty());
}

TEST_CASE("a mistake in the folder of clients is told by its file, and nobody is let in",
          "[config]") {
  const Folder folder;
  folder.client("alice.key", kSecond, "command");
  const auto with = [&](const std::string& name, const std::string& key, const std::string& role) {
    const fs::path file = folder.client(name, key, role);
    const std::string text = refusal(folder, [&] { read_access(folder.access()); });
    fs::remove(file);
    return text;
  };
  const std::string other = kSecret;  // as good a public key as another
  CHECK(with("bob.key", other, "observe") == "");
  CHECK(with("bob.key", kSecond, "observe") ==
        "clients/bob.key: found the key of alice.key; allowed a key once");
  CHECK(with("bob.key", kFirst, "observe") ==
        "clients/bob.key: found the public key of this daemon; allowed a client's");
  CHECK(with("bob.key", other, "boss") ==
        "clients/bob.key: metadata/role: found \"boss\"; allowed observe, stage or command, or "
        "several of them with commas between");
  CHECK(with("two words.key", other, "observe").find("found a name of other characters") !=
        std::string::npos);
  CHECK(with("bob.key_secret", other, "observe").find("found a secret key among public ones") !=
        std::string::npos);
  const fs::path file =
      folder.write("clients/no-role.key", "curve\n    public-key = \"" + other + "\"\n");
  CHECK(refusal(folder, [&] {
          read_access(folder.access());
        }).find("clients/no-role.key: metadata/role: found none") == 0);
  fs::remove(file);
  chmod((folder.path / "clients/alice.key").c_str(), 0666);
  CHECK(refusal(folder, [&] {
          read_access(folder.access());
        }).find("clients/alice.key: found that everybody may write it") == 0);
  chmod((folder.path / "clients/alice.key").c_str(), 0644);
  chmod((folder.path / "clients").c_str(), 0777);
  CHECK(refusal(folder, [&] {
          read_access(folder.access());
        }).find("clients: found that everybody may write it") != std::string::npos);
  fs::remove_all(folder.path / "clients");
  CHECK(refusal(folder, [&] { read_access(folder.access()); }).find("No such file") !=
        std::string::npos);
}

TEST_CASE("a folder of clients that cannot be read to its end takes nobody's key back",
          "[config]") {
  const Folder folder;
  folder.client("bob.key", kSecond, "observe");
  for (const int entries : {0, 2}) {
    const Access access = folder.access();
    entries_until_failure = entries + 1;
    const std::string text = refusal(folder, [&] { read_access(access); });
    CHECK(entries_until_failure == 0);
    entries_until_failure = -1;
    CHECK(text.find("clients: Input/output error") != std::string::npos);
  }
}

TEST_CASE("groups give roles to local users; root and the daemon's user have all", "[config]") {
  const RoleGroups groups{.observe = "daemon", .stage = "", .command = "bin"};
  constexpr uid_t kNobody = 65534;
  CHECK(roles_of_user({}, kNobody, 65534) == kAllRoles);
  CHECK(roles_of_user(groups, 0, 0) == kAllRoles);
  CHECK(roles_of_user(groups, geteuid(), 65534) == kAllRoles);
  CHECK_FALSE(roles_of_user(groups, kNobody, 65534).any());
  CHECK(roles_of_user(groups, kNobody, 1) ==  // gid 1 is `daemon` everywhere
        Roles{.observe = true, .stage = false, .command = false});
  CHECK(roles_of_user({.observe = "", .stage = "no such group", .command = ""}, kNobody, 1) ==
        Roles{});
  Access access{.server_key = "",
                .clients = "",
                .observe_group = "",
                .stage_group = "no such group",
                .command_group = ""};
  CHECK_THROWS_WITH(read_access(access),
                    "access.stage_group: found \"no such group\", which no group of this computer "
                    "is called; allowed a group, or nothing");
}

}  // namespace driftd::config
