// SPDX-License-Identifier: MIT
#include "simulator/sensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace driftd::simulator {
namespace {

/// Pixels past which a spot's light is neglected: 6e-7 of it per side.
constexpr double kReachSigma = 5;
constexpr int kLargestPatch = 512;

/// Integrals of a unit Gaussian over the pixels first .. first + count - 1 of one axis.
void integrate_axis(double center_px, double sigma_px, int first, int count, double* out) {
  const double scale = 1 / (std::numbers::sqrt2 * sigma_px);
  double before = std::erf((first - 0.5 - center_px) * scale);
  for (int i = 0; i < count; ++i) {
    const double after = std::erf((first + i + 0.5 - center_px) * scale);
    out[i] = 0.5 * (after - before);
    before = after;
  }
}

struct Range {
  int begin = 0;
  int end = 0;
};

/// Pixels of one axis that light within `reach` of the centre touches.
Range reach_of(double center_px, double reach, int size_px) {
  const double low = std::clamp(std::floor(center_px - reach), 0.0, static_cast<double>(size_px));
  const double high =
      std::clamp(std::ceil(center_px + reach) + 1, low, static_cast<double>(size_px));
  const int begin = static_cast<int>(low);
  return {begin, std::min(static_cast<int>(high), begin + kLargestPatch)};
}

SpotPatch add_airy_spot(const AirySpot& airy, const Spot& spot, double electrons,
                        const SensorSettings& settings, float* signal_e) {
  const double x = spot.x_px - settings.offset_x_px;
  const double y = spot.y_px - settings.offset_y_px;
  const Range columns = reach_of(x, airy.reach_px(), settings.width_px);
  const Range rows = reach_of(y, airy.reach_px(), settings.height_px);
  for (int row = rows.begin; row < rows.end && columns.begin < columns.end; ++row) {
    airy.add_row(columns.begin - x, row - y, columns.end - columns.begin, electrons,
                 signal_e + static_cast<std::ptrdiff_t>(row) * settings.width_px + columns.begin);
  }
  return {columns.begin, columns.end, rows.begin, rows.end};
}

}  // namespace

MotionPoints motion_points(double xx_px2, double xy_px2, double yy_px2) noexcept {
  constexpr double kStillPx2 = 1e-4;
  const double middle = (xx_px2 + yy_px2) / 2;
  const double spread = std::hypot((xx_px2 - yy_px2) / 2, xy_px2);
  const double along = middle + spread;  // the covariance's eigenvalues
  const double across = middle - spread;
  MotionPoints points;
  if (along < kStillPx2) return points;
  const double angle = 0.5 * std::atan2(2 * xy_px2, xx_px2 - yy_px2);
  const bool line = across < kStillPx2;
  const double far = std::sqrt(line ? along : 2 * along);
  const double near = line ? 0 : std::sqrt(2 * across);
  points.offset_px = {{{far * std::cos(angle), far * std::sin(angle)},
                       {-far * std::cos(angle), -far * std::sin(angle)},
                       {-near * std::sin(angle), near * std::cos(angle)},
                       {near * std::sin(angle), -near * std::cos(angle)}}};
  points.count = line ? 2 : 4;
  return points;
}

SpotPatch add_spot(const Spot& spot, Vec2 sigma_px, double electrons,
                   const SensorSettings& settings, float* signal_e) {
  const double x = spot.x_px - settings.offset_x_px;
  const double y = spot.y_px - settings.offset_y_px;
  const Range columns = reach_of(x, kReachSigma * sigma_px.x + 0.5, settings.width_px);
  const Range rows = reach_of(y, kReachSigma * sigma_px.y + 0.5, settings.height_px);
  std::array<double, kLargestPatch> across{};
  std::array<double, kLargestPatch> down{};
  integrate_axis(x, sigma_px.x, columns.begin, columns.end - columns.begin, across.data());
  integrate_axis(y, sigma_px.y, rows.begin, rows.end - rows.begin, down.data());
  for (int row = rows.begin; row < rows.end; ++row) {
    const double share = electrons * down[static_cast<std::size_t>(row - rows.begin)];
    float* line = signal_e + static_cast<std::ptrdiff_t>(row) * settings.width_px;
    for (int column = columns.begin; column < columns.end; ++column) {
      line[column] +=
          static_cast<float>(share * across[static_cast<std::size_t>(column - columns.begin)]);
    }
  }
  return {columns.begin, columns.end, rows.begin, rows.end};
}

