// SPDX-License-Identifier: MIT
#include "fitter/c/driftfit.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"
#include "fitter/options.hpp"

using namespace driftd::fitter;

struct driftfit_fitter {
  int threads = 1;
  std::unique_ptr<CudaBatchFitter> cuda;  // null: the CPU
};

namespace {

// The C structs are the C++ ones under other names.
static_assert(sizeof(driftfit_result) == sizeof(Localization));
static_assert(offsetof(driftfit_result, x_sd) == offsetof(Localization, x_sd_px));
static_assert(offsetof(driftfit_result, background_sd) ==
              offsetof(Localization, background_sd_adu));
static_assert(offsetof(driftfit_result, status) == offsetof(Localization, status));
static_assert(offsetof(driftfit_result, iterations) == offsetof(Localization, iterations));
static_assert(sizeof(driftfit_start) == sizeof(Start));
static_assert(DRIFTFIT_BAD_INPUT == static_cast<int>(FitStatus::BadInput));
static_assert(DRIFTFIT_F32 == static_cast<int>(PixelType::F32));

/// Between two calls of the progress callback.
constexpr std::size_t kBlock = std::size_t{1} << 17;
/// Size of driftfit_options in the first version.
constexpr std::uint32_t kFirstSize = offsetof(driftfit_options, offset) + sizeof(float);

void tell(char* message, std::size_t size, std::string_view text) {
  if (message == nullptr || size == 0) return;
  const std::size_t length = std::min(size - 1, text.size());
  std::memcpy(message, text.data(), length);
  message[length] = '\0';
}

/// Runs `body`, which returns a code, and turns what it throws into a code and a message.
/// @param on_fitter_error  code of a FitterError
template <class Body>
int guarded(int on_fitter_error, char* message, std::size_t size, Body body) noexcept {
  tell(message, size, "");
  try {
    return body();
  } catch (const FitterError& error) {
    tell(message, size, error.what());
    return on_fitter_error;
  } catch (const std::bad_alloc&) {
    tell(message, size, "driftfit: out of memory");
    return DRIFTFIT_NO_MEMORY;
  } catch (const std::exception& error) {
    tell(message, size, error.what());
    return DRIFTFIT_FAILED;
  } catch (...) {
    tell(message, size, "driftfit: unknown failure");
    return DRIFTFIT_FAILED;
  }
}

/// @throws FitterError for a struct of no known version or a name unknown
FitOptions options_from(const driftfit_options* given) {
  driftfit_options o;
  driftfit_default_options(&o, sizeof o);
  if (given != nullptr) {
    if (given->size < kFirstSize)
      throw FitterError("driftfit: options.size is " + std::to_string(given->size) +
                        ", allowed is " + std::to_string(kFirstSize) +
                        " or more; set it with driftfit_default_options()");
    std::memcpy(&o, given, std::min<std::size_t>(given->size, sizeof o));
  }
  if (o.model != DRIFTFIT_CIRCULAR_GAUSSIAN)
    throw FitterError("driftfit: model is " + std::to_string(o.model) +
                      ", allowed is 0 (circular Gaussian)");
  if (o.estimator != DRIFTFIT_IMPLICIT_LEAST_SQUARES)
    throw FitterError("driftfit: estimator is " + std::to_string(o.estimator) +
                      ", allowed is 0 (implicit least squares)");
  FitOptions options;
  options.max_iterations = o.max_iterations;
  options.lambda_start = o.lambda_start;
  options.lambda_max = o.lambda_max;
  options.min_chi_square = o.min_chi_square;
  options.min_decrease = o.min_decrease;
  options.min_step = o.min_step;
  if (!(o.saturation <= 0)) options.saturation_adu = o.saturation;
  options.min_background_adu = o.min_background;
  options.noise = {o.gain, o.read_noise, o.offset};
  return options;
}

}  // namespace

const char* driftfit_version(void) {
  return DRIFTD_VERSION;
}

int32_t driftfit_cuda_devices(void) {
  return cuda_device_count();
}

void driftfit_default_options(driftfit_options* options, uint32_t size) {
  const FitOptions d;
  const driftfit_options all = {.size = size,
                                .model = DRIFTFIT_CIRCULAR_GAUSSIAN,
                                .estimator = DRIFTFIT_IMPLICIT_LEAST_SQUARES,
                                .max_iterations = d.max_iterations,
                                .lambda_start = d.lambda_start,
                                .lambda_max = d.lambda_max,
                                .min_chi_square = d.min_chi_square,
                                .min_decrease = d.min_decrease,
                                .min_step = d.min_step,
                                .saturation = 0,
                                .min_background = d.min_background_adu,
                                .gain = d.noise.gain_e_per_adu,
                                .read_noise = d.noise.read_noise_e,
                                .offset = d.noise.offset_adu};
  if (options != nullptr) std::memcpy(options, &all, std::min<std::size_t>(size, sizeof all));
}

