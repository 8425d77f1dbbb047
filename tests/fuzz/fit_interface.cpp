// SPDX-License-Identifier: MIT
// The C interface of libdriftfit: typed arguments of any value, in memory that is just as large as
// they say.
#include "fitter/c/driftfit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "fuzz/fuzz.hpp"

namespace driftd::fuzz {
namespace {

using Fitter = std::unique_ptr<driftfit_fitter, void (*)(driftfit_fitter*)>;

float some_float(Choices& choices) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  constexpr std::array kOdd{0.0F,
                            -0.0F,
                            1.0F,
                            -1.0F,
                            std::numeric_limits<float>::quiet_NaN(),
                            kInfinite,
                            -kInfinite,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::denorm_min(),
                            1e-20F,
                            1e20F,
                            1e4F};
  const auto chosen = choices.take<std::uint8_t>();
  if (chosen < kOdd.size()) return kOdd[chosen];
  if (chosen < 40) return choices.take<float>();
  return static_cast<float>(choices.take<std::int16_t>()) / 256;
}

/// Mostly those that are allowed.
driftfit_options some_options(Choices& choices) {
  driftfit_options options;
  driftfit_default_options(&options, sizeof options);
  options.estimator = static_cast<std::int32_t>(choices.up_to(3));
  options.model = static_cast<std::int32_t>(choices.up_to(1));
  const auto odd = choices.take<std::uint32_t>();
  const auto is = [odd](unsigned bit) { return (odd >> bit & 1U) != 0; };
  if (is(0)) options.max_iterations = static_cast<std::int32_t>(choices.up_to(40));
  if (is(1)) options.lambda_start = some_float(choices);
  if (is(2)) options.lambda_max = some_float(choices);
  if (is(3)) options.min_chi_square = some_float(choices);
  if (is(4)) options.min_decrease = some_float(choices);
  if (is(5)) options.min_step = some_float(choices);
  if (is(6)) options.saturation = some_float(choices);
  if (is(7)) options.min_background = some_float(choices);
  if (is(8)) options.gain = some_float(choices);
  if (is(9)) options.read_noise = some_float(choices);
  if (is(10)) options.offset = some_float(choices);
  if (is(11)) options.fixed = static_cast<std::uint32_t>(choices.up_to(64));
  if (is(12)) options.spots_only = 1;
  if (is(13)) options.size = static_cast<std::uint32_t>(choices.up_to(sizeof options));
  if (is(14) && is(15)) options.model = choices.take<std::int32_t>();
  if (is(18)) options.model = DRIFTFIT_ROTATED_GAUSSIAN;
  if (is(14) && is(16)) options.estimator = choices.take<std::int32_t>();
  for (std::size_t i = 0; i < DRIFTFIT_PARAMETERS && is(17); ++i) {
    options.bounds.lower[i] = some_float(choices);
    options.bounds.upper[i] = some_float(choices);
  }
  return options;
}

/// What the images are made of, each in a block of its own.
struct Images {
  std::vector<std::uint8_t> pixels;
  std::vector<driftfit_start> starts;
  std::vector<driftfit_levels> levels;
  std::vector<float> variances;
  std::vector<driftfit_bounds> bounds;
  std::vector<float> angles;
  std::vector<driftfit_details> details;
  driftfit_images given{};
};

Images some_images(Choices& choices) {
  constexpr std::array<std::size_t, 4> kBytes{1, 2, 4, 4};
  Images images;
  const bool odd_side = choices.up_to(15) == 0;
  images.given = {.size = sizeof(driftfit_images),
                  .pixel_type = static_cast<std::int32_t>(choices.up_to(3)),
                  .side = odd_side ? choices.take<std::int16_t>()
                                   : static_cast<std::int32_t>(3 + choices.up_to(14)),
                  .reserved = 0,
                  .count = choices.up_to(3),
                  .pixels = nullptr,
                  .starts = nullptr,
                  .levels = nullptr,
                  .variances = nullptr,
                  .bounds = nullptr,
                  .angles = nullptr,
                  .details = nullptr};
  const auto side = static_cast<std::size_t>(std::clamp(images.given.side, 0, 64));
  const std::size_t count = images.given.count, pixels = count * side * side;
  const auto have = choices.take<std::uint8_t>();
  if ((have & 1U) != 0) {
    for (std::size_t i = 0; i < count; ++i)
      images.starts.push_back(
          {some_float(choices), some_float(choices), some_float(choices), some_float(choices)});
    images.given.starts = images.starts.data();
  }
  if ((have & 2U) != 0) {
    for (std::size_t i = 0; i < count; ++i)
      images.levels.push_back({some_float(choices), some_float(choices)});
    images.given.levels = images.levels.data();
  }
  if ((have & 4U) != 0) {
    for (std::size_t i = 0; i < count; ++i) {
      driftfit_bounds bounds;
      for (std::size_t j = 0; j < DRIFTFIT_PARAMETERS; ++j) {
        bounds.lower[j] = some_float(choices);
        bounds.upper[j] = some_float(choices);
      }
      images.bounds.push_back(bounds);
    }
    images.given.bounds = images.bounds.data();
  }
  if ((have & 8U) != 0) {
    const float some = some_float(choices);
    images.variances.assign(pixels, some);
    if (pixels > 0) images.variances[choices.up_to(pixels - 1)] = some_float(choices);
    images.given.variances = images.variances.data();
  }
  if ((have & 32U) != 0) {
    images.details.resize(count);
    images.given.details = images.details.data();
  }
  if ((have & 64U) != 0) {
    for (std::size_t i = 0; i < count; ++i) images.angles.push_back(some_float(choices));
    images.given.angles = images.angles.data();
  }
  const std::size_t bytes = pixels * kBytes[static_cast<std::size_t>(images.given.pixel_type)];
  images.pixels.resize(bytes);
  const Bytes came = choices.take_bytes(bytes);
  for (std::size_t i = 0; i < bytes && !came.empty(); ++i) images.pixels[i] = came[i % came.size()];
  if ((have & 16U) == 0) images.given.pixels = images.pixels.data();
  if ((have & 0xe0U) == 0xe0U) images.given.size = choices.take<std::uint16_t>() % 100;
  return images;
}

driftfit_swarm_options some_swarm(Choices& choices) {
  driftfit_swarm_options swarm;
  driftfit_default_swarm_options(&swarm, sizeof swarm);
  swarm.particles = static_cast<std::int32_t>(choices.up_to(3)) * 16;
  swarm.iterations = static_cast<std::int32_t>(choices.up_to(5));
  if (!choices.flag()) return swarm;
  for (float* value : {&swarm.inertia, &swarm.own_pull, &swarm.swarm_pull, &swarm.max_velocity})
    *value = some_float(choices);
  swarm.spread_of_last = static_cast<std::int32_t>(choices.up_to(40)) - 2;
  swarm.seed = choices.take<std::uint64_t>();
  swarm.first_image = choices.take<std::uint64_t>();
  return swarm;
}

void check_result(const driftfit_result& r) {
  require(r.status <= DRIFTFIT_BAD_INPUT, "a fit has ended in a way that there is");
  if (r.status > DRIFTFIT_CONVERGED_STEP) return;
  for (const float value : {r.x, r.y, r.sigma_x, r.sigma_y, r.amplitude, r.background})
    require(std::isfinite(value), "what has converged is a number");
  require(r.sigma_x > 0 && r.sigma_y > 0, "what has converged has a width");
  require(!(r.chi_square < 0), "chi-square is not below 0");
  for (const float sd :
       {r.x_sd, r.y_sd, r.sigma_x_sd, r.sigma_y_sd, r.amplitude_sd, r.background_sd})
    require(!(sd < 0), "a standard deviation is not below 0");
}

void check_message(int code, const std::array<char, 400>& message) {
  require(code >= DRIFTFIT_OK && code <= DRIFTFIT_FAILED, "a code is one that there is");
  const auto end = std::ranges::find(message, '\0');
  require(end != message.end(), "a message ends");
  require((code == DRIFTFIT_OK) == (end == message.begin()), "what went wrong is told",
          message.data());
  require(code != DRIFTFIT_FAILED && code != DRIFTFIT_NO_MEMORY, "nothing fails", message.data());
}

void create(Choices& choices) {
  driftfit_fitter* fitter = nullptr;
  std::array<char, 400> message{};
  const std::int32_t device = choices.take<std::int32_t>();
  const auto backend = static_cast<std::int32_t>(choices.up_to(4)) - 1;
  const int code =
      driftfit_create(backend, static_cast<std::int32_t>(choices.up_to(3)) - 1, &device,
                      choices.up_to(1), &fitter, message.data(), message.size());
  check_message(code, message);
  require((code == DRIFTFIT_OK) == (fitter != nullptr), "a fitter is made, or told why not");
  driftfit_destroy(fitter);
}

/// Frames of some strides, in memory that ends with their last pixel, and places in and around
/// them.
void fit_frames(Choices& choices, driftfit_fitter* fitter) {
  constexpr std::array<std::size_t, 4> kBytes{1, 2, 4, 4};
  const driftfit_options options = some_options(choices);
  driftfit_frames frames{};
  frames.size = sizeof frames;
  frames.pixel_type = static_cast<std::int32_t>(choices.up_to(3));
  frames.side = static_cast<std::int32_t>(3 + choices.up_to(10));
  frames.width = static_cast<std::int32_t>(choices.up_to(30));
  frames.height = static_cast<std::int32_t>(choices.up_to(30));
  frames.frame_count = choices.up_to(2);
  frames.count = choices.up_to(20);
  const auto width = static_cast<std::size_t>(frames.width);
  const auto height = static_cast<std::size_t>(frames.height);
  const std::size_t row = width * kBytes[static_cast<std::size_t>(frames.pixel_type)];
  const auto have = choices.take<std::uint8_t>();
  if ((have & 1U) != 0) frames.row_stride = choices.up_to(2 * row);
  if ((have & 2U) != 0) frames.frame_stride = choices.up_to(height * row);
  const std::size_t row_stride = frames.row_stride != 0 ? frames.row_stride : row;
  const std::size_t frame_stride =
      frames.frame_stride != 0 ? frames.frame_stride : height * row_stride;
  std::vector<std::uint8_t> pixels;
  if (frames.frame_count > 0 && height > 0)
    pixels.resize((frames.frame_count - 1) * frame_stride + (height - 1) * row_stride + row);
  for (std::uint8_t& pixel : pixels)
    pixel = static_cast<std::uint8_t>(choices.take<std::uint8_t>() + 7);
  frames.pixels = pixels.data();
  std::vector<driftfit_place> places(frames.count);
  for (driftfit_place& place : places) {
    place = {choices.take<std::int8_t>(), choices.take<std::int8_t>(),
             static_cast<std::int32_t>(choices.up_to(3)) % 2};
    if (choices.up_to(31) == 31) place.frame = choices.take<std::int16_t>();
    if (choices.up_to(15) == 15) place.x = choices.take<std::int32_t>();
  }
  frames.places = places.data();
  std::vector<driftfit_details> details((have & 64U) != 0 ? frames.count : 0);
  frames.details = details.data();
  std::array<std::vector<float>, 3> maps;
  const std::array<const float**, 3> given{&frames.gain_map, &frames.offset_map,
                                           &frames.variance_map};
  for (std::size_t i = 0; i < maps.size(); ++i) {
    if ((have >> (2 + i) & 1U) == 0) continue;
    maps[i].assign(width * height, some_float(choices));
    if (!maps[i].empty()) maps[i][choices.up_to(maps[i].size() - 1)] = some_float(choices);
    *given[i] = maps[i].data();
  }
  std::vector<driftfit_start> starts;
  for (std::size_t i = 0; (have & 32U) != 0 && i < frames.count; ++i)
    starts.push_back(
        {some_float(choices), some_float(choices), some_float(choices), some_float(choices)});
  if (!starts.empty()) frames.starts = starts.data();
  driftfit_result untouched{};
  untouched.x = 77;
  std::vector<driftfit_result> results(frames.count, untouched);
  std::array<char, 400> message{};
  message.fill('x');
  const int code = driftfit_fit_frames(fitter, &options, &frames, results.data(), nullptr, nullptr,
                                       message.data(), message.size());
  check_message(code, message);
  for (std::size_t i = 0; i < results.size(); ++i) {
    require(code == DRIFTFIT_OK || results[i].x == 77, "nothing was fitted");
    if (code != DRIFTFIT_OK) continue;
    check_result(results[i]);
    const std::int64_t left = std::int64_t{places[i].x} - frames.side / 2;
    const std::int64_t top = std::int64_t{places[i].y} - frames.side / 2;
    const bool inside = left >= 0 && top >= 0 && left + frames.side <= frames.width &&
                        top + frames.side <= frames.height;
    require(inside || results[i].status == DRIFTFIT_BAD_INPUT, "what is outside is bad input");
  }
}

}  // namespace

