// SPDX-License-Identifier: MIT
#include "record/file_writer.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "record/table_type.hpp"

namespace driftd::record {
namespace {

using camera::Hdf5Handle;

enum Table : std::size_t { Frames, Localizations, Stage, Clock, Counters, Events, Pattern };
constexpr std::size_t kTables = 7;

/// For what HDF5 writes beside the rows: object headers, the trees of chunks, heaps.
constexpr std::size_t kBesides = std::size_t{256} << 10;
/// What a close writes, kept free until then.
constexpr std::size_t kForTheEnd = std::size_t{64} << 10;
/// As HDF5 counts: on the disk. In memory a node of a table's index takes eight times its 2 kB
/// there. Larger than what changes between two flushes, so that nothing of the index is written
/// before one.
constexpr std::size_t kIndexCacheBytes = std::size_t{64} << 10;
constexpr unsigned kDeflate = 1;
constexpr hsize_t kFewRows = 16;  ///< of the tables that grow by a few rows a second

std::string reason_of(int error) {
  return std::generic_category().message(error);
}

Hdf5Handle text_type(std::size_t bytes) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), bytes);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

void add_attribute(hid_t to, const char* name, hid_t type, const void* value) {
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Handle attribute(H5Acreate2(to, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                             H5Aclose);
  if (attribute) H5Awrite(attribute.get(), type, value);
}

void add_attribute(hid_t to, const char* name, const std::string& text) {
  // Dense storage does not exist in this format: a text beyond 64 kB would not be stored at all.
  const std::string kept = text.substr(0, 60'000);
  const Hdf5Handle type = text_type(kept.size() + 1);
  add_attribute(to, name, type.get(), kept.c_str());
}

void add_attribute(hid_t to, const char* name, std::int64_t value) {
  add_attribute(to, name, H5T_NATIVE_INT64, &value);
}

void add_attribute(hid_t to, const char* name, double value) {
  add_attribute(to, name, H5T_NATIVE_DOUBLE, &value);
}

/// One text a column, in the order of the columns.
void add_texts(hid_t to, const char* name, const std::vector<const char*>& texts) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  const hsize_t count = texts.size();
  const Hdf5Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose);
  const Hdf5Handle attribute(
      H5Acreate2(to, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (attribute) H5Awrite(attribute.get(), type.get(), texts.data());
}

void describe(hid_t dataset, const TableLayout& layout) {
  std::vector<const char*> names, units, texts;
  for (const Column& column : layout.columns) {
    names.push_back(column.name);
    units.push_back(column.unit);
    texts.push_back(column.text);
  }
  add_attribute(dataset, "description", std::string(layout.text));
  add_texts(dataset, "columns", names);
  add_texts(dataset, "units", units);
  add_texts(dataset, "descriptions", texts);
}

Hdf5Handle make_table(hid_t file, const TableLayout& layout, hsize_t chunk) {
  const hsize_t none = 0;
  const hsize_t any = H5S_UNLIMITED;
  const Hdf5Handle space(H5Screate_simple(1, &none, &any), H5Sclose);
  const Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(properties.get(), 1, &chunk);
  const bool texts =
      std::ranges::any_of(layout.columns, [](const Column& c) { return c.kind == Kind::Text; });
  if (!texts) {
    H5Pset_shuffle(properties.get());
    H5Pset_deflate(properties.get(), kDeflate);
  }
  const Hdf5Handle type = file_type(layout);
  // HDF5 would keep the last 1 MiB of every table. Appending needs the chunk that it fills. Its
  // bytes only have to suffice: H5Tget_size() counts half of a text's on the disk.
  const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_chunk_cache(access.get(), 1, 2 * chunk * H5Tget_size(type.get()), 1);
  return {H5Dcreate2(file, layout.name, type.get(), space.get(), H5P_DEFAULT, properties.get(),
                     access.get()),
          H5Dclose};
}

/// HDF5 would keep all of a growing file's index for hours, 5 MiB of memory in two of them.
/// Appending needs only the newest of it.
void bound_index_cache(hid_t access) {
  H5AC_cache_config_t cache{};
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  H5Pget_mdc_config(access, &cache);
  cache.set_initial_size = true;
  cache.initial_size = cache.min_size = cache.max_size = kIndexCacheBytes;
  cache.incr_mode = H5C_incr__off;
  cache.flash_incr_mode = H5C_flash_incr__off;
  cache.decr_mode = H5C_decr__off;
  H5Pset_mdc_config(access, &cache);
}

}  // namespace

bool is_in_use(const std::filesystem::path& file) noexcept {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

std::string lost_file(const std::filesystem::path& path, std::uint64_t device,
                      std::uint64_t inode) {
  struct stat named {};
  if (stat(path.c_str(), &named) != 0) return path.string() + ": " + reason_of(errno);
  if (named.st_dev == device && named.st_ino == inode) return {};
  return path.string() + ": another file has its name now";
}

struct FileWriter::Tables {
  Hdf5Handle file;
  std::array<Hdf5Handle, kTables> datasets, types;
  std::array<hsize_t, kTables> rows{};
};

FileWriter::FileWriter(std::filesystem::path path, const Header& header, ChunkRows chunk)
    : path_(std::move(path)), tables_(std::make_unique<Tables>()) {
  // Without effect once HDF5 is in use. A thread that a dead disk keeps within it would keep
  // exit().
  H5dont_atexit();
  camera::silence_hdf5();
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  // Without HDF5's own lock others can read the file while it grows.
  H5Pset_file_locking(access.get(), false, true);
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  bound_index_cache(access.get());
  errno = 0;
  tables_->file =
      Hdf5Handle(H5Fcreate(path_.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get()), H5Fclose);
  if (!tables_->file) {
    const std::string why = errno != 0 ? reason_of(errno) : camera::hdf5_reason();
    throw RecordError(path_.string() + ": cannot be made: " + why);
  }
  void* handle = nullptr;
  if (H5Fget_vfd_handle(tables_->file.get(), H5P_DEFAULT, &handle) < 0 || handle == nullptr)
    fail("made");
  fd_ = *static_cast<int*>(handle);
  struct stat made {};
  if (fstat(fd_, &made) != 0) fail("made");
  device_ = made.st_dev;
  inode_ = made.st_ino;
  // Shared, as readers lock it: tells is_in_use(), keeps nobody from reading. Not everywhere.
  static_cast<void>(flock(fd_, LOCK_SH | LOCK_NB));

  make_room(kBesides);
  const hid_t file = tables_->file.get();
  add_attribute(file, "format", std::string("driftd record"));
  add_attribute(file, "layout_version", std::int64_t{kLayoutVersion});
  add_attribute(file, "driftd_version", header.driftd_version);
  add_attribute(file, "session", header.session);
  add_attribute(file, "camera", header.camera);
  add_attribute(file, "configuration", header.configuration);
  add_attribute(file, "pixel_size_nm", header.pixel_size_nm);
  add_attribute(file, "axes", std::string("image: x right, y down; total and delta: stage axes"));
  add_attribute(file, "series", header.series);
  add_attribute(file, "part", std::int64_t{header.part});
  add_attribute(file, "begun_by", header.why);
  const std::vector<const TableLayout*> layouts = all_layouts();
  for (std::size_t i = 0; i < kTables; ++i) {
    hsize_t rows = kFewRows;
    if (i == Frames) rows = std::max<std::size_t>(1, chunk.frames);
    if (i == Localizations) rows = std::max<std::size_t>(1, chunk.localizations);
    tables_->datasets[i] = make_table(file, *layouts[i], rows);
    tables_->types[i] = memory_type(*layouts[i]);
    if (!tables_->datasets[i] || !tables_->types[i]) fail("made");
    describe(tables_->datasets[i].get(), *layouts[i]);
  }
  flush();
}

FileWriter::~FileWriter() = default;

/// What was flushed stays in the file.
void FileWriter::fail(const char* doing) {
  const int error = errno;
  const std::string reason = camera::hdf5_reason();
  abandon();
  const bool told = error != 0 && reason.find("failed") != std::string::npos;
  throw RecordError(path_.string() + ": cannot be " + doing + ": " +
                    (told ? reason_of(error) : reason));
}

/// HDF5 cannot let go of a file that does not take what is to be written (1.10.8: it crashes later
/// on): from here on it writes to memory, which its close ends.
void FileWriter::abandon() noexcept {
  if (fd_ < 0) return;
  const int memory = memfd_create("driftd-record", MFD_CLOEXEC);
  if (memory < 0) return;
  dup2(memory, fd_);
  ::close(memory);
  fd_ = -1;
}

/// HDF5 cannot take back what it wrote half: so nothing is begun that may not fit.
void FileWriter::make_room(std::size_t bytes) {
  const auto wanted = static_cast<std::int64_t>(bytes + kBesides + kForTheEnd);
  struct stat now {};
  fstat(fd_, &now);
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<rlim_t>(now.st_size + wanted) > limit.rlim_cur) {
    throw RecordError(path_.string() + ": the process's limit on a file's size is reached");
  }
  if (fallocate(fd_, FALLOC_FL_KEEP_SIZE, now.st_size, wanted) == 0) return;
  const int error = errno;
  // NFS before 4.2, FAT; what is no file at all.
  if (error == EOPNOTSUPP || error == ENOSYS || error == ENODEV) return;
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  if (!full) abandon();
  throw RecordError(path_.string() + (full ? ": no room: " : ": cannot be written: ") +
                    reason_of(error));
}

void FileWriter::write(std::size_t table, const void* rows, std::size_t count) {
  if (count == 0) return;
  const hid_t dataset = tables_->datasets[table].get();
  const hsize_t begin = tables_->rows[table];
  const hsize_t added = count;
  hsize_t after = begin + added;
  if (H5Dset_extent(dataset, &after) < 0) fail("written");
  const Hdf5Handle to(H5Dget_space(dataset), H5Sclose);
  const Hdf5Handle from(H5Screate_simple(1, &added, nullptr), H5Sclose);
  if (!to || !from ||
      H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, &begin, nullptr, &added, nullptr) < 0 ||
      H5Dwrite(dataset, tables_->types[table].get(), from.get(), to.get(), H5P_DEFAULT, rows) < 0) {
    fail("written");
  }
  tables_->rows[table] = after;
}

