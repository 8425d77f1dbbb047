// SPDX-License-Identifier: MIT
#include "fitter/spots/spot_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "fitter/spots/frame_noise.hpp"
#include "fitter/spots/spot_at.hpp"

namespace driftd::fitter {
namespace {

/// The value that comes after `rank` others in their order.
float in_order(std::vector<float>& values, std::size_t rank) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}
/// By counting, the high bytes first and then the low ones: an eighth of the time.
std::uint16_t in_order(const std::vector<std::uint16_t>& values, std::size_t rank) {
  unsigned found = 0;
  for (const unsigned shift : {8u, 0u}) {
    std::array<std::size_t, 256> count{};
    for (const unsigned value : values)
      if (shift == 8 || value >> 8 == found) ++count[value >> shift & 255u];
    unsigned digit = 0;
    while (rank >= count[digit]) rank -= count[digit++];
    found = found << 8 | digit;
  }
  return static_cast<std::uint16_t>(found);
}

/// The median difference of horizontal neighbours that differ. Nothing where these are few, or are
/// the flanks of spots in an image without noise.
template <class Pixel>
std::optional<double> median_where_different(const FrameShape& shape, const Pixel* frame) {
  std::vector<float> differences;
  std::size_t triples = 0, turns = 0;
  const auto width = static_cast<std::size_t>(shape.width_px);
  for (const Pixel* row = frame; row < frame + shape.pixels(); row += width) {
    float before = 0;
    for (std::size_t x = 1; x < width; ++x) {
      const float here = static_cast<float>(row[x]) - static_cast<float>(row[x - 1]);
      if (here != 0 && std::isfinite(here)) {
        differences.push_back(std::abs(here));
        if (before != 0) {
          ++triples;
          turns += (before > 0) != (here > 0) ? 1 : 0;
        }
      }
      before = std::isfinite(here) ? here : 0;
    }
  }
  if (triples < kFewestTurns ||
      static_cast<double>(turns) < kLeastTurns * static_cast<double>(triples)) {
    return std::nullopt;
  }
  return static_cast<double>(in_order(differences, differences.size() / 2));
}

/// Standard deviation of a pixel's noise, from the differences of horizontal neighbours: spots and
/// background hardly show in their median.
/// @param least  of float pixels
template <class Pixel>
double pixel_noise(const FrameShape& shape, const Pixel* frame, double least) {
  constexpr bool kIsWhole = std::numeric_limits<Pixel>::is_integer;
  using Difference = std::conditional_t<kIsWhole, std::uint16_t, float>;
  const std::size_t pixels = shape.pixels();
  const std::size_t stride = std::max<std::size_t>(1, pixels / kNoiseSamples);
  std::vector<Difference> differences;
  differences.reserve(pixels / stride + 1);
  for (std::size_t i = 0; i + 1 < pixels; i += stride) {
    const Pixel a = frame[i], b = frame[i + 1];
    const auto difference = static_cast<Difference>(a < b ? b - a : a - b);
    if (kIsWhole || std::isfinite(difference)) differences.push_back(difference);
  }
  if (differences.empty()) return least;
  auto middle = static_cast<double>(in_order(differences, differences.size() / 2));
  // Differences of one count are those of little noise.
  const double count = kIsWhole ? 1 : least / kQuantisationNoise;
  const std::size_t all = differences.size();
  std::erase(differences, Difference{0});
  const bool many_equal =
      static_cast<double>(all - differences.size()) > kMostEqual * static_cast<double>(all);
  if (many_equal &&
      (differences.empty() ||
       static_cast<double>(in_order(differences, differences.size() / 2)) > kAlmost * count)) {
    if (const auto different = median_where_different(shape, frame);
        different && *different > kAlmost * count) {
      middle = *different;
    }
  }
  const double sd = middle / kMadOfDifferences;
  return std::max(sd, kIsWhole ? kQuantisationNoise : least);
}

/// Whether each of some neighbours is below the largest of its box, which most are.
constexpr int kNeighbours = 16;
template <class Pixel>
bool all_below(const Pixel* pixels, const Pixel* largest) {
  int not_below = 0;  // and no branch, so that the compiler makes vectors of it
  for (int i = 0; i < kNeighbours; ++i) not_below |= pixels[i] < largest[i] ? 0 : 1;
  return not_below == 0;
}

/// Of the largest of its box.
template <class Pixel>
bool is_first(const Pixel* centre, std::ptrdiff_t width, int half) {
  return exceeds_those_before(centre, width, half) &&
         (std::numeric_limits<Pixel>::is_integer ||
          is_no_less_than_those_behind(centre, width, half));
}

/// The largest of each `box` neighbours in a row of `count`, the first of which has its place.
/// Loops that the compiler turns into vectors: the largest of 2, of 4, ... and last of all of them.
template <class Pixel>
void largest_across(Pixel* values, std::size_t count, std::size_t box) {
  std::size_t of = 1;
  const auto with = [&](std::size_t other) {
    for (std::size_t i = 0; i + other < count; ++i)
      values[i] = std::max(values[i], values[i + other]);
  };
  for (; 2 * of <= box; of *= 2) with(of);
  if (of < box) with(box - of);
}

/// The same down the columns of an image of `height` rows.
template <class Pixel>
void largest_down(Pixel* values, std::size_t width, std::size_t height, std::size_t box) {
  std::size_t of = 1;
  const auto with = [&](std::size_t other) {
    for (std::size_t i = 0; i + other * width < width * height; ++i)
      values[i] = std::max(values[i], values[i + other * width]);
  };
  for (; 2 * of <= box; of *= 2) with(of);
  if (of < box) with(box - of);
}

}  // namespace

