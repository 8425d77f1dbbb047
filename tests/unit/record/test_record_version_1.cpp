// SPDX-License-Identifier: MIT
// Layout version 1 stays readable: `version_1.h5` was written by the first release, and every
// column that it has is read to the value that was written. A later writer cannot change that;
// where the layout has to, kLayoutVersion grows and the reader knows both.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/file_reader.hpp"
#include "record/file_writer.hpp"
#include "support/catch.hpp"
#include "support/source_dir.hpp"
#include "unit/camera/recording/leaks_allowed.hpp"

using namespace driftd::record;

namespace {

/// A column of version 1; of one with choices, the name of its value.
struct Known {
  const char* name;
  const char* choice = nullptr;
};

const std::vector<Known> kFrames = {{"frame_id"},
                                    {"camera_time_ns"},
                                    {"arrival_ns"},
                                    {"taken_ns"},
                                    {"wall_ns"},
                                    {"sent_ns"},
                                    {"state", "locked"},
                                    {"stale"},
                                    {"valid"},
                                    {"reference"},
                                    {"x_nm"},
                                    {"y_nm"},
                                    {"x_sd_nm"},
                                    {"y_sd_nm"},
                                    {"frame_x_nm"},
                                    {"frame_y_nm"},
                                    {"frame_x_sd_nm"},
                                    {"frame_y_sd_nm"},
                                    {"markers_used"},
                                    {"markers_total"},
                                    {"witness_valid"},
                                    {"witness_x_nm"},
                                    {"witness_y_nm"},
                                    {"witnesses_used"},
                                    {"lock_id"},
                                    {"correction", "not_left"},
                                    {"probe"},
                                    {"in_lock"},
                                    {"set_x_nm"},
                                    {"set_y_nm"},
                                    {"total_x_nm"},
                                    {"total_y_nm"},
                                    {"delta_x_nm"},
                                    {"delta_y_nm"},
                                    {"limited"}};
const std::vector<Known> kLocalizations = {{"frame_id"},
                                           {"marker_id"},
                                           {"role", "witness"},
                                           {"health", "fit_failed"},
                                           {"fitted"},
                                           {"x_px"},
                                           {"y_px"},
                                           {"x_sd_px"},
                                           {"y_sd_px"},
                                           {"sigma_px"},
                                           {"amplitude_adu"},
                                           {"background_adu"},
                                           {"residual_x_nm"},
                                           {"residual_y_nm"}};
const std::vector<Known> kStage = {
    {"received_ns"},    {"time_ns"},        {"lock_id"},       {"state", "not_referenced"},
    {"on_target"},      {"error"},          {"total_x_nm"},    {"total_y_nm"},
    {"position_x_nm"},  {"position_y_nm"},  {"target_x_nm"},   {"target_y_nm"},
    {"carried_out"},    {"ignored"},        {"refused"},       {"rate_hz"},
    {"latency_p50_us"}, {"latency_p99_us"}, {"latency_max_us"}};
const std::vector<Known> kClock = {
    {"time_ns"}, {"wall_ns"}, {"read_uncertainty_ns"}, {"utc_max_error_ns"}};
const std::vector<Known> kCounters = {{"time_ns"},        {"frames"},      {"superseded"},
                                      {"lost"},           {"incomplete"},  {"underruns"},
                                      {"resent_packets"}, {"disconnects"}, {"not_recorded"}};

/// A whole number that no other column has, from 3 to 251.
int number_of(std::string_view table, std::string_view column, std::size_t row) {
  unsigned sum = 17;
  for (const std::string_view text : {table, column})
    for (const char c : text) sum = sum * 31 + static_cast<unsigned char>(c);
  return 3 + static_cast<int>((sum + 97 * row) % 249);
}

/// What the file has in a column, as a number.
double value_of(const TableLayout& table, const Column& column, std::size_t row) {
  const int number = number_of(table.name, column.name, row);
  switch (column.kind) {
    case Kind::Flag:
      return number % 2;
    case Kind::Choice:
      return column.choices.size() > 2 ? 2 : 1;
    case Kind::F32:
    case Kind::F64:
      return number - 99.75;
    default:
      return number;
  }
}

template <class T>
double as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

template <class T>
void put(std::byte* at, double number) {
  const T value = static_cast<T>(number);
  std::memcpy(at, &value, sizeof value);
}

double read_from(const std::byte* at, Kind kind) {
  switch (kind) {
    case Kind::Flag:
    case Kind::U8:
    case Kind::Choice:
      return as<std::uint8_t>(at);
    case Kind::U16:
      return as<std::uint16_t>(at);
    case Kind::U32:
      return as<std::uint32_t>(at);
    case Kind::U64:
      return as<std::uint64_t>(at);
    case Kind::I64:
      return as<std::int64_t>(at);
    case Kind::F32:
      return as<float>(at);
    case Kind::F64:
      return as<double>(at);
    case Kind::Text:
      break;
  }
  return std::nan("");
}

void write_to(std::byte* at, Kind kind, double number) {
  switch (kind) {
    case Kind::Flag:
    case Kind::U8:
    case Kind::Choice:
      return put<std::uint8_t>(at, number);
    case Kind::U16:
      return put<std::uint16_t>(at, number);
    case Kind::U32:
      return put<std::uint32_t>(at, number);
    case Kind::U64:
      return put<std::uint64_t>(at, number);
    case Kind::I64:
      return put<std::int64_t>(at, number);
    case Kind::F32:
      return put<float>(at, number);
    case Kind::F64:
      return put<double>(at, number);
    case Kind::Text:
      break;
  }
}

constexpr std::size_t kRows = 2;

template <class Row>
void append_rows(FileWriter& writer, const TableLayout& table) {
  std::vector<Row> rows(kRows);
  for (std::size_t row = 0; row < kRows; ++row)
    for (const Column& column : table.columns)
      write_to(reinterpret_cast<std::byte*>(&rows[row]) + column.offset, column.kind,
               value_of(table, column, row));
  writer.append(std::span<const Row>(rows));
}

template <class Row>
void check_rows(const std::vector<Row>& rows, const TableLayout& table,
                const std::vector<Known>& columns) {
  REQUIRE(rows.size() == kRows);
  for (const Known& known : columns) {
    INFO(table.name << '.' << known.name);
    const auto column = std::ranges::find(table.columns, std::string_view(known.name),
                                          [](const Column& c) { return std::string_view(c.name); });
    REQUIRE(column != table.columns.end());
    CHECK((column->kind == Kind::Choice) == (known.choice != nullptr));
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto* at = reinterpret_cast<const std::byte*>(&rows[row]) + column->offset;
      const double value = read_from(at, column->kind);
      if (known.choice != nullptr)
        CHECK(choice_name(table, known.name, static_cast<std::uint8_t>(value)) ==
              std::string_view(known.choice));
      else
        CHECK(value == value_of(table, *column, row));
    }
  }
}

