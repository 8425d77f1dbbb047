// SPDX-License-Identifier: MIT
#include "fitter/c/arguments.hpp"

#include <bit>
#include <limits>

#include "fitter/pixel_terms.hpp"

namespace driftd::fitter::c {
namespace {

// The C structs are the C++ ones under other names.
static_assert(sizeof(driftfit_result) == sizeof(Localization));
static_assert(offsetof(driftfit_result, x_sd) == offsetof(Localization, x_sd_px));
static_assert(offsetof(driftfit_result, background_sd) ==
              offsetof(Localization, background_sd_adu));
static_assert(offsetof(driftfit_result, status) == offsetof(Localization, status));
static_assert(offsetof(driftfit_result, iterations) == offsetof(Localization, iterations));
static_assert(sizeof(driftfit_start) == sizeof(Start));
static_assert(sizeof(driftfit_swarm_report) == sizeof(SwarmReport));
static_assert(offsetof(driftfit_swarm_report, chi_square) == offsetof(SwarmReport, chi_square));
static_assert(sizeof(driftfit_levels) == sizeof(StartLevels));
static_assert(sizeof(driftfit_bounds) == sizeof(Bounds));
static_assert(sizeof(driftfit_place) == sizeof(Place));
static_assert(offsetof(driftfit_place, frame) == offsetof(Place, frame));
static_assert(offsetof(driftfit_bounds, upper) == offsetof(Bounds, upper));
static_assert(DRIFTFIT_PARAMETERS == kParameters);
static_assert(DRIFTFIT_AUTO == static_cast<int>(BackEnd::Auto));
static_assert(DRIFTFIT_CUDA == static_cast<int>(BackEnd::Cuda));
static_assert(DRIFTFIT_BACKGROUND == static_cast<int>(Parameter::Background));
static_assert(DRIFTFIT_ROTATED_GAUSSIAN == static_cast<int>(Model::RotatedGaussian));
static_assert(DRIFTFIT_ANGLE == kAngle);
static_assert(DRIFTFIT_DETAILED == FitDetails::kOrder);
static_assert(sizeof(driftfit_details) == sizeof(FitDetails));
static_assert(offsetof(driftfit_details, covariance) == offsetof(FitDetails, covariance));
static_assert(DRIFTFIT_POISSON_LIKELIHOOD == static_cast<int>(kLastEstimator));
static_assert(DRIFTFIT_BAD_INPUT == static_cast<int>(FitStatus::BadInput));
static_assert(DRIFTFIT_F32 == static_cast<int>(PixelType::F32));

/// Sizes of the structs in their first versions.
constexpr std::uint32_t kFirstOptions = offsetof(driftfit_options, offset) + sizeof(float);
constexpr std::uint32_t kFirstImages = offsetof(driftfit_images, bounds) + sizeof(void*);
constexpr std::uint32_t kFirstSwarm =
    offsetof(driftfit_swarm_options, first_image) + sizeof(std::uint64_t);

/// @throws FitterError
Batch batch_from(const driftfit_images* given) {
  if (given == nullptr) throw FitterError("driftfit: no images given");
  driftfit_images i = {};
  take(*given, kFirstImages, "images", "sizeof(driftfit_images)", i);
  check_pixel_type(i.pixel_type);
  check_range("side", i.side, kMinRoiPx, kMaxRoiPx);
  return {.pixels = i.pixels,
          .type = static_cast<PixelType>(i.pixel_type),
          .roi_px = i.side,
          .count = i.count,
          .starts = reinterpret_cast<const Start*>(i.starts),
          .levels = reinterpret_cast<const StartLevels*>(i.levels),
          .variances = i.variances,
          .bounds = reinterpret_cast<const Bounds*>(i.bounds),
          .angles_rad = i.angles,
          .details = reinterpret_cast<FitDetails*>(i.details)};
}

}  // namespace

void tell(char* message, std::size_t size, std::string_view text) {
  if (message == nullptr || size == 0) return;
  const std::size_t length = std::min(size - 1, text.size());
  std::memcpy(message, text.data(), length);
  message[length] = '\0';
}

void check_one_of(const char* name, std::int32_t value, std::int32_t last, const char* allowed) {
  if (value < 0 || value > last)
    throw FitterError(std::string("driftfit: ") + name + " is " + std::to_string(value) +
                      ", allowed are " + allowed);
}

void check_pixel_type(std::int32_t type) {
  check_one_of("pixel_type", type, DRIFTFIT_F32, "0 (u8), 1 (u16) and 2 (f32)");
}

driftfit_options all_options(const driftfit_options* given) {
  driftfit_options o;
  driftfit_default_options(&o, sizeof o);
  if (given != nullptr) take(*given, kFirstOptions, "options", "driftfit_default_options()", o);
  return o;
}

FitOptions options_from(const driftfit_options& o) {
  check_one_of("model", o.model, DRIFTFIT_ROTATED_GAUSSIAN,
               "0 (circular), 1 (elliptical) and 2 (rotated Gaussian)");
  check_one_of("estimator", o.estimator, static_cast<int>(kLastEstimator),
               "0 (implicit), 1 (plain), 2 (weighted least squares) and 3 (Poisson likelihood)");
  if (o.fixed >= 1u << DRIFTFIT_DETAILED)
    throw FitterError("driftfit: fixed is " + std::to_string(o.fixed) +
                      ", allowed are six bits, and a seventh for the rotated model's angle");
  FitOptions options;
  options.model = static_cast<Model>(o.model);
  options.estimator = static_cast<Estimator>(o.estimator);
  check_one_of("integrated", o.integrated, 1, "0 and 1");
  options.integrated = o.integrated != 0;
  options.fixed = static_cast<std::uint8_t>(o.fixed);
  options.spots_only = o.spots_only != 0;
  options.bounds = std::bit_cast<Bounds>(o.bounds);
  options.max_iterations = o.max_iterations;
  options.lambda_start = o.lambda_start;
  options.lambda_max = o.lambda_max;
  options.min_chi_square = o.min_chi_square;
  options.min_decrease = o.min_decrease;
  options.min_step = o.min_step;
  if (!(o.saturation <= 0)) options.saturation_adu = o.saturation;
  options.min_background_adu = o.min_background;
  // By the names that the caller knows; check_options() has its own.
  constexpr auto kHuge = static_cast<double>(std::numeric_limits<float>::max());
  check_range("gain", static_cast<double>(o.gain), -kHuge, kHuge);
  check_range("read_noise", static_cast<double>(o.read_noise), 0, kHuge);
  check_range("offset", static_cast<double>(o.offset), -kHuge, kHuge);
  check_range("excess_noise", static_cast<double>(o.excess_noise), 1, 16);
  const bool multiplied = o.excess_noise > 1;
  const bool assumed = multiplied && is_likelihood(options.estimator);
  const float gain = o.gain <= 0 && assumed ? 1.0f : o.gain;
  options.noise = with_excess({gain, o.read_noise, o.offset}, o.excess_noise);
  return options;
}

SwarmOptions swarm_from(const driftfit_swarm_options* given) {
  driftfit_swarm_options s;
  driftfit_default_swarm_options(&s, sizeof s);
  if (given != nullptr) take(*given, kFirstSwarm, "swarm", "driftfit_default_swarm_options()", s);
  return {.particles = s.particles,
          .iterations = s.iterations,
          .inertia = s.inertia,
          .own_pull = s.own_pull,
          .swarm_pull = s.swarm_pull,
          .max_velocity = s.max_velocity,
          .spread_of_last = s.spread_of_last,
          .seed = s.seed,
          .first_roi = s.first_image};
}

void check_bounds(const Bounds* bounds, std::size_t count, Model model) {
  constexpr std::size_t kMost = 1000;
  if (bounds == nullptr || model > kLastModel || !host_can_read(bounds)) return;
  for (std::size_t i = 0; i < std::min(count, kMost); ++i) check_model_has(model, 0, bounds[i]);
}

CheckedCall checked_call(const driftfit_fitter* fitter, const driftfit_options* options,
                         const driftfit_images* images, const driftfit_result* results) {
  if (fitter == nullptr) throw FitterError("driftfit: no fitter given");
  const Batch batch = batch_from(images);
  if (batch.count > 0 && results == nullptr)
    throw FitterError("driftfit: no place given for results");
  CheckedCall call = {batch, options_from(all_options(options))};
  check_batch(call.batch, call.options, call.batch.count);
  check_bounds(call.batch.bounds, call.batch.count, call.options.model);
  return call;
}

}  // namespace driftd::fitter::c
