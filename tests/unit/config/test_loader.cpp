// SPDX-License-Identifier: MIT
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "config/options.hpp"
#include "mistakes_of.hpp"
#include "random_config.hpp"
#include "support/catch.hpp"

namespace driftd::config {
namespace {

using test::mistakes_of;

/// A folder of this process alone, gone with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "driftd-config-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string what_load_says(const std::filesystem::path& file) {
  try {
    load(file);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a file that says nothing gives the defaults", "[config]") {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "{}", "camera:\n", "~",
                           "camera:\n  # exposure_us: 2000\nlog: {}\n"}) {
    INFO(text);
    CHECK(test::differences(load_text(text, "f"), default_config()).empty());
  }
}

TEST_CASE("what a file says is merged over the defaults", "[config]") {
  const Config config = load_text(
      "camera:\n  exposure_us: 250.5\n  id: 00123\n  trigger: off\n  gain_db: -3\n"
      "  socket_buffer_bytes: 4e6\n"
      "lock: {at_start: true}\n"
      "stage:\n  image_to_stage: [[0, -1.5], [1, 0.25]]\n",
      "f");
  CHECK(config.camera.exposure_us == 250.5);
  CHECK(config.camera.id == "00123");  // a serial number keeps its zeros
  CHECK(config.camera.trigger == camera::Trigger::Off);
  CHECK(config.camera.gain_db == -3);
  CHECK(config.camera.socket_buffer_bytes == 4'000'000);
  CHECK(config.lock.at_start);
  const bool turned = config.stage.image_to_stage == Matrix2{{{0, -1.5}, {1, 0.25}}};
  CHECK(turned);
  CHECK(test::differences(config, default_config()) ==
        std::vector<std::string>{"camera.id", "camera.exposure_us", "camera.gain_db",
                                 "camera.socket_buffer_bytes", "lock.at_start",
                                 "stage.image_to_stage"});
}

TEST_CASE("sizes are chosen from the image unless they are given", "[config]") {
  CHECK(default_config().optics.spot_sigma_px == 0);
  CHECK(default_config().fitter.roi_px == 0);
  const Config given = load_text("optics: {spot_sigma_px: 2.5}\nfitter: {roi_px: 21}\n", "f");
  CHECK(given.optics.spot_sigma_px == 2.5);
  CHECK(given.fitter.roi_px == 21);
  const Config automatic =
      load_text("optics: {spot_sigma_px: auto}\nfitter: {roi_px: auto}\n", "f");
  CHECK(test::differences(automatic, default_config()).empty());
  CHECK_THAT(to_yaml(automatic), contains("spot_sigma_px: auto") && contains("roi_px: auto"));
  CHECK(mistakes_of("optics: {spot_sigma_px: 0}\n") ==
        "f:1:25: optics.spot_sigma_px: found 0; allowed auto or a number from 0.5 to 16 px");
  CHECK(mistakes_of("fitter: {roi_px: Auto}\n") ==
        "f:1:18: fitter.roi_px: found \"Auto\"; allowed auto or a whole number from 4 to 64 px");
  CHECK(mistakes_of("camera: {exposure_us: auto}\n") ==
        "f:1:23: camera.exposure_us: found \"auto\"; allowed a number from 1 to 10000000 us");
}

TEST_CASE("sizes that nothing tells are assumed", "[config]") {
  const auto sizes = [](double sigma_px, int roi_px, double chosen_sigma_px, int chosen_roi_px) {
    Config config = default_config();
    config.optics.spot_sigma_px = sigma_px;
    config.fitter.roi_px = roi_px;
    config = with_sizes(config, chosen_sigma_px, chosen_roi_px);
    return std::pair(config.optics.spot_sigma_px, config.fitter.roi_px);
  };
  CHECK(sizes(0, 0, 0, 0) == std::pair(1.3, 13));
  CHECK(sizes(2.5, 0, 0, 0) == std::pair(2.5, 25));
  CHECK(sizes(2.2, 0, 0, 0) == std::pair(2.2, 23));  // odd
  CHECK(sizes(0.3, 0, 0, 0).second == 5);
  CHECK(sizes(16, 0, 0, 0).second == 64);
  CHECK(sizes(0, 20, 0, 0) == std::pair(2.0, 20));
  CHECK(sizes(0, 0, 1.7, 15) == std::pair(1.7, 15));
  CHECK(sizes(0, 21, 1.7, 21) == std::pair(1.7, 21));
  CHECK(sizes(1.1, 9, 1.7, 15) == std::pair(1.1, 9));  // what is given stays
}

