// SPDX-License-Identifier: MIT
// A truncated recording says so, with how many frames are whole, and is read up to there when
// asked.
#include <algorithm>
#include <array>
#include <ctime>

#include "camera/recording/image_stack.hpp"
#include "support/catch.hpp"
#include "support/recording_files.hpp"
#include "unit/camera/recording/leaks_allowed.hpp"
#include "unit/camera/recording/tiff_bytes.hpp"

namespace driftd::camera {
namespace {

using namespace driftd::test;

constexpr int kWidth = 21, kHeight = 18, kFrames = 9;
constexpr std::size_t kPixels = std::size_t{kWidth} * kHeight;
constexpr std::size_t kFrameBytes = kPixels * sizeof(std::uint16_t);

std::vector<std::uint16_t> all_pixels() {
  std::vector<std::uint16_t> pixels(kPixels * kFrames);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint16_t>(7 * i + 1);
  return pixels;
}

/// What opening says; "" when nothing is wrong.
std::string complaint(const StackSettings& settings) {
  try {
    open_stack(settings);
  } catch (const RecordingError& error) {
    return error.what();
  }
  return {};
}

/// "1 of 9 frames is whole"
std::string whole_of(std::int64_t frames, std::string said) {
  const auto verb = said.find(" are whole");
  if (frames == 1 && verb != std::string::npos) said.replace(verb, 4, " is");
  return std::to_string(frames) + said;
}

/// A file that is cut after so many frames says so, and with allow_truncated gives these.
void check_cut(StackSettings settings, std::int64_t frames) {
  settings.allow_truncated = false;
  CHECK_THAT(complaint(settings),
             contains("is truncated: " + whole_of(frames, " of 9 frames are whole")));
  if (frames == 0) return;
  settings.allow_truncated = true;
  const auto pixels = all_pixels();
  const auto stack = open_stack(settings);
  REQUIRE(stack->shape().frames == frames);
  const auto read = read_all<std::uint16_t>(*stack);
  CHECK(std::equal(read.begin(), read.end(), pixels.begin()));
}

/// Cuts the file at many places. Where it cannot be read whole, it must say how many frames are,
/// and with allow_truncated give just these with their pixels.
/// @param expected  the frames that are whole in so many bytes
template <class Expected>
void check_cuts(StackSettings settings, const Expected& expected, const std::string& said) {
  const std::string whole = read_file(settings.path);
  const auto pixels = all_pixels();
  std::int64_t seen = 0;
  for (std::size_t size = whole.size() - 1; size > whole.size() / 20; size -= 97) {
    CAPTURE(size);
    write_file(settings.path, whole.substr(0, size));
    settings.allow_truncated = false;
    const std::string error = complaint(settings);
    const std::int64_t frames = expected(size);
    CHECK_THAT(error, contains("truncated"));
    if (frames == 0) continue;
    CHECK_THAT(error, contains("is truncated: " + whole_of(frames, said)));
    CHECK_THAT(error, contains("the option allow_truncated takes what is there"));
    settings.allow_truncated = true;
    const auto stack = open_stack(settings);
    REQUIRE(stack->shape().frames == frames);
    const auto read = read_all<std::uint16_t>(*stack);
    CHECK(std::equal(read.begin(), read.end(), pixels.begin()));
    CHECK_THAT(stack->notes().at(0), contains(whole_of(frames, said)));
    seen = std::max(seen, frames);
    if (size < 200) break;
  }
  CHECK(seen >= kFrames - 1);
}

TEST_CASE("TIFF whose directories stand behind their pages") {
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.tif";
  for (const bool big_endian : {false, true}) {
    write_file(settings.path,
               tiff_bytes(all_pixels(), kWidth, kHeight, "", {.big_endian = big_endian}));
    constexpr std::size_t kDirectory = 6 + 12 * 10;
    check_cuts(
        settings,
        [](std::size_t size) {
          return static_cast<std::int64_t>((size - 8) / (kFrameBytes + kDirectory));
        },
        " whole frame");
  }
}

TEST_CASE("TIFF whose pixels stand behind all directories") {
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.tif";
  settings.every_page = true;  // what was the pixels' first place belongs to none
  std::string bytes = tiff_bytes(all_pixels(), kWidth, kHeight, "", {.directories_last = true});
  // Such a file begins with directories: its pixels, moved behind the end of what was one.
  const std::size_t first = 8 + 6 + 12 * 10 + 1;
  const std::size_t moved = bytes.size() - first;
  bytes += bytes.substr(first, kFrameBytes * kFrames);
  for (std::size_t i = 0; i < kFrames; ++i) {
    // The entry of StripOffsets is the sixth of a directory.
    const std::size_t directory = i == 0 ? 8 : first + kFrameBytes * kFrames + (i - 1) * 126;
    const std::size_t value = directory + 2 + 12 * 5 + 8;
    const std::size_t offset = first + moved + i * kFrameBytes;
    for (std::size_t b = 0; b < 4; ++b)
      bytes[value + b] = static_cast<char>(offset >> (8 * b) & 255);
  }
  write_file(settings.path, bytes);
  REQUIRE(complaint(settings).empty());
  const std::size_t pixels_at = first + moved;
  const std::string whole = bytes;
  for (std::int64_t frames = 0; frames < kFrames; ++frames) {
    CAPTURE(frames);
    const std::size_t size = pixels_at + static_cast<std::size_t>(frames) * kFrameBytes + 5;
    write_file(settings.path, whole.substr(0, size));
    settings.allow_truncated = false;
    CHECK_THAT(complaint(settings),
               contains("is truncated: " +
                        whole_of(frames, " of 9 frames are whole (the pixels of page ") +
                        std::to_string(frames) + " end behind the file)"));
    settings.allow_truncated = true;
    if (frames > 0) CHECK(open_stack(settings)->shape().frames == frames);
  }
}

TEST_CASE("ImageJ's stacks, whose directories but the first stand last") {
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.tif";
  const std::string text = "ImageJ=1.54f\nimages=9\nframes=9\n";
  const std::size_t first = 8 + 6 + 12 * 11 + text.size() + 1;
  const std::string whole =
      tiff_bytes(all_pixels(), kWidth, kHeight, text, {.directories_last = true});
  write_file(settings.path, whole);
  REQUIRE(complaint(settings).empty());
  // Cut within the pixels, where the first page alone is listed.
  for (std::size_t size = first + 10; size < first + kFrames * kFrameBytes; size += 331) {
    CAPTURE(size);
    const auto frames = static_cast<std::int64_t>((size - first) / kFrameBytes);
    write_file(settings.path, whole.substr(0, size));
    check_cut(settings, frames);
  }
}

TEST_CASE(
    "a page that ImageJ described, cut before the second, is not taken for a one-page stack") {
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.tif";
  settings.allow_truncated = true;
  const std::string whole = tiff_bytes(all_pixels(), kWidth, kHeight, "ImageJ=1.54f\nimages=9\n");
  write_file(settings.path, whole.substr(0, whole.size() / 2));
  const auto stack = open_stack(settings);
  REQUIRE(stack->shape().frames == 4);
  const auto pixels = all_pixels();
  const auto read = read_all<std::uint16_t>(*stack);
  CHECK(std::equal(read.begin(), read.end(), pixels.begin()));
  // The second page's pixels are there, its directory is not.
  const std::size_t text = std::string("ImageJ=1.54f\nimages=9\n").size() + 1;
  write_file(settings.path, whole.substr(0, 8 + 2 * kFrameBytes + 6 + 12 * 11 + text + 60));
  CHECK(open_stack(settings)->shape().frames == 1);
}

TEST_CASE("plain pixels, with and without a number of frames") {
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.raw";
  settings.width_px = kWidth;
  settings.height_px = kHeight;
  settings.type = PixelType::U16;
  const auto pixels = all_pixels();
  const std::string bytes(reinterpret_cast<const char*>(pixels.data()), pixels.size() * 2);
  const auto expected = [](std::size_t size) {
    return static_cast<std::int64_t>(size / kFrameBytes);
  };
  write_file(settings.path, bytes);
  check_cuts(settings, expected, " whole frame");
  write_file(settings.path, bytes);
  settings.frames = kFrames;
  CHECK(complaint(settings).empty());
  check_cuts(settings, expected, " of 9 frames are whole");
  write_file(settings.path, bytes);
  write_file(settings.path, bytes.substr(0, 4 * kFrameBytes));
  CHECK_THAT(complaint(settings), contains("is truncated: 4 of 9 frames are whole"));
  write_file(settings.path, bytes);
  settings.frames = kFrames - 1;
  CHECK_THAT(complaint(settings), contains("has 9 frames, its description says 8"));
}

TEST_CASE("HDF5 with its pixels in one piece") {
  const LeaksAllowed leaks;
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.h5";
  write_hdf5(settings.path, "/run/images", H5T_STD_U16LE, {kFrames, kHeight, kWidth}, all_pixels());
  const std::string whole = read_file(settings.path);
  const std::string last(
      reinterpret_cast<const char*>(all_pixels().data() + kPixels * (kFrames - 1)), kFrameBytes);
  const std::size_t pixels_at = whole.rfind(last) - kFrameBytes * (kFrames - 1);
  for (std::size_t size = whole.size() - 1; size > pixels_at; size -= 331) {
    CAPTURE(size);
    const auto frames = std::min<std::int64_t>(
        kFrames, static_cast<std::int64_t>((size - pixels_at) / kFrameBytes));
    write_file(settings.path, whole.substr(0, size));
    check_cut(settings, frames);
    if (frames == 0) break;
    if (size < 331) break;
  }
}

/// As write_hdf5(), in chunks that do not divide the frames.
/// @param written  frames, of those that there is to be space for
void write_chunked(const std::filesystem::path& path, const std::vector<std::uint16_t>& pixels,
                   unsigned compression, hsize_t written = kFrames) {
  const std::vector<hsize_t> size{kFrames, kHeight, kWidth};
  const std::vector<hsize_t> chunk{2, 7, 21};
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(3, size.data(), nullptr);
  const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(made, 3, chunk.data());
  if (compression > 0) H5Pset_deflate(made, compression);
  const hid_t set =
      H5Dcreate2(file, "/images", H5T_STD_U16LE, space, H5P_DEFAULT, made, H5P_DEFAULT);
  const std::vector<hsize_t> begin{0, 0, 0}, part{written, kHeight, kWidth};
  H5Sselect_hyperslab(space, H5S_SELECT_SET, begin.data(), nullptr, part.data(), nullptr);
  H5Dwrite(set, H5T_NATIVE_UINT16, space, space, H5P_DEFAULT, pixels.data());
  H5Dclose(set);
  H5Pclose(made);
  H5Sclose(space);
  H5Fclose(file);
}

TEST_CASE("HDF5 in chunks: what is said to be whole is, and some is") {
  const LeaksAllowed leaks;
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.h5";
  for (const unsigned compression : {0u, 4u}) {
    write_chunked(settings.path, all_pixels(), compression);
    const std::string whole = read_file(settings.path);
    std::int64_t most = 0;
    std::int64_t last = kFrames;
    for (std::size_t size = whole.size() - 1; size > 64;
         size -= std::min<std::size_t>(size - 1, 211)) {
      CAPTURE(compression, size);
      write_file(settings.path, whole.substr(0, size));
      settings.allow_truncated = false;
      CHECK_THAT(complaint(settings), contains("is truncated"));
      settings.allow_truncated = true;
      if (!complaint(settings).empty()) continue;
      const auto stack = open_stack(settings);
      CHECK(stack->shape().frames <= last);  // fewer bytes, no more frames
      last = stack->shape().frames;
      most = std::max(most, last);
      const auto pixels = all_pixels();
      const auto read = read_all<std::uint16_t>(*stack);
      CHECK(std::equal(read.begin(), read.end(), pixels.begin()));
    }
    CHECK(most >= kFrames / 2);
  }
}

TEST_CASE("HDF5 with space for more frames than were written") {
  const LeaksAllowed leaks;
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.h5";
  for (const unsigned compression : {0u, 4u}) {
    CAPTURE(compression);
    write_chunked(settings.path, all_pixels(), compression, 6);  // three chunks of two frames
    check_cut(settings, 6);
    settings.allow_truncated = false;
    CHECK_THAT(complaint(settings), contains("(the next was never written)"));
    write_chunked(settings.path, all_pixels(), compression);
    CHECK(complaint(settings).empty());
  }
  for (const unsigned compression : {0u, 4u}) {
    CAPTURE(compression);
    // A chunk of two frames of which one was written: the other is all fill value.
    write_chunked(settings.path, all_pixels(), compression, 5);
    check_cut(settings, 5);
    settings.allow_truncated = false;
    CHECK_THAT(complaint(settings), contains("(the next holds the fill value alone, as if never"));
    // Who needs the frames before alone is not bothered.
    settings.last_frame = 5;
    CHECK_THAT(complaint(settings), contains("is truncated: 5 of 9 frames"));
    settings.last_frame = 4;
    CHECK(open_stack(settings)->shape().frames == 5);
    CHECK(open_stack(settings)->notes().empty());
    settings.last_frame = -1;
  }
  // In one piece, and nothing of it written.
  const hid_t file = H5Fcreate(settings.path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const std::vector<hsize_t> size{kFrames, kHeight, kWidth};
  const hid_t space = H5Screate_simple(3, size.data(), nullptr);
  H5Dclose(
      H5Dcreate2(file, "/images", H5T_STD_U16LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Sclose(space);
  H5Fclose(file);
  check_cut(settings, 0);
}

/// How a dataset of 9 frames is made and written.
struct Making {
  std::uint16_t fill = 0;
  hsize_t chunk = 0;  ///< frames; 0: in one piece
  unsigned compression = 0;
  bool early = false;  ///< space is given to all chunks at once
  hsize_t written = kFrames;
  bool spot = false;  ///< the last pixel of each frame is 9
};

/// @param levels  of each frame, all its pixels
void write_levels(const std::filesystem::path& path, const Making& making,
                  const std::array<std::uint16_t, kFrames>& levels) {
  std::vector<std::uint16_t> pixels;
  for (const std::uint16_t level : levels) {
    pixels.insert(pixels.end(), kPixels, level);
    if (making.spot) pixels.back() = 9;
  }
  const std::vector<hsize_t> size{kFrames, kHeight, kWidth}, begin{0, 0, 0};
  const std::vector<hsize_t> part{making.written, kHeight, kWidth};
  const std::vector<hsize_t> chunk{making.chunk, 7, kWidth};
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(3, size.data(), nullptr);
  const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_fill_value(made, H5T_NATIVE_UINT16, &making.fill);
  if (making.chunk > 0) H5Pset_chunk(made, 3, chunk.data());
  if (making.compression > 0) H5Pset_deflate(made, making.compression);
  if (making.early) H5Pset_alloc_time(made, H5D_ALLOC_TIME_EARLY);
  const hid_t set = H5Dcreate2(file, "/a", H5T_STD_U16LE, space, H5P_DEFAULT, made, H5P_DEFAULT);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, begin.data(), nullptr, part.data(), nullptr);
  H5Dwrite(set, H5T_NATIVE_UINT16, space, space, H5P_DEFAULT, pixels.data());
  H5Dclose(set);
  H5Pclose(made);
  H5Sclose(space);
  H5Fclose(file);
}

TEST_CASE("HDF5 in chunks: what has a place in the file was written, but for a chunk's end") {
  const LeaksAllowed leaks;
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.h5";
  const auto frames_of = [&](const Making& making,
                             const std::array<std::uint16_t, kFrames>& levels) {
    write_levels(settings.path, making, levels);
    settings.allow_truncated = false;
    const std::string error = complaint(settings);
    settings.allow_truncated = true;
    const auto stack = open_stack(settings);
    const std::int64_t frames = stack->shape().frames;
    CHECK((frames < kFrames) == contains("is truncated: " + std::to_string(frames)).match(error));
    CHECK(stack->notes().empty() == (frames == kFrames));
    return frames;
  };
  for (const unsigned compression : {0u, 4u}) {
    CAPTURE(compression);
    const Making single{.chunk = 1, .compression = compression};
    CHECK(frames_of(single, {5, 6, 7, 8, 9, 8, 7, 0, 0}) == 9);
    CHECK(frames_of(single, {}) == 9);  // dark from the first to the last
    const Making threes{.chunk = 3, .compression = compression};
    CHECK(frames_of(threes, {}) == 9);
    CHECK(frames_of(threes, {5, 6, 7, 8, 9, 8, 0, 0, 0}) == 9);
    CHECK(frames_of(threes, {5, 6, 7, 0, 0, 0, 0, 0, 1}) == 9);
    CHECK(frames_of(threes, {5, 6, 7, 8, 9, 8, 0, 1, 0}) == 8);
    CHECK(frames_of(threes, {5, 6, 7, 8, 9, 8, 1, 0, 0}) == 7);
    // The fill value is the dataset's own, and no other constant level is.
    const Making other{.fill = 77, .chunk = 3, .compression = compression};
    CHECK(frames_of(other, {5, 6, 7, 8, 9, 8, 1, 0, 0}) == 9);
    CHECK(frames_of(other, {5, 6, 7, 8, 9, 8, 1, 0, 77}) == 8);
    Making part = threes;
    part.written = 6;
    CHECK(frames_of(part, {5, 6, 7, 0, 0, 0}) == 6);  // the last chunk with a place is dark
    part.written = 5;
    CHECK(frames_of(part, {5, 6, 7, 0, 1}) == 5);
    // A last chunk with one frame alone has no other that tells.
    const Making whole{.chunk = 4, .compression = compression};
    CHECK(frames_of(whole, {5, 6, 7, 8, 9, 8, 7, 6, 0}) == 9);
  }
}

TEST_CASE("HDF5 in chunks that breaks off behind dark frames: they were written") {
  const LeaksAllowed leaks;
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.h5";
  settings.allow_truncated = true;
  write_levels(settings.path, {.chunk = 3}, {5, 6, 0, 8, 0, 0, 1, 1, 1});
  const std::string whole = read_file(settings.path);
  std::vector<std::int64_t> frames;
  for (std::size_t size = whole.size() - 1; size > 211; size -= 211) {
    write_file(settings.path, whole.substr(0, size));
    if (!complaint(settings).empty()) continue;
    const std::int64_t there = open_stack(settings)->shape().frames;
    if (frames.empty() || frames.back() != there) frames.push_back(there);
  }
  CHECK(frames == std::vector<std::int64_t>{6, 3});
}

TEST_CASE("HDF5 whose written part is not known: frames of the fill value are told") {
  const LeaksAllowed leaks;
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.h5";
  const auto notes_of = [&](const Making& making,
                            const std::array<std::uint16_t, kFrames>& levels) {
    write_levels(settings.path, making, levels);
    const auto stack = open_stack(settings);
    CHECK(stack->shape().frames == kFrames);
    return stack->notes();
  };
  const auto doubt = [](int frames) {
    return std::vector<std::string>{
        "its last " + std::to_string(frames) +
        " of 9 frames hold the fill value alone: perhaps they were never written"};
  };
  for (const Making& making : {Making{}, Making{.chunk = 3, .early = true}}) {
    CAPTURE(making.early);
    Making part = making;
    part.written = 6;
    CHECK(notes_of(part, {1, 2, 3, 4, 5, 6}) == doubt(3));
    CHECK(notes_of(part, {1, 2, 3, 4, 0, 0}) == doubt(5));
    CHECK(notes_of(making, {0, 0, 0, 0, 0, 0, 0, 0, 1}).empty());
    CHECK(notes_of(making, {}) == doubt(9));
    Making spot = making;
    spot.spot = true;
    CHECK(notes_of(spot, {}).empty());
    settings.last_frame = 5;
    CHECK(notes_of(part, {1, 2, 3, 4, 5, 6}).empty());
    CHECK(notes_of(part, {1, 2, 3, 4, 5, 0}) == doubt(4));
    CHECK(notes_of(making, {1, 2, 3, 4, 5, 0, 1, 1, 1}).empty());
    CHECK(notes_of(making, {1, 2, 3, 4, 5, 0, 1, 0, 0}).empty());
    settings.last_frame = -1;
    part.fill = 77;
    CHECK(notes_of(part, {1, 2, 3, 4, 5, 0}) == doubt(3));
    part.written = kFrames;
    CHECK(notes_of(part, {1, 2, 3, 4, 5, 6, 7, 0, 0}).empty());
  }
}

TEST_CASE("HDF5 with all frames in one large chunk, and few written: each is unpacked once") {
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.h5";
  const std::vector<hsize_t> size{1000, 64, 64}, begin{0, 0, 0}, part{20, 64, 64};
  std::vector<std::uint16_t> pixels(std::size_t{20} * 64 * 64);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint16_t>(i % 251);
  const hid_t file = H5Fcreate(settings.path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(3, size.data(), nullptr);
  const hid_t made = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(made, 3, size.data());
  H5Pset_deflate(made, 4);
  const hid_t set = H5Dcreate2(file, "/a", H5T_STD_U16LE, space, H5P_DEFAULT, made, H5P_DEFAULT);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, begin.data(), nullptr, part.data(), nullptr);
  const hid_t memory = H5Screate_simple(3, part.data(), nullptr);
  H5Dwrite(set, H5T_NATIVE_UINT16, memory, space, H5P_DEFAULT, pixels.data());
  H5Sclose(memory);
  H5Dclose(set);
  H5Pclose(made);
  H5Sclose(space);
  H5Fclose(file);
  CHECK_THAT(complaint(settings), contains("is truncated: 20 of 1000 frames are whole"));
  settings.allow_truncated = true;
  const auto start = std::clock();
  const auto stack = open_stack(settings);
  REQUIRE(stack->shape().frames == 20);
  std::vector<std::uint16_t> frame(std::size_t{64} * 64);
  for (int round = 0; round < 20; ++round) {
    for (std::int64_t i = 0; i < 20; ++i) {
      stack->read(i, 1, reinterpret_cast<std::byte*>(frame.data()));
      CHECK(std::equal(frame.begin(), frame.end(),
                       pixels.begin() + static_cast<std::ptrdiff_t>(i) * 64 * 64));
    }
  }
  // 0.04 s; unpacked anew for each of 400 frames it is 8 s.
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 3);
}

}  // namespace
}  // namespace driftd::camera