SpotSearch::SpotSearch(const SpotSearchSettings& settings)
    : settings_(settings), half_px_(settings.box_px / 2) {
  if (settings.box_px < 3 || settings.box_px > kMostBoxPx || settings.box_px % 2 == 0)
    throw std::invalid_argument("a box of " + std::to_string(settings.box_px) +
                                " px; it must be odd, from 3 to " + std::to_string(kMostBoxPx));
  const int side = 2 * half_px_ + 3;
  weights_.assign(static_cast<std::size_t>(side) * static_cast<std::size_t>(side), 0.0f);
  const auto weight = [&](int u, int v) -> float& {
    const int row = v + half_px_ + 1;
    const int index = row * side + u + half_px_ + 1;
    return weights_[static_cast<std::size_t>(index)];
  };
  for (int v = -half_px_; v <= half_px_; ++v) {
    for (int u = -half_px_; u <= half_px_; ++u) {
      if (u == 0 && v == 0) continue;
      const auto distance = static_cast<float>(std::hypot(u, v));
      const float towards_x = -static_cast<float>(u) / distance;
      const float towards_y = -static_cast<float>(v) / distance;
      weight(u + 1, v) += towards_x;
      weight(u - 1, v) -= towards_x;
      weight(u, v + 1) += towards_y;
      weight(u, v - 1) -= towards_y;
    }
  }
  double sum2 = 0;
  for (const float w : weights_) sum2 += static_cast<double>(w) * static_cast<double>(w);
  unit_noise_ = std::sqrt(sum2);
}

template <class Pixel>
float SpotSearch::net_gradient(const Pixel* centre, int width) const {
  const int side = 2 * half_px_ + 3;
  const float* weight = weights_.data();
  const Pixel* row = centre - static_cast<std::ptrdiff_t>(half_px_ + 1) * (width + 1);
  float of_column[kMostBoxPx + 2];  // which the compiler makes vectors of
  std::fill_n(of_column, side, 0.0f);
  for (int v = 0; v < side; ++v, row += width, weight += side)
    for (int u = 0; u < side; ++u) of_column[u] += weight[u] * static_cast<float>(row[u]);
  return std::accumulate(of_column, of_column + side, 0.0f);
}

template <class Pixel>
std::vector<FoundSpot> SpotSearch::find_in(const FrameShape& shape, const Pixel* frame) const {
  std::vector<FoundSpot> found;
  const int width = shape.width_px;
  const int height = shape.height_px;
  const double least = settings_.min_net_gradient > 0
                           ? settings_.min_net_gradient
                           : noise_limit() * pixel_noise(shape, frame, settings_.least_noise);
  const int reach = half_px_ + 1;
  // What is not the largest of its box, whatever the order of equals, is out at once.
  const auto box_px = static_cast<std::size_t>(settings_.box_px);
  const auto columns = static_cast<std::size_t>(width);
  std::vector<Pixel> largest(frame, frame + shape.pixels());
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y)
    largest_across(largest.data() + y * columns, columns, box_px);
  largest_down(largest.data(), columns, static_cast<std::size_t>(height), box_px);
  for (int y = half_px_; y < height - half_px_; ++y) {
    const Pixel* const row = frame + static_cast<std::ptrdiff_t>(y) * width;
    const Pixel* const of_box = largest.data() + static_cast<std::ptrdiff_t>(y - half_px_) * width;
    const int end = width - half_px_;
    for (int x = half_px_; x < end;) {
      if (x + kNeighbours <= end && all_below(row + x, of_box + (x - half_px_))) {
        x += kNeighbours;
        continue;
      }
      for (const int last = std::min(x + kNeighbours, end); x < last; ++x) {
        const Pixel* const centre = row + x;
        if (*centre < of_box[x - half_px_] || !is_first(centre, width, half_px_)) continue;
        const bool inside = x >= reach && x < width - reach && y >= reach && y < height - reach;
        float sum = inside ? net_gradient(centre, width) : 0;
        if (!inside || !std::isfinite(sum)) sum = net_gradient_at_border(shape, frame, x, y, box());
        if (static_cast<double>(sum) > least) found.push_back({x, y, sum});
      }
    }
  }
  return found;
}

std::vector<FoundSpot> SpotSearch::find(const FrameShape& shape, const std::byte* frame) const {
  if (std::min(shape.width_px, shape.height_px) < settings_.box_px) return {};
  switch (shape.type) {
    case PixelType::U8:
      return find_in(shape, reinterpret_cast<const std::uint8_t*>(frame));
    case PixelType::U16:
      return find_in(shape, reinterpret_cast<const std::uint16_t*>(frame));
    case PixelType::F32:
      break;
  }
  return find_in(shape, reinterpret_cast<const float*>(frame));
}

}  // namespace driftd::fitter
