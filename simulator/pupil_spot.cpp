// SPDX-License-Identifier: MIT
#include "simulator/pupil_spot.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace driftd::simulator {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
/// Points across the pupil. Images repeat after 64 times wavelength / (2 NA): 10 times the reach.
constexpr int kPupil = 64;
constexpr int kParts = 8;  ///< of a point's side, for how much of it lies within the pupil
/// Reach in focus, and how much it grows by a nm off focus and at most, in wavelength / (2 NA).
constexpr double kFocusReach = 3;
constexpr double kReachGrowth = 0.4;
constexpr double kLargestReach = 6;
constexpr std::array<double, 5> kBoole = {7 / 90.0, 32 / 90.0, 12 / 90.0, 32 / 90.0, 7 / 90.0};

struct Complex {
  std::vector<double> re, im;
  explicit Complex(std::size_t size) : re(size), im(size) {}
};

double place_of(int i) {
  return (2.0 * i + 1 - kPupil) / kPupil;
}

/// Share of the square about a point that lies within the pupil.
double share_within(double x, double y) {
  constexpr double kPart = 2.0 / kPupil / kParts;
  int within = 0;
  for (int j = 0; j < kParts; ++j) {
    for (int i = 0; i < kParts; ++i) {
      const double px = x + (i - (kParts - 1) / 2.0) * kPart;
      const double py = y + (j - (kParts - 1) / 2.0) * kPart;
      within += px * px + py * py < 1 ? 1 : 0;
    }
  }
  return static_cast<double>(within) / (kParts * kParts);
}

/// Waves of aberration at a place of the pupil.
double waves_at(const PupilModel& pupil, double rho, double angle) {
  const double rho2 = rho * rho;
  const double astigmatism_rad = pupil.astigmatism_deg * std::numbers::pi / 180;
  const double coma_rad = pupil.coma_deg * std::numbers::pi / 180;
  return pupil.astigmatism_waves * std::sqrt(6.0) * rho2 * std::cos(2 * (angle - astigmatism_rad)) +
         pupil.coma_waves * std::sqrt(8.0) * (3 * rho2 - 2) * rho * std::cos(angle - coma_rad) +
         pupil.spherical_waves * std::sqrt(5.0) * (6 * rho2 * rho2 - 6 * rho2 + 1);
}

/// The field behind the objective in focus, and by how much its phase grows with z.
struct Pupil {
  Complex field{static_cast<std::size_t>(kPupil * kPupil)};
  std::vector<double> rad_per_nm = std::vector<double>(static_cast<std::size_t>(kPupil * kPupil));

  explicit Pupil(const PupilModel& model) {
    const double sine = model.numerical_aperture / model.index;
    const double k = kTurn * model.index / model.wavelength_nm;
    for (int j = 0; j < kPupil; ++j) {
      for (int i = 0; i < kPupil; ++i) {
        const auto at = static_cast<std::size_t>(j) * kPupil + static_cast<std::size_t>(i);
        const double share = share_within(place_of(i), place_of(j));
        if (share == 0) continue;
        const double rho = std::min(1.0, std::hypot(place_of(i), place_of(j)));
        const double cosine = std::sqrt(1 - rho * rho * sine * sine);
        const double phase = kTurn * waves_at(model, rho, std::atan2(place_of(j), place_of(i)));
        field.re[at] = share / std::sqrt(cosine) * std::cos(phase);
        field.im[at] = share / std::sqrt(cosine) * std::sin(phase);
        rad_per_nm[at] = k * (cosine - 1);  // a phase common to all changes no light
      }
    }
  }

  Complex at(double z_nm) const {
    Complex moved(field.re.size());
    for (std::size_t i = 0; i < field.re.size(); ++i) {
      const double c = std::cos(rad_per_nm[i] * z_nm);
      const double s = std::sin(rad_per_nm[i] * z_nm);
      moved.re[i] = field.re[i] * c - field.im[i] * s;
      moved.im[i] = field.re[i] * s + field.im[i] * c;
    }
    return moved;
  }
};

