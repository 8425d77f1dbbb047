// SPDX-License-Identifier: MIT
// What driftctl export and report do not write: a drift of no frame, anything in the place of an
// input or a device.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "clients/driftctl/records/export.hpp"
#include "clients/driftctl/records/record_report.hpp"
#include "record/file_reader.hpp"
#include "record/file_writer.hpp"
#include "support/catch.hpp"

namespace driftd::clients {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kStart = 5'000 * kSecond;              // CLOCK_MONOTONIC
constexpr std::int64_t kWallStart = 1'795'427'232 * kSecond;  // 2026-11-23T09:47:12Z

/// A record of ten seconds, a frame each 0.1 s with the numbers 100 to 199.
class ARecord {
 public:
  /// @param change  of a frame by its place, from 0
  explicit ARecord(std::span<const record::PatternRow> pattern = {}, bool deep = false,
                   const std::function<void(std::size_t, record::FrameRow&)>& change = {})
      : folder(fs::temp_directory_path() / ("driftd-export-" + std::to_string(getpid()))),
        file(folder / "record.h5") {
    fs::remove_all(folder);
    fs::create_directories(folder);
    record::Header header;
    header.session = "s";
    header.series = "driftd_x";
    record::FileWriter writer(file, header, {});
    std::vector<record::FrameRow> rows(100);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto past_ns = static_cast<std::int64_t>(i) * kSecond / 10;
      rows[i].frame_id = 100 + i;
      rows[i].taken_ns = kStart + past_ns;
      rows[i].wall_ns = kWallStart + past_ns;
      rows[i].valid = true;
      rows[i].frame_x_nm = rows[i].frame_y_nm = static_cast<float>(i);
      rows[i].arrival_ns = rows[i].taken_ns;
      if (change) change(i, rows[i]);
      if (!deep || i == 50) continue;
      rows[i].z_nm = rows[i].frame_z_nm = static_cast<float>(2 * i);
      rows[i].z_sd_nm = rows[i].frame_z_sd_nm = 1.5F;
    }
    writer.append(std::span<const record::FrameRow>(rows));
    const record::ClockRow clock{.time_ns = kStart, .wall_ns = kWallStart};
    writer.append(std::span(&clock, 1));
    writer.append(pattern);
    writer.close("end");
  }
  ~ARecord() { fs::remove_all(folder); }
  ARecord(const ARecord&) = delete;
  ARecord& operator=(const ARecord&) = delete;

