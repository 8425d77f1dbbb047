// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/picks.hpp"
#include "unit/tools/driftfit/files.hpp"

namespace driftd::tools {
namespace {

/// What reading a file of that name and content throws; "" when nothing is thrown.
std::string complaint(const std::string& name, const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / name, text);
  try {
    read_picks(folder / name);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST_CASE("Picasso's picks are read, keys of other versions are left alone") {
  const TemporaryFolder folder;
  write_file(folder / "picks.yaml",
             "Centers:\n- - 12.5\n  - 30.25\n- [7, 8]\nDiameter (nm): 300.0\nShape: Circle\n"
             "New key: 1\n");
  const auto picks = read_picks(folder / "picks.yaml");
  REQUIRE(picks.size() == 2);
  CHECK(picks[0].x_px == 12.5);
  CHECK(picks[0].y_px == 30.25);
  CHECK(picks[1].y_px == 8);
}

TEST_CASE("picks of another shape, or that are no points, are refused") {
  CHECK_THAT(complaint("p.yaml", "Shape: Rectangle\nCenters: [[1, 2]]\n"),
             contains("line 1") && contains("'Rectangle', allowed is Circle"));
  CHECK_THAT(complaint("p.yaml", "Shape: \"\\e[31m\\_\"\n"),
             contains("'?[31m?', allowed is Circle"));
  CHECK_THAT(complaint("p.yaml", "Shape: Circle\n"), contains("has no key Centers"));
  CHECK_THAT(complaint("p.yaml", "Centers: []\n"), contains("names no pick"));
  CHECK_THAT(complaint("p.yaml", "Centers: 5\n"), contains("must be a list"));
  CHECK_THAT(complaint("p.yaml", "Centers: [[1, 2], [3]]\n"),
             contains("line 1, column 19: a centre must be two numbers"));
  CHECK_THAT(complaint("p.yml", "Centers: [[1, .nan]]\n"), contains("two numbers"));
  CHECK_THAT(complaint("p.yaml", "Centers: [[1, x]]\n"), contains("two numbers"));
  CHECK_THAT(complaint("p.yaml", "Centers: [[1, 2]"), contains("is not YAML"));
  CHECK_THAT(complaint("p.yaml", ""), contains("holds no keys"));
}

TEST_CASE("a marker that is picked twice is refused") {
  CHECK_THAT(complaint("p.csv", "x,y\n10,20\n30,20\n30.6,20.7\n"),
             contains("the picks at 30, 20 and at 30.6, 20.7 are of one marker"));
  CHECK_THAT(complaint("p.yaml", "Centers: [[7, 8], [5, 8], [7, 8]]\n"),
             contains("the picks at 7, 8 and at 7, 8 are of one marker"));
  CHECK(complaint("p.csv", "x,y\n30,20\n31,20\n30,21\n").empty());
}

TEST_CASE("CSV picks may have other columns, comments, quotes and either line end") {
  const TemporaryFolder folder;
  write_file(folder / "p.csv", "# mine\r\n\"id\",\"x\",\"y\"\r\n1,2.5,3.5\r\n\r\n2,1e1,-0.25\r\n");
  const auto picks = read_picks(folder / "p.csv");
  REQUIRE(picks.size() == 2);
  CHECK(picks[0].x_px == 2.5);
  CHECK(picks[1].x_px == 10);
  CHECK(picks[1].y_px == -0.25);
}

TEST_CASE("CSV picks as Excel saves them are read") {
  const TemporaryFolder folder;
  for (const char* text :
       {"\xef\xbb\xbfx,y\r\n2.5,3.5\r\n10,-0.25\r\n", "\xef\xbb\xbf\"x\",y\r\n2.5,3.5\r\n10,-0.25",
        "\xef\xbb\xbf# mine\r\nx,y\r\n2.5,3.5\r\n10,-0.25\r\n"}) {
    CAPTURE(text);
    write_file(folder / "p.csv", text);
    const auto picks = read_picks(folder / "p.csv");
    REQUIRE(picks.size() == 2);
    CHECK(picks[0].x_px == 2.5);
    CHECK(picks[0].y_px == 3.5);
    CHECK(picks[1].x_px == 10);
    CHECK(picks[1].y_px == -0.25);
  }
  CHECK_THAT(complaint("p.csv",
                       "x,y\n\xef\xbb\xbf"
                       "1,2\n"),
             contains("line 2: column 1 is"));
  write_file(folder / "p.yaml", "\xef\xbb\xbfShape: Circle\r\nCenters:\r\n- [12.5, 30.25]\r\n");
  CHECK(read_picks(folder / "p.yaml").at(0).y_px == 30.25);
}

TEST_CASE("a folder is no list of picks") {
  const TemporaryFolder folder;
  for (const char* name : {"picks", "picks.yaml"}) {
    std::filesystem::create_directory(folder / name);
    CHECK_THROWS_WITH(read_picks(folder / name),
                      (folder / name).string() + ": is a folder, not a file of picks");
  }
}

TEST_CASE("CSV picks that make no sense are refused by line and column") {
  CHECK_THAT(complaint("p.csv", "x [nm],y [nm]\n1,2\n"),
             contains("must name columns x and y") && contains("x [nm]"));
  CHECK_THAT(complaint("p.csv", "x,y\n1,2\n3\n"), contains("line 3: column 2 is ''"));
  CHECK_THAT(complaint("p.csv", "x,y\n1,2 px\n"), contains("line 2: column 2 is '2 px'"));
  CHECK_THAT(complaint("p.csv", "x,y\n1,inf\n"), contains("not a number"));
  CHECK_THAT(complaint("p.csv", "x,y\n"), contains("names no pick"));
  CHECK_THAT(complaint("p.csv", std::string(1000, '\xff')), contains("must name columns"));
  CHECK_THROWS_AS(read_picks("/nowhere/p.csv"), InputError);
  CHECK_THROWS_AS(read_picks("/nowhere/p.yaml"), InputError);
}

}  // namespace
}  // namespace driftd::tools