SpotPatch add_pupil_spot(const PupilSpot& pupil, const Spot& spot, double electrons,
                         const SensorSettings& settings, float* signal_e) {
  const double x = spot.x_px - settings.offset_x_px;
  const double y = spot.y_px - settings.offset_y_px;
  const Range columns = reach_of(x, pupil.reach_px(spot.z_nm), settings.width_px);
  const Range rows = reach_of(y, pupil.reach_px(spot.z_nm), settings.height_px);
  if (columns.begin < columns.end && rows.begin < rows.end) {
    pupil.add(
        {columns.begin - x, rows.begin - y}, spot.z_nm, columns.end - columns.begin,
        rows.end - rows.begin, electrons,
        signal_e + static_cast<std::ptrdiff_t>(rows.begin) * settings.width_px + columns.begin,
        settings.width_px);
  }
  return {columns.begin, columns.end, rows.begin, rows.end};
}

Sensor::Sensor(const CameraModel& camera, const OpticsModel& optics, std::uint64_t seed,
               const BackgroundModel& background)
    : camera_(camera),
      sigma_px_{optics.sigma_px, optics.sigma_y_px > 0 ? optics.sigma_y_px : optics.sigma_px},
      structure_(background, camera, seed),
      random_(seed, 40),
      bulk_(seed, 41) {
  if (optics.shape == SpotShape::Airy) airy_.emplace(optics.sigma_px, optics.defocus_waves);
  if (optics.shape == SpotShape::Pupil) {
    pupil_.emplace(optics.pupil, optics.pixel_size_nm);
    tables_.emplace();
  }
  if (optics.shape == SpotShape::WidthCurve) width_curve_ = optics.width_curve;
  const auto pixels =
      static_cast<std::size_t>(camera.width_px) * static_cast<std::size_t>(camera.height_px);
  Random pattern(seed, 42);
  for (std::size_t i = 0; i < pixels; ++i) {
    offset_adu_.push_back(
        static_cast<float>(camera.offset_adu + camera.offset_pattern_adu * pattern.normal() + 0.5));
    adu_per_e_.push_back(
        static_cast<float>((1 + camera.gain_pattern * pattern.normal()) / camera.gain_e_per_adu));
  }
  signal_e_.assign(pixels, 0.0F);
  electrons_.assign(pixels, 0.0F);
  bits_.resize((pixels + BulkRandom::kLanes - 1) / BulkRandom::kLanes * BulkRandom::kLanes);
}

void Sensor::prepare(const SensorSettings& settings) {
  const std::size_t pixels = settings.pixels();
  const double background_e = camera_.background_e * (settings.exposure_us / camera_.exposure_us);
  if (prepared_px_ == pixels && background_e == background_e_) return;
  prepared_px_ = pixels;
  if (background_e != background_e_) {
    const PoissonGaussCdf cdf(background_e, camera_.read_noise_e);
    background_ = QuantileTable(cdf, cdf.low(), cdf.high());
    background_e_ = background_e;
  }
  bulk_.fill(bits_.data(), pixels);
  for (std::size_t i = 0; i < pixels; ++i) electrons_[i] = background_.value(bits_[i]);
}

void Sensor::shape_background(double background_e, const SensorSettings& settings,
                              const ExposureConditions& conditions) {
  const double relative_light = conditions.brightness * conditions.background;
  if (structure_.even() && relative_light == 1) return;
  const auto drawn_e = static_cast<float>(background_e);
  const auto mean_e = static_cast<float>(background_e * relative_light);
  const auto read_e2 = static_cast<float>(camera_.read_noise_e * camera_.read_noise_e);
  const float scale = 1 / (drawn_e + read_e2);
  const float* relative =
      structure_.even() ? nullptr : structure_.relative(settings, conditions.background_px).data();
  const std::size_t pixels = settings.pixels();
  for (std::size_t i = 0; i < pixels; ++i) {
    const float own_e = relative == nullptr ? mean_e : mean_e * relative[i];
    electrons_[i] = own_e + (electrons_[i] - drawn_e) * std::sqrt((own_e + read_e2) * scale);
  }
}