  fs::path list(const std::string& text) const {
    std::ofstream(folder / "list.txt") << text;
    return folder / "list.txt";
  }
  /// What driftctl says of these arguments; "": it has done it.
  static std::string said(std::vector<std::string> arguments) {
    CLI::App app;
    add_export(app);
    add_report(app);
    std::reverse(arguments.begin(), arguments.end());
    try {
      app.parse(arguments);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return {};
  }
  std::string exported(const fs::path& output, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"export", file.string(), "-o", output.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return said(arguments);
  }

  fs::path folder, file;
};

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("times that all lie beside the record are refused with both ranges, in every format") {
  const ARecord record;
  const fs::path out = record.folder / "out";
  for (const char* format : {"csv", "picasso", "thunderstorm"}) {
    const auto said = [&](const std::string& times, std::vector<std::string> more) {
      more.insert(more.end(), {"--times", record.list(times).string(), "--format", format,
                               "--pixel-size-nm", "100"});
      return record.exported(out, more);
    };
    CHECK_THAT(said("2026-11-23T10:47:12Z\n2026-11-23T10:47:15.5Z\n", {}),
               contains("list.txt: at none of its 2 times the record has a drift: they go from "
                        "2026-11-23T10:47:12.000Z to 2026-11-23T10:47:15.500Z, the record's frames "
                        "with a drift from 2026-11-23T09:47:12.000Z to 2026-11-23T09:47:21.900Z"));
    CHECK_THAT(
        said("12\n11\n", {"--clock", "monotonic"}),
        contains(
            "at none of its 2 times the record has a drift: they go from 11.000 s to 12.000 s, the "
            "record's frames with a drift from 5000.000 s to 5009.900 s of CLOCK_MONOTONIC"));
    CHECK(record.exported(out, {"--frame-ids", record.list("7\n99\n").string(), "--format", format,
                                "--pixel-size-nm", "100"}) ==
          record.folder.string() +
              "/list.txt: none of its 2 numbers is that of a frame with a drift: they go from 7 to "
              "99, the record's from 100 to 199");
    CHECK_FALSE(fs::exists(out));
    CHECK(said("5001\n9999\n", {"--clock", "monotonic"}).empty());  // one of them is there
    CHECK(fs::remove(out));
  }
}

TEST_CASE("how the markers' pattern lay is in the report and among the tables") {
  std::vector<record::PatternRow> rows(5);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].time_ns = kStart + static_cast<std::int64_t>(i) * kSecond;
    if (i == 2) continue;  // one that measured nothing
    rows[i].markers_used = 9;
    rows[i].rotation_mrad = 0.01 * static_cast<double>(i);
    rows[i].rotation_sd_mrad = 0.002;
    rows[i].scale_ppm = -3.0;
    rows[i].scale_sd_ppm = 2.0;
  }
  const ARecord record(rows);
  CHECK(ARecord::said({"report", record.file.string(), "-o", (record.folder / "r.html").string()})
            .empty());
  const std::string page = content(record.folder / "r.html");
  CHECK_THAT(page, contains("turned 0.0400 +- 0.0020 mrad, grown -3.0 +- 2.0 ppm") &&
                       contains("Rotation about the optical axis") && contains("Growth") &&
                       !contains("Tilt"));
  CHECK(record.exported(record.folder / "tables", {}).empty());
  const std::string table = content(record.folder / "tables" / "pattern.csv");
  CHECK_THAT(table, contains("\n5000000000000,9,0,0.002,-3,2,,,,\n") &&
                        contains("\n5002000000000,0,,,,,,,,\n"));
  CHECK(record.exported(record.folder / "one.h5", {"--format", "hdf5"}).empty());
  CHECK(record::FileReader(record.folder / "one.h5").pattern().size() == 5);
}

TEST_CASE("z has columns and a plot where it was measured, and nothing where it was not") {
  for (const bool deep : {true, false}) {
    CAPTURE(deep);
    const ARecord record({}, deep);
    const fs::path ids = record.list("110\n150\n");
    CHECK(record.exported(record.folder / "d.csv", {"--frame-ids", ids.string()}).empty());
    CHECK(content(record.folder / "d.csv") ==
          (deep ? "frame,x_nm,y_nm,x_sd_nm,y_sd_nm,frames_averaged,z_nm,z_sd_nm\n"
                  "0,10.0000,10.0000,nan,nan,1,20.0000,1.5000\n1,50.0000,50.0000,nan,nan,1,,\n"
                : "frame,x_nm,y_nm,x_sd_nm,y_sd_nm,frames_averaged\n"
                  "0,10.0000,10.0000,nan,nan,1\n1,50.0000,50.0000,nan,nan,1\n"));
    CHECK(ARecord::said({"report", record.file.string(), "-o", (record.folder / "r.html").string()})
              .empty());
    const std::string page = content(record.folder / "r.html");
    CHECK((page.find("z from its reference") != std::string::npos) == deep);
    CHECK((page.find("without z</th><td>1<") != std::string::npos) == deep);
  }
}

