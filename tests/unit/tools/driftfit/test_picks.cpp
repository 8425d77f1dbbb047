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

TEST_CASE("tables are read as programs of any country and computer write them") {
  const TemporaryFolder folder;
  const auto picks_of = [&](const std::string& name, const std::string& text) {
    write_file(folder / name, text);
    return read_picks(folder / name, 100.0);
  };
  for (const char* text :
       {" \tArea\tX\tY\n1\t9\t12,5\t30,25\n2\t9\t7\t8\n", "X,Y\r12.5,30.25\r7,8\r",
        "X;Y\r\n12,5;30,25\r\n7;8\r\n", "x [nm];y [nm]\n1 250;3 025\n700;800\n",
        "x [nm],y [nm]\n\"1,250.0\",\"3,025.0\"\n700,800\n",
        "x [nm]\ty [nm]\n1.250,0\t3.025,0\n700\t800\n"}) {
    const auto picks = picks_of("p.csv", text);
    REQUIRE(picks.size() == 2);
    CHECK(picks[0].x_px == Approx(12));
    CHECK(picks[0].y_px == Approx(29.75));
    CHECK(picks[1].y_px == Approx(7.5));
  }
  CHECK(picks_of("p.YAML", "Centers: [[3, 40]]\n").size() == 1);
  using namespace std::string_literals;
  CHECK_THAT(complaint("p.csv", "\xff\xfex\0,\0y\0\n\0"s), contains("p.csv: is UTF-16"));
  CHECK_THAT(complaint("p.csv", "II*\0"s), contains("is no table of text"));
  CHECK_THAT(complaint("p.roi", "Iout\0\xe3"s),
             contains("holds ROIs of ImageJ, which are not read"));
  CHECK_THAT(complaint("p.zip", "PK\x03\x04\0"s), contains("holds ROIs of ImageJ"));
}

TEST_CASE("Picasso's squares, rectangles, boxes and polygons are picks of their middles") {
  const TemporaryFolder folder;
  const auto one = [&](const std::string& text) {
    write_file(folder / "p.yaml", text);
    const auto picks = read_picks(folder / "p.yaml");
    REQUIRE(picks.size() == 1);
    return picks[0];
  };
  const auto is_at = [](Pick pick, double x_px, double y_px) {
    return pick.x_px == Approx(x_px) && pick.y_px == Approx(y_px);
  };
  CHECK(is_at(one("Shape: Square\nSide Length (nm): 900\nCenters: [[3, 40]]\n"), 3, 40));
  CHECK(is_at(one("Shape: Rectangle\nWidth (nm): 130.0\nCenter-Axis-Points:\n- - - 10.5\n    - "
                  "20.0\n  - - 12.5\n    - 28.0\n"),
              11.5, 24));
  CHECK(is_at(one("Shape: Box\nCorners:\n- [[12, 30], [40, 56]]\n"), 26, 43));
  // Closed by its first corner, as Picasso does; more corners on one side pull nothing.
  CHECK(is_at(one("Shape: Polygon\nVertices:\n- [[10, 20], [14, 20], [14, 23], [14, 24], [14, 26], "
                  "[10, 26], [10, 20]]\n"),
              12, 23));
  CHECK(
      is_at(one("Shape: Polygon\nVertices: [[[10, 20], [10, 26], [14, 26], [14, 20]]]\n"), 12, 23));
  CHECK_THAT(complaint("p.yaml", "Shape: Rectangle\nCenters: [[1, 2]]\n"),
             contains("has no key Center-Axis-Points"));
  CHECK_THAT(complaint("p.yaml", "Shape: Polygon\nVertices: [[[1, 2], [3, 4]]]\n"),
             contains("three corners"));
  CHECK_THAT(complaint("p.yaml", "Shape: Polygon\nVertices: [[[1, 2], [3, 4], [5, 6]]]\n"),
             contains("an area"));
  CHECK_THAT(complaint("p.yaml", "Shape: Box\nCorners: [[1, 2]]\n"),
             contains("must be two numbers"));
  CHECK_THAT(complaint("p.yaml", "Shape: Box\nCorners: [[1, 2, 3]]\n"),
             contains("must be two points"));
}

