// SPDX-License-Identifier: MIT
#include "record/file_reader.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "record/table_type.hpp"

namespace driftd::record {
namespace {

using camera::Hdf5Handle;

/// An attribute of one value; a list of them would not fit where one is expected.
Hdf5Handle single_attribute(hid_t of, const char* name) {
  if (H5Aexists(of, name) <= 0) return {};
  Hdf5Handle attribute(H5Aopen(of, name, H5P_DEFAULT), H5Aclose);
  const Hdf5Handle space(H5Aget_space(attribute.get()), H5Sclose);
  return H5Sget_simple_extent_npoints(space.get()) == 1 ? std::move(attribute) : Hdf5Handle{};
}

std::string text_attribute(hid_t of, const char* name) {
  const Hdf5Handle attribute = single_attribute(of, name);
  const Hdf5Handle type(H5Aget_type(attribute.get()), H5Tclose);
  if (!type || H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) > 0)
    return {};
  std::string text(H5Tget_size(type.get()), '\0');
  if (H5Aread(attribute.get(), type.get(), text.data()) < 0) return {};
  return text.substr(0, text.find('\0'));
}

template <typename T>
T number_attribute(hid_t of, const char* name, hid_t type, T fallback) {
  const Hdf5Handle attribute = single_attribute(of, name);
  if (attribute) H5Aread(attribute.get(), type, &fallback);
  return fallback;
}

/// Whether so many rows can have been written: each has its place in a chunk that is there. Rows
/// that a table only says to have are any number.
bool has_rows(hid_t dataset, hid_t space, hsize_t rows) {
  const Hdf5Handle made(H5Dget_create_plist(dataset), H5Pclose);
  hsize_t in_chunk = 0;
  hsize_t chunks = 0;
  return H5Pget_layout(made.get()) == H5D_CHUNKED && H5Pget_chunk(made.get(), 1, &in_chunk) == 1 &&
         in_chunk > 0 && H5Dget_num_chunks(dataset, space, &chunks) >= 0 &&
         (rows - 1) / in_chunk < chunks;
}

}  // namespace

struct FileReader::Handles {
  Hdf5Handle file;
};

/// A flush meanwhile moves what the index said when the file was opened; opened anew the file is as
/// of that flush, with the same rows and more.
template <typename Read>
auto FileReader::steadily(Read read) const {
  constexpr int kMostTries = 20;
  constexpr std::chrono::milliseconds kBetween{50};  // flushes take some, and come twice a second
  for (int tries = 1;; ++tries) {
    try {
      if (!handles_->file) open();
      return read();
    } catch (const RecordError&) {
      if (tries == kMostTries || !is_in_use(path_)) throw;
      handles_->file = {};
      std::this_thread::sleep_for(kBetween);
    }
  }
}

FileReader::FileReader(std::filesystem::path path)
    : path_(std::move(path)), handles_(std::make_unique<Handles>()) {
  camera::silence_hdf5();
  steadily([this] { read_header(); });
}

void FileReader::open() const {
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), false, true);
  handles_->file = Hdf5Handle(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!handles_->file)
    throw RecordError(path_.string() + ": cannot be read: " + camera::hdf5_reason());
}

void FileReader::read_header() {
  const hid_t file = handles_->file.get();
  if (text_attribute(file, "format") != "driftd record")
    throw RecordError(path_.string() + ": is an HDF5 file, but no record of driftd's");
  const auto version = number_attribute<std::int64_t>(file, "layout_version", H5T_NATIVE_INT64, 0);
  if (version != kLayoutVersion) {
    throw RecordError(path_.string() + ": has layout version " + std::to_string(version) +
                      "; this driftctl reads version " + std::to_string(kLayoutVersion));
  }
  header_ = {
      .driftd_version = text_attribute(file, "driftd_version"),
      .session = text_attribute(file, "session"),
      .camera = text_attribute(file, "camera"),
      .configuration = text_attribute(file, "configuration"),
      .pixel_size_nm = number_attribute(file, "pixel_size_nm", H5T_NATIVE_DOUBLE, 0.0),
      .series = text_attribute(file, "series"),
      .part = static_cast<int>(number_attribute<std::int64_t>(file, "part", H5T_NATIVE_INT64, 1)),
      .why = text_attribute(file, "begun_by")};
  end_ = text_attribute(file, "end");
}

