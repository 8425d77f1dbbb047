// SPDX-License-Identifier: MIT
// A frame as a camera's stream gives it: its geometry, its pixel format, and as many bytes as came.
#include "camera/frame.hpp"

#include <algorithm>

#include "fuzz/fuzz.hpp"
#include "simulator/sensor_settings.hpp"

namespace driftd::fuzz {
namespace {

using namespace camera;

/// What the simulator packs is unpacked as it was, but for bits that the format drops.
void pack(const Frame& frame, const std::vector<std::uint16_t>& levels) {
  if (frame.line_padding_bytes != 0 || levels.size() % 4 != 0) return;
  std::vector<std::byte> packed(simulator::packed_bytes(frame.format, levels.size()));
  simulator::pack_levels(levels, frame.format, bits_per_pixel(frame.format), packed.data());
  Frame again = frame;
  again.pixels = packed.data();
  if (!is_held_by(again, packed.size())) return;
  std::vector<std::uint16_t> unpacked(levels.size());
  unpack(again, unpacked.data());
  require(unpacked == levels, "what is packed is unpacked", name_of(frame.format));
}

}  // namespace

void frames(Bytes bytes) {
  Choices choices(bytes);
  Frame frame;
  frame.format = kPixelFormats[choices.up_to(std::size(kPixelFormats) - 1)];
  const auto side = [&] {
    return choices.up_to(31) == 0 ? choices.take<int>() : static_cast<int>(choices.up_to(20));
  };
  frame.width_px = side();
  frame.height_px = side();
  frame.line_padding_bytes = choices.flag() ? 0 : side();
  const int x_px = choices.up_to(7) > 0 ? side() : -1;
  const int y_px = choices.up_to(7) > 0 ? side() : -1;
  const int roi_px = side();
  const Bytes came = choices.rest();
  const std::vector<std::uint8_t> pixels(came.begin(), came.end());
  frame.pixels = reinterpret_cast<const std::byte*>(pixels.data());
  if (!is_held_by(frame, pixels.size())) return;
  const auto width = static_cast<std::size_t>(frame.width_px);
  std::vector<std::uint16_t> levels(width * static_cast<std::size_t>(frame.height_px));
  unpack(frame, levels.data());
  const unsigned bits = static_cast<unsigned>(bits_per_pixel(frame.format));
  const bool packed = frame.format != PixelFormat::Mono10 && frame.format != PixelFormat::Mono12;
  if (packed) {  // in those the camera leaves bits free that it ought to leave 0
    require(std::ranges::all_of(levels, [&](std::uint16_t level) { return level >> bits == 0; }),
            "levels have their bits", name_of(frame.format));
    pack(frame, levels);
  }
  if (roi_px < 0 || roi_px > 64) return;
  std::vector<std::uint16_t> roi(static_cast<std::size_t>(roi_px) *
                                 static_cast<std::size_t>(roi_px));
  if (!cut_roi(frame, x_px, y_px, roi_px, roi.data())) return;
  for (int y = 0; y < roi_px; ++y) {
    const auto* line = levels.data() + static_cast<std::size_t>(y_px + y) * width + x_px;
    require(std::equal(line, line + roi_px, roi.data() + static_cast<std::ptrdiff_t>(y) * roi_px),
            "a ROI is a part of its frame");
  }
}

}  // namespace driftd::fuzz