TEST_CASE("tables of other programs are picks, each with its own zero, order and separator") {
  const TemporaryFolder folder;
  const auto one = [&](const std::string& text, std::optional<double> pixel_nm = std::nullopt) {
    write_file(folder / "p.csv", text);
    const auto picks = read_picks(folder / "p.csv", pixel_nm);
    REQUIRE(picks.size() == 1);
    return picks[0];
  };
  const auto is_at = [](Pick pick, double x_px, double y_px) {
    return pick.x_px == Approx(x_px) && pick.y_px == Approx(y_px);
  };
  CHECK(is_at(one(" ,Area,Mean,X,Y\n1,0,512,12.5,30.5\n"), 12, 30));  // Fiji
  CHECK(is_at(one(" \tArea\tX\tY\n1\t0\t12.5\t30.5\n"), 12, 30));
  CHECK(is_at(one("index,axis-0,axis-1\n0.0,30.0,12.0\n"), 12, 30));     // napari: rows first
  CHECK(is_at(one("index,axis-0,axis-1,axis-2\n0,5,30,12\n"), 12, 30));  // after the frames
  CHECK(is_at(one("x;y\n12,5;30\n"), 12.5, 30));
  CHECK(is_at(one("x;y\n12.5;30\n"), 12.5, 30));
  CHECK(is_at(one("y\tx\n30\t12\n"), 12, 30));
  CHECK(is_at(one("\"frame\",\"x [nm]\",\"y [nm]\"\n1,1250,3050\n2,1251,3050\n", 100), 12, 30));
  CHECK(is_at(one("x [nm],y [nm]\n1620,3942\n", 108), 14.5, 36));
  CHECK(is_at(one("id,\"name, of it\",x,y\n1,\"a, b\",12,30\n"), 12, 30));
  CHECK_THAT(complaint("p.csv", "x [nm],y [nm]\n1,2\n"), contains("is in nm: --pixel-nm"));
  CHECK_THAT(complaint("p.csv", "index,shape-type,vertex-index,axis-0,axis-1\n0,ellipse,0,1,2\n"),
             contains("napari's shapes"));
  CHECK_THAT(complaint("p.csv", "x;y\n1;\n"), contains("column 2 is ''"));
}

TEST_CASE("picks of another shape, or that are no points, are refused") {
  CHECK_THAT(complaint("p.yaml", "Shape: Brush\nCenters: [[1, 2]]\n"),
             contains("line 1") && contains("'Brush', allowed are Circle, Square"));
  CHECK_THAT(complaint("p.yaml", "Shape: \"\\e[31m\\_\"\n"),
             contains("'?[31m?', allowed are Circle"));
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

TEST_CASE("of localizations the first frame's are picks, and what is left out is told") {
  const TemporaryFolder folder;
  std::string note;
  for (const char* const frame : {"frame", "Frame", "FRAME"}) {
    write_file(folder / "p.csv",
               std::string(frame) + ",x,y\n3,15,14\n3,50,20\n4,17.4,14\n4,52.4,20\n5,19,14\n");
    const auto picks = read_picks(folder / "p.csv", std::nullopt, &note);
    REQUIRE(picks.size() == 2);
    CHECK(picks[1].x_px == 50);
    CHECK_THAT(note, contains("picks are the 2 lines of frame 3, the first in the table; 3 lines "
                              "of other frames are left out"));
  }
  write_file(folder / "p.csv", "frame,x,y\n3,15,14\n3,50,20\n");
  CHECK(read_picks(folder / "p.csv", std::nullopt, &note).size() == 2);
  CHECK(note.empty());
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
  CHECK_THAT(complaint("p.csv", "x (nm),y (nm)\n1,2\n"),
             contains("must name columns x and y") && contains("x (nm)"));
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
