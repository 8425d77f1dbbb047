// SPDX-License-Identifier: MIT
// A record's file: what was flushed is read back, whatever ended its writer.
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "record/file_reader.hpp"
#include "record/file_writer.hpp"
#include "support/catch.hpp"
#include "support/instrumented.hpp"
#include "unit/camera/recording/leaks_allowed.hpp"

using namespace driftd::record;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("driftd-record-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  fs::path file(const std::string& name) const { return path / name; }
};

Header header() {
  return {.driftd_version = "1.2",
          .session = "0123456789abcdef",
          .camera = "a camera",
          .configuration = "camera: {}\n",
          .pixel_size_nm = 98.5,
          .series = "driftd_x",
          .part = 3,
          .why = "command"};
}

std::vector<FrameRow> frames(std::uint64_t first, std::size_t count) {
  std::vector<FrameRow> rows(count);
  for (std::size_t i = 0; i < count; ++i) {
    rows[i].frame_id = first + i;
    rows[i].taken_ns = static_cast<std::int64_t>(first + i) * 2'000'000;
    rows[i].x_nm = static_cast<float>(std::sin(static_cast<double>(first + i)));
    rows[i].valid = true;
  }
  return rows;
}

void append(FileWriter& writer, const std::vector<FrameRow>& rows) {
  writer.append(std::span<const FrameRow>(rows));
}

/// What HDF5 writes to goes on as `target`.
void turn_file_into(const fs::path& path, const char* target, int flags) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (fs::read_symlink(entry.path(), error) != path) continue;
    const int other = open(target, flags);
    REQUIRE(other >= 0);
    dup2(other, std::stoi(entry.path().filename().string()));
    close(other);
    return;
  }
  FAIL("no descriptor of " + path.string());
}

}  // namespace

TEST_CASE("a record's rows, texts and header come back") {
  const Folder folder;
  const fs::path path = folder.file("a.h5");
  FileWriter writer(path, header(), {.frames = 10, .localizations = 20});
  append(writer, frames(5, 25));
  LocalizationRow spot;
  spot.frame_id = 7;
  spot.marker_id = 4;
  spot.x_px = 1234.56789;
  spot.health = 2;
  writer.append(std::span<const LocalizationRow>(&spot, 1));
  const Event event{11, 12, "info", "state_changed", "locked: reference taken", R"({"a":1})"};
  writer.append(std::span<const Event>(&event, 1));
  const ClockRow clock{1, 1'700'000'000'000'000'000, 25, -1};
  writer.append(std::span<const ClockRow>(&clock, 1));
  const PatternRow pattern{
      .time_ns = 13, .markers_used = 12, .rotation_mrad = 0.02, .tilt_y_mrad = -3};
  writer.append(std::span<const PatternRow>(&pattern, 1));
  writer.close("record stop");

  const FileReader reader(path);
  CHECK(reader.header().configuration == "camera: {}\n");
  CHECK(reader.header().pixel_size_nm == 98.5);
  CHECK(reader.header().part == 3);
  CHECK(reader.header().why == "command");
  CHECK(reader.end() == "record stop");
  REQUIRE(reader.frame_count() == 25);
  const auto rows = reader.frames(20, 5);
  CHECK(rows[4].frame_id == 29);
  CHECK(rows[4].x_nm == Approx(std::sin(29.0)));
  CHECK(std::isnan(rows[4].witness_x_nm));
  const auto spots = reader.localizations(0, 1);
  CHECK(spots[0].x_px == 1234.56789);
  CHECK(spots[0].health == 2);
  REQUIRE(reader.events().size() == 1);
  CHECK(reader.events()[0].text == "locked: reference taken");
  CHECK(reader.events()[0].fields == R"({"a":1})");
  CHECK(reader.clock()[0].wall_ns == 1'700'000'000'000'000'000);
  CHECK(reader.stage().empty());
  REQUIRE(reader.pattern().size() == 1);
  CHECK(reader.pattern()[0].time_ns == 13);
  CHECK(reader.pattern()[0].markers_used == 12);
  CHECK(reader.pattern()[0].rotation_mrad == 0.02);
  CHECK(reader.pattern()[0].tilt_y_mrad == -3);
  CHECK(std::isnan(reader.pattern()[0].tilt_x_mrad));
}

