// SPDX-License-Identifier: MIT
// The noise of each pixel with the light that moves, flickers or blinks taken out. One thread.
//
// Frames are taken in blocks of sixteen that follow one another closely, and the image in tiles of
// 16 x 16 px. What a frame has beside its block's mean image m is, within a tile, fitted by
//   c0 + c1 m + c2 m_x + c3 m_y + c4 m_xx + c5 m_xy + c6 m_yy
// and taken away: the light brighter (c1), the sample moved (c2, c3: gradients) by a good part of a
// spot (c4 to c6), the offset higher (c0), each tile by itself. What is left is noise e seen
// through the projection P of that fit: of a pixel x its mean square is sum_y P_xy^2 var(e_y).
// With var(e) = a + b m, that is a A_x + b B_x with A_x = P_xx and B_x = sum_y P_xy^2 m_y, so the
// fit's share of the noise biases nothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "clients/driftctl/camera/frame_statistics.hpp"

namespace driftd::clients {

constexpr int kBlockFrames = 16;
constexpr int kTileSide_px = 16;
constexpr int kTilePixels = kTileSide_px * kTileSide_px;

/// One tile in one block; `unit` is 0 for pixels that were clipped.
struct TileNoise {
  std::array<float, kTilePixels> mean{};      ///< m, ADU
  std::array<float, kTilePixels> variance{};  ///< mean square of what is left, divisor 15
  std::array<float, kTilePixels> unit{};      ///< A
  std::array<float, kTilePixels> light{};     ///< B, ADU
};

/// Covariances of the noise of neighbours, in shares of the variance.
struct NeighbourNoise {
  double right = 0, below = 0, two_right = 0;
};

class NoiseBlocks {
 public:
  explicit NoiseBlocks(const FrameShape& shape);
  /// Frames beyond the last whole block wait for more.
  void add(std::span<const std::uint16_t> pixels);

  struct Tile {
    int x_px = 0, y_px = 0;
    std::vector<TileNoise> blocks;
  };
  const std::vector<Tile>& tiles() const noexcept { return tiles_; }
  int blocks() const noexcept { return blocks_; }
  /// Medians over the tiles.
  NeighbourNoise neighbours() const;

 private:
  struct Correlation {
    std::array<double, 3> product{}, square{};
  };
  void choose_tiles();
  void finish_block();
  void add_tile(std::size_t index);

  FrameShape shape_;
  std::vector<Tile> tiles_;
  std::vector<Correlation> correlations_;  ///< one a tile
  std::vector<std::vector<std::uint16_t>> frames_;
  std::vector<float> mean_;
  std::vector<std::uint8_t> clipped_;
  int waiting_ = 0, blocks_ = 0;
};

}  // namespace driftd::clients
