// SPDX-License-Identifier: MIT
// The drift during another camera's exposures, and the lists that tell of these.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "clients/driftctl/records/frame_times.hpp"
#include "clients/driftctl/records/record_files.hpp"
#include "clients/driftctl/records/science_drift.hpp"
#include "record/file_writer.hpp"
#include "support/catch.hpp"

using namespace driftd::clients;
using driftd::record::ClockRow;
using driftd::record::FrameRow;

namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kStart = 5'000'000'000'000;

/// A frame each 2 ms; the sample goes 1 nm/ms in x and -2 nm/ms in y.
FrameRow frame(int i, std::uint32_t reference = 0, double zero_nm = 0) {
  FrameRow row;
  row.frame_id = static_cast<std::uint64_t>(100 + i);
  row.taken_ns = kStart + i * 2 * kMillisecond;
  row.valid = true;
  row.reference = reference;
  row.frame_x_nm = static_cast<float>(2 * i - zero_nm);
  row.frame_y_nm = static_cast<float>(-4 * i + zero_nm);
  row.frame_x_sd_nm = row.frame_y_sd_nm = 0.4F;
  return row;
}

/// The same with a z of 3 nm/ms, but for each fourth frame.
FrameRow deep_frame(int i, std::uint32_t reference = 0, double zero_nm = 0) {
  FrameRow row = frame(i, reference, zero_nm);
  if (i % 4 == 0) return row;
  row.frame_z_nm = static_cast<float>(6 * i + 2 * zero_nm);
  row.frame_z_sd_nm = 1.5F;
  return row;
}

Exposure exposure(double begin_ms, double length_ms) {
  const auto begin = kStart + static_cast<std::int64_t>(begin_ms * kMillisecond);
  return {begin, begin + static_cast<std::int64_t>(length_ms * kMillisecond)};
}

DriftCurve straight(int frames) {
  DriftCurve curve;
  for (int i = 0; i < frames; ++i) {
    const FrameRow row = frame(i);
    curve.add(std::span(&row, 1));
  }
  return curve;
}

std::filesystem::path list(const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("driftd-times-" + std::to_string(getpid()) + ".txt");
  std::ofstream(path) << text;
  return path;
}

}  // namespace

TEST_CASE("an exposure's drift is the mean of the frames within it") {
  const DriftCurve curve = straight(200);
  const ScienceDrift drift = curve.over(exposure(19, 40));  // frames at 20, 22, .. 58 ms
  REQUIRE(drift.measured);
  CHECK(drift.frames == 20);
  CHECK(drift.x_nm == Approx(39));
  CHECK(drift.y_nm == Approx(-78));
  CHECK(drift.x_sd_nm == Approx(0.4 / std::sqrt(20.0)));
}

TEST_CASE(
    "a short exposure's drift lies between its neighbours; outside the record there is none") {
  const DriftCurve curve = straight(200);
  const ScienceDrift drift = curve.over(exposure(20.5, 0.5));
  REQUIRE(drift.measured);
  CHECK(drift.frames == 0);
  CHECK(drift.x_nm == Approx(20.75));
  CHECK_FALSE(curve.over(exposure(-5, 1)).measured);
  CHECK_FALSE(curve.over(exposure(399, 1)).measured);
  CHECK(std::isnan(curve.over(exposure(399, 1)).x_nm));
}

TEST_CASE("frames without a drift leave a hole that only a short time bridges") {
  DriftCurve curve;
  for (int i = 0; i < 400; ++i) {
    FrameRow row = frame(i);
    row.valid = (i < 50 || i >= 100) && (i < 200 || i >= 350);  // 100 ms, 300 ms
    curve.add(std::span(&row, 1));
  }
  CHECK(curve.over(exposure(150, 1)).x_nm == Approx(150.5));
  CHECK_FALSE(curve.over(exposure(550, 1)).measured);
}

TEST_CASE("a lock of z that takes a reference of its own makes no step in z, and none in x and y") {
  // Idle, referencing, locked, holding, unlocked, and locked anew: numbers of the lock's states.
  constexpr std::uint8_t kIdle = 0, kReferencing = 1, kLocked = 2, kHolding = 3;
  DriftCurve curve;
  for (int i = 0; i < 600; ++i) {
    FrameRow row = frame(i, 3);
    const bool first = i >= 150 && i < 300, second = i >= 400;
    row.z_state = i >= 120 && i < 150 ? kReferencing
                  : i == 200          ? kHolding
                  : first || second   ? kLocked
                                      : kIdle;
    row.z_lock_id = i < 120 ? 0 : i < 390 ? 4 : 7;
    row.frame_z_nm = static_cast<float>(0.5 * i - (i < 120   ? 0
                                                   : i < 150 ? 60
                                                   : i < 400 ? 67
                                                             : 200));
    row.frame_z_sd_nm = 1;
    curve.add(std::span(&row, 1));
  }
  for (const int i : {10, 119, 120, 149, 150, 199, 201, 350, 399, 400, 401, 599}) {
    INFO(i);
    const ScienceDrift drift = curve.at_frame(static_cast<std::uint64_t>(100 + i));
    REQUIRE(drift.measured);
    CHECK(drift.x_nm == 2.0 * i);
    // A join takes the means of 16 frames before and after for the same place: 8 nm of this way.
    CHECK(drift.z_nm == Approx(0.5 * i - (i < 120 ? 0 : i < 150 ? 8 : i < 400 ? 16 : 24)));
  }
}

