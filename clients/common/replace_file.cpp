// SPDX-License-Identifier: MIT
#include "clients/common/replace_file.hpp"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace driftd::clients {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::generic_category().message(error));
}

/// A file that is being written; removed unless kept.
class NewFile {
 public:
  NewFile(int descriptor, std::filesystem::path path)
      : descriptor_(descriptor), path_(std::move(path)) {}
  ~NewFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!kept_) ::unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// All of the text, on the disk, with the permissions and the owner of `like`.
  void fill(const std::string& text, const struct stat& like) {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t written = ::write(descriptor_, text.data() + done, text.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail("cannot write " + path_.string(), written < 0 ? errno : ENOSPC);
      done += static_cast<std::size_t>(written);
    }
    struct stat own {};
    if (::fstat(descriptor_, &own) != 0) fail("cannot write " + path_.string(), errno);
    if ((own.st_uid != like.st_uid || own.st_gid != like.st_gid) &&
        ::fchown(descriptor_, like.st_uid, like.st_gid) != 0) {
      fail("cannot give " + path_.string() + " the owner of the configuration", errno);
    }
    // The mode comes after the owner, a change of which clears some bits.
    if (::fchmod(descriptor_, like.st_mode & 07777U) != 0 || ::fsync(descriptor_) != 0) {
      fail("cannot write " + path_.string(), errno);
    }
    const int closed = ::close(descriptor_);
    descriptor_ = -1;
    if (closed != 0) fail("cannot write " + path_.string(), errno);
  }
  const std::filesystem::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  int descriptor_;
  std::filesystem::path path_;
  bool kept_ = false;
};

NewFile temporary_beside(const std::filesystem::path& file) {
  std::string name = (file.parent_path() / ("." + file.filename().string() + ".XXXXXX")).string();
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) fail("cannot write beside " + file.string(), errno);
  return {descriptor, name};
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H-%M-%S", &local)};
}

NewFile backup_beside(const std::filesystem::path& file) {
  const std::string name = file.string() + ".before-" + time_now();
  constexpr int kMostOfOneSecond = 1000;
  for (int i = 1; i <= kMostOfOneSecond; ++i) {
    const std::string tried = i == 1 ? name : fmt::format("{}-{}", name, i);
    const int descriptor = ::open(tried.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor >= 0) return {descriptor, tried};
    if (errno != EEXIST) fail("cannot keep the old file as " + tried, errno);
  }
  fail("cannot keep the old file as " + name, EEXIST);
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) fail("cannot read " + file.string(), errno);
  return text.str();
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);  // the file is replaced; a power cut now may bring the old one back, whole
  ::close(descriptor);
}

struct stat stat_of(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) fail("cannot read " + file.string(), errno);
  return info;
}

/// What a file that is not there yet takes over from `model`: owner, group and permissions, without
/// execution.
struct stat like_model(const std::filesystem::path& model) {
  struct stat like = stat_of(model);
  like.st_mode = (like.st_mode & 0666U) | S_IWUSR;
  return like;
}

/// What is replaced: where a symbolic link leads to.
struct Target {
  std::filesystem::path path;
  struct stat like;
};

Target target_of(const std::filesystem::path& file) {
  std::error_code error;
  Target target{std::filesystem::canonical(file, error), {}};
  if (error) throw std::runtime_error("cannot find " + file.string() + ": " + error.message());
  target.like = stat_of(target.path);
  // Renaming would replace a file that its owner protects from being written.
  if (::faccessat(AT_FDCWD, target.path.c_str(), W_OK, AT_EACCESS) != 0)
    fail("cannot write " + target.path.string(), errno);
  return target;
}

/// A folder that was made for a file; removed unless kept.
class FolderFor {
 public:
  FolderFor(const std::filesystem::path& file, const struct stat& like)
      : path_(file.parent_path()), made_(::mkdir(path_.c_str(), 0700) == 0) {
    if (!made_ && errno != EEXIST) fail("cannot make the folder " + path_.string(), errno);
    if (!made_) return;
    const auto refuse = [this](int error) {
      ::rmdir(path_.c_str());
      fail("cannot give " + path_.string() + " the owner and rights of the configuration", error);
    };
    const bool mine = like.st_uid == ::geteuid() && like.st_gid == stat_of(path_).st_gid;
    if (!mine && ::chown(path_.c_str(), like.st_uid, like.st_gid) != 0) refuse(errno);
    const mode_t may_read = like.st_mode & 0444U;  // may look into it
    if (::chmod(path_.c_str(), (like.st_mode & 0666U) | may_read >> 2U) != 0) refuse(errno);
  }
  ~FolderFor() {
    if (made_) ::rmdir(path_.c_str());
  }
  FolderFor(const FolderFor&) = delete;
  FolderFor& operator=(const FolderFor&) = delete;

  void keep() {
    if (made_) sync_folder(std::filesystem::absolute(path_).parent_path());
    made_ = false;
  }

 private:
  std::filesystem::path path_;
  bool made_;
};

void rename_to(const NewFile& fresh, const std::filesystem::path& target) {
  if (::rename(fresh.path().c_str(), target.c_str()) != 0)
    fail("cannot replace " + target.string(), errno);
}

void check_same(const std::filesystem::path& written, const std::string& text) {
  if (content_of(written) != text)
    throw std::runtime_error(written.string() + " reads otherwise than it was written");
}

}  // namespace

std::filesystem::path replace_file(const std::filesystem::path& file,
                                   const std::filesystem::path& model,
                                   const std::optional<std::string>& before,
                                   const std::string& after) {
  const std::string meanwhile = " was changed by somebody else meanwhile";
  if (!before) {
    const struct stat like = like_model(model);
    FolderFor folder(file, like);
    NewFile fresh = temporary_beside(file);
    fresh.fill(after, like);
    check_same(fresh.path(), after);
    if (std::filesystem::exists(std::filesystem::symlink_status(file)))
      throw std::runtime_error(file.string() + meanwhile);
    rename_to(fresh, file);
    fresh.keep();
    sync_folder(std::filesystem::absolute(file).parent_path());
    folder.keep();
    return {};
  }
  const Target at = target_of(file);
  NewFile fresh = temporary_beside(at.path);
  fresh.fill(after, at.like);
  NewFile old = backup_beside(at.path);
  old.fill(*before, at.like);
  check_same(fresh.path(), after);
  check_same(old.path(), *before);
  if (content_of(at.path) != *before) throw std::runtime_error(at.path.string() + meanwhile);
  rename_to(fresh, at.path);
  fresh.keep();
  old.keep();
  sync_folder(at.path.parent_path());
  return old.path();
}

void check_replaceable(const std::filesystem::path& file, const std::filesystem::path& model,
                       std::size_t bytes) {
  const std::string fresh_text(bytes, '\n');
  if (!std::filesystem::exists(std::filesystem::symlink_status(file))) {
    const struct stat like = like_model(model);
    const FolderFor folder(file, like);
    temporary_beside(file).fill(fresh_text, like);
    return;
  }
  const Target target = target_of(file);
  NewFile fresh = temporary_beside(target.path);
  fresh.fill(fresh_text, target.like);
  NewFile old = temporary_beside(target.path);
  old.fill(content_of(target.path), target.like);
}

}  // namespace driftd::clients