TEST_CASE("anchors and flow style are YAML like any other", "[config]") {
  const Config config = load_text(
      "realtime: {loop_cpu: &cpu 3, stream_cpu: *cpu}\n"
      "camera: {\"exposure_us\": 500, pixel_format: 'Mono8'}\n",
      "f");
  CHECK(config.realtime.loop_cpu == 3);
  CHECK(config.realtime.stream_cpu == 3);
  CHECK(config.camera.exposure_us == 500);
  CHECK(config.camera.pixel_format == camera::PixelFormat::Mono8);
}

TEST_CASE("a mistake names line, column, key, what was found and what is allowed", "[config]") {
  CHECK(mistakes_of("camera:\n  exposure_us: fast\n") ==
        "f:2:16: camera.exposure_us: found \"fast\"; allowed a number from 1 to 10000000 us");
  CHECK(mistakes_of("camera:\n  exposure_us: \"100\"\n") ==
        "f:2:16: camera.exposure_us: found \"100\"; allowed a number from 1 to 10000000 us");
  CHECK(mistakes_of("fitter: {roi_px: 12.5}\n") ==
        "f:1:18: fitter.roi_px: found 12.5; allowed auto or a whole number from 4 to 64 px");
  CHECK(mistakes_of("fitter: {roi_px: 65}\n") ==
        "f:1:18: fitter.roi_px: found 65; allowed auto or a whole number from 4 to 64 px");
  CHECK(mistakes_of("fitter: {roi_px: 99999999999}\n") ==
        "f:1:18: fitter.roi_px: found 99999999999; allowed auto or a whole number from 4 to 64 px");
  CHECK(mistakes_of("lock: {at_start: yes}\n") ==
        "f:1:18: lock.at_start: found \"yes\"; allowed true or false");
  CHECK(mistakes_of("camera: {trigger: often}\n") ==
        "f:1:19: camera.trigger: found \"often\"; allowed one of off, hardware, software");
  CHECK(mistakes_of("control: {integral: 0}\n") ==
        "f:1:21: control.integral: found 0; allowed a number above 0 up to 1");
  CHECK(mistakes_of("camera: {id: [1, 2]}\n") ==
        "f:1:14: camera.id: found a list of 2; allowed text");
  CHECK(mistakes_of("camera: {id: \"a\\nb\"}\n") ==
        "f:1:14: camera.id: found \"a?b\"; allowed text on one line");
  CHECK(mistakes_of("camera: {id: {a: b}}\n") ==
        "f:1:14: camera.id: found a mapping; allowed text");
  CHECK(mistakes_of("camera:\n  gain_db:\n  id: x\n") ==
        "f:2:3: camera.gain_db: found nothing; allowed a number from -24 to 60 dB");
}

TEST_CASE("infinities, NaN and overflow are no numbers", "[config]") {
  for (const char* number : {".inf", "-.inf", ".nan", "inf", "nan", "1e999", "0x10", "1_000"}) {
    CHECK(mistakes_of("control:\n  range_limit_nm: " + std::string(number) + "\n") ==
          "f:2:19: control.range_limit_nm: found \"" + std::string(number) +
              "\"; allowed a number above 0 up to 1000000 nm");
  }
}

TEST_CASE("an unknown key is a mistake, with the nearest known one", "[config]") {
  CHECK(mistakes_of("camera:\n  exposre_us: 1\n") ==
        "f:2:3: camera.exposre_us: found an unknown key; did you mean camera.exposure_us?");
  CHECK(mistakes_of("camrea:\n  exposure_us: 1\n") ==
        "f:1:1: camrea: found an unknown key; did you mean camera?");
  // In the wrong section, or in none.
  CHECK(mistakes_of("camera: {roi_px: 9}\n") ==
        "f:1:10: camera.roi_px: found an unknown key; did you mean fitter.roi_px?");
  CHECK(mistakes_of("roi_px: 9\n") ==
        "f:1:1: roi_px: found an unknown key; did you mean fitter.roi_px?");
  // Nothing near.
  CHECK(mistakes_of("log: {rotation: daily}\n") ==
        "f:1:7: log.rotation: found an unknown key; allowed are level");
  CHECK(mistakes_of("log: {" + std::string(5000, 'x') + ": 1}\n").size() < 200);
  CHECK(mistakes_of("? [a, b]\n: 1\n") ==
        "f:1:3: found a list of 2; allowed a name before the colon");
}

