// SPDX-License-Identifier: MIT
// The files in FILE.d: which are read, in which order, what they change, and where each value is
// from.
#include "config/drop_ins.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "config/options.hpp"
#include "random_config.hpp"
#include "support/catch.hpp"

namespace driftd::config {
namespace {

namespace fs = std::filesystem;

/// A folder of this process alone with lab.yaml and lab.yaml.d, gone with the object.
class Lab {
 public:
  explicit Lab(const std::string& text) {
    std::string name = (fs::temp_directory_path() / "driftd-drop-ins-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
    fs::create_directory(folder());
    write("lab.yaml", text);
  }
  ~Lab() { fs::remove_all(path_); }
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  fs::path file() const { return path_ / "lab.yaml"; }
  fs::path folder() const { return path_ / "lab.yaml.d"; }
  const fs::path& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  void drop_in(const std::string& name, const std::string& text) const {
    write("lab.yaml.d/" + name, text);
  }
  Config loaded() const { return load(file()); }
  /// What load() says, with the paths as seen from the lab.
  std::string mistakes() const {
    try {
      loaded();
      return "";
    } catch (const ConfigError& error) {
      return within(error.what());
    }
  }
  std::string within(std::string text) const {
    const std::string prefix = path_.string() + '/';
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("drop-ins are read over the file, in the order of their names by bytes", "[config]") {
  const Lab lab("camera: {exposure_us: 100, gain_db: 1, region_x_px: 8}\n");
  lab.drop_in("b.yaml", "camera: {exposure_us: 300}\nlog: {level: debug}\n");
  lab.drop_in("B.yaml", "camera: {exposure_us: 200, gain_db: 2}\n");
  lab.drop_in("10.yaml", "camera: {exposure_us: 150}\nlog: {level: error}\n");
  lab.drop_in("9.yaml", "# nothing\n");
  lab.drop_in("\xC3\xA4.yaml", "log: {level: warning}\n");
  const Config config = lab.loaded();
  CHECK(config.camera.exposure_us == 300);
  CHECK(config.camera.gain_db == 2);
  CHECK(config.camera.region_x_px == 8);
  CHECK(config.log.level == LogLevel::Warning);
  std::vector<std::string> names;
  for (const fs::path& path : drop_ins_of(lab.file())) names.push_back(path.filename());
  CHECK(names ==
        std::vector<std::string>{"10.yaml", "9.yaml", "B.yaml", "b.yaml", "\xC3\xA4.yaml"});
}

TEST_CASE("hidden files, backups and other endings are not read", "[config]") {
  const Lab lab("camera: {gain_db: 1}\n");
  for (const char* name : {".a.yaml", ".yaml", "a.yaml~", "a.yaml.before-2026-11-29T08-00-00",
                           "a.yml", "a.yaml.bak", "#a.yaml#", "A.YAML", "yaml", "a.yaml.dpkg-old"})
    lab.drop_in(name, "nonsense\n");
  CHECK(lab.mistakes().empty());
  CHECK(drop_ins_of(lab.file()).empty());
  CHECK(lab.loaded().camera.gain_db == 1);
}

TEST_CASE("without a folder, or in an empty one, there are none", "[config]") {
  const Lab lab("camera: {gain_db: 1}\n");
  CHECK(lab.loaded().camera.gain_db == 1);
  fs::remove(lab.folder());
  CHECK(lab.loaded().camera.gain_db == 1);
}

TEST_CASE("a list is one value: the later one holds, with its places", "[config]") {
  const Lab lab(
      "markers:\n  mode: list\n  list:\n    - {id: 1, x_px: 100, y_px: 100}\n"
      "    - {id: 2, x_px: 200, y_px: 100}\n    - {id: 3, x_px: 300, y_px: 100}\n"
      "wire: {publish: [\"ipc://a\", \"ipc://b\"]}\ndrift: {min_markers: 1}\n");
  lab.drop_in("m.yaml",
              "markers:\n  list: [{id: 7, x_px: 50, y_px: 60}]\nwire: {publish: \"ipc://c\"}\n");
  const Config config = lab.loaded();
  REQUIRE(config.markers.list.size() == 1);
  CHECK(config.markers.list[0].id == 7);
  CHECK(config.wire.publish == Endpoints{"ipc://c"});
  lab.drop_in("m.yaml",
              "markers:\n  list: [{id: 7, x_px: 50, y_px: 60},\n   "
              "{id: 7, x_px: 90, y_px: 60}]\n");
  CHECK(lab.mistakes() ==
        "lab.yaml.d/m.yaml:3:4: markers.list[1].id: found 7 as markers.list[0]; allowed an id of "
        "its own");
}

TEST_CASE("a mistake names the file that it stands in, and all files' are told", "[config]") {
  const Lab lab("camera: {exposure_us: -1}\nlog: {level: debug}\n");
  lab.drop_in("a.yaml", "log: {level: info}\n\nlog: {level: error}\n");
  lab.drop_in("b.yaml", "camera:\n  exposre_us: 1\n");
  lab.drop_in("c.yaml", "camera: [\n");
  const std::string mistakes = lab.mistakes();
  CHECK_THAT(mistakes, contains("lab.yaml:1:23: camera.exposure_us: found -1; allowed "));
  CHECK_THAT(mistakes, contains("\nlab.yaml.d/a.yaml:3:1: log: found twice; allowed once\n"));
  CHECK_THAT(mistakes, contains("\nlab.yaml.d/b.yaml:2:3: camera.exposre_us: found an unknown "
                                "key; did you mean camera.exposure_us?\n"));
  CHECK_THAT(mistakes, contains("\nlab.yaml.d/c.yaml:2:1: not valid YAML: "));
  CHECK(std::ranges::count(mistakes, '\n') == 3);
}

TEST_CASE("a value that a later file takes the place of has to be right as well", "[config]") {
  const Lab lab("camera: {gain_db: much}\n");
  lab.drop_in("a.yaml", "camera: {gain_db: 3}\n");
  CHECK(lab.mistakes() ==
        "lab.yaml:1:19: camera.gain_db: found \"much\"; allowed a number from -24 to 60 dB");
}

TEST_CASE("a combination names the file of the value, and those of the others", "[config]") {
  const std::string said =
      "control.step_limit_nm: found 20 nm with control.range_limit_nm 10; allowed at most "
      "control.range_limit_nm";
  const Lab in_drop_in("control: {proportional: 0}\n");
  in_drop_in.drop_in("a.yaml", "control:\n  range_limit_nm: 10\n");
  CHECK(in_drop_in.mistakes() == "lab.yaml.d/a.yaml:2:19: " + said);

  const Lab both("control:\n  step_limit_nm: 20\n  range_limit_nm: 500\n");
  CHECK(both.mistakes().empty());
  both.drop_in("a.yaml", "control:\n  range_limit_nm: 10\n");
  CHECK(both.mistakes() ==
        "lab.yaml:2:18: " + said + " (control.range_limit_nm is from lab.yaml.d/a.yaml:2)");

  const Lab two("control: {range_limit_nm: 10}\n");  // mended by the drop-in
  two.drop_in("b.yaml", "control: {step_limit_nm: 5}\n");
  CHECK(two.mistakes().empty());
}

TEST_CASE("relative paths are seen from the main file's folder in drop-ins, too", "[config]") {
  const Lab lab("record: {directory: records}\n");
  lab.drop_in("a.yaml", "access: {server_key: keys/server.key_secret, clients: keys/clients}\n");
  CHECK(lab.loaded().record.directory == lab.path() / "records");
  CHECK(lab.loaded().access.server_key == lab.path() / "keys/server.key_secret");
  CHECK(lab.loaded().access.clients == lab.path() / "keys/clients");
}

TEST_CASE("what cannot be read as a drop-in is an error that names it", "[config]") {
  const Lab lab("");
  SECTION("a folder") {
    fs::create_directory(lab.folder() / "a.yaml");
    CHECK(lab.mistakes() == "lab.yaml.d/a.yaml:1:1: found a folder; allowed a YAML file");
  }
  SECTION("a device") {
    fs::create_symlink("/dev/null", lab.folder() / "a.yaml");
    CHECK(lab.mistakes() == "lab.yaml.d/a.yaml:1:1: found no regular file; allowed a YAML file");
  }
  SECTION("a link that leads nowhere") {
    fs::create_symlink("nowhere", lab.folder() / "a.yaml");
    CHECK(lab.mistakes() == "lab.yaml.d/a.yaml:1:1: cannot be opened: No such file or directory");
  }
  SECTION("a file in place of the folder") {
    fs::remove(lab.folder());
    lab.write("lab.yaml.d", "");
    CHECK(lab.mistakes() ==
          "lab.yaml.d:1:1: cannot be listed: Not a directory; allowed a folder of YAML files that "
          "may be read, or nothing");
  }
  SECTION("a link in place of the folder that leads nowhere") {
    fs::remove(lab.folder());
    fs::create_symlink("nowhere", lab.folder());
    CHECK_THAT(lab.mistakes(), contains("lab.yaml.d:1:1: cannot be listed: No such file"));
  }
  SECTION("what this user may not read") {
    lab.drop_in("a.yaml", "");
    fs::permissions(lab.folder() / "a.yaml", fs::perms::none);
    const bool root = geteuid() == 0;  // who may read everything
    if (root) {
      fs::permissions(lab.path(), fs::perms(0755));
      REQUIRE(::seteuid(65534) == 0);
    }
    const std::string of_file = lab.mistakes();
    if (root) REQUIRE(::seteuid(0) == 0);
    fs::permissions(lab.folder(), fs::perms::none);
    if (root) REQUIRE(::seteuid(65534) == 0);
    const std::string of_folder = lab.mistakes();
    if (root) REQUIRE(::seteuid(0) == 0);
    fs::permissions(lab.folder(), fs::perms::owner_all);
    if (of_file.starts_with("lab.yaml:")) {
      WARN("SKIPPED: " << lab.path() << " cannot be reached by the user nobody");  // by TMPDIR
      return;
    }
    CHECK(of_file == "lab.yaml.d/a.yaml:1:1: cannot be opened: Permission denied");
    CHECK_THAT(of_folder, contains("lab.yaml.d:1:1: cannot be listed: Permission denied"));
  }
}

TEST_CASE("links are followed; a link to the file has drop-ins of its own", "[config]") {
  const Lab lab("camera: {gain_db: 1}\n");
  lab.write("shared.txt", "camera: {gain_db: 2}\n");
  fs::create_symlink("../shared.txt", lab.folder() / "a.yaml");
  CHECK(lab.loaded().camera.gain_db == 2);
  fs::create_symlink("lab.yaml", lab.path() / "link.yaml");
  CHECK(load(lab.path() / "link.yaml").camera.gain_db == 1);
  fs::create_symlink("lab.yaml.d", lab.path() / "link.yaml.d");
  CHECK(load(lab.path() / "link.yaml").camera.gain_db == 2);
}

TEST_CASE("what is printed says where each value is from, and loads to the same", "[config]") {
  const Lab lab(
      "camera:\n  gain_db: 1\n  region_x_px: 8\nmarkers:\n  mode: list\n  list:\n"
      "    - {id: 1, x_px: 100, y_px: 100}\ndrift: {min_markers: 1}\n"
      "record: {directory: records}\n");
  lab.drop_in("a.yaml",
              "stage:\n  image_to_stage:\n    - [0, 1]\n    - [1, 0]\n"
              "optics: {spot_sigma_px: auto}\n");
  lab.drop_in("b\n#b.yaml", "camera:\n  gain_db: 2\n");
  lab.drop_in("c.yaml", "\ncamera: {gain_db: 3}\nwire: {publish: [\"ipc://a\", \"ipc://b\"]}\n");
  Origins origins;
  const Config config = load(lab.file(), &origins);
  const std::string printed = to_yaml(table(), config, &origins);
  INFO(printed);
  CHECK(test::differences(load_text(printed, "printed"), config).empty());
  const std::string text = lab.within(printed);
  CHECK_THAT(text, contains("  gain_db: 3  # lab.yaml.d/c.yaml:2, over lab.yaml.d/b?#b.yaml:2 and "
                            "lab.yaml:2\n"));
  CHECK_THAT(text, contains("  region_x_px: 8  # lab.yaml:3\n"));
  CHECK_THAT(text, contains("  exposure_us: ") && contains("  # default\n"));
  CHECK_THAT(text, contains("image_to_stage: [[0, 1], [1, 0]]  # lab.yaml.d/a.yaml:2\n"));
  CHECK_THAT(text, contains("spot_sigma_px: auto  # lab.yaml.d/a.yaml:5\n"));
  CHECK_THAT(text, contains("publish: [\"ipc://a\", \"ipc://b\"]  # lab.yaml.d/c.yaml:3\n"));
  CHECK_THAT(text, contains("  list:  # lab.yaml:6\n"));
  // Each value has its own.
  std::size_t told = 0;
  for (std::size_t at = text.find("  # "); at != std::string::npos;
       at = text.find("  # ", at + 1)) {
    const std::string comment = text.substr(at + 4, text.find('\n', at) - at - 4);
    CHECK((comment == "default" || comment.starts_with("lab.yaml")));
    ++told;
  }
  CHECK(told == options().size());
}

TEST_CASE("a check tells each file, and what another takes the place of", "[config]") {
  const Lab lab("camera:\n  gain_db: 1\n  region_x_px: 8\n");
  lab.drop_in("a.yaml", "camera: {gain_db: 2}\n");
  lab.drop_in("b.yaml", "# nothing\n");
  Origins origins;
  load(lab.file(), &origins);
  CHECK(lab.within(no_mistakes(lab.file(), origins)) ==
        "lab.yaml: no mistakes\nlab.yaml.d/a.yaml: no mistakes\nlab.yaml.d/b.yaml: no mistakes\n"
        "lab.yaml:2: camera.gain_db: lab.yaml.d/a.yaml:1 takes the place of it\n");
  CHECK(lab.within(origin_of("camera.region_x_px", lab.file(), origins)) == "lab.yaml:3");
  CHECK(lab.within(origin_of("log.level", lab.file(), origins)) == "lab.yaml");
  CHECK(lab.within(with_drop_ins(lab.file(), origins)) == "lab.yaml with a.yaml");
  lab.drop_in("B.yaml", "log: {level: info}\n");
  load(lab.file(), &origins);
  CHECK(lab.within(with_drop_ins(lab.file(), origins)) == "lab.yaml with B.yaml, a.yaml");
  CHECK(with_drop_ins("lab.yaml", {}) == "lab.yaml");
}

TEST_CASE("a configuration spread over drop-ins is the same as in one file", "[config]") {
  test::Random random(11);
  for (int i = 0; i < 100; ++i) {
    const Config config = test::random_config(random);
    // Sections in the order of the table into texts of their own, earlier texts with other values.
    std::vector<Text> texts = {{"f", ""}, {"a", ""}, {"b", ""}};
    for (const Option& option : options()) {
      const Value value = option.get(config);
      const std::size_t at = random() % texts.size();
      for (std::size_t text = 0; text <= at; ++text) {
        if (text < at && random() % 2 == 0) continue;
        const Value& written = text == at ? value : option.fallback;
        const std::string line = std::string(option.name()) + ": " + to_yaml(option, written);
        texts[text].text += test::file_with(option, line) + "\n%\n";
      }
    }
    // One file for each line: a section may stand once in a file.
    std::vector<Text> files;
    for (const Text& text : texts) {
      std::size_t begin = 0;
      for (auto end = text.text.find("\n%\n"); end != std::string::npos;
           begin = end + 3, end = text.text.find("\n%\n", begin))
        files.push_back({text.name, text.text.substr(begin, end - begin)});
    }
    REQUIRE(test::differences(load_texts(files, {}), config).empty());
  }
}

}  // namespace driftd::config
