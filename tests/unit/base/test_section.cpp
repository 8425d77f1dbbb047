// SPDX-License-Identifier: MIT
#include "base/yaml/section.hpp"

#include <cstdint>
#include <functional>
#include <limits>

#include "base/yaml/document.hpp"
#include "support/catch.hpp"

namespace driftd::yaml {
namespace {

/// What is said about a text whose one section `read` reads; empty when nothing is wrong.
std::string mistakes_of(const std::string& text, const std::function<void(Section&)>& read) {
  Mistakes mistakes;
  if (const auto root = read_document(text, mistakes)) {
    Section section(*root, "", mistakes);
    read(section);
    section.finish();
  }
  return mistakes.report("f");
}

}  // namespace

TEST_CASE("a section gives the values that are there and keeps the others", "[yaml]") {
  double real = 1.5, kept = 2.5;
  int whole = 3;
  std::int64_t wide = 0;
  bool truth = false;
  std::string word, inner_word;
  std::vector<double> pair, items;
  const std::string said = mistakes_of(
      "real: -.5\nwhole: 7\nwide: -9223372036854775808\ntruth: true\nword: 'on'\n"
      "pair: [4, 5e1]\nitems: [1, 2, 3]\ninner: {word: x}\nempty:\n",
      [&](Section& s) {
        s.number("real", real, {-1, 1});
        s.number("kept", kept, {-1, 1});
        s.integer("whole", whole, {7, 7});
        s.integer64("wide", wide);
        s.boolean("truth", truth);
        s.text("word", word);
        pair = s.numbers("pair", 2, {4, 50}).value_or(std::vector<double>{});
        s.each("items", [&](const YAML::Node& item, const std::string& path) {
          items.push_back(s.reader().number(path, item, {1, 3}).value_or(0));
        });
        Section inner = s.section("inner");
        inner.text("word", inner_word);
        inner.finish();
        s.section("empty").finish();
        CHECK(s.has("whole"));
        CHECK_FALSE(s.has("kept"));
      });
  CHECK(said.empty());
  CHECK(real == -0.5);
  CHECK(kept == 2.5);
  CHECK(whole == 7);
  CHECK(wide == std::numeric_limits<std::int64_t>::min());
  CHECK(truth);
  CHECK(word == "on");
  CHECK(inner_word == "x");
  CHECK(pair == std::vector<double>{4, 50});
  CHECK(items == std::vector<double>{1, 2, 3});
}

TEST_CASE("a mistake has its place, what was found and what is allowed", "[yaml]") {
  double real = 1;
  int whole = 2;
  std::int64_t wide = 3;
  bool truth = false;
  std::string word = "a";
  const auto number = [&](Section& s) { s.number("k", real, {0, 1, "nm"}); };
  CHECK(mistakes_of("k: 1.5\n", number) == "f:1:4: k: found 1.5; allowed a number from 0 to 1 nm");
  CHECK(mistakes_of("\nk: '1'\n", number) ==
        "f:2:4: k: found \"1\"; allowed a number from 0 to 1 nm");
  CHECK(mistakes_of("k:\n", number) == "f:1:1: k: found nothing; allowed a number from 0 to 1 nm");
  CHECK(mistakes_of("k: 1\nk: 0\n", number) == "f:2:1: k: found twice; allowed once");
  CHECK(mistakes_of("k: 1\n[a]: 0\n", number) ==
        "f:2:1: found a list of 1; allowed a name before the colon");
  CHECK(mistakes_of("x: 1\n", number) == "f:1:1: x: found an unknown key; did you mean k?");
  CHECK(mistakes_of("7\n", number) == "f:1:1: found 7; allowed a mapping of keys");
  CHECK(mistakes_of("k: [\n", number).starts_with("f:2:1: not valid YAML"));
  CHECK(mistakes_of("k: 2.5\n", [&](Section& s) {
          s.integer("k", whole, {0, 9});
        }) == "f:1:4: k: found 2.5; allowed a whole number from 0 to 9");
  CHECK(mistakes_of("k: -1\n", [&](Section& s) { s.integer64("k", wide, 0); }) ==
        "f:1:4: k: found -1; allowed a whole number from 0 of 64 bits");
  CHECK(mistakes_of("k: 9223372036854775808\n", [&](Section& s) { s.integer64("k", wide); }) ==
        "f:1:4: k: found 9223372036854775808; allowed a whole number of 64 bits");
  CHECK(mistakes_of("k: yes\n", [&](Section& s) { s.boolean("k", truth); }) ==
        "f:1:4: k: found \"yes\"; allowed true or false");
  const std::vector<std::string_view> choices = {"up", "down"};
  CHECK(mistakes_of("k: left\n", [&](Section& s) { s.text("k", word, choices); }) ==
        "f:1:4: k: found \"left\"; allowed one of up, down");
  CHECK(mistakes_of("k: [1, 2]\n", [&](Section& s) {
          s.numbers("k", 3, {0, 9});
        }) == "f:1:4: k: found a list of 2; allowed a list of 3, each a number from 0 to 9");
  CHECK(mistakes_of("k: [1, 20]\n", [&](Section& s) {
          s.numbers("k", 2, {0, 9});
        }) == "f:1:8: k[1]: found 20; allowed a number from 0 to 9");
  CHECK(mistakes_of("k: 5\n", [&](Section& s) { s.each("k", {}); }) ==
        "f:1:4: k: found 5; allowed a list");
  CHECK(mistakes_of("k: {a: 1}\n", [&](Section& s) {
          Section inner = s.section("k");
          inner.reject("b", "more", "nothing");
          inner.reject("a", "less");
          inner.number("a", real, {0, 1});
          inner.finish();
        }) == "f:1:4: k.b: found nothing; allowed more\nf:1:8: k.a: found 1; allowed less");
  // What is wrong leaves the value as it was.
  CHECK(real == 1);
  CHECK(whole == 2);
  CHECK(wide == 3);
  CHECK_FALSE(truth);
  CHECK(word == "a");
}

}  // namespace driftd::yaml
