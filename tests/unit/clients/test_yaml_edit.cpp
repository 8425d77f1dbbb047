// SPDX-License-Identifier: MIT
// Values set in configuration files: what else stands there stays, and nothing is half done.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "clients/common/replace_file.hpp"
#include "clients/common/yaml_edit.hpp"
#include "config/config.hpp"
#include "support/catch.hpp"

namespace driftd::clients {
namespace {

namespace fs = std::filesystem;

std::string set(const std::string& text, const std::string& key, const std::string& value) {
  return with_values(text, {{key, value}});
}

std::string why_not(const std::string& text, const std::string& key, const std::string& value) {
  try {
    return "no refusal, but\n" + set(text, key, value);
  } catch (const EditError& error) {
    return error.what();
  }
}

constexpr const char* kDelay = "stage.delay_us";
constexpr const char* kMatrix = "stage.image_to_stage";
constexpr const char* kTurned = "[[0.5, -1], [1, 0.5]]";

struct Edited {
  const char *before, *key, *value, *after;
};

TEST_CASE("a value is set where it stands") {
  const auto [before, key, value, after] = GENERATE(
      Edited{"stage:\n  delay_us: 3000\n", kDelay, "3100", "stage:\n  delay_us: 3100\n"},
      Edited{"stage:\n  delay_us:   3000   # sheet\n\n# end", kDelay, "50",
             "stage:\n  delay_us:   50   # sheet\n\n# end"},
      Edited{"stage:\r\n    delay_us: '3000' # c\r\n    time_constant_us: 1\r\n", kDelay, "5",
             "stage:\r\n    delay_us: 5 # c\r\n    time_constant_us: 1\r\n"},
      Edited{"\xef\xbb\xbfstage: {delay_us: 3000, time_constant_us: 1}", kDelay, "5",
             "\xef\xbb\xbfstage: {delay_us: 5, time_constant_us: 1}"},
      Edited{"# \xc3\xa4\xc3\xb6\nstage: {time_constant_us: 1, \"delay_us\": 3000}", kDelay, "5",
             "# \xc3\xa4\xc3\xb6\nstage: {time_constant_us: 1, \"delay_us\": 5}"},
      Edited{"---\nstage:\n  delay_us:\nlog:\n  level: info\n...\n", kDelay, "5",
             "---\nstage:\n  delay_us: 5\nlog:\n  level: info\n...\n"},
      Edited{"stage:\n  delay_us: ~ # none\n", kDelay, "5", "stage:\n  delay_us: 5 # none\n"},
      Edited{"stage:\n  ? delay_us\n  : 3000\n", kDelay, "5", "stage:\n  ? delay_us\n  : 5\n"},
      Edited{"{stage: {delay_us: 3000}, log: {level: info}}\n", kDelay, "5",
             "{stage: {delay_us: 5}, log: {level: info}}\n"},
      Edited{"camera:\n  id: |  # two lines\n    # no comment\n    delay_us: 7\nstage:\n"
             "  delay_us: 3000\n",
             kDelay, "5",
             "camera:\n  id: |  # two lines\n    # no comment\n    delay_us: 7\nstage:\n"
             "  delay_us: 5\n"},
      Edited{"fitter:\n  cuda:\n    device: 0\n  roi_px: 9\n", "fitter.cuda.device", "1",
             "fitter:\n  cuda:\n    device: 1\n  roi_px: 9\n"});
  CAPTURE(before);
  CHECK(set(before, key, value) == after);
}

TEST_CASE("a matrix is set element by element, in whatever layout") {
  const auto [before, after] = GENERATE(
      std::pair{"stage:\n  image_to_stage: [[1, 0], [0, 1]]\n",
                "stage:\n  image_to_stage: [[0.5, -1], [1, 0.5]]\n"},
      std::pair{
          "stage:\n  image_to_stage: [[1, 0],   # x\n                   [0, 1]]   # y\n",
          "stage:\n  image_to_stage: [[0.5, -1],   # x\n                   [1, 0.5]]   # y\n"},
      std::pair{
          "stage:\n  image_to_stage:  # of 2024\n    - [1, 0]\n    # y:\n    - - 0\n      - 1\n",
          "stage:\n  image_to_stage:  # of 2024\n    - [0.5, -1]\n    # y:\n    - - 1\n"
          "      - 0.5\n"},
      std::pair{"stage: {image_to_stage: [['1', 0,], [0, 1,],]}",
                "stage: {image_to_stage: [[0.5, -1,], [1, 0.5,],]}"});
  CHECK(set(before, kMatrix, kTurned) == after);
}

TEST_CASE("a value of another shape is replaced as a whole, unless a comment were lost") {
  CHECK(set("stage:\n  image_to_stage:  # c\n    - 1\n    - 2  # d\nlog: {}\n", kMatrix, kTurned) ==
        "stage:\n  image_to_stage: [[0.5, -1], [1, 0.5]]  # c  # d\nlog: {}\n");
  CHECK(set("stage: {image_to_stage: [1,\n  2]}", kMatrix, "7") == "stage: {image_to_stage: 7}");
  CHECK(set("stage:\n  image_to_stage: unity\n   or so\n", kMatrix, kTurned) ==
        "stage:\n  image_to_stage: [[0.5, -1], [1, 0.5]]\n");
  CHECK(why_not("stage:\n  image_to_stage: [1,  # c\n  2]\n", kMatrix, kTurned) ==
        "stage.image_to_stage has a comment within its value, which would be lost");
  CHECK(why_not("stage:\n  image_to_stage:\n    # c\n    - 1\n", kMatrix, kTurned) ==
        "stage.image_to_stage has a comment within its value, which would be lost");
}

TEST_CASE("a missing key comes at the end of its section, a missing section at the end") {
  const auto [before, after] = GENERATE(
      std::pair{"", "stage:\n  delay_us: 5\n"}, std::pair{"\n", "\nstage:\n  delay_us: 5\n"},
      std::pair{"# nothing yet\n", "# nothing yet\nstage:\n  delay_us: 5\n"},
      std::pair{"# nothing yet", "# nothing yet\nstage:\n  delay_us: 5"},
      std::pair{"---\n# c\n...\n", "---\n# c\nstage:\n  delay_us: 5\n...\n"},
      std::pair{"log:\n    level: info", "log:\n    level: info\nstage:\n    delay_us: 5"},
      std::pair{"log:\n  level: info\n\nwire:\n  publish: a\n",
                "log:\n  level: info\n\nwire:\n  publish: a\n\nstage:\n  delay_us: 5\n"},
      std::pair{"log:\r\n  level: info\r\n",
                "log:\r\n  level: info\r\nstage:\r\n  delay_us: 5\r\n"},
      std::pair{"stage:\n", "stage:\n  delay_us: 5\n"},
      std::pair{"stage:", "stage:\n  delay_us: 5"},
      std::pair{"stage:  # c\n   # time_constant_us: 1\n   # b: 2\nlog: {}\n",
                "stage:  # c\n   # time_constant_us: 1\n   # b: 2\n   delay_us: 5\nlog: {}\n"},
      std::pair{"stage: ~\n", "stage: {delay_us: 5}\n"},
      std::pair{"stage: {}\n", "stage: {delay_us: 5}\n"},
      std::pair{"stage: {time_constant_us: 1,  # c\n  }\n",
                "stage: {time_constant_us: 1, delay_us: 5  # c\n  }\n"},
      std::pair{"{log: {level: info}}", "{log: {level: info}, stage: {delay_us: 5}}"},
      std::pair{"{stage: }", "{stage: {delay_us: 5} }"}, std::pair{"{}", "{stage: {delay_us: 5}}"},
      std::pair{
          "stage:\n\n  time_constant_us: 1  # c\n  # d: 1\n\n# of the log\nlog:\n  level: info\n",
          "stage:\n\n  time_constant_us: 1  # c\n  # d: 1\n  delay_us: 5\n\n# of the log\nlog:\n"
          "  level: info\n"},
      std::pair{"stage:\n  image_to_stage:\n  - [1, 0]\n  - [0, 1]\nlog: {}\n",
                "stage:\n  image_to_stage:\n  - [1, 0]\n  - [0, 1]\n  delay_us: 5\nlog: {}\n"},
      std::pair{"  stage:\n      time_constant_us:\n",
                "  stage:\n      time_constant_us:\n"
                "      delay_us: 5\n"});
  CAPTURE(before);
  CHECK(set(before, kDelay, "5") == after);
}

TEST_CASE("a section within a section is made with what it stands in") {
  CHECK(set("fitter:\n  roi_px: 9\n", "fitter.cuda.device", "1") ==
        "fitter:\n  roi_px: 9\n  cuda:\n    device: 1\n");
  CHECK(set("fitter: {}\n", "fitter.cuda.device", "1") == "fitter: {cuda: {device: 1}}\n");
  CHECK(set("log: {}\n", "fitter.cuda.device", "1") ==
        "log: {}\nfitter:\n  cuda:\n    device: 1\n");
}

TEST_CASE("what cannot be edited is refused with a reason") {
  CHECK(why_not("a: &s {delay_us: 1}\nstage: *s\n", kDelay, "5") ==
        "stage.delay_us has an anchor or repeats one (`&`, `*`)");
  CHECK(why_not("stage: &s\n  delay_us: 1\nb: *s\n", kDelay, "5") ==
        "stage.delay_us has an anchor or repeats one (`&`, `*`)");
  CHECK(why_not("stage:\n  delay_us: &d 1\n  time_constant_us: *d\n", kDelay, "5") ==
        "stage.delay_us has an anchor or repeats one (`&`, `*`)");
  CHECK(why_not("stage:\n  <<: {delay_us: 1}\n", kDelay, "5") ==
        "stage.delay_us stands beside a merged mapping (`<<`)");
  CHECK(why_not("stage:\n  delay_us: 1\n  delay_us: 2\n", kDelay, "5") ==
        "stage.delay_us occurs twice");
  CHECK(why_not("stage: {a: 1}\nstage: {b: 1}\n", kDelay, "5") == "stage.delay_us occurs twice");
  CHECK(why_not("stage:\n  delay_us: !!float 1\n", kDelay, "5") ==
        "stage.delay_us has a tag (`tag:yaml.org,2002:float`)");
  CHECK(why_not("stage: 5\n", kDelay, "5") ==
        "stage.delay_us belongs into something that is no mapping");
  CHECK(why_not("- 5\n", kDelay, "5") ==
        "stage.delay_us belongs into something that is no mapping");
  CHECK(why_not("stage:\n  delay_us: [1\n", kDelay, "5").starts_with("not valid YAML"));
  CHECK(why_not("stage:\n\tdelay_us: 1\n", kDelay, "5").starts_with("not valid YAML"));
  CHECK_THROWS_AS(set("", kDelay, "5\nlog: {}"), std::invalid_argument);
}

TEST_CASE("anchors elsewhere and tabs that are no indentation do not matter") {
  CHECK(set("a: &a 1\nb: *a\nstage:\n  delay_us:\t1\t# c\n", kDelay, "5") ==
        "a: &a 1\nb: *a\nstage:\n  delay_us:\t5\t# c\n");
}

/// A file made up of sections, keys and comments in many layouts, and what it says.
class MadeUpFile {
 public:
  explicit MadeUpFile(unsigned seed) : random_(seed) {
    newline_ = chance(4) ? "\r\n" : "\n";
    unit_ = std::string(pick(1, 5), ' ');
    if (chance(6)) text_ += "\xef\xbb\xbf";
    if (chance(6)) text_ += "---" + newline_;
    for (const char* section : {"camera", "stage", "control", "fitter"}) {
      noise("");
      if (!chance(5)) add_section(section);
    }
    noise("");
    if (chance(5)) text_.resize(text_.find_last_not_of("\r\n") + 1);
  }
  const std::string& text() const { return text_; }
  unsigned pick(unsigned low, unsigned high) {
    return std::uniform_int_distribution<unsigned>(low, high)(random_);
  }

