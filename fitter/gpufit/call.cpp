// SPDX-License-Identifier: MIT
#include "fitter/gpufit/call.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"
#include "fitter/gpufit/gpufit.h"

namespace driftd::fitter::drop_in {
namespace {

/// Fits that a thread translates and fits at a time: their copies stay in its caches.
constexpr std::size_t kBlock = 1024;
/// Fewest fits worth a thread, or a GPU: some 100 us, of which starting it takes tens.
constexpr std::size_t kFewestFits = 64;
/// Fits that a thread translates for the GPU at a time, at most and at least, and how many threads
/// do: while one waits for the GPU, the others translate.
constexpr std::size_t kMostGpuBlock = 65536, kLeastGpuBlock = 8192;
constexpr std::size_t kGpuThreads = 4;
constexpr int kMostIterations = 255;
/// Gpufit's tolerance is absolute where chi-square is below 1. Here the relative one holds there,
/// too, down to a chi-square of this times the tolerance, where no step could satisfy it any more.
constexpr float kNoResiduum = 1e-3f;
/// Ends fits whose chi-square is at its rounding error: steps below what a float resolves.
constexpr float kSmallestStep = 1e-6f;

/// Gpufit's parameters of a model, in its order.
using Order = std::span<const Parameter>;

Order order_of(int model_id) {
  using enum Parameter;
  static constexpr Parameter kCircular[] = {Amplitude, X, Y, SigmaX, Background};
  static constexpr Parameter kElliptical[] = {Amplitude, X, Y, SigmaX, SigmaY, Background};
  if (model_id == GAUSS_2D) return kCircular;
  if (model_id == GAUSS_2D_ELLIPTIC) return kElliptical;
  throw FitterError("gpufit: model_id is " + std::to_string(model_id) +
                    ", fitted are 1 (GAUSS_2D) and 2 (GAUSS_2D_ELLIPTIC)");
}

void require(bool good, const char* text) {
  if (!good) throw FitterError(std::string("gpufit: ") + text);
}

int side_of(std::size_t n_points) {
  const int side = static_cast<int>(std::lround(std::sqrt(static_cast<double>(n_points))));
  if (static_cast<std::size_t>(side) * static_cast<std::size_t>(side) != n_points ||
      side < kMinRoiPx || side > kMaxRoiPx)
    throw FitterError("gpufit: n_points is " + std::to_string(n_points) +
                      ", fitted are square images of 4x4 to 64x64 points");
  return side;
}

void check_constraints(const Call& call, Order order) {
  if (call.constraints == nullptr) return;
  require(call.constraint_types != nullptr, "constraints given without constraint_types");
  for (std::size_t j = 0; j < order.size(); ++j)
    if (call.constraint_types[j] < NONE || call.constraint_types[j] > LOWER_UPPER)
      throw FitterError("gpufit: a constraint type is " + std::to_string(call.constraint_types[j]) +
                        ", allowed are 0 to 3");
}

void check_arrays(const Call& call) {
  require(call.parameters_to_fit != nullptr, "parameters_to_fit is null");
  require(call.n_fits <= std::numeric_limits<std::size_t>::max() / sizeof(float) / call.n_points,
          "too many fits");
  if (call.n_fits == 0) return;
  require(call.data != nullptr, "data is null");
  require(call.initial_parameters != nullptr, "initial_parameters is null");
  require(call.output_parameters != nullptr && call.output_states != nullptr &&
              call.output_chi_squares != nullptr && call.output_n_iterations != nullptr,
          "an output is null");
}

FitOptions options_of(const Call& call, Order order) {
  if (call.estimator_id != LSE && call.estimator_id != MLE)
    throw FitterError("gpufit: estimator_id is " + std::to_string(call.estimator_id) +
                      ", allowed are 0 (LSE) and 1 (MLE)");
  require(!std::isnan(call.tolerance), "tolerance is not a number");
  if (call.max_n_iterations < 1)
    throw FitterError("gpufit: max_n_iterations is " + std::to_string(call.max_n_iterations) +
                      ", allowed is 1 or more");
  FitOptions options;
  options.model = call.model_id == GAUSS_2D ? Model::CircularGaussian : Model::EllipticalGaussian;
  options.estimator = call.estimator_id == MLE  ? Estimator::PoissonLikelihood
                      : call.weights != nullptr ? Estimator::WeightedLeastSquares
                                                : Estimator::LeastSquares;
  for (std::size_t j = 0; j < order.size(); ++j)
    if (call.parameters_to_fit[j] == 0)
      options.fixed = static_cast<std::uint8_t>(options.fixed | bit(order[j]));
  options.spots_only = false;
  options.max_iterations = std::min(call.max_n_iterations, kMostIterations);
  options.min_decrease = std::clamp(call.tolerance, 0.0f, 1.0f);
  options.min_chi_square = kNoResiduum * options.min_decrease;
  options.min_step = kSmallestStep;
  return options;
}

/// A model with a negative width is the same as with a positive one.
void set_start(Parameter which, float value, Start& start, StartLevels& levels) {
  switch (which) {
    case Parameter::X:
      start.x_px = value;
      break;
    case Parameter::Y:
      start.y_px = value;
      break;
    case Parameter::SigmaX:
      start.sigma_x_px = start.sigma_y_px = std::fabs(value);
      break;
    case Parameter::SigmaY:
      start.sigma_y_px = std::fabs(value);
      break;
    case Parameter::Amplitude:
      levels.amplitude_adu = value;
      break;
    case Parameter::Background:
      levels.background_adu = value;
      break;
  }
}

float value_of(Parameter which, const Localization& l) {
  switch (which) {
    case Parameter::X:
      return l.x_px;
    case Parameter::Y:
      return l.y_px;
    case Parameter::SigmaX:
      return l.sigma_x_px;
    case Parameter::SigmaY:
      return l.sigma_y_px;
    case Parameter::Amplitude:
      return l.amplitude_adu;
    case Parameter::Background:
      return l.background_adu;
  }
  return std::numeric_limits<float>::quiet_NaN();
}

int state_of(FitStatus status) {
  if (converged(status)) return CONVERGED;
  return status == FitStatus::BadInput ? SINGULAR_HESSIAN : MAX_ITERATION;
}

/// The GPU of the process, made by the first call that wants it. Any thread may call.
class Gpu {
 public:
  static bool present() {
    static const bool is = cuda_device_count() > 0;
    return is;
  }
  /// @throws FitterError
  static void fit(const Batch& batch, const FitOptions& options, std::span<Localization> results) {
    static std::mutex one_at_a_time;
    static std::unique_ptr<CudaBatchFitter> fitter;
    const std::lock_guard lock(one_at_a_time);
    if (!fitter) fitter = make_cuda_batch_fitter();
    fitter->fit(batch, options, results);
  }
};

/// The fitter's own arrays for some fits of a call. Of one thread.
class Block {
 public:
  Block(const Call& call, Order order, int side, bool on_gpu)
      : call_(call), order_(order), side_(side), on_gpu_(on_gpu) {}

