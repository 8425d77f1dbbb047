// SPDX-License-Identifier: MIT
#include "fuzz/recordings.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

namespace driftd::fuzz {
namespace {

using namespace camera;

void check_sentence(const std::string& text) {
  require(!text.empty() && text.size() < 3000, "what is said is a sentence", text);
}

/// The same bytes whatever was there before: none is left as it was.
void check_frame(ImageStack& stack, std::int64_t frame) {
  std::vector<std::byte> once(stack.shape().frame_bytes(), std::byte{0});
  std::vector<std::byte> again(once.size(), std::byte{0xff});
  try {
    stack.read(frame, 1, once.data());
    stack.read(frame, 1, again.data());
  } catch (const RecordingError& error) {
    return check_sentence(error.problem);
  }
  require(once == again, "a frame is read whole");
}

void check_stack(ImageStack& stack) {
  const StackShape& shape = stack.shape();
  require(shape.frames >= 1, "a recording has frames", std::to_string(shape.frames));
  require(shape.width_px >= 1 && shape.height_px >= 1 &&
              shape.pixels() <= static_cast<std::size_t>(kMaxFramePixels),
          "frames have a size");
  if (const auto rate_hz = stack.recorded_rate_hz())
    require(std::isfinite(*rate_hz) && *rate_hz > 0, "a rate is a number",
            std::to_string(*rate_hz));
  for (const std::string& note : stack.notes()) check_sentence(note);
  require(!stack.is_repeat(0), "the first frame repeats none");
  if (shape.frame_bytes() > std::size_t{1} << 22) return;
  check_frame(stack, 0);
  check_frame(stack, shape.frames - 1);
  check_frame(stack, shape.frames / 2);
}

void open_with(const StackSettings& settings) {
  try {
    check_stack(*open_stack(settings));
  } catch (const RecordingError& error) {
    check_sentence(error.problem);
  }
}

}  // namespace

FolderFile::FolderFile(const std::string& name) {
  const std::filesystem::path in_memory = "/dev/shm";
  const auto place =
      std::filesystem::exists(in_memory) ? in_memory : std::filesystem::temp_directory_path();
  std::string folder = (place / "driftd-fuzz-XXXXXX").string();
  require(mkdtemp(folder.data()) != nullptr, "a folder can be made", folder);
  folder_ = folder;
  path_ = folder_ / name;
}

FolderFile::~FolderFile() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

void FolderFile::hold(Bytes bytes) const {
  std::ofstream out(path_, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  require(out.good(), "a file can be written", path_.string());
}

void check_recording(const std::filesystem::path& path, StackFormat format) {
  StackSettings settings;
  settings.path = path;
  settings.format = format;
  open_with(settings);
  settings.allow_truncated = true;
  open_with(settings);
  if (format != StackFormat::Tiff) return;
  settings.series = settings.channel = settings.slice = 0;
  open_with(settings);
  settings.series = settings.channel = settings.slice = -1;
  settings.every_page = true;
  open_with(settings);
}

}  // namespace driftd::fuzz
