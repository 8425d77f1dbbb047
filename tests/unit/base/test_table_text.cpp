// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/table_text.hpp"
#include "support/catch.hpp"

namespace driftd {
namespace {

using Lines = std::vector<std::string>;

class File {
 public:
  explicit File(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("driftd-table-" + std::to_string(getpid()) + ".txt")) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string complaint(const std::filesystem::path& path) {
  try {
    text_lines(path);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

TEST_CASE("lines end as on any computer, also where a block of reading ends") {
  for (const char* end : {"\n", "\r\n", "\r"}) {
    for (const std::size_t length : {1UL, 65534UL, 65535UL, 65536UL}) {
      const std::string first(length, 'x');
      CHECK(text_lines(File(first + end + "2" + end + end + "4").path()) ==
            Lines{first, "2", "", "4"});
      CHECK(text_lines(File("\xef\xbb\xbf" + first + end).path()) == Lines{first});
    }
  }
  CHECK(text_lines(File("").path()).empty());
}

TEST_CASE("what is no text of UTF-8 is refused, and has no end for that") {
  using namespace std::string_literals;
  CHECK_THAT(complaint(File("\xff\xfe\x31\0\n\0"s).path()), contains("is UTF-16"));
  CHECK_THAT(complaint(File("\xfe\xff\0\x31\0\n"s).path()), contains("is UTF-16"));
  CHECK_THAT(complaint(File("1\n2\0\n"s).path()), contains("line 2 has a byte of value 0"));
  CHECK_THAT(complaint(File(std::string(1 << 21, '1')).path()), contains("line 1 is longer than"));
  CHECK_THAT(complaint("/dev/zero"), contains("line 1 has a byte of value 0"));
  CHECK_THAT(complaint("/"), contains("cannot be opened"));
  CHECK_THAT(complaint("/nowhere"), contains("cannot be opened"));
}

TEST_CASE("numbers with parted thousands are read, others stay as they are") {
  for (const auto& [text, number] :
       {std::pair("1 234.5", "1234.5"), std::pair("1 234,5", "1234,5"),
        std::pair("-12 345 678", "-12345678"),
        std::pair("1\xc2\xa0"
                  "234.5",
                  "1234.5"),
        std::pair("1\xe2\x80\xaf"
                  "234",
                  "1234"),
        std::pair("1'234'567.8", "1234567.8"), std::pair("1,234.5", "1234.5"),
        std::pair("1,234,567", "1234567"), std::pair("1.234,5", "1234,5"),
        std::pair("+999.999.999", "+999999999")})
    CHECK(without_thousands(text) == number);
  for (const char* text :
       {"1,234", "1.234", "1 23", "1234 567", "1 234 56", "0 500", "01 500", "1,234.", "1 234.5.6",
        "", "1 234x", "1,234 567", "12.5", "2026-11-23 09:47", "1 234'567", "- 1 234"})
    CHECK(without_thousands(text) == text);
}

}  // namespace
}  // namespace driftd