/// |FT|^2 of a pupil on a grid: the transform of its rows first, then of its columns.
class Image {
 public:
  Image(int points, double rad_per_point) : points_(points), wave_(size(points) * kPupil) {
    for (int p = 0; p < points; ++p) {
      const double x = rad_per_point * (p - (points - 1) / 2.0);
      for (int i = 0; i < kPupil; ++i) {
        const auto at = static_cast<std::size_t>(p) * kPupil + static_cast<std::size_t>(i);
        wave_.re[at] = std::cos(x * place_of(i));
        wave_.im[at] = std::sin(x * place_of(i));
      }
    }
  }

  /// @param light  points * points values, rows first
  void of(const Complex& pupil, std::vector<double>& light) const {
    Complex rows(size(points_) * kPupil);  // by image column, then by pupil row
    for (int x = 0; x < points_; ++x) {
      for (int j = 0; j < kPupil; ++j) {
        const Sum sum =
            product(&wave_.re[row(x)], &wave_.im[row(x)], &pupil.re[row(j)], &pupil.im[row(j)]);
        rows.re[row(x) + size(j)] = sum.re;
        rows.im[row(x) + size(j)] = sum.im;
      }
    }
    for (int y = 0; y < points_; ++y) {
      for (int x = 0; x < points_; ++x) {
        const Sum sum =
            product(&wave_.re[row(y)], &wave_.im[row(y)], &rows.re[row(x)], &rows.im[row(x)]);
        light[size(y) * size(points_) + size(x)] = sum.re * sum.re + sum.im * sum.im;
      }
    }
  }

 private:
  struct Sum {
    double re, im;
  };
  static std::size_t size(int i) { return static_cast<std::size_t>(i); }
  static std::size_t row(int i) { return size(i) * kPupil; }
  static Sum product(const double* a_re, const double* a_im, const double* b_re,
                     const double* b_im) {
    // Four sums side by side, which compilers turn into vector instructions.
    std::array<double, 4> re{};
    std::array<double, 4> im{};
    for (std::size_t i = 0; i < kPupil; i += 4) {
      for (std::size_t k = 0; k < 4; ++k) {
        re[k] += a_re[i + k] * b_re[i + k] - a_im[i + k] * b_im[i + k];
        im[k] += a_re[i + k] * b_im[i + k] + a_im[i + k] * b_re[i + k];
      }
    }
    return {re[0] + re[1] + re[2] + re[3], im[0] + im[1] + im[2] + im[3]};
  }

  int points_;
  Complex wave_;
};

/// All the light of the plane, in units of the squared field times rad^2: Parseval's theorem with
/// the integral of 1 / cos t over the pupil.
double whole_light(const PupilModel& pupil) {
  const double sine2 = std::pow(pupil.numerical_aperture / pupil.index, 2);
  return kTurn * kTurn * kTurn * (1 - std::sqrt(1 - sine2)) / sine2;
}

}  // namespace

PupilSpot::PupilSpot(const PupilModel& pupil, double pixel_size_nm)
    : focus_nm_(pupil.focus_nm), last_plane_(0), planes_(0) {
  const double half_px = pupil.wavelength_nm / (2 * pupil.numerical_aperture) / pixel_size_nm;
  focus_reach_px_ = kFocusReach * half_px;
  reach_px_per_nm_ = kReachGrowth / pixel_size_nm;
  reach_px_ = static_cast<int>(std::ceil(kLargestReach * half_px));
  side_ = 2 * (reach_px_ + 2) + 2;
  stride_ = side_ + kBlock;
  // One plane beside the range on either side, for the interpolation.
  planes_ = 2 * (static_cast<int>(std::ceil(pupil.range_nm / kPlaneNm)) + 1) + 1;
  last_plane_ = planes_ - 2;
  tabulate(pupil, pixel_size_nm);
}