 private:
  bool chance(unsigned one_in) { return pick(1, one_in) == 1; }
  std::string comment() {
    const char* const words[] = {"# stage: {delay_us: 1}", "# it's \"open", "#", "# delay_us: 7"};
    return words[pick(0, 3)];
  }
  void noise(const std::string& indentation) {
    while (chance(3)) text_ += (chance(2) ? "" : indentation + comment()) + newline_;
  }
  void end_line() { text_ += (chance(3) ? "  " + comment() : "") + newline_; }

  void add_section(const std::string& name) {
    const char* const keys[] = {"delay_us", "image_to_stage", "id", "gain"};
    text_ += name + ":";
    if (chance(5)) {
      text_ += " {";
      bool first = true;
      for (const char* key : keys) {
        if (chance(2)) continue;
        text_ += std::string(first ? "" : chance(3) ? " ,\n  " : ", ") + key + ": " + scalar(true);
        first = false;
      }
      text_ += chance(3) && !first ? ", }" : "}";
      end_line();
      return;
    }
    end_line();
    for (const char* key : keys) {
      noise(unit_);
      if (chance(2)) continue;
      text_ += unit_ + (chance(6) ? "\"" + std::string(key) + "\"" : key) + ":";
      add_value();
    }
  }
  std::string scalar(bool in_flow) {
    const char* const values[] = {"3000", "'it''s # 5'", "\"a \\\" # b\"", "-1.5e3", "~",
                                  "a b",  "x#y",         "http://a:5"};
    return values[pick(0, in_flow ? 5 : 7)];
  }
  void add_value() {
    const std::string deeper = unit_ + unit_;
    switch (pick(0, 5)) {
      case 0:
        text_ += " [[1, 0], [0, 1]]";
        break;
      case 1:
        text_ += " [[1, 0]," + newline_ + deeper + " [0, 1]]";
        break;
      case 2:
        end_line();
        text_ += deeper + "- [1, 0]" + newline_ + deeper + "- - 0" + newline_ + deeper + "  - 1";
        break;
      case 3:
        text_ += " |" + newline_ + deeper + "# text" + newline_ + deeper + "more: text" + newline_;
        return;
      default:
        text_ += " " + scalar(false);
    }
    end_line();
  }