std::filesystem::path stored() {
  return driftd::test::source_dir() / "tests/unit/record/version_1.h5";
}

}  // namespace

// `test_record "[.store]"` wrote the file; it is not to be written anew.
TEST_CASE("a file to be stored is written", "[.store]") {
  FileWriter writer(std::filesystem::temp_directory_path() / "version_1.h5",
                    {.driftd_version = "0.1.0",
                     .session = "0123456789abcdef",
                     .camera = "a camera",
                     .configuration = "camera: {}\n",
                     .pixel_size_nm = 98.5,
                     .series = "driftd_x",
                     .part = 3,
                     .why = "lock"},
                    {.frames = kRows, .localizations = kRows});
  append_rows<FrameRow>(writer, frames_layout());
  append_rows<LocalizationRow>(writer, localizations_layout());
  append_rows<StageRow>(writer, stage_layout());
  append_rows<ClockRow>(writer, clock_layout());
  append_rows<CounterRow>(writer, counters_layout());
  const Event event{11, 12, "warning", "state_changed", "holding: no frames", R"({"a":1})"};
  writer.append(std::span<const Event>(&event, 1));
  writer.close("record stop");
}

TEST_CASE("a file of layout version 1 is read, every column of it") {
  const FileReader reader(stored());
  CHECK(reader.header().driftd_version == "0.1.0");
  CHECK(reader.header().session == "0123456789abcdef");
  CHECK(reader.header().camera == "a camera");
  CHECK(reader.header().configuration == "camera: {}\n");
  CHECK(reader.header().pixel_size_nm == 98.5);
  CHECK(reader.header().series == "driftd_x");
  CHECK(reader.header().part == 3);
  CHECK(reader.header().why == "lock");
  CHECK(reader.end() == "record stop");
  check_rows(reader.frames(0, reader.frame_count()), frames_layout(), kFrames);
  check_rows(reader.localizations(0, reader.localization_count()), localizations_layout(),
             kLocalizations);
  for (const FrameRow& row : reader.frames(0, reader.frame_count())) {
    CHECK_FALSE(row.z_valid);  // later columns
    CHECK(std::isnan(row.z_nm));
    CHECK(std::isnan(row.witness_z_nm));
  }
  for (const LocalizationRow& row : reader.localizations(0, reader.localization_count())) {
    CHECK(std::isnan(row.z_nm));
    CHECK(std::isnan(row.sigma_y_px));
  }
  check_rows(reader.stage(), stage_layout(), kStage);
  check_rows(reader.clock(), clock_layout(), kClock);
  check_rows(reader.counters(), counters_layout(), kCounters);
  REQUIRE(reader.events().size() == 1);
  const Event event = reader.events()[0];
  CHECK(event.time_ns == 11);
  CHECK(event.wall_ns == 12);
  CHECK(event.level == "warning");
  CHECK(event.code == "state_changed");
  CHECK(event.text == "holding: no frames");
  CHECK(event.fields == R"({"a":1})");
  CHECK(reader.pattern().empty());  // the table came later
}