void PupilSpot::tabulate(const PupilModel& pupil, double pixel_size_nm) {
  const int points = side_ * kSteps + 4;  // two beside the table's, for the pixels' area
  const double step_nm = pixel_size_nm / kSteps;
  const double rad_per_point = kTurn * pupil.numerical_aperture / pupil.wavelength_nm * step_nm;
  const Image image(points, rad_per_point);
  const Pupil field(pupil);
  const double cell = std::pow(2.0 / kPupil, 2);
  const double unit = std::pow(cell * rad_per_point * kSteps, 2) / whole_light(pupil);
  table_.assign(index(planes_, 0, 0), 0.0F);
  const auto width = static_cast<std::size_t>(points);
  std::vector<double> light(width * width);
  std::vector<double> across(width * width);
  const int focus = (planes_ - 1) / 2;
  for (int plane = 0; plane < planes_; ++plane) {
    image.of(field.at(kPlaneNm * (plane - focus)), light);
    for (std::size_t i = 2; i + 2 < light.size(); ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < kBoole.size(); ++k) sum += kBoole[k] * light[i + k - 2];
      across[i] = sum;
    }
    for (int y = 0; y < side_ * kSteps; ++y) {
      for (int x = 0; x < side_ * kSteps; ++x) {
        double sum = 0;
        for (std::size_t k = 0; k < kBoole.size(); ++k) {
          sum +=
              kBoole[k] *
              across[(static_cast<std::size_t>(y) + k) * width + static_cast<std::size_t>(x) + 2];
        }
        const int phase = (y % kSteps) * kSteps + x % kSteps;
        table_[index(plane, phase, y / kSteps) + static_cast<std::size_t>(x / kSteps)] =
            static_cast<float>(unit * sum);
      }
    }
  }
}

int PupilSpot::reach_px(double z_nm) const noexcept {
  const double grown = focus_reach_px_ + reach_px_per_nm_ * std::abs(z_nm - focus_nm_);
  return std::min(reach_px_, static_cast<int>(std::ceil(std::min(grown, 1e6))));
}

PupilSpot::Taps PupilSpot::taps_at(double place) noexcept {
  const double below = std::floor(place);
  const double t = place - below;
  Taps taps;
  taps.first = static_cast<int>(below) - 1;
  taps.weight = {-t * (t - 1) * (t - 2) / 6, (t + 1) * (t - 1) * (t - 2) / 2,
                 -(t + 1) * t * (t - 2) / 2, (t + 1) * t * (t - 1) / 6};
  return taps;
}

void PupilSpot::add(Vec2 first_px, double z_nm, int columns, int rows, double electrons, float* out,
                    std::ptrdiff_t stride) const noexcept {
  const double middle = (side_ * kSteps - 1) / 2.0;
  const Taps x = taps_at(middle + first_px.x * kSteps);
  const Taps y = taps_at(middle + first_px.y * kSteps);
  const int focus = (planes_ - 1) / 2;
  const Taps z =
      taps_at(std::clamp(focus + (z_nm - focus_nm_) / kPlaneNm, 1.0, last_plane_ - 1e-9));
  std::array<const float*, 64> from{};
  std::array<float, 64> weight{};
  std::size_t tap = 0;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 4; ++j) {
      for (int i = 0; i < 4; ++i, ++tap) {
        const int column = x.first + i;
        const int row = y.first + j;
        from[tap] =
            &table_[index(z.first + k, (row % kSteps) * kSteps + column % kSteps, row / kSteps)] +
            column / kSteps;
        weight[tap] = static_cast<float>(electrons * z.weight[static_cast<std::size_t>(k)] *
                                         y.weight[static_cast<std::size_t>(j)] *
                                         x.weight[static_cast<std::size_t>(i)]);
      }
    }
  }
  for (int row = 0; row < rows; ++row, out += stride) {
    for (int first = 0; first < columns; first += kBlock) {
      // Four sums side by side, or the processor waits for each addition.
      std::array<std::array<float, kBlock>, 4> sums{};
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * stride_ + first;
      for (std::size_t k = 0; k < from.size(); k += sums.size()) {
        for (std::size_t j = 0; j < sums.size(); ++j) {
          const float* line = from[k + j] + at;
          for (std::size_t i = 0; i < kBlock; ++i) sums[j][i] += weight[k + j] * line[i];
        }
      }
      const int last = std::min(kBlock, columns - first);
      for (int i = 0; i < last; ++i) {
        const auto column = static_cast<std::size_t>(i);
        const float sum = (sums[0][column] + sums[1][column]) + (sums[2][column] + sums[3][column]);
        out[first + i] += std::max(0.0F, sum);
      }
    }
  }
}

}  // namespace driftd::simulator
