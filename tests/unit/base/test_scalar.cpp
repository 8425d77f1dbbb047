// SPDX-License-Identifier: MIT
#include <bit>
#include <cstdint>
#include <limits>
#include <random>

#include "base/yaml/nearest.hpp"
#include "base/yaml/scalar.hpp"
#include "support/catch.hpp"

namespace driftd::yaml {

TEST_CASE("numbers are read as YAML 1.2 writes decimals", "[yaml]") {
  CHECK(parse_real("0") == 0.0);
  CHECK(parse_real("+12") == 12.0);
  CHECK(parse_real("-.5") == -0.5);
  CHECK(parse_real("1.") == 1.0);
  CHECK(parse_real("4e6") == 4e6);
  CHECK(parse_real("1.5E-3") == 1.5e-3);
  for (const char* text :
       {"",   "+",   "-",    ".",    "+-1", "--1",  "1 ",    " 1",     "1,5",    "1_000", "0x10",
        "1e", "inf", "-inf", ".inf", "nan", ".NaN", "1e999", "-1e999", "1e-999", "12px",  "one"}) {
    INFO('"' << text << '"');
    CHECK_FALSE(parse_real(text));
  }
}

TEST_CASE("truth values are true and false", "[yaml]") {
  CHECK(parse_bool("true") == true);
  CHECK(parse_bool("FALSE") == false);
  for (const char* text : {"yes", "no", "on", "off", "1", "0", "tRUE", ""}) {
    INFO(text);
    CHECK_FALSE(parse_bool(text));
  }
}

TEST_CASE("a key is proposed when at most a third of the word's letters and one are wrong",
          "[yaml]") {
  const std::string_view keys[] = {"abcdef", "uvwxyz"};
  CHECK(unknown_key("abcxyz", keys, "") == "found an unknown key; did you mean abcdef?");
  CHECK(unknown_key("abwxyq", keys, "") == "found an unknown key; did you mean uvwxyz?");
  CHECK(unknown_key("123", keys, "") == "found an unknown key; allowed are abcdef, uvwxyz");
  const std::string_view three[] = {"xyz"};
  CHECK(unknown_key("abc", three, "") == "found an unknown key; allowed are xyz");
  CHECK(unknown_key("xbc", three, "p.") == "found an unknown key; did you mean p.xyz?");
}

TEST_CASE("every finite number survives being written and read", "[yaml]") {
  std::mt19937_64 random(1);
  int finite = 0;
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!(std::abs(value) <= std::numeric_limits<double>::max())) continue;
    ++finite;
    const auto read = parse_real(format_real(value));
    REQUIRE(read);
    REQUIRE(std::bit_cast<std::uint64_t>(*read) == std::bit_cast<std::uint64_t>(value));
  }
  CHECK(finite > 19000);  // one exponent in 2048 is not finite
}

TEST_CASE("numbers are written as people write them", "[yaml]") {
  CHECK(format_real(10'000'000) == "10000000");
  CHECK(format_real(0.3) == "0.3");
  CHECK(format_real(-2.5) == "-2.5");
  CHECK(format_real(1e-6) == "1e-06");
  CHECK(format_real(0) == "0");
}

TEST_CASE("what is told is on one line, and text", "[yaml]") {
  CHECK(printable("") == "");
  CHECK(printable("M\xC3\xBCller, 5 \xC2\xB5m\xC2\xA0!") == "M\xC3\xBCller, 5 \xC2\xB5m\xC2\xA0!");
  CHECK(printable("a\tb\n\x1B[2J\x7F", ' ') == "a b  [2J ");
  CHECK(printable("\xC2\x85\xC2\x9B\xC2\x80") == "??????");  // the second set
  CHECK(printable("\xFC\xE4"
                  "b\xE2\x82 \xC2") == "??b?? ?");
  CHECK(printable("\xC3\xBC\x80\xC3\xBC") == "\xC3\xBC?\xC3\xBC");
}

TEST_CASE("text is UTF-8 as RFC 3629 has it", "[yaml]") {
  constexpr std::size_t kNone = std::string_view::npos;
  CHECK(first_no_text("") == kNone);
  CHECK(first_no_text("a\tb\n\x7f") == kNone);
  CHECK(first_no_text("\xC2\x80 \xDF\xBF \xE0\xA0\x80 \xEF\xBF\xBD") == kNone);
  CHECK(first_no_text("\xF0\x90\x80\x80 \xF4\x8F\xBF\xBD") == kNone);
  CHECK(first_no_text("\xEF\xBB\xBF#") == kNone);          // a byte order mark
  CHECK(first_no_text(std::string_view("ab\0", 3)) == 2);  // zero
  CHECK(first_no_text("M\xFCller") == 1);                  // Latin-1
  CHECK(first_no_text("a\x80") == 1);                      // no lead byte
  CHECK(first_no_text("\xC0\x80") == 0);                   // overlong
  CHECK(first_no_text("\xE0\x9F\xBF") == 0);               // overlong
  CHECK(first_no_text("\xF0\x8F\xBF\xBF") == 0);           // overlong
  CHECK(first_no_text("\xED\xA0\x80") == 0);               // surrogate
  CHECK(first_no_text("\xF4\x90\x80\x80") == 0);           // beyond U+10FFFF
  CHECK(first_no_text("\xF8\x88\x80\x80\x80") == 0);       // five bytes
  CHECK(first_no_text("x\xE2\x82") == 1);                  // cut short
  CHECK(first_no_text("\xE2\x82 ") == 0);                  // interrupted
  CHECK(first_no_text("\xEF\xBF\xBE") == 0);               // U+FFFE
  CHECK(first_no_text("\xEF\xB7\x90") == 0);               // U+FDD0
  CHECK(first_no_text("\xFF") == 0);
}

TEST_CASE("the edit distance counts swaps of neighbours as one", "[yaml]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("exposure_us", "exposure_us") == 0);
  CHECK(edit_distance("exposre_us", "exposure_us") == 1);
  CHECK(edit_distance("expsoure_us", "exposure_us") == 1);
  CHECK(edit_distance("gain", "main") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);  // the textbook pair
}

TEST_CASE("the edit distance is a symmetric distance", "[yaml]") {
  std::mt19937_64 random(2);
  const auto word = [&random] {
    std::string text(random() % 6, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = word();
    const std::string b = word();
    const std::size_t distance = edit_distance(a, b);
    REQUIRE(distance == edit_distance(b, a));
    REQUIRE((distance == 0) == (a == b));
    REQUIRE(distance <= std::max(a.size(), b.size()));
    REQUIRE(distance >= std::max(a.size(), b.size()) - std::min(a.size(), b.size()));
  }
}

}  // namespace driftd::yaml
