// SPDX-License-Identifier: MIT
// What a calibration writes: a drop-in of its own with what was measured, and nothing by half.
#include "clients/common/calibration_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <random>
#include <sstream>

#include "clients/common/calibration/axial_files.hpp"
#include "clients/common/replace_file.hpp"
#include "config/drop_ins.hpp"
#include "config/options.hpp"
#include "support/catch.hpp"

namespace driftd::clients {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDelay = "stage.delay_us";
constexpr const char* kMatrix = "stage.image_to_stage";
constexpr const char* kTurned = "[[0.5, -1], [1, 0.5]]";

void write(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct stat about(const fs::path& file) {
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  return info;
}

mode_t rights(const fs::path& file) {
  return about(file).st_mode & 07777U;
}

/// lab.yaml in a folder of the test's own.
class Lab {
 public:
  explicit Lab(const std::string& text) {
    std::string name = (fs::temp_directory_path() / "driftd-calibration-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    write(main(), text);
  }
  ~Lab() { fs::remove_all(path_); }
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  const fs::path& path() const { return path_; }
  fs::path main() const { return path_ / "lab.yaml"; }
  fs::path folder() const { return path_ / "lab.yaml.d"; }
  CalibrationFile file() const {
    return {main(), "stage-calibration.yaml", "driftctl calibrate --write", {"Camera: SIM01"}};
  }
  std::string text() const { return read(file().path()); }
  /// Without the comments at its head.
  std::string values() const {
    const std::string all = text();
    std::size_t at = 0;
    while (all[at] == '#') at = all.find('\n', at) + 1;
    return all.substr(at);
  }
  void drop_in(const std::string& name, const std::string& text) const {
    fs::create_directory(folder());
    write(folder() / name, text);
  }
  std::string why_not(const KeyValues& values) const {
    try {
      write_calibration(file(), values);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no refusal";
  }
  std::string why_not_writable() const {
    try {
      check_writable(file());
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no refusal";
  }
  /// All that there is, relative to the lab.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path_))
      names.push_back(fs::relative(entry.path(), path_).string());
    std::ranges::sort(names);
    return names;
  }

 private:
  fs::path path_;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("what was measured goes into a drop-in, and the file stays as it is") {
  const std::string text = "stage:\n  delay_us: 3000  # of 2024\nlog: {level: debug}\n";
  const Lab lab(text);
  check_writable(lab.file());
  CHECK(lab.names() == Names{"lab.yaml"});
  const auto written = write_calibration(
      lab.file(), {{kMatrix, kTurned}, {kDelay, "3100"}, {"control.integral", "0.25"}});
  REQUIRE(written);
  CHECK(written->old.empty());
  CHECK(written->overridden.empty());
  CHECK(read(lab.main()) == text);
  CHECK(lab.names() == Names{"lab.yaml", "lab.yaml.d", "lab.yaml.d/stage-calibration.yaml"});
  CHECK(lab.values() ==
        "control:\n  integral: 0.25\n"
        "stage:\n  image_to_stage: [[0.5, -1], [1, 0.5]]\n  delay_us: 3100\n");
  CHECK_THAT(lab.text(), contains("# Measured by `driftctl calibrate --write`, 20") &&
                             contains("\n# Camera: SIM01\n") &&
                             contains("\n# It takes the place of:\n#   stage.delay_us: 3000  (" +
                                      lab.main().string() + ":2)\nc"));
  const config::Config loaded = config::load(lab.main());
  CHECK(loaded.stage.delay_us == 3100);
  CHECK(loaded.control.integral == 0.25);
  CHECK(loaded.log.level == config::LogLevel::Debug);
  CHECK(written->before.stage.delay_us == 3000);
  CHECK(written->after.stage.delay_us == 3100);
}

TEST_CASE("the file before lies beside, where it is not read") {
  const Lab lab("stage: {delay_us: 3000}\n");
  write_calibration(lab.file(), {{kDelay, "3100"}});
  const std::string first = lab.text();
  const auto second = write_calibration(lab.file(), {{kDelay, "3200"}});
  REQUIRE(second);
  CHECK(second->old.filename().string().starts_with("stage-calibration.yaml.before-20"));
  CHECK(read(second->old) == first);
  const auto third = write_calibration(lab.file(), {{kDelay, "3300"}});  // in the same second
  REQUIRE(third);
  CHECK(third->old != second->old);
  CHECK(read(second->old) == first);
  CHECK(lab.names().size() == 5);
  CHECK(config::load(lab.main()).stage.delay_us == 3300);
  CHECK(config::drop_ins_of(lab.main()).size() == 1);
  check_writable(lab.file());
  CHECK(lab.names().size() == 5);
}

TEST_CASE("values that are in force are not written again") {
  const Lab lab("stage: {delay_us: 3000}\ncontrol: {integral: 0.25}\n");
  CHECK_FALSE(write_calibration(lab.file(), {{kDelay, "3000"}, {"control.integral", "0.25"}}));
  CHECK(lab.names() == Names{"lab.yaml"});
  CHECK(write_calibration(lab.file(), {{kDelay, "3000"}, {"control.integral", "0.26"}}));
  CHECK_FALSE(write_calibration(lab.file(), {{kDelay, "3000"}}));
  write(lab.main(), "stage: {delay_us: 3100}\n");
  CHECK_FALSE(write_calibration(lab.file(), {{kDelay, "3000"}}));
  CHECK(is_configured(lab.file(), {{kDelay, "3000"}}));
  CHECK_FALSE(is_configured(lab.file(), {{kDelay, "3100"}}));
  CHECK(write_calibration(lab.file(), {{kDelay, "3100"}}));  // what the drop-in says holds
}

TEST_CASE("what was not measured this time stays") {
  const Lab lab("camera: {read_noise_e: 7, gain_e_per_adu: 1}\n");
  CalibrationFile file = lab.file();
  file.name = "camera-calibration.yaml";
  REQUIRE(write_calibration(file, {{"camera.gain_e_per_adu", "4"},
                                   {"camera.offset_adu", "99.5"},
                                   {"camera.read_noise_e", "3"}}));
  REQUIRE(write_calibration(file, {{"camera.gain_e_per_adu", "3.9"}}));
  const config::Camera camera = config::load(lab.main()).camera;
  CHECK(camera.gain_e_per_adu == 3.9);
  CHECK(camera.offset_adu == 99.5);
  CHECK(camera.read_noise_e == 3);
  CHECK_THAT(read(file.path()), contains("  offset_adu: 99.5  # of an earlier calibration\n"
                                         "  gain_e_per_adu: 3.9\n"));
}

TEST_CASE("a later drop-in that takes the place of a value is told, an earlier one is replaced") {
  const Lab lab("log: {level: debug}\n");
  lab.drop_in("a.yaml", "stage: {delay_us: 1000}\n");
  lab.drop_in("z.yaml", "\nstage: {time_constant_us: 77}\n");
  const auto written =
      write_calibration(lab.file(), {{kDelay, "3100"}, {"stage.time_constant_us", "500"}});
  REQUIRE(written);
  CHECK(written->overridden ==
        Names{"stage.time_constant_us (" + (lab.folder() / "z.yaml").string() + ":2)"});
  CHECK(config::load(lab.main()).stage.delay_us == 3100);
  CHECK(config::load(lab.main()).stage.time_constant_us == 77);
  const std::string head = lab.text().substr(0, lab.text().find("\nstage:"));
  CHECK_THAT(head,
             contains("stage.delay_us: 1000  (" + (lab.folder() / "a.yaml").string() + ":1)"));
  CHECK_THAT(head, !contains("z.yaml"));
  // Again, while it is not in force.
  CHECK(write_calibration(lab.file(), {{"stage.time_constant_us", "501"}}));
}

TEST_CASE("whatever is measured is the only thing that changes") {
  std::mt19937 random(3);
  const auto pick = [&](std::size_t most) { return random() % (most + 1); };
  const std::vector<std::pair<const char*, std::vector<const char*>>> known = {
      {kDelay, {"0", "3100.5", "9000"}},
      {kMatrix, {kTurned, "[[1, 0], [0, 1]]", "[[-0.9, 1e-3], [0.25, 2]]"}},
      {"stage.resonance_hz", {"0", "150.25"}},
      {"control.integral", {"0.125", "0.35"}},
      {"optics.pixel_size_nm", {"99.875", "108"}},
      {"fitter.cuda.device", {"0", "1"}},
      {"fitter.cuda.mode", {"launch", "graph"}},
      {"fitter.roi_px", {"11", "auto"}},
      {"log.level", {"debug", "error"}}};
  const auto some = [&] {
    KeyValues values;
    for (const auto& [key, allowed] : known)
      if (pick(1) == 0) values.emplace_back(key, allowed[pick(allowed.size() - 1)]);
    return values;
  };
  for (int round = 0; round < 30; ++round) {
    const Lab lab("");
    const auto sections = [&](const KeyValues& values) {  // by the writer of another lab
      const Lab other("");
      return write_calibration(other.file(), values) ? other.values() : std::string();
    };
    write(lab.main(), sections(some()));
    if (pick(1) == 0) lab.drop_in("a.yaml", sections(some()));
    for (int run = 0; run < 2; ++run) {
      const KeyValues values = some();
      config::Config expected = config::load(lab.main());
      const config::Config before = expected;
      const auto written = write_calibration(lab.file(), values);
      INFO(lab.text());
      for (const auto& [key, value] : values) {
        const std::string name = key.substr(key.rfind('.') + 1);
        const std::string section = key.substr(0, key.find('.'));
        const bool nested = section.size() + 1 + name.size() != key.size();
        const config::Config one = config::load_text(
            section + (nested ? ": {cuda: {" : ": {") + name + ": " + value + (nested ? "}}" : "}"),
            "one");
        config::find_option(key)->set(expected, config::find_option(key)->get(one));
      }
      REQUIRE(config::to_yaml(config::load(lab.main())) == config::to_yaml(expected));
      REQUIRE(written.has_value() == (config::to_yaml(expected) != config::to_yaml(before)));
    }
  }
}

TEST_CASE("owner and rights of folder and file are the main file's, then their own") {
  const Lab lab("");
  const auto mode = GENERATE(mode_t{0640}, mode_t{0600}, mode_t{0644}, mode_t{0444}, mode_t{0664});
  REQUIRE(::chmod(lab.main().c_str(), mode) == 0);
  if (geteuid() == 0) REQUIRE(::chown(lab.main().c_str(), 1234, 4321) == 0);
  const mode_t mask = ::umask(0027);
  write_calibration(lab.file(), {{kDelay, "3100"}});
  ::umask(mask);
  const fs::path file = lab.file().path();
  CHECK(rights(file) == (mode | S_IWUSR));
  CHECK(rights(lab.folder()) == (mode | S_IWUSR | (mode & 0444U) >> 2U));
  for (const fs::path& path : {file, lab.folder()}) {
    CHECK(about(path).st_uid == about(lab.main()).st_uid);
    CHECK(about(path).st_gid == about(lab.main()).st_gid);
  }
  REQUIRE(::chmod(file.c_str(), 0604) == 0);
  REQUIRE(::chmod(lab.folder().c_str(), 0705) == 0);
  if (geteuid() == 0) REQUIRE(::chown(file.c_str(), 11, 12) == 0);
  const auto written = write_calibration(lab.file(), {{kDelay, "3200"}});
  REQUIRE(written);
  CHECK(rights(lab.folder()) == 0705);
  for (const fs::path& path : {file, written->old}) {
    CHECK(rights(path) == 0604);
    if (geteuid() == 0) CHECK(about(path).st_uid == 11);
    if (geteuid() == 0) CHECK(about(path).st_gid == 12);
  }
}

TEST_CASE("a link in place of the drop-in stays one") {
  const Lab lab("");
  write(lab.path() / "measured.txt", "stage: {delay_us: 3000}\n");
  lab.drop_in("a.yaml", "");
  fs::create_symlink("../measured.txt", lab.file().path());
  const auto written = write_calibration(lab.file(), {{kDelay, "3100"}});
  REQUIRE(written);
  CHECK(fs::is_symlink(lab.file().path()));
  CHECK_THAT(read(lab.path() / "measured.txt"), contains("delay_us: 3100\n"));
  CHECK(written->old.parent_path() == fs::canonical(lab.path()));
}

TEST_CASE("what driftd would not take is not written") {
  const Lab lab("control: {range_limit_nm: 100}\nstage: {delay_us: 3000}\n");
  const std::string why = lab.why_not({{kDelay, "3100"}, {"control.integral", "0"}});
  CHECK_THAT(why, contains("nothing was written, because with these values driftd would not take "
                           "the configuration:\n") &&
                      contains("stage-calibration.yaml:") &&
                      contains(": control.integral: found 0; allowed "));
  CHECK_THAT(lab.why_not({{"control.step_limit_nm", "200"}}),
             contains("control.step_limit_nm: found 200 nm with control.range_limit_nm 100") &&
                 contains("(control.range_limit_nm is from " + lab.main().string() + ":1)"));
  CHECK(lab.why_not({{"stage.delay", "1"}}) ==
        "stage.delay is no key of the configuration; nothing was written");
  CHECK(lab.names() == Names{"lab.yaml"});
  // As it is, it does not load.
  lab.drop_in("z.yaml", "nonsense: 1\n");
  CHECK_THROWS_AS(write_calibration(lab.file(), {{kDelay, "3100"}}), config::ConfigError);
  fs::remove_all(lab.folder());
  fs::remove(lab.main());
  CHECK_THAT(lab.why_not({{kDelay, "1"}}), contains("No such file"));
}

TEST_CASE("what others say of themselves stays within a comment") {
  const Lab lab("");
  CalibrationFile file = lab.file();
  file.subject = {"Camera: a\nlog: {level: error}\r\x1b[2J\xc2\x85\xff"};
  write_calibration(file, {{kDelay, "3100"}});
  CHECK_THAT(lab.text(), contains("# Camera: a?log: {level: error}??[2J???\n"));
  CHECK(config::load(lab.main()).log.level == config::LogLevel::Info);
}

namespace {

/// Root may write everything: such a test is run as somebody else.
class NotRoot {
 public:
  explicit NotRoot(const Lab& lab) {
    if (geteuid() != 0) return;
    REQUIRE(::chown(lab.path().c_str(), kNobody, kNobody) == 0);
    REQUIRE(::chown(lab.main().c_str(), kNobody, kNobody) == 0);
    REQUIRE(::setegid(kNobody) == 0);
    REQUIRE(::seteuid(kNobody) == 0);
  }
  ~NotRoot() {
    if (getuid() == 0 && (::seteuid(0) != 0 || ::setegid(0) != 0)) std::abort();
  }
  NotRoot(const NotRoot&) = delete;
  NotRoot& operator=(const NotRoot&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
};

}  // namespace

TEST_CASE("what may not be written is told, before and then, and nothing has changed") {
  const Lab lab("");
  const NotRoot user(lab);
  if (::faccessat(AT_FDCWD, lab.path().c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    // TMPDIR is root's alone.
    WARN("SKIPPED: " << lab.path() << " cannot be reached by the user that this test is run as");
    return;
  }
  const auto refused = [&](const std::string& why) {
    CHECK_THAT(lab.why_not_writable(), contains(why));
    CHECK_THAT(lab.why_not({{kDelay, "3200"}}), contains(why));
  };
  fs::permissions(lab.path(), fs::perms(0555));
  refused("cannot make the folder " + lab.folder().string() + ": Permission denied");
  CHECK(lab.names() == Names{"lab.yaml"});
  fs::permissions(lab.path(), fs::perms(0755));

  lab.drop_in("a.yaml", "");
  fs::permissions(lab.folder(), fs::perms(0555));
  refused("cannot write beside " + lab.file().path().string() + ": Permission denied");
  fs::permissions(lab.folder(), fs::perms(0755));

  write_calibration(lab.file(), {{kDelay, "3100"}});
  const std::string before = lab.text();
  fs::permissions(lab.file().path(), fs::perms(0444));
  refused("cannot write " + fs::canonical(lab.file().path()).string());
  CHECK(lab.text() == before);
  CHECK(lab.names() ==
        Names{"lab.yaml", "lab.yaml.d", "lab.yaml.d/a.yaml", "lab.yaml.d/stage-calibration.yaml"});
}

TEST_CASE("on a full disk nothing has changed") {
  const Lab lab("");
  const auto on_full_disk = [](const auto& run) {
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    // A write beyond fails in the middle, as on a full disk.
    const rlimit small{200, before.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string why = run();
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    std::signal(SIGXFSZ, handler);
    return why;
  };
  const auto refused = [&] {
    CHECK_THAT(on_full_disk([&] { return lab.why_not_writable(); }), contains("cannot write "));
    CHECK_THAT(on_full_disk([&] {
                 return lab.why_not({{kDelay, "3200"}});
               }),
               contains("cannot write ") && contains("File too large"));
  };
  refused();
  CHECK(lab.names() == Names{"lab.yaml"});
  write_calibration(lab.file(), {{kDelay, "3100"}});
  const std::string before = lab.text();
  refused();
  CHECK(lab.text() == before);
  CHECK(lab.names() == Names{"lab.yaml", "lab.yaml.d", "lab.yaml.d/stage-calibration.yaml"});
}

TEST_CASE("a file that somebody else changes meanwhile is left alone") {
  const Lab lab("");
  const fs::path file = lab.file().path();
  lab.drop_in("stage-calibration.yaml", "theirs");
  CHECK_THROWS_WITH(replace_file(file, lab.main(), "read before", "mine"),
                    contains("was changed by somebody else"));
  CHECK_THROWS_WITH(replace_file(file, lab.main(), std::nullopt, "mine"),
                    contains("was changed by somebody else"));
  CHECK(read(file) == "theirs");
  CHECK(lab.names() == Names{"lab.yaml", "lab.yaml.d", "lab.yaml.d/stage-calibration.yaml"});
}

TEST_CASE("what a sweep of z is to keep is not written over what was edited meanwhile") {
  const std::string section = "axial:\n  method: reflection\n  reflection: {x_px: 60, y_px: 60}\n";
  const Lab lab(section + "  stage: {gain: 1}\n");
  CalibrationFile file = lab.file();
  file.name = "axial-calibration.yaml";
  const config::Config before = config::load(lab.main());
  nlohmann::json result = {{"stage_gain", 1.0},
                           {"reflection", {{"nm_per_px", 33.0}, {"angle_deg", 2.0}}}};
  SECTION("nothing was") {
    CHECK_NOTHROW(write_sweep(file, before, result, lab.path() / "curve.yaml"));
    CHECK(config::load(lab.main()).reflection.nm_per_px == 33);
    return;
  }
  SECTION("the gain, after the sweep had begun") {
    write(lab.main(), section + "  stage: {gain: -1.5}\n");
    CHECK_THROWS_WITH(
        write_sweep(file, before, result, lab.path() / "curve.yaml"),
        contains("was edited while the sweep was made, axial.stage.gain from 1 to -1.5"));
  }
  SECTION("the gain, before, without a reload") {
    result["stage_gain"] = 2.0;
    CHECK_THROWS_WITH(write_sweep(file, before, result, lab.path() / "curve.yaml"),
                      contains("has an axial.stage.gain of 1, and driftd made the sweep with 2"));
  }
  SECTION("the slope") {
    write(lab.main(), section + "  stage: {gain: 1}\n" + "# \n");
    fs::create_directory(lab.folder());
    write(lab.folder() / "hand.yaml", "axial: {reflection: {nm_per_px: 40}}\n");
    CHECK_THROWS_WITH(write_sweep(file, before, result, lab.path() / "curve.yaml"),
                      contains("axial.reflection.nm_per_px from 0 to 40"));
  }
  CHECK_FALSE(fs::exists(file.path()));
}

}  // namespace driftd::clients