  void fit(std::size_t first, std::size_t count, const FitOptions& options) {
    const std::size_t first_point = first * call_.n_points;
    translate_starts(first, count);
    if (call_.constraints != nullptr) translate_constraints(first, count);
    const bool weighted = options.estimator == Estimator::WeightedLeastSquares;
    if (weighted) translate_weights(first_point, count * call_.n_points);
    results_.resize(count);
    const Batch batch = {.pixels = call_.data + first_point,
                         .type = PixelType::F32,
                         .roi_px = side_,
                         .count = count,
                         .starts = starts_.data(),
                         .levels = levels_.data(),
                         .variances = weighted ? variances_.data() : nullptr,
                         .bounds = call_.constraints != nullptr ? bounds_.data() : nullptr};
    if (on_gpu_) {
      Gpu::fit(batch, options, results_);
    } else {
      fit_batch_cpu(batch, options, results_, 1);
    }
    write(first);
  }

 private:
  void translate_starts(std::size_t first, std::size_t count) {
    starts_.resize(count);
    levels_.resize(count);
    const float* value = call_.initial_parameters + first * order_.size();
    for (std::size_t i = 0; i < count; ++i)
      for (const Parameter p : order_) set_start(p, *value++, starts_[i], levels_[i]);
  }

  void translate_constraints(std::size_t first, std::size_t count) {
    bounds_.assign(count, {});
    const float* pair = call_.constraints + first * order_.size() * 2;
    for (Bounds& bounds : bounds_) {
      for (std::size_t j = 0; j < order_.size(); ++j, pair += 2) {
        if (call_.parameters_to_fit[j] == 0) continue;
        const auto place = static_cast<std::size_t>(order_[j]);
        const int type = call_.constraint_types[j];
        if ((type & LOWER) != 0) bounds.lower[place] = pair[LOWER_BOUND];
        if ((type & UPPER) != 0) bounds.upper[place] = pair[UPPER_BOUND];
      }
    }
  }