TEST_CASE("a new reference makes no step in the curve") {
  DriftCurve curve;
  for (int i = 0; i < 300; ++i) {
    const FrameRow row = i < 150 ? frame(i, 3) : frame(i, 4, 290);
    curve.add(std::span(&row, 1));
  }
  CHECK(curve.notes().empty());
  // Both sides' 16 frames are taken for one place: their own drift of 32 nm is not seen.
  CHECK(curve.over(exposure(200, 0)).x_nm == Approx(200));
  CHECK(curve.over(exposure(590, 0)).x_nm == Approx(590 - 32));
  CHECK(curve.over(exposure(590, 0)).y_nm == Approx(-1180 + 64));
}

TEST_CASE("what happened while nothing was measured is not known, and that is said") {
  DriftCurve curve;
  for (int i = 0; i < 50; ++i) {
    const FrameRow row = frame(i, 3);
    curve.add(std::span(&row, 1));
  }
  for (int i = 2000; i < 2050; ++i) {
    const FrameRow row = frame(i, 4, 4000);
    curve.add(std::span(&row, 1));
  }
  REQUIRE(curve.notes().size() == 1);
  CHECK(curve.over(exposure(4000, 0)).x_nm == Approx(98));
  CHECK(curve.over(exposure(4010, 0)).x_nm == Approx(108));
}

TEST_CASE("a frame is found by its number") {
  const DriftCurve curve = straight(20);
  CHECK(curve.at_frame(107).x_nm == Approx(14));
  CHECK_FALSE(curve.at_frame(120).measured);
}