TEST_CASE("every misspelt key is recognised", "[config]") {
  for (const Option& option : options()) {
    // One letter left out of the middle; still the nearest to the key it came from.
    std::string name(option.name());
    name.erase(name.size() / 2, 1);
    const std::string report = mistakes_of(test::file_with(option, name + ": 1"));
    INFO(report);
    const bool recognised =
        report.ends_with("found an unknown key; did you mean " + std::string(option.key) + "?");
    CHECK(recognised);
  }
}

TEST_CASE("a key that earlier versions had is refused with what to do", "[config]") {
  CHECK(mistakes_of("realtime:\n  loop_priority: 50\n") ==
        "f:2:3: realtime.loop_priority: found a key that is no option any more: write it as "
        "realtime.priority");
  // Another section never had it: the name is looked for as any other.
  CHECK(mistakes_of("lock: {loop_priority: 50}\n").find("any more") == std::string::npos);
  REQUIRE_FALSE(table().removed.empty());
  for (const RemovedKey& removed : table().removed) {
    const std::string key(removed.key);
    INFO(key);
    CHECK(find_option(key) == nullptr);
    const std::size_t dot = key.find('.');
    CHECK(std::ranges::find(sections(), key.substr(0, dot), &Section::name) != sections().end());
    CHECK(mistakes_of(key.substr(0, dot) + ": {" + key.substr(dot + 1) + ": 1}\n")
              .ends_with(std::string(removed.instead)));
  }
}

TEST_CASE("a key or section may stand once", "[config]") {
  CHECK(mistakes_of("camera:\n  id: a\n  gain_db: 8\n  id: b\n") ==
        "f:4:3: camera.id: found twice; allowed once");
  CHECK(mistakes_of("log: {level: info}\ncamera: {}\nlog: {level: debug}\n") ==
        "f:3:1: log: found twice; allowed once");
}

TEST_CASE("a section may stand within another", "[config]") {
  CHECK(load_text("fitter: {roi_px: 15, cuda: {mode: resident}}\n", "f").cuda.mode ==
        fitter::CudaMode::Resident);
  CHECK(load_text("fitter: {cuda: }\n", "f").cuda.mode == default_config().cuda.mode);
  CHECK(mistakes_of("fitter: {cuda: {mode: fast}}\n") ==
        "f:1:23: fitter.cuda.mode: found \"fast\"; allowed one of launch, graph, resident");
  CHECK(mistakes_of("fitter: {cuda: {device: 0}, cuda: {device: 1}}\n") ==
        "f:1:29: fitter.cuda: found twice; allowed once");
  CHECK(mistakes_of("fitter: {cuda: launch}\n") ==
        "f:1:16: fitter.cuda: found \"launch\"; allowed a mapping of options");
  CHECK(mistakes_of("fitter: {cudda: {mode: graph}}\n") ==
        "f:1:10: fitter.cudda: found an unknown key; did you mean fitter.cuda?");
  CHECK(mistakes_of("fitter.cuda: {mode: graph}\n").find("f:1:1: fitter.cuda: ") == 0);
}

TEST_CASE("a section is a mapping, and so is the file", "[config]") {
  CHECK(mistakes_of("camera: 7\n") == "f:1:9: camera: found 7; allowed a mapping of options");
  CHECK(mistakes_of("camera: [1, 2, 3]\n") ==
        "f:1:9: camera: found a list of 3; allowed a mapping of options");
  CHECK(mistakes_of("- camera\n") == "f:1:1: found a list of 1; allowed a mapping of sections");
  CHECK(mistakes_of("just words\n") ==
        "f:1:1: found \"just words\"; allowed a mapping of sections");
  CHECK(mistakes_of("log: {}\n---\nlog: {}\n") ==
        "f:2:1: found more than one YAML document; allowed one");
}

