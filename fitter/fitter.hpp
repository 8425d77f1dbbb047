// SPDX-License-Identifier: MIT
// The fitter contract: a LiveFitter for the lock (fixed ROI side and capacity, staging memory that
// the ROI cutter writes into, no allocation after construction) and a batch call for everything
// else. CPU and CUDA implement the same contract from the same mathematics.
//
// NotConverged: the damping passed its limit, or a minimum was found that is no spot, because
//  - its centre or a width is at a limit (centre within the ROI's pixel edges, sigma from 0.4 px to
//    half a side), or
//  - it explains too little: (N - 5) ln(chi-square of a constant / chi-square) is at most 25,
//    or its amplitude (a negative one always) or a width is below 4 standard deviations, or
//  - its residuals, averaged over 3x3 pixels, exceed a third of the amplitude and five times their
//    noise: another spot, or another shape.
// Pixels that a map of variances takes away (Batch::variances) do not count in any of this.
// Two spots closer than some three sigma pass as one wide spot at their centroid: sigma tells.
// fitter/acceptance.hpp has the reasons for the figures, docs/internals/fitter.md what they let
// through.
//
// f32 pixels may have any unit in which the contrast lies within 1e-12 .. 1e12.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>

#include "fitter/localization.hpp"

namespace driftd::fitter {

constexpr int kMinRoiPx = 4;
constexpr int kMaxRoiPx = 64;

/// Settings or array sizes that make no sense. The text says what was found and what is allowed.
struct FitterError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Model : std::uint8_t {
  CircularGaussian,    ///< x, y, sigma
  EllipticalGaussian,  ///< x, y, sigma_x, sigma_y, the axes along rows and columns
  /// x, y, sigma_x, sigma_y, and the angle of the axis of sigma_x (FitDetails). Batches only;
  /// ImplicitLeastSquares is LeastSquares to it.
  RotatedGaussian,
  /// x, sigma (sigma_x), of one dimension: the pixels of a ROI, row after row, are a line. Batches
  /// only, with start values. Any minimum counts, as without spots_only. Its y is 0.
  LineGaussian,
  /// x, y, sigma_x, sigma_y: a Cauchy profile along each of rows and columns, whose half width at
  /// half maximum a sigma is. Batches only; ImplicitLeastSquares is LeastSquares to it.
  EllipticalCauchy
};
constexpr Model kLastModel = Model::EllipticalCauchy;
/// Whether it is a product of a Gaussian in x and one in y.
constexpr bool is_separable(Model model) noexcept {
  switch (model) {
    case Model::CircularGaussian:
    case Model::EllipticalGaussian:
      return true;
    case Model::RotatedGaussian:
    case Model::LineGaussian:
    case Model::EllipticalCauchy:
      return false;
  }
  return false;
}

enum class Estimator : std::uint8_t {
  /// Amplitude and background eliminated: Leutenegger & Weber 2021. The fastest.
  ImplicitLeastSquares,
  /// The same minimum with all parameters searched, so that they can be fixed and bounded.
  LeastSquares,
  /// Squares over the variances of Batch::variances. Batches only.
  WeightedLeastSquares,
  /// Maximum likelihood under Poisson noise (Laurence & Chromy 2010; Przybylski et al. 2017,
  /// equation 8), in electrons by NoiseModel (an unknown gain counts as 1); read noise, or
  /// Batch::variances, by adding its variance to pixels and model (Huang et al. 2013). Chi-square
  /// is the deviance.
  PoissonLikelihood
};
constexpr Estimator kLastEstimator = Estimator::PoissonLikelihood;

/// All parameters of a fit. The circular model has no SigmaY: SigmaX is its sigma.
enum class Parameter : std::uint8_t { X, Y, SigmaX, SigmaY, Amplitude, Background };
constexpr int kParameters = 6;
constexpr std::uint8_t bit(Parameter p) noexcept {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(p));
}

/// The rotated model's angle has the bit and the place behind those of the Parameters.
constexpr int kAngle = kParameters;
constexpr std::uint8_t kAngleBit = 1u << kAngle;

