// SPDX-License-Identifier: MIT
#include "config/key_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace driftd::config {
namespace {

using std::filesystem::path;

constexpr std::size_t kLargestFile = 65'536;
constexpr std::string_view kKeyAllowed = "40 characters of Z85 between quotes";
constexpr std::string_view kZ85 =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

[[noreturn]] void refuse(const path& file, const std::string& why) {
  throw ConfigError(file.string() + ": " + why);
}

[[noreturn]] void refuse(const path& file, std::size_t line, const std::string& why) {
  throw ConfigError(file.string() + ":" + std::to_string(line) + ": " + why);
}

class Descriptor {
 public:
  explicit Descriptor(const path& file)
      : fd_(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    if (fd_ < 0) refuse(file, std::generic_category().message(errno));
  }
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

struct Content {
  std::string text;
  mode_t mode;
};

Content content_of(const path& file) {
  const Descriptor descriptor(file);
  struct stat about {};
  if (fstat(descriptor.get(), &about) != 0 || !S_ISREG(about.st_mode))
    refuse(file, "found something that is no file; allowed a file with keys");
  Content content{.text = std::string(kLargestFile + 1, '\0'), .mode = about.st_mode};
  std::size_t size = 0;
  while (size < content.text.size()) {
    const ssize_t more =
        read(descriptor.get(), content.text.data() + size, content.text.size() - size);
    if (more < 0) refuse(file, std::generic_category().message(errno));
    if (more == 0) break;
    size += static_cast<std::size_t>(more);
  }
  if (size > kLargestFile)
    refuse(file, "found more than " + std::to_string(kLargestFile) + " bytes; allowed a key file");
  content.text.resize(size);
  return content;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// A value without its quotes, or up to a comment where it has none.
std::string_view unquoted(std::string_view text) {
  text = trimmed(text);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'')) {
    const std::size_t end = text.find(text.front(), 1);
    if (end != std::string_view::npos) return text.substr(1, end - 1);
  }
  return trimmed(text.substr(0, text.find('#')));
}

/// What a message shows of a value: it may be a secret key with a slip in it.
std::string length_of(std::string_view value) {
  return value.size() == 40 ? "40 characters that are no Z85"
                            : std::to_string(value.size()) + " characters";
}

class Parser {
 public:
  Parser(const path& file, std::string_view text) : file_(file), text_(text) {}

  KeyFile parse() {
    while (!text_.empty()) {
      ++number_;
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      take(text_.substr(0, end));
      text_.remove_prefix(std::min(end + 1, text_.size()));
    }
    if (keys_.public_key.empty())
      refuse(file_, "curve/public-key: found none; allowed " + std::string(kKeyAllowed));
    return std::move(keys_);
  }

 private:
  void take(std::string_view line) {
    const std::string_view words = trimmed(line);
    if (words.empty() || words.front() == '#') return;
    const bool indented = line.front() == ' ' || line.front() == '\t';
    const std::size_t equals = words.find('=');
    const std::string_view name = trimmed(words.substr(0, equals));
    if (!indented) {
      section_ = name;
      return;
    }
    if (equals == std::string_view::npos || name.empty())
      refuse(file_, number_, "found a line without `name = value`; allowed a key file");
    const std::string_view value = unquoted(words.substr(equals + 1));
    if (section_ == "metadata" && !keys_.metadata.try_emplace(std::string(name), value).second)
      refuse(file_, number_, "metadata/" + std::string(name) + ": found twice; allowed once");
    if (section_ != "curve") return;
    if (name == "public-key") take_key(keys_.public_key, name, value);
    if (name == "secret-key") take_key(keys_.secret_key, name, value);
  }

  void take_key(std::string& key, std::string_view name, std::string_view value) {
    const std::string what = "curve/" + std::string(name) + ": ";
    if (!key.empty()) refuse(file_, number_, what + "found twice; allowed once");
    if (!is_z85_key(value)) {
      refuse(file_, number_,
             what + "found " + length_of(value) + "; allowed " + std::string(kKeyAllowed));
    }
    key = value;
  }

  const path& file_;
  std::string_view text_, section_;
  std::size_t number_ = 0;
  KeyFile keys_;
};

}  // namespace

bool is_z85_key(std::string_view text) {
  constexpr std::size_t kCharacters = 40;
  constexpr std::size_t kGroup = 5;  // of characters, for 4 bytes
  if (text.size() != kCharacters) return false;
  for (std::size_t i = 0; i < text.size(); i += kGroup) {
    std::uint64_t value = 0;
    for (const char c : text.substr(i, kGroup)) {
      const std::size_t digit = kZ85.find(c);
      if (digit == std::string_view::npos) return false;
      value = value * kZ85.size() + digit;
    }
    if (value > UINT32_MAX) return false;
  }
  return true;
}

bool is_client_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@";
  return !name.empty() && name.size() <= kLongest && name.front() != '.' &&
         name.find_first_not_of(kPlain) == std::string_view::npos;
}

KeyFile read_key_file(const path& file) {
  return Parser(file, content_of(file).text).parse();
}

KeyFile read_secret_key_file(const path& file, Readers others) {
  const Content content = content_of(file);
  constexpr mode_t kOthers = S_IROTH | S_IWOTH | S_IXOTH | S_IWGRP;
  KeyFile keys = Parser(file, content.text).parse();
  if (keys.secret_key.empty())
    refuse(file, "curve/secret-key: found none; allowed " + std::string(kKeyAllowed));
  const bool by_group = others == Readers::Group;
  const mode_t forbidden = by_group ? kOthers : kOthers | S_IRGRP | S_IXGRP;
  if ((content.mode & forbidden) != 0) {
    constexpr mode_t kPermissions = 0777;
    const mode_t mode = content.mode & kPermissions;
    const std::string octal{static_cast<char>('0' + (mode >> 6)),
                            static_cast<char>('0' + (mode >> 3 & 7)),
                            static_cast<char>('0' + (mode & 7))};
    refuse(file, "found a secret key with mode 0" + octal + "; allowed " +
                     (by_group ? "0600 or 0640: chmod o-rwx,g-w " : "0600: chmod 0600 ") +
                     file.string());
  }
  return keys;
}

KeyFile read_public_key_file(const path& file) {
  KeyFile keys = read_key_file(file);
  if (!keys.secret_key.empty()) {
    refuse(file,
           "curve/secret-key: found a secret key among public ones; allowed a public key alone. "
           "Whoever read it is that client: make a new pair");
  }
  return keys;
}

std::string to_text(const KeyFile& keys, std::string_view about) {
  std::string text;
  while (!about.empty()) {
    const std::size_t end = std::min(about.find('\n'), about.size());
    text.append("# ").append(about.substr(0, end)).append("\n");
    about.remove_prefix(std::min(end + 1, about.size()));
  }
  text += "\nmetadata\n";
  for (const auto& [name, value] : keys.metadata)
    text.append("    ").append(name).append(" = \"").append(value).append("\"\n");
  text += "curve\n    public-key = \"" + keys.public_key + "\"\n";
  if (!keys.secret_key.empty()) text += "    secret-key = \"" + keys.secret_key + "\"\n";
  return text;
}

}  // namespace driftd::config