  std::mt19937 random_;
  std::string text_, newline_, unit_;
};

/// Every comment and every other thing of the file that is no value, in order.
std::map<std::string, std::string> flat(const YAML::Node& node, const std::string& path = "") {
  std::map<std::string, std::string> all;
  if (node.IsMap()) {
    for (const auto& entry : node) {
      all.merge(flat(entry.second, path + (path.empty() ? "" : ".") + entry.first.Scalar()));
    }
  } else if (!node.IsNull() || path.find('.') != std::string::npos) {
    YAML::Emitter out;
    out.SetSeqFormat(YAML::Flow);
    out << node;
    all[path] = out.c_str();
  }
  return all;
}

/// Whether `part` comes out of `whole` by leaving bytes out.
bool is_contained(const std::string& part, const std::string& whole) {
  std::size_t found = 0;
  for (const char c : whole) {
    if (found < part.size() && part[found] == c) ++found;
  }
  return found == part.size();
}

TEST_CASE("in made up files exactly what was asked for changes") {
  int edited = 0, refused = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    MadeUpFile file(seed);
    const char* const keys[] = {"stage.delay_us", "stage.image_to_stage", "control.gain",
                                "camera.id", "fitter.cuda.device"};
    const std::string key = keys[file.pick(0, 4)];
    const std::string value = file.pick(0, 1) == 0 ? "3100.5" : kTurned;
    const std::string& before = file.text();
    CAPTURE(seed, before, key, value);
    std::string after;
    try {
      after = set(before, key, value);
    } catch (const EditError& error) {
      INFO(error.what());
      // A block of text that ends with the file has no line end there, and would get one.
      REQUIRE(before.ends_with("more: text"));
      ++refused;
      continue;
    }
    ++edited;
    auto expected = flat(YAML::Load(before));
    auto found = flat(YAML::Load(after));
    REQUIRE(found.count(key) == 1);
    CHECK(YAML::Load(found[key]).IsSequence() == (value == kTurned));
    found.erase(key);
    expected.erase(key);
    REQUIRE(found == expected);
    // Nothing but the old value is missing: of a new key, nothing at all.
    if (flat(YAML::Load(before)).count(key) == 0 && before.find("~") == std::string::npos) {
      REQUIRE(is_contained(before, after));
    }
    REQUIRE(std::ranges::count(before, '#') <= std::ranges::count(after, '#') + 3);
    REQUIRE(set(after, key, value) == after);  // and again: nothing more
  }
  CHECK(edited > 3900);
  CHECK(refused < 100);
}

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "driftd-yaml-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

