// SPDX-License-Identifier: MIT
// What libFuzzer seldom does by itself: puts an odd number, or another one of the same text, in the
// place of a number.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming): libFuzzer's names
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

constexpr std::array<std::string_view, 20> kOdd{
    "0",     "-1",         "1e-12",      "1e12",  "-1e12",
    "1e308", "1e999",      "255",        "256",   "65536",
    "1e5",   "2147483648", "4294967296", "0.001", "inf",
    "nan",   ".inf",       "1001",       "3",     "-9223372036854775808"};

/// All but the first digit of each may be any of a number.
std::vector<std::string_view> numbers_in(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789", kMore = "0123456789.eE+-";
  std::vector<std::string_view> numbers;
  std::size_t begin = text.find_first_of(kDigits);
  while (begin != std::string_view::npos) {
    if (begin > 0 && text[begin - 1] == '-') --begin;
    std::size_t end = begin + 1;
    while (end < text.size() && kMore.find(text[end]) != std::string_view::npos) ++end;
    numbers.push_back(text.substr(begin, end - begin));
    begin = text.find_first_of(kDigits, end);
  }
  return numbers;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  std::minstd_rand random(seed);
  random.discard(2);  // the first follow from seeds that follow one another
  const std::string text(data, data + size);
  const auto numbers = numbers_in(text);
  if (numbers.empty() || random() % 4 != 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string_view old = numbers[random() % numbers.size()];
  const std::string_view with =
      random() % 4 == 0 ? numbers[random() % numbers.size()] : kOdd[random() % kOdd.size()];
  const auto place = static_cast<std::size_t>(old.data() - text.data());
  std::string changed = text;
  changed.replace(place, old.size(), with);
  if (changed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(changed.begin(), changed.end(), data);
  return changed.size();
}
// NOLINTEND(readability-identifier-naming)
