// SPDX-License-Identifier: MIT
#include "base/state_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/state_directory.hpp"

namespace driftd {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnerWritesGroupReads = 0640;
constexpr std::size_t kLargest = 1 << 20;  // 256 markers take 60 kB

[[noreturn]] void fail(const char* what, const fs::path& path, int error) {
  throw fs::filesystem_error(what, path, std::error_code(error, std::generic_category()));
}

class File {
 public:
  File(fs::path path, int flags)
      : path_(std::move(path)),
        descriptor_(open(path_.c_str(), flags | O_CLOEXEC, kOwnerWritesGroupReads)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const noexcept { return descriptor_ >= 0; }
  int get() const noexcept { return descriptor_; }
  const fs::path& path() const noexcept { return path_; }

 private:
  fs::path path_;
  int descriptor_;
};

void write_all(const File& file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(file.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("cannot write", file.path(), written < 0 ? errno : ENOSPC);
    done += static_cast<std::size_t>(written);
  }
  if (fdatasync(file.get()) != 0) fail("cannot write", file.path(), errno);
}

/// Flushes the folder: a power cut before this may bring the old file back, whole.
void sync_folder(const fs::path& folder) {
  const File opened(folder, O_RDONLY | O_DIRECTORY);
  if (!opened.is_open() || fsync(opened.get()) != 0) fail("cannot flush", folder, errno);
}

}  // namespace

void write_state(const fs::path& file, const std::string& text) {
  make_directory(file.parent_path());
  const fs::path fresh = file.string() + ".new";
  try {
    const File opened(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
    if (!opened.is_open()) fail("cannot write", fresh, errno);
    write_all(opened, text);
    if (rename(fresh.c_str(), file.c_str()) != 0) fail("cannot replace", file, errno);
  } catch (...) {
    unlink(fresh.c_str());  // a full disk gets its space back
    throw;
  }
  sync_folder(file.parent_path());
}

void remove_state(const fs::path& file) {
  if (unlink(file.c_str()) == 0) return sync_folder(file.parent_path());
  if (errno != ENOENT && errno != ENOTDIR) fail("cannot remove", file, errno);
}

std::optional<std::string> read_state(const fs::path& file) {
  // O_NONBLOCK: to open a FIFO would wait.
  const File opened(file, O_RDONLY | O_NONBLOCK);
  if (!opened.is_open() && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (!opened.is_open()) fail("cannot read", file, errno);
  std::string text;
  std::array<char, 65536> block;
  while (true) {
    const ssize_t got = read(opened.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read", file, errno);
    if (got == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(got));
    if (text.size() > kLargest) fail("cannot read", file, EFBIG);
  }
}

StateOwner::StateOwner(const fs::path& file) {
  try {
    make_directory(file.parent_path());
  } catch (const fs::filesystem_error&) {
    return;
  }
  const std::string path = file.string() + ".owner";
  descriptor_ =
      open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kOwnerWritesGroupReads);
  if (descriptor_ < 0)  // another user's
    descriptor_ = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor_ < 0) return;
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return;
    std::array<char, 16> text{};
    const ssize_t length = pread(descriptor_, text.data(), text.size() - 1, 0);
    const std::string told(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    const std::string pid = told.substr(0, told.find_first_not_of("0123456789"));
    other_ = pid.empty() ? "an unknown process" : "process " + pid;
    return;
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  // This is for another daemon that comes second; nothing depends on it.
  [[maybe_unused]] const bool told =
      ftruncate(descriptor_, 0) == 0 && pwrite(descriptor_, pid.data(), pid.size(), 0) > 0;
}

StateOwner::~StateOwner() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace driftd
