// SPDX-License-Identifier: MIT
#include "clients/demo/plot.hpp"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "support/catch.hpp"
#include "synthetic_recording.hpp"

using namespace driftd::clients;
using driftd::test::at;

namespace {

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = "/tmp/driftd-test-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

struct Extent {
  double smallest = 1e9, largest = -1e9;
};

/// The extent of a column of the data file, over times from .. to.
Extent extent_of(const std::filesystem::path& file, std::size_t column, double from_s,
                 double to_s) {
  std::ifstream in(file);
  Extent extent;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::vector<double> values;
    for (std::string field; fields >> field;) values.push_back(std::strtod(field.c_str(), nullptr));
    if (values.empty() || values[0] < from_s || values[0] >= to_s) continue;
    extent.smallest = std::min(extent.smallest, values[column]);
    extent.largest = std::max(extent.largest, values[column]);
  }
  return extent;
}

}  // namespace

TEST_CASE("The plot's data show the drift from its start and the residual from the reference") {
  const Folder folder;
  const Recording recording = driftd::test::make_recording();
  const Phases phases = driftd::test::phases();
  const Report report =
      make_report(recording, phases, driftd::test::status(), driftd::test::kExpected);
  const std::string said = draw_plot(recording, phases, report, folder.path);
  const std::filesystem::path data = folder.path / "drift.tsv";

  // The zero is the mean of the first half second: 2.45 nm in x.
  CHECK(extent_of(data, 1, 0, 10).largest == Approx(99.9 - 2.45).margin(0.2));
  CHECK(extent_of(data, 3, 0, 30).largest == Approx(299.9 - 2.45).margin(0.2));
  CHECK(extent_of(data, 5, 12, 19).largest == Approx(0.5).margin(1e-3));
  CHECK(extent_of(data, 6, 12, 19).smallest == Approx(-0.5).margin(1e-3));

  if (said.find("gnuplot is not installed") != std::string::npos) {
    std::cout << "SKIPPED: " << said << '\n';
    return;
  }
  INFO(said);
  CHECK(said.starts_with("Picture: "));
  CHECK(std::filesystem::file_size(folder.path / "drift.png") > 10'000);
  CHECK(std::filesystem::file_size(folder.path / "drift.svg") < 1'000'000);
}

TEST_CASE("The plot has z where it is held") {
  const Folder folder;
  const Recording recording = driftd::test::make_recording(driftd::test::deep);
  const Phases phases = driftd::test::phases();
  Expected expected = driftd::test::kExpected;
  for (const bool held : {false, true}) {
    if (held) expected.z_step_limit_nm = 10;
    const Report report = make_report(recording, phases, driftd::test::status(), expected);
    const std::string said = draw_plot(recording, phases, report, folder.path);
    INFO(said);
    if (said.find("gnuplot is not installed") == std::string::npos)
      CHECK(said.starts_with("Picture: "));
    std::ifstream script(folder.path / "drift.gp");
    const std::string text(std::istreambuf_iterator<char>(script), {});
    CHECK(text.find('@') == std::string::npos);
    CHECK((text.find("using 1:10 ") != std::string::npos) == held);
  }
  // Its zero is the mean of the first half second: 1.47 nm.
  CHECK(extent_of(folder.path / "drift.tsv", 7, 0, 10).largest == Approx(59.94 - 1.47).margin(0.2));
  CHECK(extent_of(folder.path / "drift.tsv", 8, 0, 30).largest == Approx(179.9 - 1.47).margin(0.2));
  CHECK(extent_of(folder.path / "drift.tsv", 9, 12, 19).smallest == Approx(-1).margin(1e-3));
}

TEST_CASE("Thinning a long recording keeps a peak of one frame") {
  const Folder folder;
  Recording recording;
  for (int i = 0; i < 40'000; ++i) {
    TrueFrame frame;
    frame.camera_time_ns = i;
    frame.time_ns = at(0) + i * 500'000LL;
    frame.sample_nm = {i == 23'457 ? 77.0 : 0.0, 0.0};
    recording.add(frame);
  }
  const Phases phases = driftd::test::phases();
  draw_plot(recording, phases, make_report(recording, phases, {}, driftd::test::kExpected),
            folder.path);
  CHECK(extent_of(folder.path / "drift.tsv", 1, 0, 30).largest == Approx(77));
  std::ifstream in(folder.path / "drift.tsv");
  CHECK(std::count(std::istreambuf_iterator<char>(in), {}, '\n') < 7000);
}
