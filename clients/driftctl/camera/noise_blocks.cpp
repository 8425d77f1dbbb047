// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/noise_blocks.hpp"
#include "base/median.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace driftd::clients {
namespace {

/// More tiles than that tell nothing more; the brightest and others at random are taken.
constexpr std::size_t kMostTiles = 512;
constexpr int kTaps = 4;
constexpr int kHalo = 2 * kTaps;  // for second derivatives
constexpr int kPatch = kTileSide_px + 2 * kHalo;
constexpr int kTerms = 7;
/// A pixel so near a limit of the levels is left out.
constexpr double kClearOfLimitsSd = 4;

using Column = std::array<double, kTilePixels>;
using Patch = std::array<double, static_cast<std::size_t>(kPatch) * kPatch>;

/// Derivative of a band-limited function from its samples: cos(pi k) / k under a window.
std::array<double, kTaps> derivative_taps() {
  std::array<double, kTaps> taps{};
  for (int k = 1; k <= kTaps; ++k) {
    const double window = std::cos(std::numbers::pi * k / (2.0 * (kTaps + 1)));
    taps[static_cast<std::size_t>(k - 1)] = (k % 2 == 1 ? 1.0 : -1.0) / k * window * window;
  }
  return taps;
}

/// Derivative along x (stride 1) or y (stride kPatch); the outermost kTaps stay 0.
Patch derive(const Patch& values, int stride) {
  static const std::array<double, kTaps> derivative = derivative_taps();
  Patch out{};
  for (int y = 0; y < kPatch; ++y) {
    for (int x = 0; x < kPatch; ++x) {
      const int along = stride == 1 ? x : y;
      if (along < kTaps || along >= kPatch - kTaps) continue;
      const int at = y * kPatch + x;
      double sum = 0;
      for (int k = 1; k <= kTaps; ++k) {
        const int ahead = at + k * stride;
        const int behind = at - k * stride;
        sum += derivative[static_cast<std::size_t>(k) - 1] *
               (values[static_cast<std::size_t>(ahead)] - values[static_cast<std::size_t>(behind)]);
      }
      out[static_cast<std::size_t>(at)] = sum;
    }
  }
  return out;
}

Column tile_of(const Patch& patch) {
  Column column{};
  for (std::size_t y = 0; y < kTileSide_px; ++y) {
    for (std::size_t x = 0; x < kTileSide_px; ++x) {
      column[y * kTileSide_px + x] = patch[(y + kHalo) * kPatch + x + kHalo];
    }
  }
  return column;
}

double dot(const Column& a, const Column& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void subtract(Column& from, const Column& what, double factor) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= factor * what[i];
}

/// Orthonormal columns that span the terms (modified Gram-Schmidt, twice), 0 at the pixels left
/// out.
std::vector<Column> orthonormal(std::vector<Column> terms, const std::vector<bool>& taken) {
  std::vector<Column> basis;
  for (Column& term : terms) {
    for (std::size_t i = 0; i < term.size(); ++i) {
      if (!taken[i]) term[i] = 0;
    }
    const double before = std::sqrt(dot(term, term));
    for (int twice = 0; twice < 2; ++twice) {
      for (const Column& other : basis) subtract(term, other, dot(term, other));
    }
    const double length = std::sqrt(dot(term, term));
    if (length <= 1e-6 * before || length == 0) continue;
    for (double& value : term) value /= length;
    basis.push_back(term);
  }
  return basis;
}

/// A and B of each pixel taken, and its mean.
void expect(TileNoise& noise, const std::vector<Column>& basis, const Column& mean,
            const std::vector<bool>& taken) {
  // sum_y P_xy^2 m_y with P = 1 - Q Q^T needs sum_y Q_yj Q_yl m_y alone.
  std::array<std::array<double, kTerms>, kTerms> weighted{};
  for (std::size_t j = 0; j < basis.size(); ++j) {
    for (std::size_t l = 0; l < basis.size(); ++l) {
      for (std::size_t i = 0; i < kTilePixels; ++i) {
        weighted[j][l] += basis[j][i] * basis[l][i] * mean[i];
      }
    }
  }
  for (std::size_t i = 0; i < kTilePixels; ++i) {
    noise.mean[i] = static_cast<float>(mean[i]);
    if (!taken[i]) continue;
    double own = 0;
    double others = 0;
    for (std::size_t j = 0; j < basis.size(); ++j) {
      own += basis[j][i] * basis[j][i];
      for (std::size_t l = 0; l < basis.size(); ++l)
        others += basis[j][i] * basis[l][i] * weighted[j][l];
    }
    noise.unit[i] = static_cast<float>(1 - own);
    noise.light[i] = static_cast<float>((1 - 2 * own) * mean[i] + others);
  }
}

/// Adds what neighbours have in common in one frame.
void correlate(const Column& left, std::array<double, 3>& product, std::array<double, 3>& square) {
  constexpr std::array<std::array<std::size_t, 2>, 3> kNeighbours{{{1, 0}, {0, 1}, {2, 0}}};
  for (std::size_t n = 0; n < kNeighbours.size(); ++n) {
    const auto [right, below] = kNeighbours[n];
    double products = product[n];
    double squares = square[n];
    for (std::size_t y = 0; y + below < kTileSide_px; ++y) {
      for (std::size_t x = 0; x + right < kTileSide_px; ++x) {
        const double a = left[y * kTileSide_px + x];
        const double b = left[(y + below) * kTileSide_px + x + right];
        products += a * b;
        squares += (a * a + b * b) / 2;
      }
    }
    product[n] = products;
    square[n] = squares;
  }
}

}  // namespace