TEST_CASE("what was flushed survives a kill, in the middle of anything else") {
  const Folder folder;
  const fs::path path = folder.file("killed.h5");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    FileWriter writer(path, header(), {.frames = 100, .localizations = 100});
    for (std::uint64_t i = 0; i < 20; ++i) {
      append(writer, frames(100 * i, 100));
      writer.flush();
    }
    append(writer, frames(2000, 130));  // not flushed
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  const FileReader reader(path);
  CHECK(reader.end().empty());
  REQUIRE(reader.frame_count() >= 2000);
  const auto rows = reader.frames(0, 2000);
  for (std::size_t i = 0; i < rows.size(); ++i) REQUIRE(rows[i].frame_id == i);
}

/// Another process that writes a file: a hundred frames and an event more each time, flushed.
class OtherWriter {
 public:
  explicit OtherWriter(const fs::path& path) {
    REQUIRE(pipe(orders_) == 0);
    REQUIRE(pipe(answers_) == 0);
    child_ = fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) write_to(path);
    wait();
  }
  ~OtherWriter() {
    kill(child_, SIGKILL);
    int status = 0;
    waitpid(child_, &status, 0);
    for (const int fd : {orders_[0], orders_[1], answers_[0], answers_[1]}) close(fd);
  }
  OtherWriter(const OtherWriter&) = delete;
  OtherWriter& operator=(const OtherWriter&) = delete;
  void more() {
    REQUIRE(write(orders_[1], "m", 1) == 1);
    wait();
  }

 private:
  void wait() const {
    char byte = 0;
    REQUIRE(read(answers_[0], &byte, 1) == 1);
  }
  [[noreturn]] void write_to(const fs::path& path) const {
    FileWriter writer(path, header(), {.frames = 256, .localizations = 100});
    char byte = 0;
    for (std::uint64_t i = 0;; ++i) {
      append(writer, frames(100 * i, 100));
      const Event event{.time_ns = static_cast<std::int64_t>(i),
                        .wall_ns = 0,
                        .level = "info",
                        .code = "a",
                        .text = std::to_string(i),
                        .fields = "{}"};
      writer.append(std::span(&event, 1));
      writer.flush();
      if (::write(answers_[1], "w", 1) != 1 || ::read(orders_[0], &byte, 1) != 1) _exit(1);
    }
  }

  int orders_[2]{}, answers_[2]{};
  pid_t child_ = -1;
};

TEST_CASE("a file is read while it grows: what was flushed since it was opened does not spoil it") {
  const driftd::test::LeaksAllowed libhdf5;  // of texts that it could not read
  const Folder folder;
  const fs::path path = folder.file("growing.h5");
  OtherWriter writer(path);
  for (int i = 0; i < 20; ++i) {
    const FileReader reader(path);
    writer.more();  // before anything of a table was read
    const std::uint64_t count = reader.frame_count();
    REQUIRE(count >= 100 * static_cast<std::uint64_t>(i + 1));
    writer.more();  // its last chunk is written anew, elsewhere
    const auto rows = reader.frames(0, count);
    for (std::size_t k = 0; k < rows.size(); ++k) REQUIRE(rows[k].frame_id == k);
    writer.more();
    const auto events = reader.events();
    for (std::size_t k = 0; k < events.size(); ++k) REQUIRE(events[k].text == std::to_string(k));
  }
}

TEST_CASE("a file's writer needs no more memory the longer the file is") {
  if (driftd::test::kInstrumented) {
    WARN("SKIPPED: a sanitizer owns the allocator");
    return;
  }
  const Folder folder;
  FileWriter writer(folder.file("a.h5"), header(), {.frames = 1, .localizations = 1});
  auto write = [&writer, written = std::uint64_t{0}](std::uint64_t chunks) mutable {
    for (const std::uint64_t end = written + chunks; written < end; ++written) {
      append(writer, frames(written, 1));
      const StageRow row{.received_ns = static_cast<std::int64_t>(written)};
      writer.append(std::span(&row, 1));
      if (written % 50 == 0) writer.flush();
    }
  };
  write(2000);
  const std::size_t before = mallinfo2().uordblks;
  // When HDF5 keeps the whole index, 10 MB more; with 1 MiB of each table's last chunks, 0.8 MB.
  write(20000);
  CHECK(mallinfo2().uordblks < before + (std::size_t{256} << 10));
}

/// Calls by which this process wrote to files.
long writes() {
  std::ifstream io("/proc/self/io");
  for (std::string word; io >> word;)
    if (long count = 0; word == "syscw:" && io >> count) return count;
  return -1;
}

