// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/transfer_line.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/median.hpp"
#include "clients/driftctl/camera/quantised_noise.hpp"

namespace driftd::clients {
namespace {

constexpr double kNormalMad = 1.4826;
/// Median of chi^2 with 15 degrees of freedom over its mean.
constexpr double kMedianOverMean = 0.9559;
/// With less noise than this, rounding is no noise of its own any more.
constexpr double kLeastNoise = 0.5;
/// Below, a pixel's variance depends on where between two levels it lies: only averages tell.
constexpr double kNoiseOfOnePixel = 0.8;
/// So far from 0 next to nothing is cut off.
constexpr double kClearOfZeroSd = 3;
/// Relative uncertainty of a gain that neither classes nor tiles show: the pixels' gains differ,
/// and motion is not wholly taken out.
constexpr double kShareOfDoubt = 0.003;
constexpr int kFewestInClass = 16;
constexpr std::size_t kWantedInClass = 40;

/// One equation: variance = intercept * unit + slope * light, known to sd.
struct Equation {
  double variance, unit, light, sd;
};

/// Weighted least squares; nothing where the equations are not independent.
std::optional<VarianceLine> solve(const std::vector<Equation>& equations,
                                  const VarianceLine* before) {
  double uu = 0;
  double ul = 0;
  double ll = 0;
  double uv = 0;
  double lv = 0;
  for (const Equation& e : equations) {
    double weight = 1 / (e.sd * e.sd);
    if (before != nullptr) {
      constexpr double kHuber = 3;
      const double off = std::abs(e.variance - before->at(e.unit, e.light)) / e.sd;
      if (off > kHuber) weight *= kHuber / off;
    }
    uu += weight * e.unit * e.unit;
    ul += weight * e.unit * e.light;
    ll += weight * e.light * e.light;
    uv += weight * e.unit * e.variance;
    lv += weight * e.light * e.variance;
  }
  const double determinant = uu * ll - ul * ul;
  if (determinant <= 1e-9 * uu * ll) return std::nullopt;
  return VarianceLine{(uv * ll - lv * ul) / determinant, (uu * lv - ul * uv) / determinant};
}

}  // namespace

TransferLine::TransferLine(const NoiseBlocks& noise, const DarkResult* dark, double step,
                           double saturation_adu)
    : noise_(noise), dark_(dark), step_(step), saturation_adu_(saturation_adu) {
  taken_.resize(noise.tiles().size());
  for (std::size_t t = 0; t < taken_.size(); ++t) {
    taken_[t].assign(static_cast<std::size_t>(noise.blocks()), true);
  }
}

void TransferLine::run() {
  gather(true);
  divide();
  line_ = solve_robustly(sum_classes(true));
  for (int round = 0; round < 4; ++round) {
    leave_out_disturbed();
    gather(false);
    classes_ = sum_classes(false);
    line_ = solve_robustly(total(classes_));
  }
}

VarianceLine TransferLine::sd() const {
  std::vector<VarianceLine> lines;
  for (std::size_t g = 0; g < kGroups; ++g) {
    Classes part = total(classes_);
    for (std::size_t c = 0; c < part.size(); ++c) part[c].add(classes_[c * kGroups + g], -1);
    lines.push_back(solve_robustly(part));
  }
  VarianceLine sum;
  for (const VarianceLine& line : lines) {
    sum.intercept += std::pow(line.intercept - line_.intercept, 2);
    sum.slope += std::pow(line.slope - line_.slope, 2);
  }
  constexpr double kShare = (kGroups - 1.0) / kGroups;
  return {std::sqrt(kShare * sum.intercept),
          std::hypot(std::sqrt(kShare * sum.slope), kShareOfDoubt * line_.slope)};
}

std::vector<TransferPoint> TransferLine::curve() const {
  std::vector<TransferPoint> points;
  for (const Sums& sums : total(classes_)) {
    if (!counts(sums)) continue;
    const double mean = sums.mean / sums.n;
    const double expected = line_.at(sums.unit, sums.light);
    const double rounding = rounding_of(mean);
    const double at_mean = line_.at(1, mean) + rounding;
    const double ratio = sums.variance / (expected + sums.unit * rounding);
    points.push_back({mean, at_mean * ratio - rounding,
                      at_mean * std::sqrt(sums.weight2) / (expected + sums.unit * rounding),
                      static_cast<std::int64_t>(sums.n)});
  }
  return points;
}

double TransferLine::rounding_of(double mean) const {
  const double sd = std::sqrt(std::max(0.0, line_.at(1, mean))) / step_;
  return step_ * step_ * (rounded_variance(sd) - sd * sd);
}

bool TransferLine::dithered(double mean) const {
  const double sd = std::sqrt(std::max(0.0, line_.at(1, mean))) / step_;
  return sd > kLeastNoise;
}

bool TransferLine::counts(const Sums& sums) const {
  return sums.n >= kFewestInClass && sums.unit > 0 && dithered(sums.mean / sums.n);
}

void TransferLine::gather(bool by_median) {
  pixels_.clear();
  for (std::size_t t = 0; t < noise_.tiles().size(); ++t) {
    const NoiseBlocks::Tile& tile = noise_.tiles()[t];
    std::vector<Pixel> own(kTilePixels);
    for (std::size_t i = 0; i < kTilePixels; ++i) {
      std::vector<double> variances;
      for (std::size_t b = 0; b < tile.blocks.size(); ++b) {
        const TileNoise& block = tile.blocks[b];
        if (!taken_[t][b] || block.unit[i] <= 0) continue;
        own[i].mean += static_cast<double>(block.mean[i]);
        own[i].unit += static_cast<double>(block.unit[i]);
        own[i].light += static_cast<double>(block.light[i]);
        own[i].variance += static_cast<double>(block.variance[i]);
        if (by_median) variances.push_back(static_cast<double>(block.variance[i]));
        ++own[i].blocks;
      }
      Pixel& p = own[i];
      p.group = t % kGroups;
      if (p.blocks == 0) continue;
      for (double* value : {&p.mean, &p.unit, &p.light, &p.variance}) *value /= p.blocks;
      if (by_median) p.variance = median(std::move(variances)) / kMedianOverMean;
    }
    add_neighbours(own);
    for (const Pixel& p : own) {
      if (p.blocks > 0) pixels_.push_back(p);
    }
  }
  if (pixels_.empty()) {
    throw CannotCalibrate("all pixels are at a limit of the levels: less light, or more offset");
  }
}

void TransferLine::add_neighbours(std::vector<Pixel>& tile) {
  for (int y = 0; y < kTileSide_px; ++y) {
    for (int x = 0; x < kTileSide_px; ++x) {
      double sum = 0;
      int count = 0;
      for (int dy = -1; dy <= 1; ++dy) {
        for (int dx = -1; dx <= 1; ++dx) {
          const int to_x = x + dx;
          const int to_y = y + dy;
          if ((dx == 0 && dy == 0) || to_x < 0 || to_y < 0 || to_x >= kTileSide_px ||
              to_y >= kTileSide_px) {
            continue;
          }
          const int at = to_y * kTileSide_px + to_x;
          const Pixel& other = tile[static_cast<std::size_t>(at)];
          if (other.blocks == 0) continue;
          sum += other.mean;
          ++count;
        }
      }
      const int at = y * kTileSide_px + x;
      Pixel& own = tile[static_cast<std::size_t>(at)];
      own.neighbours = count > 0 ? sum / count : own.mean;
    }
  }
}

void TransferLine::divide() {
  std::vector<double> around;
  std::vector<double> away;
  for (const Pixel& p : pixels_) {
    around.push_back(p.neighbours);
    away.push_back(std::abs(p.mean - p.neighbours));
  }
  pattern_adu_ = kNormalMad * median(away);
  std::sort(around.begin(), around.end());
  const double from = around[around.size() / 1000];
  const double to = around.back();
  double edge = from;
  std::size_t taken = 0;
  while (edge < to) {
    edge += std::max(4 * pattern_adu_ + step_, 0.3 * (edge - from));
    const auto below = static_cast<std::size_t>(
        std::lower_bound(around.begin(), around.end(), edge) - around.begin());
    if (below - taken < kWantedInClass && edge < to) continue;
    edges_.push_back(edge);
    taken = below;
  }
  // What is left at the top joins the class below.
  if (edges_.size() > 1 &&
      around.end() - std::lower_bound(around.begin(), around.end(), edges_[edges_.size() - 2]) <
          static_cast<std::ptrdiff_t>(kWantedInClass)) {
    edges_.erase(edges_.end() - 2);
  }
  if (edges_.empty()) edges_.push_back(to + step_);
}

std::size_t TransferLine::class_of(const Pixel& p) const {
  const auto edge = std::upper_bound(edges_.begin(), edges_.end(), p.neighbours);
  return std::min(static_cast<std::size_t>(edge - edges_.begin()), edges_.size() - 1);
}

TransferLine::Classes TransferLine::sum_classes(bool first) {
  Classes classes(edges_.size() * (first ? 1 : kGroups));
  brightest_adu_ = dimmest_adu_ = pixels_.front().mean;
  for (const Pixel& p : pixels_) {
    const double degrees = p.blocks * (kBlockFrames - 1.0);
    double predicted = p.variance;
    if (!first) {
      // A pixel's own offset makes its mean another than its light's: in even places the
      // neighbours tell that better.
      const bool even = std::abs(p.mean - p.neighbours) < 6 * pattern_adu_ + step_;
      const double mean = even ? p.neighbours : p.mean;
      const double before = line_.at(p.unit, p.light + p.unit * (mean - p.mean));
      predicted = before + p.unit * rounding_of(mean);
      if (predicted <= 0 ||
          p.neighbours < 2.5 * pattern_adu_ + kClearOfZeroSd * std::sqrt(predicted)) {
        continue;
      }
      const bool tells = before > kNoiseOfOnePixel * kNoiseOfOnePixel * step_ * step_;
      const double most_away =
          std::max(6 * std::sqrt(2 / degrees), 0.25) + 3 * pattern_adu_ * line_.slope / predicted;
      if (tells ? std::abs(p.variance / predicted - 1) > most_away
                : p.variance > 4 * (predicted + step_ * step_)) {
        continue;
      }
      if (p.mean + 5 * std::sqrt(predicted) >= saturation_adu_) continue;
    }
    const std::size_t c = class_of(p);
    if (c == 0 && std::abs(p.mean - p.neighbours) > 8 * pattern_adu_ + 2 * step_) continue;
    Sums one{1, p.mean, p.variance, p.unit, p.light, 2 * predicted * predicted / degrees};
    classes[first ? c : c * kGroups + p.group].add(one, 1);
    brightest_adu_ = std::max(brightest_adu_, p.mean);
    dimmest_adu_ = std::min(dimmest_adu_, p.mean);
  }
  return classes;
}

TransferLine::Classes TransferLine::total(const Classes& by_group) {
  Classes classes(by_group.size() / kGroups);
  for (std::size_t i = 0; i < by_group.size(); ++i) classes[i / kGroups].add(by_group[i], 1);
  return classes;
}

VarianceLine TransferLine::solve_robustly(const Classes& classes) const {
  VarianceLine line = line_;
  bool known = line.slope > 0;
  for (int round = 0; round < 12; ++round) {
    std::vector<Equation> equations;
    for (const Sums& sums : classes) {
      if (sums.n < kFewestInClass || sums.unit <= 0) continue;
      const double mean = sums.mean / sums.n;
      double variance = sums.variance / sums.n;
      const double unit = sums.unit / sums.n;
      double rounding = step_ * step_ / 12;
      if (known) {
        const double sd = std::sqrt(std::max(0.0, line.at(1, mean))) / step_;
        if (sd < kLeastNoise) continue;
        rounding = step_ * step_ * (rounded_variance(sd) - sd * sd);
      }
      variance -= unit * rounding;
      // A pixel's gain differs by a percent or so: classes of few are not known better.
      const double pattern_share = 0.02 / std::sqrt(sums.n);
      const double sd =
          std::hypot(std::sqrt(sums.weight2) / sums.n, pattern_share * sums.variance / sums.n);
      equations.push_back({variance, unit, sums.light / sums.n, sd});
    }
    if (dark_ != nullptr && dark_->read_noise_adu) {
      const double read = dark_->read_noise_adu->value;
      const double slope = known ? line.slope : 0;
      const double sd = std::hypot(2 * read * dark_->read_noise_adu->sd,
                                   slope * (dark_->offset_adu.sd + 0.005 * step_));
      equations.push_back(
          {read * read, 1, dark_->offset_adu.value, std::max(sd, 1e-4 * step_ * step_)});
    }
    if (equations.size() < 2) {
      throw CannotCalibrate(
          "the frames are too dark or too even: their noise does not show above the steps of the "
          "levels at two different brightnesses. More light (or more gain), or a dark series");
    }
    const auto solved = solve(equations, known ? &line : nullptr);
    if (!solved || !(solved->slope > 0)) {
      if (known && line_.slope > 0 && solved) return *solved;
      throw CannotCalibrate(
          "brighter pixels are not noisier: this is not the noise of light. Is the camera's image "
          "processed, or the frame a test pattern?");
    }
    line = *solved;
    known = true;
  }
  return line;
}

void TransferLine::leave_out_disturbed() {
  constexpr double kMostRatio = 6;  // chi^2 of 15 degrees: beyond once in 1e12
  // A limit within the scatter of a sum over few pixels would take the quiet blocks alone.
  constexpr double kMostExcess = 0.25;
  constexpr double kClearOfScatterSd = 4;
  std::size_t lit = 0;
  std::size_t disturbed = 0;
  std::size_t any = 0;
  std::size_t disturbed_of_any = 0;
  const double dim = dimmest_adu_ + 8 * pattern_adu_ + 2 * step_;
  for (std::size_t t = 0; t < taken_.size(); ++t) {
    const NoiseBlocks::Tile& tile = noise_.tiles()[t];
    for (std::size_t b = 0; b < tile.blocks.size(); ++b) {
      const TileNoise& block = tile.blocks[b];
      double left = 0;
      double expected = 0;
      double expected2 = 0;
      double most = 0;
      int bright = 0;
      for (std::size_t i = 0; i < kTilePixels; ++i) {
        if (block.unit[i] <= 0) continue;
        const auto mean = static_cast<double>(block.mean[i]);
        const auto unit = static_cast<double>(block.unit[i]);
        const double predicted =
            line_.at(unit, static_cast<double>(block.light[i])) + unit * step_ * step_ / 12;
        if (line_.at(1, mean) < kNoiseOfOnePixel * kNoiseOfOnePixel * step_ * step_) continue;
        left += static_cast<double>(block.variance[i]);
        expected += predicted;
        expected2 += predicted * predicted;
        if (mean <= dim) continue;
        ++bright;
        // A pixel noisy by itself is in all blocks, and left out as a pixel.
        most = std::max(most, static_cast<double>(block.variance[i]) / predicted);
      }
      const bool is_lit = bright >= 9;
      const double scatter = std::sqrt(2 * expected2 / (kBlockFrames - 1.0));
      taken_[t][b] = most < kMostRatio && left <= expected + std::max(kMostExcess * expected,
                                                                      kClearOfScatterSd * scatter);
      if (is_lit) ++lit;
      if (is_lit && !taken_[t][b]) ++disturbed;
      ++any;
      if (!taken_[t][b]) ++disturbed_of_any;
    }
  }
  disturbed_share_ = lit > 0 ? static_cast<double>(disturbed) / static_cast<double>(lit)
                             : static_cast<double>(disturbed_of_any) / static_cast<double>(any);
}

}  // namespace driftd::clients