 private:
  fs::path path_;
};

void write(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string why_not_set(const fs::path& file, const KeyValues& values) {
  try {
    set_values(file, values);
  } catch (const EditError& error) {
    return error.what();
  }
  return "no refusal";
}

TEST_CASE("a file is replaced, and the old one lies beside it") {
  const Folder folder;
  const fs::path file = folder / "driftd.yaml";
  const std::string text = "stage:\n  delay_us: 3000  # c\n";
  write(file, text);
  fs::permissions(file, fs::perms(0640));
  fs::create_symlink("driftd.yaml", folder / "link.yaml");

  const fs::path old =
      set_values(folder / "link.yaml", {{kDelay, "3100"}, {"control.integral", "0.25"}});
  CHECK(read(file) == "stage:\n  delay_us: 3100  # c\ncontrol:\n  integral: 0.25\n");
  CHECK(fs::is_symlink(folder / "link.yaml"));
  CHECK(fs::status(file).permissions() == fs::perms(0640));
  CHECK(fs::status(old).permissions() == fs::perms(0640));
  CHECK(read(old) == text);
  CHECK(old.filename().string().starts_with("driftd.yaml.before-20"));
  CHECK(config::load(file).stage.delay_us == 3100);

  const fs::path older = set_values(file, {{kDelay, "3200"}});  // within the same second, perhaps
  CHECK(older != old);
  CHECK(read(old) == text);
  CHECK(set_values(file, {{kDelay, "3200"}}).empty());
  CHECK(folder.names().size() == 4);
}

TEST_CASE("the owner of a file stays") {
  if (geteuid() != 0) {
    WARN("SKIPPED: only root can give files away");
    return;
  }
  const Folder folder;
  const fs::path file = folder / "driftd.yaml";
  write(file, "");
  REQUIRE(::chown(file.c_str(), 1234, 4321) == 0);
  const fs::path old = set_values(file, {{kDelay, "3100"}});
  for (const fs::path& path : {file, old}) {
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK(info.st_uid == 1234);
    CHECK(info.st_gid == 4321);
  }
}

/// Root may write everything: such a test is run as somebody else.
class NotRoot {
 public:
  explicit NotRoot(const fs::path& folder) {
    if (geteuid() != 0) return;
    REQUIRE(::chown(folder.c_str(), kNobody, kNobody) == 0);
    REQUIRE(::seteuid(kNobody) == 0);
  }
  ~NotRoot() {
    if (getuid() == 0 && ::seteuid(0) != 0) std::abort();
  }
  NotRoot(const NotRoot&) = delete;
  NotRoot& operator=(const NotRoot&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
};

TEST_CASE("a file or a folder that may not be written stays as it is") {
  const Folder folder;
  const NotRoot user(folder / "");
  if (::faccessat(AT_FDCWD, (folder / "").c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    // TMPDIR is root's alone.
    WARN("SKIPPED: " << (folder / "") << " cannot be reached by the user that this test is run as");
    return;
  }
  const fs::path file = folder / "driftd.yaml";
  write(file, "");
  fs::permissions(file, fs::perms(0444));
  CHECK_THAT(why_not_set(file, {{kDelay, "3100"}}), contains("cannot write " + file.string()));
  CHECK(folder.names() == std::vector<std::string>{"driftd.yaml"});
  fs::permissions(file, fs::perms(0644));
  fs::permissions(folder / "", fs::perms(0555));
  CHECK_THAT(why_not_set(file, {{kDelay, "3100"}}), contains("cannot write beside"));
  fs::permissions(folder / "", fs::perms(0755));
  CHECK(folder.names() == std::vector<std::string>{"driftd.yaml"});
  CHECK(read(file).empty());
}

TEST_CASE("what driftd would not take is not written") {
  const Folder folder;
  const fs::path file = folder / "driftd.yaml";
  write(file, "stage:\n  delay_us: 3000\n");
  const std::string why = why_not_set(file, {{kDelay, "3100"}, {"control.integral", "0"}});
  CHECK(why.find("nothing was written") != std::string::npos);
  CHECK(why.find("driftd.yaml:4:13: control.integral: found 0") != std::string::npos);
  CHECK(why_not_set(file, {{"stage.delay", "1"}}).find("unknown key") != std::string::npos);
  CHECK(why_not_set(folder / "none.yaml", {{kDelay, "1"}}).find("No such file") !=
        std::string::npos);
  write(folder / "two.yaml", "---\nlog: {}\n---\nlog: {}\n");
  CHECK(why_not_set(folder / "two.yaml", {{kDelay, "1"}}).find("more than one YAML document") !=
        std::string::npos);
  CHECK(read(file) == "stage:\n  delay_us: 3000\n");
  CHECK(folder.names() == std::vector<std::string>{"driftd.yaml", "two.yaml"});
}

TEST_CASE("on a full disk the file stays whole") {
  const Folder folder;
  const fs::path file = folder / "driftd.yaml";
  const std::string text = "# " + std::string(3000, '-') + "\nstage:\n  delay_us: 3000\n";
  write(file, text);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{2000,
                     before.rlim_max};  // a write beyond fails in the middle, as on a full disk
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string why = why_not_set(file, {{kDelay, "3100"}});
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(why.find("cannot write") != std::string::npos);
  CHECK(why.find("is as it was") != std::string::npos);
  CHECK(read(file) == text);
  CHECK(folder.names() == std::vector<std::string>{"driftd.yaml"});
}

TEST_CASE("a file that somebody else changes meanwhile is left alone") {
  const Folder folder;
  const fs::path file = folder / "driftd.yaml";
  write(file, "theirs");
  CHECK_THROWS_WITH(replace_file(file, "read before", "mine"),
                    contains("was changed by somebody else"));
  CHECK(read(file) == "theirs");
  CHECK(folder.names() == std::vector<std::string>{"driftd.yaml"});
}

}  // namespace
}  // namespace driftd::clients
