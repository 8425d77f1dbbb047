// SPDX-License-Identifier: MIT
// For tests in Python: a recording's frames as plain pixels on stdout, behind a line that says what
// they are, and lines of notes; or why it is refused, on stderr.
//   driftd_read_stack [--series N] [--channel N] [--slice N] [--every-page] [--allow-truncated]
//                     [--dataset NAME] [--metadata] FILE...
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "camera/recording/image_stack.hpp"

namespace {

using namespace driftd::camera;

int run(const std::vector<std::string>& arguments) {
  StackSettings settings;
  std::vector<std::filesystem::path> files;
  bool metadata = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    const auto next = [&] { return arguments.at(++i); };
    if (name == "--series")
      settings.series = std::stoi(next());
    else if (name == "--channel")
      settings.channel = std::stoi(next());
    else if (name == "--slice")
      settings.slice = std::stoi(next());
    else if (name == "--dataset")
      settings.dataset = next();
    else if (name == "--every-page")
      settings.every_page = true;
    else if (name == "--allow-truncated")
      settings.allow_truncated = true;
    else if (name == "--metadata")
      metadata = true;
    else
      files.emplace_back(name);
  }
  settings.path = files.at(0);
  settings.more.assign(files.begin() + 1, files.end());
  const auto stack = open_stack(settings);
  const StackShape& shape = stack->shape();
  std::printf("%s %lld %d %d %zu\n", name_of(shape.type), static_cast<long long>(shape.frames),
              shape.height_px, shape.width_px, stack->notes().size());
  for (const std::string& note : stack->notes()) std::printf("%s\n", note.c_str());
  std::vector<std::byte> frame(shape.frame_bytes());
  for (std::int64_t i = 0; i < shape.frames; ++i) {
    if (metadata) {
      std::printf("%s\n", stack->metadata(i).c_str());
      continue;
    }
    stack->read(i, 1, frame.data());
    if (std::fwrite(frame.data(), 1, frame.size(), stdout) != frame.size()) return 3;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const RecordingError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