TEST_CASE("text that is no YAML is a mistake at its place", "[config]") {
  for (const char* text : {"camera: [\n", "camera: {exposure_us: 1\n", "a: b: c\n",
                           "\tcamera: {}\n", "camera: *nobody\n", "camera:\n  id: 1\n bad: 2\n",
                           "%YAML 9.9\n---\n", "camera: \"\\q\"\n"}) {
    const std::string report = mistakes_of(text);
    INFO(text << " -> " << report);
    const bool says_so = report.starts_with("f:") &&
                         report.find(": not valid YAML: ") != std::string::npos &&
                         std::ranges::count(report, '\n') == 0;
    CHECK(says_so);
  }
  CHECK(mistakes_of("camera: {\n  id: a]\n}").starts_with("f:2:8: not valid YAML: "));
}

TEST_CASE("a file is UTF-8", "[config]") {
  CHECK(mistakes_of("camera:\n  id: M\xFCller\n") ==
        "f:2:8: found a byte that is no text; allowed UTF-8");
  CHECK(mistakes_of("\xFF\xFE"
                    "c") == "f:1:1: found a byte that is no text; allowed UTF-8");
  CHECK(load_text("\xEF\xBB\xBF"
                  "camera: {id: M\xC3\xBCller}\n",
                  "f")
            .camera.id == "M\xC3\xBCller");
}

TEST_CASE("escapes, too, stand for text, and a refusal is text whatever was escaped", "[config]") {
  const std::string refused = ": found an escape that makes no text; allowed text in UTF-8";
  CHECK(mistakes_of("camera:\n  id: \"a\\_b\"\n") == "f:2:7" + refused);
  CHECK(mistakes_of("camera: {id: \"\\N\", \"\\_\": 1}\n") == "f:1:14" + refused);  // one tells
  CHECK(mistakes_of("camera: {id: \"\\uDFFF\"}\n").find("f:1:") == 0);
  CHECK(load_text("camera: {id: \"M\\u00FCller\"}\n", "f").camera.id == "M\xC3\xBCller");
  CHECK(mistakes_of("camera: {id: \"\\u009b3\\u0085\\u00a0\"}\n") ==
        "f:1:14: camera.id: found \"??3??\xC2\xA0\"; allowed text on one line");
  CHECK(mistakes_of("\xC3\xBC: 1\n").starts_with("f:1:1: \xC3\xBC: "));  // at the beginning
  CHECK(mistakes_of("camera: {id: \"\\\x04\"}\n").ends_with("unknown escape character: ?"));
  CHECK(mistakes_of("camera: {id: \"\\\xC3\xBC\"}\n").ends_with("unknown escape character: ?"));
}

TEST_CASE("a quote that is not closed does not swallow the lines below it", "[config]") {
  CHECK(mistakes_of("camera:\n  id: \"12\n  exposure_us: 900\n") ==
        "f:2:7: found a quote that is not closed; allowed text on one line");
  CHECK(mistakes_of("camera:\n  id: 'it''s\n") ==
        "f:2:7: found a quote that is not closed; allowed text on one line");
  CHECK(mistakes_of("camera:\n  id: \"a\\\"\n") ==
        "f:2:7: found a quote that is not closed; allowed text on one line");
  CHECK(mistakes_of("camera:\n  id: &a  \"12\n  exposure_us: 900 # \"\n") ==
        "f:2:7: found a quote that is not closed; allowed text on one line");
  CHECK(mistakes_of("camera:\n  id: !!str &a '12\n  exposure_us: 900 # '\n") ==
        "f:2:7: found a quote that is not closed; allowed text on one line");
  CHECK(mistakes_of("\xEF\xBB\xBF"
                    "camera: {id: \"12\n  exposure_us: 900\"}\n") ==
        "f:1:14: found a quote that is not closed; allowed text on one line");
  CHECK(load_text("\xEF\xBB\xBF"
                  "camera: {'id': \"x\"}\n",
                  "f")
            .camera.id == "x");
  CHECK(load_text("camera: {id: &a\n  \"x\"}\n", "f").camera.id == "x");
  CHECK(load_text("camera:\n  id: \"a\\\"b\"\n", "f").camera.id == "a\"b");
  CHECK(load_text("camera:\n  id: 'it''s'\n", "f").camera.id == "it's");
  CHECK(load_text("camera:\n  id: it's\n", "f").camera.id == "it's");
}