int driftfit_create(int32_t backend, int32_t threads, const int32_t* devices, size_t device_count,
                    driftfit_fitter** fitter, char* message, size_t message_size) {
  if (fitter == nullptr) {
    tell(message, message_size, "driftfit: no place given for the fitter");
    return DRIFTFIT_BAD_ARGUMENT;
  }
  *fitter = nullptr;
  return guarded(DRIFTFIT_NO_BACKEND, message, message_size, [&] {
    if (backend < DRIFTFIT_AUTO || backend > DRIFTFIT_CUDA) {
      tell(message, message_size,
           "driftfit: backend is " + std::to_string(backend) +
               ", allowed are 0 (auto), 1 (cpu) and 2 (cuda)");
      return DRIFTFIT_BAD_ARGUMENT;
    }
    if (threads < 0 || (devices == nullptr && device_count > 0)) {
      tell(message, message_size,
           threads < 0 ? "driftfit: a negative number of threads"
                       : "driftfit: devices counted but not given");
      return DRIFTFIT_BAD_ARGUMENT;
    }
    auto made = std::make_unique<driftfit_fitter>();
    made->threads = threads;
    if (backend == DRIFTFIT_CUDA || (backend == DRIFTFIT_AUTO && cuda_device_count() > 0)) {
      CudaBatchOptions options;
      if (device_count > 0) options.devices.assign(devices, devices + device_count);
      made->cuda = make_cuda_batch_fitter(options);
    }
    *fitter = made.release();
    return DRIFTFIT_OK;
  });
}

void driftfit_destroy(driftfit_fitter* fitter) {
  delete fitter;
}

const char* driftfit_backend(const driftfit_fitter* fitter) {
  return fitter != nullptr && fitter->cuda ? "cuda" : "cpu";
}

int driftfit_fit(driftfit_fitter* fitter, const driftfit_options* given, const void* pixels,
                 int32_t pixel_type, int32_t side, size_t count, const driftfit_start* starts,
                 driftfit_result* results, driftfit_progress progress, void* user, char* message,
                 size_t message_size) {
  FitOptions options;
  std::size_t image_bytes = 0;
  const int checked = guarded(DRIFTFIT_BAD_ARGUMENT, message, message_size, [&] {
    if (fitter == nullptr) throw FitterError("driftfit: no fitter given");
    if (count > 0 && results == nullptr) throw FitterError("driftfit: no place given for results");
    if (pixel_type < DRIFTFIT_U8 || pixel_type > DRIFTFIT_F32)
      throw FitterError("driftfit: pixel_type is " + std::to_string(pixel_type) +
                        ", allowed are 0 (u8), 1 (u16) and 2 (f32)");
    options = options_from(given);
    const auto type = static_cast<PixelType>(pixel_type);
    check_batch({pixels, type, side, count, nullptr}, options, count);
    image_bytes =
        static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * bytes_per_pixel(type);
    return DRIFTFIT_OK;
  });
  if (checked != DRIFTFIT_OK) return checked;

  return guarded(DRIFTFIT_FAILED, message, message_size, [&] {
    const std::size_t block = progress != nullptr ? kBlock : std::max<std::size_t>(count, 1);
    for (std::size_t done = 0; done < count;) {
      const std::size_t n = std::min(block, count - done);
      const Batch batch = {
          static_cast<const unsigned char*>(pixels) + done * image_bytes,
          static_cast<PixelType>(pixel_type), side, n,
          starts != nullptr ? reinterpret_cast<const Start*>(starts + done) : nullptr};
      const std::span<Localization> out(reinterpret_cast<Localization*>(results + done), n);
      if (fitter->cuda) {
        fitter->cuda->fit(batch, options, out);
      } else {
        fit_batch_cpu(batch, options, out, fitter->threads);
      }
      done += n;
      if (progress != nullptr && progress(user, done, count) != 0 && done < count) {
        tell(message, message_size, "driftfit: cancelled after " + std::to_string(done) + " fits");
        return DRIFTFIT_CANCELLED;
      }
    }
    return DRIFTFIT_OK;
  });
}
