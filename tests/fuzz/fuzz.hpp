// SPDX-License-Identifier: MIT
// What the fuzz targets share: the bytes that each is given, a way to make choices of them, and the
// rule that was broken. A target is a function of its file's name; CMake makes the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace driftd::fuzz {

using Bytes = std::span<const std::uint8_t>;

struct Target {
  std::string_view name;
  void (*run)(Bytes bytes);
};

std::span<const Target> targets();
/// Null when there is none of that name.
const Target* target_named(std::string_view name);

/// Prints `rule`, and what broke it, and aborts unless it holds.
void require(bool holds, std::string_view rule, std::string_view found = {});

inline std::string text_of(Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}

/// The parts between separators; at most `most`, the last with all the rest.
std::vector<std::string> split(std::string_view text, char separator, std::size_t most);

/// Takes values off the front of an input; when it is used up, zeros.
class Choices {
 public:
  explicit Choices(Bytes bytes) : bytes_(bytes) {}

  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const Bytes part = take_bytes(sizeof(T));
    if (!part.empty()) std::memcpy(&value, part.data(), part.size());
    return value;
  }
  /// 0 to most.
  std::size_t up_to(std::size_t most) {
    return most < 256 ? take<std::uint8_t>() % (most + 1) : take<std::uint32_t>() % (most + 1);
  }
  bool flag() { return (take<std::uint8_t>() & 1U) != 0; }
  /// As many as there are, at most `count`.
  Bytes take_bytes(std::size_t count);
  Bytes rest() { return take_bytes(bytes_.size()); }
  bool empty() const { return bytes_.empty(); }

 private:
  Bytes bytes_;
};

}  // namespace driftd::fuzz
