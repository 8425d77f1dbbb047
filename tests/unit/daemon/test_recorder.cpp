// SPDX-License-Identifier: MIT
// The recorder between a feed that the test fills and a folder of its own.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic.hpp"
#include "daemon/recorder/leavable_thread.hpp"
#include "daemon/recorder/record_folder.hpp"
#include "daemon/recorder/recorder.hpp"
#include "daemon/recorder/stage_rows.hpp"
#include "daemon/recorder/wall_clock.hpp"
#include "daemon/stage/stage_report.hpp"
#include "record/file_reader.hpp"
#include "record/file_writer.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using record::FileReader;
using Kind = RecordNotice::Kind;
namespace fs = std::filesystem;

namespace {

constexpr auto kPatience = std::chrono::seconds(60);

struct Bench {
  fs::path folder =
      fs::temp_directory_path() / ("driftd-recorder-" + std::to_string(getpid())) / "records";
  std::shared_ptr<RecordFeed> feed = std::make_shared<RecordFeed>(2);
  Recorder recorder{feed};
  std::vector<RecordNotice> notices;
  std::uint64_t frames = 0;

  ~Bench() { fs::remove_all(folder.parent_path()); }

  RecordOrder order() const {
    return {.settings = {.folder = folder,
                         .max_file_bytes = 1'000'000'000,
                         .max_file_ns = 3'600'000'000'000,
                         .retention = {.keep_bytes = 0, .keep_free_bytes = 1}},
            .header = {.driftd_version = "1",
                       .session = "s",
                       .camera = "c",
                       .configuration = "",
                       .pixel_size_nm = 100,
                       .series = "",
                       .part = 1,
                       .why = "command"},
            .frame_rate_hz = 500,
            .markers = 2};
  }
  const RecordNotice& await(Kind kind) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      for (RecordNotice& notice : recorder.desk().take_notices())
        notices.push_back(std::move(notice));
      const auto found = std::ranges::find(notices, kind, &RecordNotice::kind);
      if (found != notices.end()) return *found;
      REQUIRE(std::chrono::steady_clock::now() < until);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  fs::path begin(const RecordOrder& with) {
    recorder.desk().order(with);
    return await(Kind::Begun).file;
  }
  void end() {
    recorder.desk().end("told to");
    await(Kind::Ended);
  }
  /// As loop and publisher do.
  void push(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      RecordedFrame frame;
      frame.row.frame_id = ++frames;
      frame.row.valid = true;
      frame.row.taken_ns = frame.handed_ns = monotonic_ns();
      frame.row.correction = record::Sent::Unknown;
      frame.localizations = 2;
      for (std::uint32_t marker = 1; marker <= 2; ++marker) {
        record::LocalizationRow spot;
        spot.frame_id = frames;
        spot.marker_id = marker;
        REQUIRE(feed->localizations.push(spot));
      }
      const bool odd = frames % 2 == 1;
      REQUIRE(feed->sent.push({frame.handed_ns, frame.handed_ns + 50'000, odd}));
      REQUIRE(feed->frames.push(frame));
    }
  }
  /// In portions that the queue takes.
  void push_slowly(std::size_t count) {
    for (; count > 0; count -= std::min<std::size_t>(count, 100)) {
      push(std::min<std::size_t>(count, 100));
      while (feed->frames.room() < 200 || feed->localizations.room() < 400)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

void make(const fs::path& path, std::size_t bytes, std::chrono::hours age) {
  std::ofstream(path) << std::string(bytes, 'x');
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
}

}  // namespace

TEST_CASE("every frame is recorded once, with what became of its correction") {
  Bench bench;
  const fs::path file = bench.begin(bench.order());
  CHECK(bench.feed->wanted);
  bench.push_slowly(3210);
  bench.end();
  CHECK_FALSE(bench.feed->wanted);
  const FileReader reader(file);
  CHECK(reader.end() == "told to");
  REQUIRE(reader.frame_count() == 3210);
  REQUIRE(reader.localization_count() == 6420);
  const auto rows = reader.frames(0, 3210);
  const auto spots = reader.localizations(0, 6420);
  const std::int64_t offset_ns = read_clocks().wall_ns - read_clocks().time_ns;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    REQUIRE(rows[i].frame_id == i + 1);
    REQUIRE(spots[2 * i + 1].frame_id == i + 1);
    REQUIRE(rows[i].sent_ns == rows[i].taken_ns + 50'000);
    REQUIRE(rows[i].correction == (i % 2 == 0 ? record::Sent::Left : record::Sent::NotLeft));
    REQUIRE(std::abs(rows[i].wall_ns - rows[i].taken_ns - offset_ns) < 1'000'000'000);
  }
  CHECK_FALSE(reader.clock().empty());
}

TEST_CASE("a file that is full is followed by another, without a gap") {
  Bench bench;
  RecordOrder order = bench.order();
  order.settings.max_file_bytes = 200'000;
  bench.begin(order);
  std::size_t pushed = 0;
  while (std::ranges::count(bench.notices, Kind::NextFile, &RecordNotice::kind) < 2) {
    bench.push_slowly(500);
    pushed += 500;
    for (RecordNotice& notice : bench.recorder.desk().take_notices())
      bench.notices.push_back(std::move(notice));
    REQUIRE(pushed < 500'000);
  }
  bench.end();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(bench.folder))
    if (is_record_name(entry.path().filename().string())) files.push_back(entry.path());
  std::ranges::sort(files);
  REQUIRE(files.size() >= 3);
  std::uint64_t next = 1;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const FileReader reader(files[i]);
    CHECK(reader.header().part == static_cast<int>(i) + 1);
    for (const auto& row : reader.frames(0, reader.frame_count())) REQUIRE(row.frame_id == next++);
  }
  CHECK(next == pushed + 1);
}

TEST_CASE("a folder that vanishes ends the recording; the next one makes it anew") {
  Bench bench;
  bench.begin(bench.order());
  bench.push(10);
  fs::remove_all(bench.folder);
  CHECK(bench.await(Kind::Failed).text.find("No such file") != std::string::npos);
  CHECK_FALSE(bench.recorder.desk().status().recording);
  CHECK_FALSE(bench.feed->wanted);
  bench.notices.clear();
  const fs::path file = bench.begin(bench.order());
  bench.push(10);
  bench.end();
  CHECK(FileReader(file).frame_count() == 10);  // none of the recording before
}

TEST_CASE("a record that loses its name ends, though it could be written") {
  Bench bench;
  const fs::path file = bench.begin(bench.order());
  fs::rename(file, bench.folder / "kept.h5");
  CHECK(bench.await(Kind::Failed).text.find("No such file") != std::string::npos);
  CHECK(FileReader(bench.folder / "kept.h5").end().find("No such file") != std::string::npos);
}

TEST_CASE("where no record can be, none is begun, and why is said") {
  Bench bench;
  RecordOrder order = bench.order();
  order.settings.folder = "/dev/null/records";
  bench.recorder.desk().order(order);
  CHECK(bench.await(Kind::NotBegun).text.find("/dev/null") != std::string::npos);
  bench.notices.clear();
  order = bench.order();
  order.settings.retention.keep_free_bytes = std::int64_t{1} << 60;
  bench.recorder.desk().order(order);
  CHECK(bench.await(Kind::NotBegun).text.find("record.keep_free_mb") != std::string::npos);
  CHECK(fs::is_empty(bench.folder));
}

TEST_CASE("a disk that fills up ends the recording before it is full") {
  const fs::path in_memory = "/dev/shm";  // where nobody else writes or removes meanwhile
  Bench bench;
  if (fs::exists(in_memory))
    bench.folder = in_memory / ("driftd-recorder-" + std::to_string(getpid())) / "records";
  RecordOrder order = bench.order();
  bench.begin(order);
  // As if others had filled it: more is to stay free than there is.
  bench.recorder.desk().end("told to");
  bench.await(Kind::Ended);
  bench.notices.clear();
  order.settings.retention.keep_free_bytes = free_bytes(bench.folder) - 1'000'000;
  bench.begin(order);
  const fs::path ballast = bench.folder / "ballast";
  std::ofstream(ballast) << std::string(8'000'000, 'x');
  CHECK(bench.await(Kind::Failed).text.find("record.keep_free_mb") != std::string::npos);
}

TEST_CASE("old records make room, the oldest first; nothing else is touched") {
  Bench bench;
  fs::create_directories(bench.folder);
  const auto at = [&](const char* name) { return bench.folder / name; };
  using std::chrono::hours;
  make(at("driftd_20260101T000000.000Z_001.h5"), 4000, hours(9));
  make(at("driftd_20260101T000000.000Z_002.h5"), 4000, hours(8));
  make(at("driftd_20260102T000000.000Z_001.h5"), 4000, hours(7));
  make(at("driftd_20260103T000000.000Z_001.h5"), 4000, hours(0));  // still written, perhaps
  make(at("my_20260101T000000.000Z_001.h5"), 9000, hours(99));
  make(at("driftd_20260101T000000.000Z_001.h5.bak"), 9000, hours(99));
  make(at("driftd_20260101T000000.000Z_001.csv"), 9000, hours(99));  // somebody's export
  const auto removed =
      remove_old_records(bench.folder, {.keep_bytes = 9000, .keep_free_bytes = 0}, {});
  CHECK(removed == std::vector{at("driftd_20260101T000000.000Z_001.h5"),
                               at("driftd_20260101T000000.000Z_002.h5")});
  // Not the current one; and none where that would be for nothing.
  CHECK(remove_old_records(bench.folder, {.keep_bytes = 1, .keep_free_bytes = 0},
                           at("driftd_20260102T000000.000Z_001.h5"))
            .empty());
  CHECK(remove_old_records(bench.folder,
                           {.keep_bytes = 0, .keep_free_bytes = std::int64_t{1} << 60}, {})
            .empty());
  CHECK(fs::exists(at("driftd_20260102T000000.000Z_001.h5")));
  CHECK(fs::exists(at("driftd_20260103T000000.000Z_001.h5")));
  CHECK(fs::exists(at("my_20260101T000000.000Z_001.h5")));
  CHECK(fs::exists(at("driftd_20260101T000000.000Z_001.h5.bak")));
  CHECK(fs::exists(at("driftd_20260101T000000.000Z_001.csv")));
}

TEST_CASE("a record that is open stays, even when the clock was set forward") {
  Bench bench;
  fs::create_directories(bench.folder);
  const fs::path path = record_file(bench.folder, "driftd_20260101T000000.000Z", 1);
  const auto remove = [&] {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
    return remove_old_records(bench.folder, {.keep_bytes = 1, .keep_free_bytes = 0}, {});
  };
  record::FileWriter writer(path, bench.order().header, {});  // another daemon's
  CHECK(remove().empty());
  writer.close("told to");
  CHECK(remove() == std::vector{path});
}

TEST_CASE("the thousandth part is younger than the others") {
  Bench bench;
  fs::create_directories(bench.folder);
  const auto part = [&](int number) {
    return record_file(bench.folder, "driftd_20260101T000000.000Z", number);
  };
  for (const int number : {101, 999, 1000}) make(part(number), 4000, std::chrono::hours(1));
  CHECK(remove_old_records(bench.folder, {.keep_bytes = 9000, .keep_free_bytes = 0}, {}) ==
        std::vector{part(101)});
}

TEST_CASE("a wrong clock makes no record older or younger than it is") {
  Bench bench;
  fs::create_directories(bench.folder);
  const fs::path earlier = bench.folder / "driftd_20990101T000000.000Z_001.h5";  // a clock ahead
  make(earlier, 40'000, std::chrono::hours(-24 * 365 * 70));
  const auto record = [&] {
    const fs::path file = bench.begin(bench.order());
    bench.push(10);
    bench.end();
    bench.notices.clear();
    return file;
  };
  const auto remove_down_to = [&](const std::vector<fs::path>& kept) {
    std::int64_t bytes = 0;
    for (const fs::path& path : kept) bytes += static_cast<std::int64_t>(fs::file_size(path));
    return remove_old_records(bench.folder, {.keep_bytes = bytes, .keep_free_bytes = 0}, {});
  };
  const fs::path first = record();
  fs::last_write_time(first, fs::file_time_type::clock::now() - std::chrono::hours(1));
  CHECK(remove_down_to({first}) == std::vector{earlier});
  // As after a boot without a clock: by its name and its times the second is of 1970.
  const fs::path made = record(), second = bench.folder / "driftd_19700101T000102.123Z_001.h5";
  fs::remove(made);
  record_begun(second);
  make(second, 40'000, std::chrono::hours(24 * 365 * 50));
  CHECK(remove_down_to({second}) == std::vector{first});
  CHECK(fs::exists(second));
}

TEST_CASE("what is known of the records' order is of those that there are") {
  Bench bench;
  fs::create_directories(bench.folder);
  const auto part = [&](int number) {
    return record_file(bench.folder, "driftd_20260101T000000.000Z", number);
  };
  for (int number = 1; number <= 50; ++number) {
    record_begun(part(number));
    make(part(number), 10, std::chrono::hours(1));
    if (number > 2) fs::remove(part(number - 2));
  }
  CHECK(fs::file_size(bench.folder / kRecordOrder) < 200);
  // Damaged or foreign, it names nothing.
  std::ofstream(bench.folder / kRecordOrder) << "../x\n\n" << std::string(100'000, 'y');
  CHECK(remove_old_records(bench.folder, {.keep_bytes = 15, .keep_free_bytes = 0}, {}) ==
        std::vector{part(49)});
  record_begun(part(51));
  CHECK(fs::file_size(bench.folder / kRecordOrder) < 200);
}

TEST_CASE("an order of records that cannot be kept, or is not ours, stops no recording") {
  Bench bench;
  fs::create_directories(bench.folder);
  const fs::path order = bench.folder / kRecordOrder, fresh = order.string() + ".new";
  const fs::path other = bench.folder / "other";
  const auto part = [&](int number) {
    const fs::path file = record_file(bench.folder, "driftd_20260101T000000.000Z", number);
    make(file, 10, std::chrono::hours(1));
    return file;
  };
  std::ofstream(other) << "precious";
  fs::create_symlink(other, fresh);
  record_begun(part(1));
  CHECK(fs::file_size(other) == 8);
  CHECK(fs::is_regular_file(fs::symlink_status(order)));
  fs::create_directory(fresh);
  record_begun(part(2));
  CHECK_FALSE(fs::exists(order));  // it would name an older one as the newest
  fs::remove(fresh);
  fs::create_directory(order);
  record_begun(part(3));
  CHECK(remove_old_records(bench.folder, {.keep_bytes = 25, .keep_free_bytes = 0}, {}) ==
        std::vector{part(1)});
}

TEST_CASE("names of records tell when they began, in UTC") {
  CHECK(series_name(1'795'427'232'123'456'789) == "driftd_20261123T094712.123Z");
  CHECK(is_record_name(record_file({}, series_name(1'795'427'232'123'456'789), 7).string()));
  CHECK_FALSE(is_record_name("driftd_20261123T094712.123Z_001.h5x"));
  CHECK_FALSE(is_record_name("driftd_20261123T094712.123Z.h5"));
}

TEST_CASE("a thread that ends is waited for, one that the disk keeps is left behind") {
  const auto done = std::make_shared<std::atomic<bool>>(false);
  LeavableThread ends("ends", [done] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    *done = true;
  });
  CHECK(ends.join_or_leave(kPatience));
  CHECK(*done);
  std::promise<void> disk;
  LeavableThread kept("kept", [answer = disk.get_future().share()] { answer.wait(); });
  CHECK_FALSE(kept.join_or_leave(std::chrono::milliseconds(1)));
  CHECK(kept.join_or_leave());  // it is nobody's any more
  disk.set_value();
}

TEST_CASE("a record's names of the driver's states are the protocol's") {
  for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(DriverState::Stopped); ++i) {
    CHECK(std::string(record::choice_name(record::stage_layout(), "state", i)) ==
          name_of(static_cast<DriverState>(i)));
  }
}

TEST_CASE("a row of a report has each axis that its driver moves, and NaN for the others") {
  const auto row_of = [](const char* text) {
    return stage_row(read_stage_report(nlohmann::json::parse(text)), 7);
  };
  const record::StageRow three =
      row_of(R"({"instance":"0123456789abcdef","driver":"a","state":"ready",
    "axes":[{"axis":"y","position_nm":2,"target_nm":3},{"axis":"z","position_nm":5,"target_nm":6},
            {"axis":"x","position_nm":8}],
    "session":"fedcba9876543210","lock_id":4,"total_x_nm":1.5,"total_y_nm":-1.5,
    "z_session":"fedcba9876543210","z_lock_id":9,"total_z_nm":12.5})");
  CHECK(three.received_ns == 7);
  CHECK((three.lock_id == 4 && three.z_lock_id == 9));
  CHECK((three.total_x_nm == 1.5 && three.total_y_nm == -1.5 && three.total_z_nm == 12.5));
  CHECK((three.position_x_nm == 8 && three.position_y_nm == 2 && three.position_z_nm == 5));
  CHECK((three.target_y_nm == 3 && three.target_z_nm == 6));
  CHECK(std::isnan(three.target_x_nm));
  const record::StageRow flat =
      row_of(R"({"instance":"0123456789abcdef","driver":"a","state":"ready",
    "axes":[{"axis":"x","position_nm":1},{"axis":"y","position_nm":2}],"total_x_nm":1,"total_y_nm":2})");
  CHECK(flat.position_x_nm == 1);
  CHECK(flat.z_lock_id == 0);
  CHECK((std::isnan(flat.total_z_nm) && std::isnan(flat.position_z_nm) &&
         std::isnan(flat.target_z_nm)));
}
