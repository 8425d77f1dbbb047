// SPDX-License-Identifier: MIT
#include "fitter/gpufit/call.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "fitter/batch_back_end.hpp"
#include "fitter/cpu/parts.hpp"
#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"
#include "fitter/gpufit/gpufit.h"

namespace driftd::fitter::drop_in {
namespace {

/// Fits that a thread translates and fits at a time: their copies stay in its caches.
constexpr std::size_t kBlock = 1024;
/// Fewest fits worth a thread, or a GPU: some 100 us, of which starting it takes tens.
constexpr std::size_t kFewestFits = 64;
/// Fits that are translated for the GPU at a time, and threads that do.
constexpr std::size_t kGpuBlock = 131072;
constexpr int kGpuThreads = 4;
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

/// The fitter's own arrays for some fits of a call.
struct Arrays {
  std::vector<Start> starts;
  std::vector<StartLevels> levels;
  std::vector<Bounds> bounds;
  std::vector<float> variances;
  std::vector<Localization> results;
};

/// Some fits of a call at a time: translates, has them fitted, and writes the outputs.
class Block {
 public:
  /// @param threads  that translate and write
  Block(const Call& call, Order order, int side, Arrays& arrays, int threads)
      : call_(call), order_(order), side_(side), a_(arrays), threads_(threads) {}

  /// @param run  takes a Batch and the span for its results
  template <class Run>
  void fit(std::size_t first, std::size_t count, const FitOptions& options, const Run& run) {
    const bool weighted = options.estimator == Estimator::WeightedLeastSquares;
    const bool bounded = call_.constraints != nullptr;
    a_.starts.resize(count);
    a_.levels.resize(count);
    if (bounded) a_.bounds.resize(count);
    if (weighted) a_.variances.resize(count * call_.n_points);
    a_.results.resize(count);
    cpu::run_in_parts(
        count, threads_, cpu::kPieceOfWork, [&](std::size_t, std::size_t from, std::size_t n) {
          for (std::size_t i = from; i < from + n; ++i) {
            translate_start(first + i, a_.starts[i], a_.levels[i]);
            if (bounded) a_.bounds[i] = bounds_of(first + i);
          }
          if (!weighted) return;
          const float* const weights = call_.weights + first * call_.n_points;
          for (std::size_t k = from * call_.n_points; k < (from + n) * call_.n_points; ++k)
            a_.variances[k] = 1.0f / weights[k];
        });
    run(Batch{.pixels = call_.data + first * call_.n_points,
              .type = PixelType::F32,
              .roi_px = side_,
              .count = count,
              .starts = a_.starts.data(),
              .levels = a_.levels.data(),
              .variances = weighted ? a_.variances.data() : nullptr,
              .bounds = bounded ? a_.bounds.data() : nullptr},
        std::span<Localization>(a_.results));
    cpu::run_in_parts(count, threads_, cpu::kPieceOfWork,
                      [&](std::size_t, std::size_t from, std::size_t n) {
                        for (std::size_t i = from; i < from + n; ++i)
                          write(first + i, a_.results[i]);
                      });
  }

 private:
  void translate_start(std::size_t fit, Start& start, StartLevels& levels) const {
    const float* value = call_.initial_parameters + fit * order_.size();
    for (const Parameter p : order_) set_start(p, *value++, start, levels);
  }

  Bounds bounds_of(std::size_t fit) const {
    Bounds bounds;
    const float* pair = call_.constraints + fit * order_.size() * 2;
    for (std::size_t j = 0; j < order_.size(); ++j, pair += 2) {
      if (call_.parameters_to_fit[j] == 0) continue;
      const auto place = static_cast<std::size_t>(order_[j]);
      const int type = call_.constraint_types[j];
      if ((type & LOWER) != 0) bounds.lower[place] = pair[LOWER_BOUND];
      if ((type & UPPER) != 0) bounds.upper[place] = pair[UPPER_BOUND];
    }
    return bounds;
  }

  void write(std::size_t fit, const Localization& l) const {
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

  const Call& call_;
  Order order_;
  int side_;
  Arrays& a_;
  int threads_;
};

/// All fits of a call on all cores, block by block.
void fit_on_cpu(const Call& call, const FitOptions& options) {
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t threads = std::clamp<std::size_t>(call.n_fits / kFewestFits, 1, cores);
  const std::size_t size = std::clamp<std::size_t>(call.n_fits / threads, 1, kBlock);
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(threads);
  const auto work = [&](std::size_t thread) noexcept {
    try {
      Arrays arrays;
      Block block(call, order_of(call.model_id), side_of(call.n_points), arrays, 1);
      for (std::size_t first = next.fetch_add(size); first < call.n_fits;
           first = next.fetch_add(size))
        block.fit(first, std::min(size, call.n_fits - first), options,
                  [&](const Batch& batch, std::span<Localization> results) {
                    fit_batch_cpu(batch, options, results, 1);
                  });
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

bool has_gpu() {
  static const bool has = cuda_device_count() > 0;
  return has;
}

/// A GPU, which fits for one call at a time. Its fitter and the arrays stay for the next
/// call: to make the one and to touch the others first takes as long as many fits.
class Gpu {
 public:
  explicit Gpu(int device) : device_(device) {}
  /// False: it cannot be used, and nothing was done.
  bool fit(const Call& call, const FitOptions& options) {
    const std::lock_guard lock(one_at_a_time_);
    if (!back_end_) back_end_.emplace(BackEnd::Auto, CudaBatchOptions{.devices = {device_}});
    if (!back_end_->on_gpu()) return false;
    const int threads = call.n_fits < kGpuBlock / 16 ? 1 : kGpuThreads;
    Block block(call, order_of(call.model_id), side_of(call.n_points), arrays_, threads);
    for (std::size_t first = 0; first < call.n_fits; first += kGpuBlock)
      block.fit(first, std::min(kGpuBlock, call.n_fits - first), options,
                [&](const Batch& batch, std::span<Localization> results) {
                  back_end_->fit(batch, options, results, kAllCores);
                });
    return true;
  }

  /// What keeps it from being used; "" if nothing does.
  std::string obstacle() {
    const std::lock_guard lock(one_at_a_time_);
    if (!back_end_) return cuda_obstacle(device_);
    return back_end_->on_gpu() ? std::string() : back_end_->reason();
  }

 private:
  static constexpr int kAllCores = 0;  ///< where the GPU fails in the middle of a call
  int device_;
  std::mutex one_at_a_time_;
  std::optional<BatchBackEnd> back_end_;
  Arrays arrays_;
};

/// Stays where it is.
Gpu& gpu(int device) {
  static std::mutex one_at_a_time;
  static std::map<int, Gpu> gpus;
  const std::lock_guard lock(one_at_a_time);
  return gpus.try_emplace(device, device).first->second;
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

std::string gpu_obstacle() {
  return gpu(cuda_current_device()).obstacle();
}

std::string fit(const Call& call, DataIn data) {
  check(call);
  const FitOptions options = options_of(call, order_of(call.model_id));
  const bool wanted = data == DataIn::Device || (call.n_fits > kFewestFits && has_gpu());
  std::string obstacle;
  if (wanted) {
    const auto home = data == DataIn::Device ? cuda_device_of(call.data) : std::nullopt;
    Gpu& chosen = gpu(home.value_or(cuda_current_device()));
    const bool fitted = chosen.fit(call, options);
    obstacle = chosen.obstacle();
    if (fitted) return obstacle;
  }
  if (data == DataIn::Device) throw FitterError(obstacle);
  fit_on_cpu(call, options);
  return obstacle;
}

}  // namespace driftd::fitter::drop_in