void FileWriter::append(std::span<const FrameRow> rows) {
  make_room(rows.size_bytes());
  write(Frames, rows.data(), rows.size());
}

void FileWriter::append(std::span<const LocalizationRow> rows) {
  make_room(rows.size_bytes());
  write(Localizations, rows.data(), rows.size());
}

void FileWriter::append(std::span<const StageRow> rows) {
  make_room(rows.size_bytes());
  write(Stage, rows.data(), rows.size());
}

void FileWriter::append(std::span<const ClockRow> rows) {
  make_room(rows.size_bytes());
  write(Clock, rows.data(), rows.size());
}

void FileWriter::append(std::span<const CounterRow> rows) {
  make_room(rows.size_bytes());
  write(Counters, rows.data(), rows.size());
}

void FileWriter::append(std::span<const PatternRow> rows) {
  make_room(rows.size_bytes());
  write(Pattern, rows.data(), rows.size());
}

void FileWriter::append(std::span<const Event> rows) {
  std::vector<EventRow> raw;
  std::size_t bytes = 0;
  for (const Event& e : rows) {
    raw.push_back(
        {e.time_ns, e.wall_ns, e.level.c_str(), e.code.c_str(), e.text.c_str(), e.fields.c_str()});
    bytes += sizeof(EventRow) + e.level.size() + e.code.size() + e.text.size() + e.fields.size();
  }
  make_room(bytes);
  write(Events, raw.data(), raw.size());
}

void FileWriter::flush() {
  if (H5Fflush(tables_->file.get(), H5F_SCOPE_LOCAL) < 0) fail("written");
}

void FileWriter::close(const std::string& end) {
  if (fd_ < 0) throw RecordError(path_.string() + ": is closed");
  add_attribute(tables_->file.get(), "end", end);
  flush();
  struct stat now {};
  // Gives back what make_room() took.
  if (fstat(fd_, &now) == 0) static_cast<void>(!ftruncate(fd_, now.st_size));
  for (Hdf5Handle& dataset : tables_->datasets) dataset.close();
  fd_ = -1;
  if (!tables_->file.close()) fail("closed");
}

std::int64_t FileWriter::bytes() const {
  struct stat now {};
  return fstat(fd_, &now) == 0 ? now.st_size : 0;
}

std::string FileWriter::lost() const {
  return lost_file(path_, device_, inode_);
}

}  // namespace driftd::record