SpotPatch Sensor::add_point(const Spot& spot, double electrons, const SensorSettings& settings) {
  float* signal_e = signal_e_.data();
  if (spot.sigma_px > 0)
    return add_spot(spot, {spot.sigma_px, spot.sigma_px}, electrons, settings, signal_e);
  if (airy_) return add_airy_spot(*airy_, spot, electrons, settings, signal_e);
  if (pupil_) return add_pupil_spot(*pupil_, spot, electrons, settings, signal_e);
  if (width_curve_)
    return add_spot(spot, widths_px(*width_curve_, spot.z_nm), electrons, settings, signal_e);
  return add_spot(spot, sigma_px_, electrons, settings, signal_e);
}

SpotPatch Sensor::add(const Spot& spot, double electrons, const SensorSettings& settings,
                      const MotionPoints& motion) {
  SpotPatch all{settings.width_px, 0, settings.height_px, 0};
  for (int i = 0; i < motion.count; ++i) {
    const Vec2 offset = motion.offset_px[static_cast<std::size_t>(i)];
    Spot part = spot;
    part.x_px += offset.x;
    part.y_px += offset.y;
    const SpotPatch patch = add_point(part, electrons / motion.count, settings);
    all = {std::min(all.x_begin, patch.x_begin), std::max(all.x_end, patch.x_end),
           std::min(all.y_begin, patch.y_begin), std::max(all.y_end, patch.y_end)};
  }
  return all;
}

void Sensor::draw_spot(const SpotPatch& patch, int width_px) {
  // The signal of all spots is already summed. A pixel's photons are drawn with the first patch it
  // lies in; its signal is then taken away, so that an overlapping patch adds none.
  for (int row = patch.y_begin; row < patch.y_end; ++row) {
    const auto line = static_cast<std::size_t>(row) * static_cast<std::size_t>(width_px);
    for (int column = patch.x_begin; column < patch.x_end; ++column) {
      const std::size_t pixel = line + static_cast<std::size_t>(column);
      const auto mean = static_cast<double>(signal_e_[pixel]);
      electrons_[pixel] +=
          static_cast<float>(tables_ ? tables_->draw(mean, random_) : random_.poisson(mean));
      signal_e_[pixel] = 0;
    }
  }
}

void Sensor::digitise(const SensorSettings& settings, std::uint16_t* levels) const {
  const auto gain = static_cast<float>(std::pow(10.0, settings.gain_db / 20));
  const auto top = static_cast<float>((1 << camera_.bit_depth) - 1);
  const auto full_well = static_cast<float>(camera_.full_well_e);
  const auto width = static_cast<std::size_t>(settings.width_px);
  for (int row = 0; row < settings.height_px; ++row) {
    const std::size_t first = static_cast<std::size_t>(row + settings.offset_y_px) *
                                  static_cast<std::size_t>(camera_.width_px) +
                              static_cast<std::size_t>(settings.offset_x_px);
    const float* electrons = &electrons_[static_cast<std::size_t>(row) * width];
    const float* offset = &offset_adu_[first];
    const float* adu_per_e = &adu_per_e_[first];
    std::uint16_t* line = levels + static_cast<std::size_t>(row) * width;
    for (std::size_t i = 0; i < width; ++i) {
      const float value = offset[i] + adu_per_e[i] * gain * std::min(electrons[i], full_well);
      line[i] = static_cast<std::uint16_t>(static_cast<int>(std::clamp(value, 0.0F, top)));
    }
  }
}

void Sensor::image(std::span<const Spot> spots, const SensorSettings& settings,
                   std::uint16_t* levels, const ExposureConditions& conditions) {
  const double exposure = settings.exposure_us / camera_.exposure_us;
  prepare(settings);
  prepared_px_ = 0;
  shape_background(background_e_, settings, conditions);
  patches_.clear();
  for (const Spot& spot : spots) {
    patches_.push_back(
        add(spot, spot.electrons * exposure * conditions.brightness, settings, conditions.motion));
  }
  for (const SpotPatch& patch : patches_) draw_spot(patch, settings.width_px);
  digitise(settings, levels);
}

}  // namespace driftd::simulator