/// The bits of the parameters that a model has.
constexpr unsigned bits_of(Model model) noexcept {
  constexpr unsigned kLevels = bit(Parameter::Amplitude) | bit(Parameter::Background);
  constexpr unsigned kLine = bit(Parameter::X) | bit(Parameter::SigmaX) | kLevels;
  constexpr unsigned kCircular = kLine | bit(Parameter::Y);
  constexpr unsigned kElliptical = kCircular | bit(Parameter::SigmaY);
  switch (model) {
    case Model::CircularGaussian:
      return kCircular;
    case Model::EllipticalGaussian:
    case Model::EllipticalCauchy:
      return kElliptical;
    case Model::RotatedGaussian:
      return kElliptical | kAngleBit;
    case Model::LineGaussian:
      return kLine;
  }
  return 0;
}

/// Limits of an angle.
template <class Real>
struct AngleBoundsOf {
  Real lower_rad = -std::numeric_limits<float>::infinity();
  Real upper_rad = std::numeric_limits<float>::infinity();
};
using AngleBounds = AngleBoundsOf<float>;

/// What Localization has no room for. Rows and columns of the covariance are in the order of
/// Parameter, the last ones the angle's: units are those of Localization, rad, and their products.
/// 0 for what is fixed or the model does not have; the circular model's sigma_y is its sigma_x.
/// Infinite where nothing depends on it, as on a round spot's angle. NaN with BadInput; with other
/// statuses not converged() it is for diagnosis only, and NaN in place of variances below 0.
struct FitDetails {
  static constexpr int kOrder = kParameters + 1;
  float angle_rad, angle_sd_rad;  ///< of the rotated model, else 0
  float covariance[kOrder][kOrder];
};

/// Limits of each Parameter, beside those of the model (see NotConverged above).
template <class Real>
struct BoundsOf {
  Real lower[kParameters] = {-kUnbounded, -kUnbounded, -kUnbounded,
                             -kUnbounded, -kUnbounded, -kUnbounded};
  Real upper[kParameters] = {kUnbounded, kUnbounded, kUnbounded,
                             kUnbounded, kUnbounded, kUnbounded};
  static constexpr float kUnbounded = std::numeric_limits<float>::infinity();
};
using Bounds = BoundsOf<float>;

/// What the camera adds to the photons. It turns residual-based uncertainties into photon-based
/// ones. gain_e_per_adu <= 0: not known, the residuals' own variance is used instead.
struct NoiseModel {
  float gain_e_per_adu = 0;
  float read_noise_e = 0;
  float offset_adu = 0;
};

/// The noise of a camera that multiplies electrons at random (EMCCD). A signal of twice the
/// variance is one of half the photons: to the fit, no more is known of it.
/// @param excess  variance of the signal over that of its photons, from 1 on
inline NoiseModel with_excess(NoiseModel noise, float excess) noexcept {
  noise.gain_e_per_adu /= excess;
  noise.read_noise_e /= excess;
  return noise;
}

struct FitOptions {
  Model model = Model::CircularGaussian;
  /// Whether a pixel is the mean of the Gaussian over its area, as a camera without gaps counts,
  /// instead of the value at its centre. Same place; sigma is the spot's own, not some 1 / (24
  /// sigma) px larger.
  bool integrated = false;
  Estimator estimator = Estimator::ImplicitLeastSquares;
  /// bit(Parameter) of each that keeps its start value, kAngleBit of the angle. Not with
  /// ImplicitLeastSquares.
  std::uint8_t fixed = 0;
  /// Whether a minimum that is no spot (above) is NotConverged. False: any minimum will do.
  bool spots_only = true;
  Bounds bounds;  ///< Not with ImplicitLeastSquares.
  int max_iterations = 20;
  float lambda_start = 0.01f;
  float lambda_max = 1e4f;
  /// Stop (i): residuum below this, adu^2; 0: never. This and the next compare what PixelTerm calls
  /// value: for a likelihood Pearson's chi-square, not the deviance that is reported.
  float min_chi_square = 0;
  float min_decrease = 1e-6f;  ///< stop (ii): relative decrease of chi-square
  float min_step = 1e-4f;      ///< stop (iii): relative change of every parameter
  /// A pixel at or above this makes BadInput; infinity: none does.
  float saturation_adu = std::numeric_limits<float>::infinity();
  /// Limit of the background: no light is negative, so a camera's offset (0 for photon counts) is
  /// a sound limit, and spots wide for their ROI gain from it. Not for background-subtracted
  /// pixels.
  float min_background_adu = -std::numeric_limits<float>::infinity();
  NoiseModel noise;
};

/// How often a search evaluates its model over the ROI, at most. A fit makes one search, or two:
/// where a warm start leads nowhere and spots_only asks for spots, a cold one follows. Batches may
/// leave a search for later, which evaluates one place twice; that is counted here.
constexpr int most_evaluations(int max_iterations) noexcept {
  return 2 * max_iterations + 20;
}