TEST_CASE("the wall clock is followed where it is slewed") {
  const std::int64_t second = 1'000'000'000;
  const WallClock wall({{0, 100 * second, 30, 1000},
                        {second, 101 * second + 40'000, 30, 2000},
                        {2 * second, 102 * second + 40'000, 50, 1500}});
  CHECK(wall.monotonic_ns(100 * second) == 0);
  CHECK(*wall.monotonic_ns(100 * second + 500'020'000) == Approx(500'000'000).margin(2));
  CHECK(wall.monotonic_ns(102 * second + 40'000) == 2 * second);
  CHECK(wall.monotonic_ns(104 * second + 40'000) == 4 * second);
  CHECK(wall.uncertainty_ns() == 40'000);
  CHECK(wall.utc_error_ns() == 2000);
  CHECK(WallClock({{0, 0, 1, 5}, {1, 1, 1, -1}}).utc_error_ns() == -1);
}

TEST_CASE("a time that the wall clock passed twice or never is not joined to a frame") {
  const std::int64_t second = 1'000'000'000;
  std::vector<ClockRow> back, forward;
  for (int i = 0; i < 200; ++i) {  // set by a minute after 100 s
    back.push_back({i * second, (1000 + i - (i < 100 ? 0 : 60)) * second, 30, -1});
    forward.push_back({i * second, (1000 + i + (i < 100 ? 0 : 60)) * second, 30, -1});
  }
  const WallClock set_back(back), set_forward(forward);
  CHECK(set_back.steps() == 1);
  CHECK(set_back.uncertainty_ns() == 30);
  CHECK(set_back.monotonic_ns(1010 * second) == 10 * second);
  CHECK(set_back.monotonic_ns(1120 * second) == 180 * second);
  CHECK_FALSE(set_back.monotonic_ns(1070 * second));  // 70 s and 130 s
  CHECK(set_forward.monotonic_ns(1050 * second) == 50 * second);
  CHECK(set_forward.monotonic_ns(1200 * second) == 140 * second);
  CHECK_FALSE(set_forward.monotonic_ns(1130 * second));
}

TEST_CASE("times are read exactly") {
  CHECK(time_ns("1795427232.123456789", TimeUnit::Seconds) == 1'795'427'232'123'456'789);
  CHECK(time_ns("12", TimeUnit::Milliseconds) == 12'000'000);
  CHECK(time_ns("0.5", TimeUnit::Microseconds) == 500);
  CHECK(time_ns("1795427232123456789", TimeUnit::Nanoseconds) == 1'795'427'232'123'456'789);
  CHECK(time_ns("2026-11-23T09:47:12.1234Z", TimeUnit::Seconds) == 1'795'427'232'123'400'000);
  CHECK(time_ns("2026-11-23 09:47:12", TimeUnit::Seconds) == 1'795'427'232'000'000'000);
  CHECK(time_ns("2026-11-23T10:47:12+01:00", TimeUnit::Seconds) == 1'795'427'232'000'000'000);
  for (const char* wrong : {"", "soon", "99999999999999999999", "2026-02-30T09:47:12Z"})
    CHECK_THROWS(time_ns(wrong, TimeUnit::Seconds));
}

TEST_CASE("a frame's number is a whole one") {
  CHECK(frame_number("12") == 12);
  CHECK(frame_number("12.0") == 12);
  for (const char* wrong : {"", "12.5", "-1", "2026-11-23T09:47:12Z"})
    CHECK_THROWS(frame_number(wrong));
}

TEST_CASE("a record's files come in their order, wherever they lie; one twice is refused") {
  using driftd::record::FileWriter;
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("driftd-parts-" + std::to_string(getpid()));
  fs::create_directories(folder / "a");
  const auto part = [&](const char* name, int number) {
    driftd::record::Header header;
    header.session = "s";
    header.series = "driftd_x";
    header.part = number;
    FileWriter writer(folder / name, header, {});
    const FrameRow row = frame(number);
    writer.append(std::span(&row, 1));
    writer.close("next file");
    return folder / name;
  };
  const std::vector<fs::path> files = {part("driftd_x_999.h5", 999), part("x_1000.h5", 1000),
                                       part("a/x_1001.h5", 1001)};
  std::vector<std::uint64_t> ids;
  RecordFiles(files).each_frames([&](std::span<const FrameRow> rows) {
    for (const FrameRow& row : rows) ids.push_back(row.frame_id);
  });
  CHECK(ids == std::vector<std::uint64_t>{1099, 1100, 1101});
  CHECK_THROWS(RecordFiles({files[0], files[1], files[0]}));
  fs::remove_all(folder);
}

TEST_CASE("a column is read from lists, CSV and logs; what is missing is named by its line") {
  using Texts = std::vector<std::string>;
  CHECK(read_column(list("# c\n1.5\n\n2.5\r\n"), 1, false) == Texts{"1.5", "2.5"});
  CHECK(read_column(list("frame,\"time (s)\"\n0,10.5\n1, 11.5\n"), 2, true) ==
        Texts{"10.5", "11.5"});
  CHECK(read_column(list("TTL 1 100 x\nTTL 2 200 x\n"), 3, true) == Texts{"100", "200"});
  std::string text;
  try {
    read_column(list("1,2\n3\n"), 2, true);
  } catch (const std::exception& error) {
    text = error.what();
  }
  CHECK(text.find(":2: has no column 2") != std::string::npos);
  CHECK_THROWS(read_column(list("# nothing\n"), 1, false));
  CHECK_THROWS(read_column("/nowhere", 1, false));
  CHECK(read_column(list("x;2 462\ny;2'463\n"), 2, true) == Texts{"2462", "2463"});
  CHECK_THROWS(read_column(list("998\n1 000\n"), 1, true));
  CHECK_THROWS(read_column(list("2 462\n2 463\n"), 1, false));
  CHECK(read_column(list("2 462\n2 463\n"), 1, true) == Texts{"2", "2"});
}

TEST_CASE("a column of times holds what it says, whatever ends the columns") {
  const auto then = [](const std::string& text, TimeColumn where = {}) {
    const FrameTimes times = read_times(list(text), where);
    REQUIRE(times.ns.size() == 1);
    return times.ns[0];
  };
  constexpr std::int64_t kThen = 1'795'902'646'590'000'000;
  constexpr TimeColumn kSecond{.column = 2, .told = true};
  CHECK(then("2026-11-28 21:50:46.59\n") == kThen);
  CHECK(then("2026-11-28T21:50:46,59\n") == kThen);
  CHECK(then("2026-11-28 13:50:46.590 -0800\n") == kThen);
  CHECK(then("2026-11-28 21:50:46.59 12\n") == kThen);
  CHECK(then("7 2026-11-28 21:50:46,59\n", kSecond) == kThen);
  CHECK(then("7 1795902646,59\n", kSecond) == kThen);
  CHECK(then("7,2026-11-28 21:50:46.59,12\n", kSecond) == kThen);
  CHECK(then("7,2026-11-28 21:50:46,590\n", kSecond) == kThen);
  CHECK(then("7,2026-11-28 13:50:46,590 -0800,x\n", kSecond) == kThen);
  CHECK(then("7,\"2026-11-28 21:50:46,590\",12\n", kSecond) == kThen);
  CHECK(then("7,\"2026-11-28T21:50:46\",59\n", kSecond) == kThen - 590'000'000);
  CHECK(then("7;2026-11-28 21:50:46,59;12\n", kSecond) == kThen);
  CHECK(then("7\t2026-11-28 21:50:46,59\n", kSecond) == kThen);
  CHECK(then("2026-11-28,21:50:46.59\n") == kThen);
  CHECK(then("\xef\xbb\xbf"
             "2026-11-28 21:50:46.59\n") == kThen);
  CHECK(then("1795902646,59\n", {.decimal_comma = true}) == kThen);
  CHECK(then("time\n1795902646,59\n") == kThen);
  CHECK(then("1795902646,59;3\n") == kThen);
  CHECK(then("1795902646,59\n", {.told = true}) == kThen - 590'000'000);
  CHECK(then("time,frame\n1795902646,59\n") == kThen - 590'000'000);
  CHECK(then("time,frame\n2026-11-28T21:50:46Z,59\n") == kThen - 590'000'000);
  CHECK(then("time,frame\n2026-11-28T21:50:46,59\n") == kThen - 590'000'000);
  CHECK(then("1795902646590000000,12\n", {.unit = TimeUnit::Nanoseconds}) == kThen);
}

TEST_CASE("a comma that may end a column or not is refused, and what is taken for what is said") {
  const auto refusal = [](const std::string& text, TimeColumn where = {}) -> std::string {
    try {
      read_times(list(text), where);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal("1795902646,59\n").find("decimal comma or two columns") != std::string::npos);
  CHECK(refusal("2026-11-28 21:50:46,9\n2026-11-28 21:50:46,10\n").find("or end a column") !=
        std::string::npos);
  CHECK(refusal("2026-11-28 21:50:46\nsoon\n").find(":2: 'soon' is neither") != std::string::npos);
  // Other times have a point, as str(datetime) leaves out a fraction that is 0.
  const FrameTimes points =
      read_times(list("2026-11-28 21:50:45.5,16\n2026-11-28 21:50:46,17\n"), {});
  CHECK(points.ns[1] - points.ns[0] == 500'000'000);
  const FrameTimes commas = read_times(list("2026-11-28 21:50:46,25\n"), {});
  REQUIRE(commas.notes.size() == 2);
  CHECK(commas.notes[0].find("taken for a decimal sign") != std::string::npos);
  CHECK(commas.notes[1].find("taken as UTC") != std::string::npos);
  CHECK(commas.dates);
  CHECK(read_times(list("2026-11-28 21:50:46.5Z\n"), {}).notes.empty());
  CHECK_FALSE(read_times(list("12.5\n"), {}).dates);
}

TEST_CASE("z of an exposure is the mean of the frames that have one, across a new zero") {
  DriftCurve curve;
  for (int i = 0; i < 200; ++i) {
    const FrameRow row = deep_frame(i, i < 100 ? 0 : 1, i < 100 ? 0 : 30);
    curve.add(std::span(&row, 1));
  }
  CHECK(curve.has_z());
  const ScienceDrift before =
      curve.over(exposure(19, 12));  // frames 10 to 15, of which 12 has none
  REQUIRE(before.measured);
  CHECK(before.frames == 6);
  CHECK(before.z_nm == Approx(6 * (10 + 11 + 13 + 14 + 15) / 5.0));
  // What z's scale may be off by is the same in each of them, and no more than is told of one.
  CHECK(before.z_sd_nm == Approx(std::hypot(1.5 / std::sqrt(5), 1.5)));
  const ScienceDrift near = curve.over(exposure(5, 10));  // frames 3 to 7, of which 4 has none
  REQUIRE(near.z_nm == Approx(31.5));
  CHECK(near.z_sd_nm == Approx(std::hypot(1.5 / std::sqrt(4), 0.0233 * 31.5)));
  // The zeros are joined as those of x and y are.
  const ScienceDrift after = curve.over(exposure(300, 1));
  CHECK(after.x_nm == Approx(270 - 2));  // of the frames 84 to 99 and 100 to 115
  CHECK(after.z_nm == Approx(960 - 156));
  CHECK(std::isnan(curve.over(exposure(24, 0.5)).z_nm));  // frame 12 alone
  CHECK(std::isnan(curve.at_frame(112).z_nm));
  CHECK(curve.at_frame(113).z_nm == Approx(78));
  CHECK_FALSE(straight(20).has_z());
  CHECK(std::isnan(straight(20).over(exposure(19, 12)).z_nm));
}