TEST_CASE("all mistakes of a file are told at once, in its order", "[config]") {
  CHECK(mistakes_of("wire: {publish: \"tcp://*:5555\"}\n"  // a combination, found last
                    "camera:\n"
                    "  exposure_us: -1\n"
                    "  exposure: 5\n"
                    "  packet_size_bytes: many\n"
                    "control: {step_limit_nm: 0}\n"
                    "nonsense: true\n")
            .find("f:1:17: wire.publish: ") == 0);
  const std::string report = mistakes_of(
      "camera:\n  exposure_us: -1\n  exposure: 5\n  packet_size_bytes: many\n"
      "control: {step_limit_nm: 0, range_limit_nm: 1}\nnonsense: true\n");
  CHECK(report ==
        "f:2:16: camera.exposure_us: found -1; allowed a number from 1 to 10000000 us\n"
        "f:3:3: camera.exposure: found an unknown key; did you mean camera.exposure_us?\n"
        "f:4:22: camera.packet_size_bytes: found \"many\"; allowed a whole number from 0 to 9216 "
        "bytes\n"
        "f:5:26: control.step_limit_nm: found 0; allowed a number above 0 up to 10000 nm\n"
        "f:6:1: nonsense: found an unknown key; allowed are camera, replay, optics, fitter, "
        "markers, drift, axial, lock, gate, control, stage, realtime, wire, access, record, log, "
        "hook");
}

TEST_CASE("the matrix is two rows of two numbers", "[config]") {
  const std::string allowed = "; allowed [[a, b], [c, d]], each a number from -10 to 10";
  CHECK(mistakes_of("stage: {image_to_stage: [1, 0, 0, 1]}\n") ==
        "f:1:25: stage.image_to_stage: found a list of 4" + allowed);
  CHECK(mistakes_of("stage: {image_to_stage: [[1, 0], [0, 1, 0]]}\n") ==
        "f:1:25: stage.image_to_stage: found a list of 2" + allowed);
  CHECK(mistakes_of("stage: {image_to_stage: 1}\n") ==
        "f:1:25: stage.image_to_stage: found 1" + allowed);
  CHECK(mistakes_of("stage:\n  image_to_stage:\n    - [1, x]\n    - [0, 11]\n") ==
        "f:3:11: stage.image_to_stage[0][1]: found \"x\"; allowed a number from -10 to 10\n"
        "f:4:11: stage.image_to_stage[1][1]: found 11; allowed a number from -10 to 10");
}

TEST_CASE("one wrong element makes the matrix unusable, and is told alone", "[config]") {
  for (const auto& [rows, place, index] :
       {std::tuple{"[[x, 0], [0, 1]]", "1:27", "[0][0]"}, {"[[1, 0], [0, x]]", "1:38", "[1][1]"}}) {
    CHECK(mistakes_of(std::string("stage: {image_to_stage: ") + rows + "}\n") ==
          std::string("f:") + place + ": stage.image_to_stage" + index +
              ": found \"x\"; allowed a number from -10 to 10");
  }
}

TEST_CASE("a value left out is told alone, not in its combinations too", "[config]") {
  CHECK(mistakes_of("control:\n  step_limit_nm: 6000\n  range_limit_nm:\n") ==
        "f:3:3: control.range_limit_nm: found nothing; allowed a number above 0 up to 1000000 nm");
}

TEST_CASE("mistakes of one line are told from left to right, however they were found", "[config]") {
  const std::string report =
      mistakes_of("control: {step_limit_nm: 51, range_limit_nm: 50, nonsense: 1}\n");
  const std::size_t step = report.find("f:1:26: control.step_limit_nm: ");
  const std::size_t unknown = report.find("f:1:50: control.nonsense: ");
  CHECK(step == 0);
  CHECK(unknown != std::string::npos);
}

TEST_CASE("as many markers may be listed as can be tracked", "[config]") {
  std::string list = "markers:\n  list:\n";
  for (int i = 1; i <= 256; ++i)
    list += "    - {id: " + std::to_string(i) + ", x_px: 50, y_px: 60}\n";
  CHECK(load_text(list, "f").markers.list.size() == 256);
}