/// The live path: for at most `capacity` ROIs of side roi_px; owned and called by one thread.
class LiveFitter {
 public:
  virtual ~LiveFitter() = default;
  LiveFitter() = default;
  LiveFitter(const LiveFitter&) = delete;
  LiveFitter& operator=(const LiveFitter&) = delete;

  virtual int roi_px() const noexcept = 0;
  virtual std::size_t capacity() const noexcept = 0;
  /// ROI slot i: roi_px * roi_px u16, row-major, 64-byte aligned (pinned when CUDA). Stays the
  /// same.
  virtual std::uint16_t* staging(std::size_t i) noexcept = 0;
  /// Fits slots 0 .. starts.size()-1, each from starts[i] (warm) or from its own estimate (cold).
  /// The span returned is valid until the next call. starts.size() <= capacity(). After a failure
  /// of the back end it is empty, and stays so: see error().
  virtual std::span<const Localization> fit(std::span<const Start> starts) noexcept = 0;
  /// Null while all is well; else what failed, for good. Read by the thread that calls fit().
  virtual const char* error() const noexcept { return nullptr; }
  /// "cpu (AVX3)", "cuda (NVIDIA H200, launch)".
  virtual const char* description() const noexcept = 0;
};

/// @throws FitterError
std::unique_ptr<LiveFitter> make_cpu_live_fitter(int roi_px, std::size_t capacity,
                                                 const FitOptions& options);

enum class PixelType : std::uint8_t { U8, U16, F32 };

/// Start values of the parameters that Start leaves out.
template <class Real>
struct StartLevelsOf {
  Real amplitude_adu = 0.0f;
  Real background_adu = 0.0f;
};
using StartLevels = StartLevelsOf<float>;

/// `count` ROIs of roi_px x roi_px pixels, row-major, one after another without gaps.
struct Batch {
  const void* pixels = nullptr;
  PixelType type = PixelType::U16;
  int roi_px = 0;
  std::size_t count = 0;
  const Start* starts = nullptr;  ///< `count` start values, or null: all cold
  /// `count` start levels, or null: least squares then finds both for each start. It also does so
  /// for a likelihood whose given amplitude is not positive. Unused by ImplicitLeastSquares.
  const StartLevels* levels = nullptr;
  /// Variance of each pixel, adu^2, in the pixels' order; null: none given. WeightedLeastSquares
  /// needs them; PoissonLikelihood takes them as read noise. A variance that is not >= 0 (weighted:
  /// > 0) makes BadInput. A pixel of infinite variance counts as absent, and so does one more than
  /// 16 times noisier than the fourth noisiest (left_out_pixels.hpp); the pixel itself must still
  /// be finite and below saturation.
  const float* variances = nullptr;
  const Bounds* bounds = nullptr;  ///< `count`, beside those of the options; or null
  /// For the line model: where each pixel lies on the line, in the pixels' order. Null: at its
  /// number. Limits of place and width stay those of its number. The CPU's fits alone take them.
  const float* places = nullptr;
  /// For the rotated model: whether `bounds` hold for widths, too.
  bool bounds_widths = true;
  /// For the rotated model: `count` start values, from x towards y. Null: 0. An angle that is a
  /// quarter of a turn larger, with the widths exchanged, makes the same spot. The fit tells the
  /// one of these that is nearest to the start value; if a width or the angle is fixed or bounded,
  /// the nearest of those half a turn apart.
  const float* angles_rad = nullptr;
  const AngleBounds* angle_bounds = nullptr;  ///< `count`, or null
  /// Receives `count`; null: they are not wanted. Separable models take 1.00 to 1.19 times as long
  /// with them on a CPU.
  FitDetails* details = nullptr;

  /// Whether single fits may have bounds of their own for widths or angle.
  bool bounds_axes() const noexcept {
    return (bounds != nullptr && bounds_widths) || angle_bounds != nullptr;
  }
};

/// `count` of the ROIs, beginning with `first`; arrays that the batch does not have stay null.
Batch part_of(const Batch& all, std::size_t first, std::size_t count);

/// Fits a batch on `threads` CPU threads (0: all cores); results in input order.
/// Same input gives the same bits for any number of threads. @throws FitterError
void fit_batch_cpu(const Batch& batch, const FitOptions& options, std::span<Localization> results,
                   int threads = 1);

}  // namespace driftd::fitter