TEST_CASE("rows wait for a flush, of every table") {
  const Folder folder;
  FileWriter writer(folder.file("a.h5"), header(), {.frames = 16, .localizations = 16});
  const StageRow stage;
  const ClockRow clock;
  const CounterRow counters;
  const LocalizationRow spot;
  const Event event{1, 2, "warning", "marker_lost", "marker 3", "{}"};
  const PatternRow pattern;
  const long before = writes();
  if (before < 0) {
    WARN("SKIPPED: /proc/self/io cannot be read");
    return;
  }
  for (int i = 0; i < 12; ++i) {
    append(writer, frames(static_cast<std::uint64_t>(i), 1));
    writer.append(std::span(&spot, 1));
    writer.append(std::span(&stage, 1));
    writer.append(std::span(&clock, 1));
    writer.append(std::span(&counters, 1));
    writer.append(std::span(&event, 1));
    writer.append(std::span(&pattern, 1));
  }
  CHECK(writes() - before <= 2);
  writer.flush();
  CHECK(writes() - before > 2);
}

TEST_CASE("no room ends a record with a whole file") {
  const Folder folder;
  const fs::path path = folder.file("full.h5");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  std::string problem;
  std::uint64_t written = 0;
  {
    FileWriter writer(path, header(), {.frames = 1000, .localizations = 10});
    rlimit limit = before;
    limit.rlim_cur = 2'000'000;
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      for (std::uint64_t i = 0; i < 1000; ++i) {
        auto rows = frames(1000 * i, 1000);
        // Noise: what cannot be compressed.
        for (auto& row : rows) row.total_x_nm = std::sin(1e9 * static_cast<double>(row.frame_id));
        append(writer, rows);
        writer.flush();
        written += rows.size();
      }
    } catch (const RecordError& error) {
      problem = error.what();
    }
    CHECK_NOTHROW(writer.close("full"));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  CHECK(problem.find("full.h5") != std::string::npos);
  const FileReader reader(path);
  CHECK(reader.end() == "full");
  CHECK(reader.frame_count() == written);
  CHECK(reader.frames(0, written).back().frame_id == written - 1);
}

TEST_CASE("a disk that takes nothing any more costs what was not flushed, and nothing else") {
  const Folder folder;
  for (const int reads : {0, 1, 2}) {  // descriptor that may not be written; full ones
    const fs::path path = folder.file("broken" + std::to_string(reads) + ".h5");
    {
      FileWriter writer(path, header(), {.frames = 100, .localizations = 100});
      append(writer, frames(0, 100));
      writer.flush();
      if (reads == 0)
        turn_file_into(path, path.c_str(), O_RDONLY);
      else
        turn_file_into(path, "/dev/full", O_RDWR);
      CHECK_THROWS_AS(
          [&] {
            for (std::uint64_t i = 1; i < 30; ++i) {
              append(writer, frames(100 * i, 100));
              if (reads == 2) writer.flush();
            }
            writer.flush();
          }(),
          RecordError);
      try {
        writer.close("broken");
      } catch (const RecordError&) {
      }
    }
    CHECK(FileReader(path).frame_count() == 100);
  }
  FileWriter next(folder.file("next.h5"), header(), {.frames = 100, .localizations = 100});
  append(next, frames(0, 250));
  next.close("fine");
  CHECK(FileReader(folder.file("next.h5")).frame_count() == 250);
}

TEST_CASE("a file that went, or was replaced, is noticed") {
  const Folder folder;
  const fs::path path = folder.file("gone.h5");
  FileWriter writer(path, header(), {});
  CHECK(writer.lost().empty());
  fs::rename(path, folder.file("away.h5"));
  CHECK(writer.lost().find("No such file") != std::string::npos);
  FileWriter another(path, header(), {});
  CHECK(writer.lost().find("another file") != std::string::npos);
}

TEST_CASE("what cannot be a record is refused by name") {
  const Folder folder;
  const auto refusal = [](const fs::path& path) -> std::string {
    try {
      FileReader reader(path);
    } catch (const RecordError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal(folder.file("none.h5")).find("none.h5: cannot be read") != std::string::npos);
  CHECK_THROWS_AS(FileWriter("/nowhere/a.h5", header(), {}), RecordError);
  const fs::path path = folder.file("twice.h5");
  FileWriter writer(path, header(), {});
  CHECK_THROWS_AS(FileWriter(path, header(), {}), RecordError);
}