void fit_interface(Bytes bytes) {
  static const Fitter fitter = [] {
    driftfit_fitter* made = nullptr;
    driftfit_create(DRIFTFIT_CPU, 1, nullptr, 0, &made, nullptr, 0);
    return Fitter(made, driftfit_destroy);
  }();
  Choices choices(bytes);
  const std::size_t call = choices.up_to(15);
  if (call == 15) return create(choices);
  if (call == 14) return fit_frames(choices, fitter.get());
  const driftfit_options options = some_options(choices);
  const driftfit_swarm_options swarm = some_swarm(choices);
  const Images images = some_images(choices);
  driftfit_result untouched{};
  untouched.x = 77;
  std::array<std::vector<driftfit_result>, 2> results;
  std::vector<driftfit_swarm_report> reports(images.given.count);
  for (auto& fits : results) {
    fits.assign(images.given.count, untouched);
    std::array<char, 400> message{};
    message.fill('x');
    const int code =
        call < 10
            ? driftfit_fit_images(fitter.get(), &options, &images.given, fits.data(), nullptr,
                                  nullptr, message.data(), message.size())
            : driftfit_search(fitter.get(), &options, call == 10 ? nullptr : &swarm, &images.given,
                              fits.data(), call == 11 ? nullptr : reports.data(), nullptr, nullptr,
                              message.data(), message.size());
    check_message(code, message);
    for (const driftfit_result& result : fits) {
      if (code == DRIFTFIT_OK) check_result(result);
      require(code == DRIFTFIT_OK || result.x == 77, "nothing was fitted");
    }
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    require(std::memcmp(&results[0][i], &results[1][i], sizeof(driftfit_result)) == 0,
            "the same call gives the same");
  }
}

}  // namespace driftd::fuzz
