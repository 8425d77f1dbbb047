// SPDX-License-Identifier: MIT
#include "tools/driftfit/output_file.hpp"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "base/replaceable.hpp"
#include "tools/driftfit/errors.hpp"

namespace driftd::tools {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

constexpr std::string_view kMark = ".driftfit-";
constexpr std::size_t kDigits = 8;

bool is_temporary(std::string_view name) {
  return name.size() > kMark.size() + kDigits &&
         name.substr(name.size() - kDigits - kMark.size(), kMark.size()) == kMark;
}

std::string reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

enum class Lock : std::uint8_t { Got, Held, NoneThere };

/// Of the open file, so that it ends with the process, however that ends.
Lock lock(int descriptor) {
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(descriptor, F_OFD_SETLK, &whole) == 0) return Lock::Got;
  return errno == EAGAIN || errno == EACCES ? Lock::Held : Lock::NoneThere;
}

/// Whether a process still writes the file; one that nobody does is removed.
bool removed_unless_written(const std::filesystem::path& temporary) {
  const int descriptor = open(temporary.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return false;
  const Lock got = lock(descriptor);
  if (got == Lock::Got) static_cast<void>(unlink(temporary.c_str()));
  static_cast<void>(close(descriptor));
  return got == Lock::Held;
}

}  // namespace

std::vector<std::filesystem::path> still_written(const std::filesystem::path& begin_of_results) {
  std::vector<std::filesystem::path> written;
  const std::string begin = "." + begin_of_results.filename().string();
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_of(begin_of_results), error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.rfind(begin, 0) != 0 || !is_temporary(name)) continue;
    if (!removed_unless_written(entry->path())) continue;
    written.push_back(entry->path());
  }
  return written;
}

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  const std::filesystem::path folder = folder_of(path_);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw OutputError(path_, "there is no folder " + folder.string());
  }
  if (!path_.has_filename()) throw OutputError(path_, "is a folder");
  if (const std::string why = why_not_replaced(path_); !why.empty()) throw OutputError(path_, why);
  static_cast<void>(still_written(path_.string() + std::string(kMark)));
  make_temporary(folder);
}

/// Under a name that no other run has, on this computer or another.
void OutputFile::make_temporary(const std::filesystem::path& folder) {
  std::random_device random;
  for (;;) {
    temporary_ =
        folder / fmt::format(".{}{}{:0{}x}", path_.filename().string(), kMark, random(), kDigits);
    descriptor_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == EEXIST) continue;
    if (descriptor_ < 0) throw OutputError(path_, "cannot be written: " + reason(errno));
    struct stat file = {};
    // Another run may have taken it for a leftover before it was locked.
    if (lock(descriptor_) != Lock::Held && fstat(descriptor_, &file) == 0 && file.st_nlink > 0) {
      return;
    }
    static_cast<void>(close(descriptor_));
  }
}

OutputFile::~OutputFile() {
  std::error_code error;
  if (!kept_) std::filesystem::remove(temporary_, error);
  if (descriptor_ >= 0) static_cast<void>(close(descriptor_));
}

void OutputFile::keep() {
  // A computer that fails must not leave the name with less than was written.
  if (fsync(descriptor_) != 0 && errno != EINVAL) {
    throw OutputError(path_, "cannot be written: " + reason(errno));
  }
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) throw OutputError(path_, error.message());
  kept_ = true;
}

bool is_same_place(const std::filesystem::path& one, const std::filesystem::path& other) {
  if (one.filename() != other.filename()) return false;
  const auto folder_of = [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path).parent_path(), error);
  };
  return folder_of(one) == folder_of(other);
}

void keep_all(const std::vector<std::unique_ptr<OutputFile>>& files, OutputFile* description) {
  std::error_code error;
  if (description != nullptr) std::filesystem::remove(description->path(), error);
  for (const auto& file : files) {
    if (file.get() != description) file->keep();
  }
  if (description != nullptr) description->keep();
}

TextFile::TextFile(const OutputFile& output)
    : output_(&output), file_(std::fopen(output.temporary().c_str(), "wb")) {
  if (!file_) fail();
}

void TextFile::fail() const {
  throw OutputError(output_->path(), "cannot be written: " + reason(errno));
}

void TextFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) fail();
}

void TextFile::finish() {
  if (std::fclose(file_.release()) != 0) fail();
}

}  // namespace driftd::tools