TEST_CASE("what became of a lock of z is in the report, and nothing of it without one") {
  constexpr std::uint8_t kIdle = 0, kLocked = 2, kHolding = 3;
  for (const bool held : {true, false}) {
    CAPTURE(held);
    const ARecord record({}, true, [held](std::size_t i, record::FrameRow& row) {
      row.state = kLocked;
      if (!held) return;
      row.z_state = i < 20 ? kIdle : i >= 60 && i < 65 ? kHolding : kLocked;
      row.z_lock_id = 2;
      // Moved along with what the record has as z, but for 3 nm.
      row.set_z_nm = 2 * static_cast<double>(i) - 3;
      row.total_z_nm = 5;
      if (row.z_state == kLocked)
        row.z_correction = i == 30 ? record::Sent::NotLeft : record::Sent::Left;
    });
    CHECK(ARecord::said({"report", record.file.string(), "-o", (record.folder / "r.html").string()})
              .empty());
    const std::string page = content(record.folder / "r.html");
    for (const char* part : {"<th>z locked</th><td>75.758 %<",
                             "residual of z while it was locked, rms</th><td>3.00 nm<",
                             "<th>corrections of z</th><td>75, 1 did not leave<",
                             "Where the stage of z was told to be", "<h2>Lost time of z</h2>",
                             "<td>holding: ?</td><td>1</td><td>0.400</td>"}) {
      INFO(part);
      CHECK((page.find(part) != std::string::npos) == held);
    }
    CHECK((page.find("(it is not corrected)") != std::string::npos) == !held);
  }
}

TEST_CASE("a record without markers' pattern has nothing of it in the report") {
  const ARecord record;
  CHECK(ARecord::said({"report", record.file.string(), "-o", (record.folder / "r.html").string()})
            .empty());
  CHECK_THAT(content(record.folder / "r.html"), !contains("pattern"));
}

TEST_CASE("a matrix without an inverse, or of no numbers, is refused") {
  const ARecord record;
  const auto said = [&](const std::vector<std::string>& matrix) {
    std::vector<std::string> more{"--times", record.list("5001\n").string(), "--clock", "monotonic",
                                  "--matrix"};
    more.insert(more.end(), matrix.begin(), matrix.end());
    return record.exported(record.folder / "out", more);
  };
  CHECK_THAT(said({"nan", "0", "0", "1"}), contains("is not in the range"));
  CHECK_THAT(said({"1", "0", "0", "inf"}), contains("is not in the range"));
  CHECK_THAT(said({"1", "2", "2", "4"}), contains("--matrix: 1 2 2 4 puts all drifts on one line"));
  CHECK_FALSE(fs::exists(record.folder / "out"));
  CHECK(said({"0", "-1", "1", "0"}).empty());
}

TEST_CASE("a copy that is not whole is not there") {
  const ARecord record;
  const fs::path copy = record.folder / "copy.h5";
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20'000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string said = record.exported(copy, {"--format", "hdf5"});
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, handler);
  CHECK_THAT(said, contains("limit"));
  CHECK(std::distance(fs::directory_iterator(record.folder), {}) == 1);  // the record
  CHECK(record.exported(copy, {"--format", "hdf5"}).empty());
  CHECK(fs::exists(copy));
  CHECK_THAT(record.exported(copy, {"--format", "hdf5"}), contains("copy.h5: is there already"));
}

TEST_CASE("nothing takes the place of an input or a device") {
  const ARecord record;
  const std::string before = content(record.file);
  const std::string times = record.list("5001\n").string();
  const std::vector<std::string> drift{"--times", times, "--clock", "monotonic"};
  const fs::path link = record.folder / "link";
  fs::create_symlink("record.h5", link);
  for (const fs::path& output : {record.file, link}) {
    CHECK_THAT(record.exported(output, drift), contains(": is an input"));
    CHECK_THAT(ARecord::said({"report", record.file.string(), "-o", output.string()}),
               contains(": is an input"));
  }
  CHECK_THAT(record.exported(times, drift), contains("list.txt: is an input"));
  CHECK(content(times) == "5001\n");
  CHECK(content(record.file) == before);
  const fs::path pipe = record.folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(record.exported(pipe, drift), contains("is a device, pipe or socket"));
  CHECK(fs::is_fifo(pipe));
  CHECK_THAT(record.exported(record.folder, drift), contains("is a folder"));
  // Another file is replaced, as it was.
  const fs::path older = record.folder / "older.csv";
  std::ofstream(older) << "older";
  CHECK(record.exported(older, drift).empty());
  CHECK_THAT(content(older), contains("frame,x_nm"));
}

}  // namespace
}  // namespace driftd::clients
