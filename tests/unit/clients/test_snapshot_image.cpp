// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/snapshot_image.hpp"

#include <png.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "support/catch.hpp"

using driftd::clients::colour_of_health;
using driftd::clients::draw_snapshot;
using driftd::clients::Rgb;
using driftd::clients::RgbImage;
using driftd::clients::write_png;
using nlohmann::json;

namespace {

json frame_of(int width_px, int height_px) {
  return {{"frame_id", 1},    {"width_px", width_px}, {"height_px", height_px}, {"offset_x_px", 0},
          {"offset_y_px", 0}, {"bits", 12},           {"rois", json::array()}};
}

json roi(int id, const char* role, const char* health, int x_px, int y_px, int side_px) {
  return {{"id", id},     {"role", role}, {"health", health},
          {"x_px", x_px}, {"y_px", y_px}, {"side_px", side_px}};
}

/// Pixels of a value that grows from left to right: 1000 + 10 * column.
std::string ramp(int width_px, int height_px) {
  std::string bytes;
  for (int y = 0; y < height_px; ++y) {
    for (int x = 0; x < width_px; ++x) {
      const int value = 1000 + 10 * x;
      bytes += static_cast<char>(value & 0xff);
      bytes += static_cast<char>(value >> 8);
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("A small frame is enlarged up to four times, a large one not") {
  CHECK(draw_snapshot(frame_of(100, 50), ramp(100, 50)).width_px == 400);
  CHECK(draw_snapshot(frame_of(256, 256), ramp(256, 256)).height_px == 1024);
  CHECK(draw_snapshot(frame_of(512, 40), ramp(512, 40)).width_px == 1024);
  CHECK(draw_snapshot(frame_of(1100, 4), ramp(1100, 4)).width_px == 1100);
}

TEST_CASE("The darkest is black and the brightest white, whatever the levels are") {
  const RgbImage image = draw_snapshot(frame_of(256, 4), ramp(256, 4));
  CHECK(image.at(0, 0) == Rgb{0, 0, 0});
  CHECK(image.at(4 * 255, 0) == Rgb{255, 255, 255});
  const Rgb middle = image.at(4 * 128, 0);
  CHECK(std::abs(middle.red - 128) <= 3);  // the quantiles cut 1 % off the ramp
  CHECK(middle == Rgb{middle.red, middle.red, middle.red});
}

TEST_CASE("A frame of one value gives a picture of one value") {
  const RgbImage image = draw_snapshot(frame_of(8, 8), std::string(128, '\7'));
  CHECK(std::all_of(image.pixels.begin(), image.pixels.end(),
                    [&](const Rgb& pixel) { return pixel == image.pixels.front(); }));
}

TEST_CASE("A ROI is outlined along its outermost pixels in the colour of its health") {
  json frame = frame_of(256, 256);
  frame["offset_x_px"] = 64;  // of the frame on the sensor; ROIs are counted within the frame
  frame["offset_y_px"] = 32;
  frame["rois"] = json::array({roi(3, "tracking", "outlier", 100, 150, 13)});
  const RgbImage image = draw_snapshot(frame, ramp(256, 256));
  const Rgb orange = colour_of_health("outlier");
  const int left = 4 * 100;
  const int right = 4 * 113 - 1;
  const int top = 4 * 150;
  const int bottom = 4 * 163 - 1;
  CHECK(image.at(left, top) == orange);
  CHECK(image.at(right, top) == orange);
  CHECK(image.at(left, bottom) == orange);
  CHECK(image.at(right, bottom) == orange);
  CHECK_FALSE(image.at(left + 4, top + 4) == orange);
  CHECK_FALSE(image.at(right + 1, bottom) == orange);
  CHECK_FALSE(image.at(left - 1, bottom) == orange);
  CHECK_FALSE(image.at(left, bottom + 1) == orange);
}

TEST_CASE("A witness is dashed: part of its outline shows the frame") {
  json frame = frame_of(256, 256);
  frame["rois"] = json::array({roi(1, "witness", "good", 100, 100, 13)});
  const RgbImage image = draw_snapshot(frame, ramp(256, 256));
  const Rgb green = colour_of_health("good");
  int drawn = 0;
  for (int along = 0; along < 52; ++along) drawn += image.at(400, 400 + along) == green ? 1 : 0;
  CHECK(drawn > 15);
  CHECK(drawn < 45);
}

TEST_CASE("The id stands above the ROI, or below it at the upper border") {
  json frame = frame_of(256, 256);
  frame["rois"] = json::array(
      {roi(7, "tracking", "good", 100, 100, 13), roi(8, "tracking", "good", 200, 0, 13)});
  const RgbImage image = draw_snapshot(frame, ramp(256, 256));
  const Rgb green = colour_of_health("good");
  const auto count_green = [&](int x_from, int y_from, int width, int height) {
    int count = 0;
    for (int y = y_from; y < y_from + height; ++y) {
      for (int x = x_from; x < x_from + width; ++x) count += image.at(x, y) == green ? 1 : 0;
    }
    return count;
  };
  // Lit dots of the glyphs, 4 enlarged pixels each: a 7 has 11 of them, an 8 has 17.
  CHECK(count_green(400, 380, 20, 20) == 11 * 4);
  CHECK(count_green(800, 52, 20, 20) == 17 * 4);
}

TEST_CASE("ROIs that reach over the border are cut, not followed") {
  json frame = frame_of(16, 16);
  frame["rois"] = json::array({roi(123, "tracking", "outside_frame", -5, -5, 13),
                               roi(4, "tracking", "outside_frame", 12, 12, 13),
                               roi(5, "tracking", "outside_frame", 900, 900, 13)});
  CHECK(draw_snapshot(frame, ramp(16, 16)).pixels.size() == 64 * 64);
}

TEST_CASE("Pixels that do not fit the frame are refused") {
  CHECK_THROWS_AS(draw_snapshot(frame_of(8, 8), ramp(8, 7)), std::invalid_argument);
  CHECK_THROWS_AS(draw_snapshot(frame_of(0, 8), ""), std::invalid_argument);
}

TEST_CASE("The PNG holds the picture") {
  json frame = frame_of(20, 10);
  frame["rois"] = json::array({roi(1, "tracking", "good", 2, 2, 5)});
  const RgbImage image = draw_snapshot(frame, ramp(20, 10));
  std::string file = "/tmp/driftd-test-XXXXXX";
  close(mkstemp(file.data()));
  write_png(image, file);

  png_image read{};
  read.version = PNG_IMAGE_VERSION;
  REQUIRE(png_image_begin_read_from_file(&read, file.c_str()) != 0);
  read.format = PNG_FORMAT_RGB;
  CHECK(read.width == 80);
  CHECK(read.height == 40);
  std::vector<Rgb> pixels(image.pixels.size());
  REQUIRE(png_image_finish_read(&read, nullptr, pixels.data(), 0, nullptr) != 0);
  CHECK(pixels == image.pixels);
  std::remove(file.c_str());
}

TEST_CASE("A file that cannot be written is named") {
  const RgbImage image = draw_snapshot(frame_of(8, 8), ramp(8, 8));
  std::string said;
  try {
    write_png(image, "/nonexistent/snapshot.png");
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  CHECK(said.find("/nonexistent/snapshot.png") != std::string::npos);
}