NoiseBlocks::NoiseBlocks(const FrameShape& shape)
    : shape_(shape), frames_(kBlockFrames), mean_(shape.pixels()), clipped_(shape.pixels()) {}

void NoiseBlocks::add(std::span<const std::uint16_t> pixels) {
  frames_[static_cast<std::size_t>(waiting_)].assign(pixels.begin(), pixels.end());
  if (++waiting_ < kBlockFrames) return;
  finish_block();
  waiting_ = 0;
}

void NoiseBlocks::choose_tiles() {
  struct Candidate {
    int x_px, y_px;
    float brightest;
  };
  std::vector<Candidate> all;
  for (int y = 0; y + kTileSide_px <= shape_.height_px; y += kTileSide_px) {
    for (int x = 0; x + kTileSide_px <= shape_.width_px; x += kTileSide_px) {
      float brightest = 0;
      for (int row = y; row < y + kTileSide_px; ++row) {
        const auto line = mean_.begin() + std::ptrdiff_t{row} * shape_.width_px + x;
        brightest = std::max(brightest, *std::max_element(line, line + kTileSide_px));
      }
      all.push_back({x, y, brightest});
    }
  }
  if (all.size() > kMostTiles) {
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      return a.brightest > b.brightest;
    });
    // Half of them the brightest, half evenly out of the others.
    const std::size_t bright = kMostTiles / 2;
    const std::size_t others = all.size() - bright;
    for (std::size_t i = 0; i < kMostTiles - bright; ++i) {
      all[bright + i] = all[bright + i * others / (kMostTiles - bright)];
    }
    all.resize(kMostTiles);
  }
  for (const Candidate& c : all) tiles_.push_back({c.x_px, c.y_px, {}});
  correlations_.resize(tiles_.size());
}

void NoiseBlocks::finish_block() {
  const double top = (1 << shape_.bits) - 1;
  for (std::size_t i = 0; i < mean_.size(); ++i) {
    double sum = 0;
    double squares = 0;
    for (const auto& frame : frames_) {
      sum += frame[i];
      squares += static_cast<double>(frame[i]) * frame[i];
    }
    const double mean = sum / kBlockFrames;
    const double variance = std::max(0.0, squares / kBlockFrames - mean * mean);
    mean_[i] = static_cast<float>(mean);
    clipped_[i] = mean + kClearOfLimitsSd * std::sqrt(variance) >= top ? 1 : 0;
  }
  if (tiles_.empty()) choose_tiles();
  for (std::size_t i = 0; i < tiles_.size(); ++i) add_tile(i);
  ++blocks_;
}

void NoiseBlocks::add_tile(std::size_t index) {
  Tile& tile = tiles_[index];
  Patch patch{};
  for (int y = 0; y < kPatch; ++y) {
    const int row = std::clamp(tile.y_px + y - kHalo, 0, shape_.height_px - 1);
    for (int x = 0; x < kPatch; ++x) {
      const int column = std::clamp(tile.x_px + x - kHalo, 0, shape_.width_px - 1);
      const int at = y * kPatch + x;
      patch[static_cast<std::size_t>(at)] = static_cast<double>(
          mean_[static_cast<std::size_t>(row) * static_cast<std::size_t>(shape_.width_px) +
                static_cast<std::size_t>(column)]);
    }
  }
  const auto pixel = [&](std::size_t i) {
    return (static_cast<std::size_t>(tile.y_px) + i / kTileSide_px) *
               static_cast<std::size_t>(shape_.width_px) +
           static_cast<std::size_t>(tile.x_px) + i % kTileSide_px;
  };
  const Column mean = tile_of(patch);
  std::vector<bool> taken(kTilePixels);
  for (std::size_t i = 0; i < kTilePixels; ++i) taken[i] = clipped_[pixel(i)] == 0;

  Column one{};
  one.fill(1);
  const Patch along_x = derive(patch, 1);
  const Patch along_y = derive(patch, kPatch);
  const std::vector<Column> basis =
      orthonormal({one, mean, tile_of(along_x), tile_of(along_y), tile_of(derive(along_x, 1)),
                   tile_of(derive(along_x, kPatch)), tile_of(derive(along_y, kPatch))},
                  taken);

  TileNoise noise;
  expect(noise, basis, mean, taken);
  for (const auto& frame : frames_) {
    Column left{};
    for (std::size_t i = 0; i < kTilePixels; ++i)
      left[i] = taken[i] ? frame[pixel(i)] - mean[i] : 0;
    for (const Column& column : basis) subtract(left, column, dot(left, column));
    for (std::size_t i = 0; i < kTilePixels; ++i) {
      noise.variance[i] += static_cast<float>(left[i] * left[i] / (kBlockFrames - 1));
    }
    correlate(left, correlations_[index].product, correlations_[index].square);
  }
  tile.blocks.push_back(noise);
}

NeighbourNoise NoiseBlocks::neighbours() const {
  std::array<std::vector<double>, 3> shares;
  for (const Correlation& c : correlations_) {
    for (std::size_t n = 0; n < 3; ++n) {
      if (c.square[n] > 0) shares[n].push_back(c.product[n] / c.square[n]);
    }
  }
  return {median(shares[0]), median(shares[1]), median(shares[2])};
}

}  // namespace driftd::clients