FileReader::~FileReader() = default;
FileReader::FileReader(FileReader&&) noexcept = default;

std::uint64_t FileReader::rows_of(const TableLayout& layout) const {
  const Hdf5Handle dataset(H5Dopen2(handles_->file.get(), layout.name, H5P_DEFAULT), H5Dclose);
  const Hdf5Handle space(H5Dget_space(dataset.get()), H5Sclose);
  hsize_t rows = 0;
  if (!space || H5Sget_simple_extent_dims(space.get(), &rows, nullptr) != 1)
    throw RecordError(path_.string() + ": /" + layout.name + " is missing or no table");
  if (rows > 0 && !has_rows(dataset.get(), space.get(), rows)) {
    throw RecordError(path_.string() + ": /" + layout.name + " says that it has " +
                      std::to_string(rows) + " rows, which were never written");
  }
  return rows;
}

void FileReader::read(const TableLayout& layout, std::uint64_t first, std::uint64_t count,
                      void* out) const {
  if (count == 0) return;
  const Hdf5Handle dataset(H5Dopen2(handles_->file.get(), layout.name, H5P_DEFAULT), H5Dclose);
  const Hdf5Handle from(H5Dget_space(dataset.get()), H5Sclose);
  const hsize_t begin = first;
  const hsize_t rows = count;
  const Hdf5Handle to(H5Screate_simple(1, &rows, nullptr), H5Sclose);
  const Hdf5Handle type = memory_type(layout);
  if (!dataset || !from || !to || !type ||
      H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, &begin, nullptr, &rows, nullptr) < 0 ||
      H5Dread(dataset.get(), type.get(), to.get(), from.get(), H5P_DEFAULT, out) < 0) {
    throw RecordError(path_.string() + ": /" + layout.name +
                      " cannot be read: " + camera::hdf5_reason());
  }
}

template <typename Row>
std::vector<Row> FileReader::read_all(const TableLayout& layout) const {
  return steadily([&] {
    std::vector<Row> rows(rows_of(layout));
    read(layout, 0, rows.size(), rows.data());
    return rows;
  });
}

std::uint64_t FileReader::frame_count() const {
  return steadily([this] { return rows_of(frames_layout()); });
}

std::uint64_t FileReader::localization_count() const {
  return steadily([this] { return rows_of(localizations_layout()); });
}

std::vector<FrameRow> FileReader::frames(std::uint64_t first, std::uint64_t count) const {
  std::vector<FrameRow> rows(count);
  steadily([&] { read(frames_layout(), first, count, rows.data()); });
  return rows;
}

std::vector<LocalizationRow> FileReader::localizations(std::uint64_t first,
                                                       std::uint64_t count) const {
  std::vector<LocalizationRow> rows(count);
  steadily([&] { read(localizations_layout(), first, count, rows.data()); });
  return rows;
}

std::vector<StageRow> FileReader::stage() const {
  return read_all<StageRow>(stage_layout());
}

std::vector<ClockRow> FileReader::clock() const {
  return read_all<ClockRow>(clock_layout());
}

std::vector<CounterRow> FileReader::counters() const {
  return read_all<CounterRow>(counters_layout());
}

std::vector<PatternRow> FileReader::pattern() const {
  const bool has = steadily(
      [this] { return H5Lexists(handles_->file.get(), pattern_layout().name, H5P_DEFAULT) > 0; });
  return has ? read_all<PatternRow>(pattern_layout()) : std::vector<PatternRow>{};
}

std::vector<Event> FileReader::events() const {
  std::vector<EventRow> raw = read_all<EventRow>(events_layout());
  std::vector<Event> events;
  events.reserve(raw.size());
  const auto text = [](const char* from) { return std::string(from != nullptr ? from : ""); };
  for (const EventRow& row : raw) {
    events.push_back({row.time_ns, row.wall_ns, text(row.level), text(row.code), text(row.text),
                      text(row.fields)});
  }
  if (!raw.empty()) {
    const hsize_t rows = raw.size();
    const Hdf5Handle space(H5Screate_simple(1, &rows, nullptr), H5Sclose);
    const Hdf5Handle type = memory_type(events_layout());
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, raw.data());
  }
  return events;
}

}  // namespace driftd::record