  void translate_weights(std::size_t first_point, std::size_t points) {
    variances_.resize(points);
    const float* weights = call_.weights + first_point;
    for (std::size_t i = 0; i < points; ++i) variances_[i] = 1.0f / weights[i];
  }

  void write(std::size_t first) {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const Localization& l = results_[i];
      const std::size_t fit = first + i;
      call_.output_states[fit] = state_of(l.status);
      call_.output_chi_squares[fit] = l.chi_square;
      call_.output_n_iterations[fit] = l.iterations;
      for (std::size_t j = 0; j < order_.size(); ++j) {
        const std::size_t place = fit * order_.size() + j;
        const bool kept = l.status == FitStatus::BadInput || call_.parameters_to_fit[j] == 0;
        call_.output_parameters[place] =
            kept ? call_.initial_parameters[place] : value_of(order_[j], l);
      }
    }
  }

  const Call& call_;
  Order order_;
  int side_;
  bool on_gpu_;
  std::vector<Start> starts_;
  std::vector<StartLevels> levels_;
  std::vector<Bounds> bounds_;
  std::vector<float> variances_;
  std::vector<Localization> results_;
};

/// All fits of a call, block by block: on all cores, or on the GPU.
void fit_blocks(const Call& call, const FitOptions& options, bool on_gpu) {
  const Order order = order_of(call.model_id);
  const int side = side_of(call.n_points);
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t most = on_gpu ? std::min(cores, kGpuThreads) : cores;
  const std::size_t threads =
      std::clamp<std::size_t>(call.n_fits / (on_gpu ? kLeastGpuBlock : kFewestFits), 1, most);
  const std::size_t size =
      on_gpu ? std::clamp(call.n_fits / (2 * threads), kLeastGpuBlock, kMostGpuBlock)
             : std::clamp<std::size_t>(call.n_fits / threads, 1, kBlock);
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(threads);
  const auto work = [&](std::size_t thread) noexcept {
    try {
      Block block(call, order, side, on_gpu);
      for (std::size_t first = next.fetch_add(size); first < call.n_fits;
           first = next.fetch_add(size))
        block.fit(first, std::min(size, call.n_fits - first), options);
    } catch (...) {
      failures[thread] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (std::size_t thread = 1; thread < threads; ++thread) workers.emplace_back(work, thread);
    work(0);
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace

std::size_t parameters_of(int model_id) {
  return order_of(model_id).size();
}

void check(const Call& call) {
  const Order order = order_of(call.model_id);
  side_of(call.n_points);
  require(call.user_info_size == 0, "user_info is given, and these models have none");
  check_arrays(call);
  check_constraints(call, order);
  options_of(call, order);
}

void fit(const Call& call, DataIn data) {
  check(call);
  const bool on_gpu = data == DataIn::Device || (call.n_fits > kFewestFits && Gpu::present());
  fit_blocks(call, options_of(call, order_of(call.model_id)), on_gpu);
}

}  // namespace driftd::fitter::drop_in