TEST_CASE("the marker list is checked entry by entry", "[config]") {
  const std::string head = "drift: {min_markers: 1}\nmarkers:\n  mode: list\n  list:\n";
  const Config config = load_text(
      head +
          "    - {id: 7, x_px: 20.5, y_px: 30}\n    - {id: 4294967295, x_px: 60, y_px: 30, "
          "role: witness}\n",
      "f");
  REQUIRE(config.markers.list.size() == 2);
  const bool first =
      config.markers.list[0] == ListedMarker{7, 20.5, 30, control::MarkerRole::Tracking};
  CHECK(first);
  const bool second =
      config.markers.list[1] == ListedMarker{4294967295U, 60, 30, control::MarkerRole::Witness};
  CHECK(second);
  CHECK(mistakes_of(head + "    - {id: 0, x_px: -1, y_px: a, role: leader}\n") ==
        "f:5:12: markers.list[0].id: found 0; allowed a whole number from 1 to 4294967295\n"
        "f:5:21: markers.list[0].x_px: found -1; allowed a number from 0 to 65535 px\n"
        "f:5:31: markers.list[0].y_px: found \"a\"; allowed a number from 0 to 65535 px\n"
        "f:5:40: markers.list[0].role: found \"leader\"; allowed one of tracking, witness");
  CHECK(mistakes_of(head + "    - {id: 1, x_px: 50, x_px: 50, y_px:, rol: witness}\n") ==
        "f:5:25: markers.list[0].x_px: found twice; allowed once\n"
        "f:5:35: markers.list[0].y_px: found nothing; allowed a number from 0 to 65535 px\n"
        "f:5:42: markers.list[0].rol: found an unknown key; did you mean role?");
  CHECK(mistakes_of(head + "    - {id: 1, x_px: 50}\n    - 7\n") ==
        "f:5:7: markers.list[0].y_px: found no such key; every listed marker needs one\n"
        "f:6:7: markers.list[1]: found 7; allowed a mapping like {id: 1, x_px: 101.2, y_px: 55.9}");
  CHECK(mistakes_of("markers: {mode: list, list: {id: 1}}\n") ==
        "f:1:29: markers.list: found a mapping; allowed a list of at most 256 markers");
  std::string long_list = "markers:\n  list:\n";
  for (int i = 1; i <= 257; ++i) {
    long_list += "    - {id: " + std::to_string(i) + ", x_px: 50, y_px: 50}\n";
  }
  CHECK(mistakes_of(long_list) ==
        "f:3:5: markers.list: found a list of 257; allowed a list of at most 256 markers");
}

TEST_CASE("a file is read from the disk, or the reason is told", "[config]") {
  const TemporaryFolder folder;
  const auto good = folder.write("good.yaml", "fitter: {roi_px: 9}\n");
  CHECK(load(good).fitter.roi_px == 9);
  CHECK(load(folder.write("empty.yaml", "")).fitter.roi_px == 0);
  const std::string full = "#" + std::string((1 << 20) - 2, 'x') + "\n";
  CHECK(load(folder.write("full.yaml", full)).fitter.roi_px == 0);
  CHECK(what_load_says(folder.write("fuller.yaml", full + "\n")).find("1048576 bytes") !=
        std::string::npos);
  const auto bad = folder.write("bad.yaml", "fitter:\n  roi_px: 3\n");
  CHECK(what_load_says(bad) ==
        bad.string() +
            ":2:11: fitter.roi_px: found 3; allowed auto or a whole number from 4 to 64 px");
  const auto missing = folder.path() / "missing.yaml";
  CHECK(what_load_says(missing) ==
        missing.string() + ":1:1: cannot be opened: No such file or directory");
  CHECK(what_load_says(folder.path()) ==
        folder.path().string() + ":1:1: found a folder; allowed a YAML file");
  const auto pipe = folder.path() / "pipe.yaml";  // nobody writes to it
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(what_load_says(pipe) == pipe.string() + ":1:1: found no regular file; allowed a YAML file");
  const auto large = folder.write("large.yaml", "# " + std::string(2 << 20, 'x'));
  CHECK(what_load_says(large) ==
        large.string() +
            ":1:1: found more than 1048576 bytes; allowed no more: this is no configuration");
}

TEST_CASE("a recording is looked for beside the file", "[config]") {
  const TemporaryFolder folder;
  const std::string text = "camera: {source: replay}\nreplay: {path: ";
  CHECK(load(folder.write("a.yaml", text + "data/../stack.tif}\n")).replay.path ==
        folder.path() / "stack.tif");
  CHECK(load(folder.write("b.yaml", text + "/data/stack.tif}\n")).replay.path == "/data/stack.tif");
  CHECK(load(folder.write("c.yaml", "log: {level: debug}\n")).replay.path.empty());
  CHECK(load_text(text + "stack.tif}\n", "f").replay.path == "stack.tif");
  CHECK(load_text(text + "stack.tif}\n", "f", "/here").replay.path == "/here/stack.tif");
}

}  // namespace driftd::config
