// SPDX-License-Identifier: MIT
#include "fitter/gpufit/call.hpp"

#include <algorithm>
#include <array>
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
#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"
#include "fitter/gpufit/gpufit.h"

namespace driftd::fitter::drop_in {
namespace {

/// Fits that a thread translates and fits at a time: their copies stay in its caches.
constexpr std::size_t kBlock = 1024;
/// Fewest fits worth a thread, or a GPU: some 100 us, of which starting it takes tens.
constexpr std::size_t kFewestFits = 64;
/// Fits that a thread translates, copies and has fitted by the GPU at a time, and such threads.
constexpr std::size_t kGpuBlock = 16384;
constexpr std::size_t kGpuThreads = 12;
constexpr std::size_t kFewestOfAThread = 8192;
constexpr int kMostIterations = 255;
/// Gpufit's tolerance is absolute where chi-square is below 1. Here the relative one holds there,
/// too, down to a chi-square of this times the tolerance, where no step could satisfy it any more.
constexpr float kNoResiduum = 1e-3f;
/// Ends fits whose chi-square is at its rounding error: steps below what a float resolves.
constexpr float kSmallestStep = 1e-6f;

/// Gpufit's parameters of a model, in its order.
using Order = std::span<const Parameter>;
/// Gpufit's rotation, which turns the other way than FitDetails::angle_rad.
constexpr auto kRotation = static_cast<Parameter>(kAngle);

Order order_of(int model_id) {
  using enum Parameter;
  static constexpr Parameter kLine[] = {Amplitude, X, SigmaX, Background};
  static constexpr Parameter kCircular[] = {Amplitude, X, Y, SigmaX, Background};
  static constexpr Parameter kElliptical[] = {Amplitude, X, Y, SigmaX, SigmaY, Background};
  static constexpr Parameter kRotated[] = {Amplitude, X, Y, SigmaX, SigmaY, Background, kRotation};
  if (model_id == GAUSS_1D) return kLine;
  if (model_id == GAUSS_2D) return kCircular;
  if (model_id == GAUSS_2D_ELLIPTIC) return kElliptical;
  if (model_id == GAUSS_2D_ROTATED) return kRotated;
  throw FitterError("gpufit: model_id is " + std::to_string(model_id) +
                    ", fitted are 0 (GAUSS_1D), 1 (GAUSS_2D), 2 (GAUSS_2D_ELLIPTIC) and 3 "
                    "(GAUSS_2D_ROTATED)");
}

void require(bool good, const char* text) {
  if (!good) throw FitterError(std::string("gpufit: ") + text);
}

/// Of the ROI that has the points. Those of one dimension fill it row after row, and may leave the
/// end empty.
int side_of(const Call& call) {
  const std::size_t n_points = call.n_points;
  if (call.model_id == GAUSS_1D) {
    constexpr std::size_t kFewest = 5, kMost = std::size_t{kMaxRoiPx} * kMaxRoiPx;
    if (n_points < kFewest || n_points > kMost)
      throw FitterError("gpufit: n_points is " + std::to_string(n_points) +
                        ", fitted in one dimension are 5 to 4096 points");
    const double root = std::ceil(std::sqrt(static_cast<double>(n_points)));
    return std::max(static_cast<int>(root), kMinRoiPx);
  }
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

std::size_t roi_points(const Call& call) {
  const auto side = static_cast<std::size_t>(side_of(call));
  return side * side;
}

Model model_of(int model_id) {
  if (model_id == GAUSS_1D) return Model::LineGaussian;
  if (model_id == GAUSS_2D) return Model::CircularGaussian;
  return model_id == GAUSS_2D_ROTATED ? Model::RotatedGaussian : Model::EllipticalGaussian;
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
  options.model = model_of(call.model_id);
  const bool weighted = call.weights != nullptr || roi_points(call) > call.n_points;
  options.estimator = call.estimator_id == MLE ? Estimator::PoissonLikelihood
                      : weighted               ? Estimator::WeightedLeastSquares
                                               : Estimator::LeastSquares;
  for (std::size_t j = 0; j < order.size(); ++j)
    if (call.parameters_to_fit[j] == 0)
      options.fixed = static_cast<std::uint8_t>(options.fixed | bit(order[j]));
  if (options.model == Model::LineGaussian) {  // the ROI may have more pixels
    const auto points = static_cast<float>(call.n_points);
    options.bounds.upper[static_cast<int>(Parameter::X)] = points - 0.5f;
    options.bounds.upper[static_cast<int>(Parameter::SigmaX)] = 0.5f * points;
  }
  options.spots_only = false;
  options.max_iterations = std::min(call.max_n_iterations, kMostIterations);
  options.min_decrease = std::clamp(call.tolerance, 0.0f, 1.0f);
  options.min_chi_square = kNoResiduum * options.min_decrease;
  options.min_step = kSmallestStep;
  return options;
}

/// A model with a negative width is the same as with a positive one.
void set_start(Parameter which, float value, Start& start, StartLevels& levels) {
  if (which == kRotation) return;
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

/// @param details  null but of the rotated model
float value_of(Parameter which, const Localization& l, const FitDetails* details) {
  if (which == kRotation) return details != nullptr ? -details->angle_rad : 0.0f;
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
  std::vector<float> pixels;  ///< of ROIs that have more pixels than the fits points
  std::vector<Localization> results;
  std::vector<float> angles;  ///< this and the next two: of the rotated model
  std::vector<AngleBounds> angle_bounds;
  std::vector<FitDetails> details;
};

/// Some fits of a call at a time, in arrays of their own.
class Block {
 public:
  Block(const Call& call, const FitOptions& options, Arrays& arrays)
      : call_(call),
        options_(options),
        order_(order_of(call.model_id)),
        side_(side_of(call)),
        a_(arrays) {}

  /// What the fitter is to fit.
  Batch translate(std::size_t first, std::size_t count) {
    const std::size_t roi = roi_points(call_);
    const bool filled_up = roi > call_.n_points;
    const bool mapped = filled_up || options_.estimator == Estimator::WeightedLeastSquares;
    const bool bounded = is_bounded();
    const bool rotated = is_rotated();
    first_ = first;
    a_.angles.resize(rotated ? count : 0);
    a_.angle_bounds.resize(rotated && bounds_axes() ? count : 0);
    a_.details.resize(rotated ? count : 0);
    a_.starts.resize(count);
    a_.levels.resize(count);
    if (bounded) a_.bounds.resize(count);
    if (mapped) a_.variances.resize(count * roi);
    if (filled_up) a_.pixels.resize(count * roi);
    a_.results.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      translate_start(first + i, a_.starts[i], a_.levels[i]);
      if (bounded) a_.bounds[i] = bounds_of(first + i);
      if (rotated) translate_angle(first + i, i);
      if (mapped) set_variances(first + i, &a_.variances[i * roi], roi);
      if (filled_up) fill_up(first + i, &a_.pixels[i * roi], roi);
    }
    return {.pixels = filled_up ? a_.pixels.data() : call_.data + first * call_.n_points,
            .type = PixelType::F32,
            .roi_px = side_,
            .count = count,
            .starts = a_.starts.data(),
            .levels = a_.levels.data(),
            .variances = mapped ? a_.variances.data() : nullptr,
            .bounds = bounded ? a_.bounds.data() : nullptr,
            .bounds_widths = bounds_axes(),
            .angles_rad = rotated ? a_.angles.data() : nullptr,
            .angle_bounds = a_.angle_bounds.empty() ? nullptr : a_.angle_bounds.data(),
            .details = rotated ? a_.details.data() : nullptr};
  }

  std::span<Localization> results() { return a_.results; }

  /// The results of what was translated last.
  void write() const {
    for (std::size_t i = 0; i < a_.results.size(); ++i)
      write(first_ + i, a_.results[i], is_rotated() ? &a_.details[i] : nullptr);
  }

 private:
  /// Pixels that are no points are not there.
  void set_variances(std::size_t fit, float* variances, std::size_t roi) const {
    const bool likelihood = options_.estimator == Estimator::PoissonLikelihood;
    const float* const weights =
        likelihood || call_.weights == nullptr ? nullptr : call_.weights + fit * call_.n_points;
    for (std::size_t k = 0; k < call_.n_points; ++k)
      variances[k] = weights != nullptr ? 1.0f / weights[k] : likelihood ? 0.0f : 1.0f;
    std::fill(variances + call_.n_points, variances + roi, std::numeric_limits<float>::infinity());
  }

  void fill_up(std::size_t fit, float* pixels, std::size_t roi) const {
    const float* const points = call_.data + fit * call_.n_points;
    std::copy_n(points, call_.n_points, pixels);
    std::fill(pixels + call_.n_points, pixels + roi, points[0]);
  }

  bool is_rotated() const { return options_.model == Model::RotatedGaussian; }

  /// Whether parameter j has bounds.
  bool is_bounded(std::size_t j) const {
    return call_.constraints != nullptr && call_.constraint_types[j] != NONE &&
           call_.parameters_to_fit[j] != 0;
  }
  bool is_bounded() const {
    bool is = false;
    for (std::size_t j = 0; j < order_.size(); ++j) is = is || is_bounded(j);
    return is;
  }
  /// Whether a width or the rotation has.
  bool bounds_axes() const {
    bool is = false;
    for (std::size_t j = 0; j < order_.size(); ++j) {
      const Parameter p = order_[j];
      const bool of_axes = p == Parameter::SigmaX || p == Parameter::SigmaY || p == kRotation;
      is = is || (of_axes && is_bounded(j));
    }
    return is;
  }

  /// Into place `i` of the arrays. The rotation is the last parameter.
  void translate_angle(std::size_t fit, std::size_t i) {
    const std::size_t last = order_.size() - 1;
    a_.angles[i] = -call_.initial_parameters[fit * order_.size() + last];
    if (a_.angle_bounds.empty()) return;
    AngleBounds& bounds = a_.angle_bounds[i] = {};
    if (call_.parameters_to_fit[last] == 0) return;
    const float* const pair = call_.constraints + (fit * order_.size() + last) * 2;
    const int type = call_.constraint_types[last];
    if ((type & LOWER) != 0) bounds.upper_rad = -pair[LOWER_BOUND];
    if ((type & UPPER) != 0) bounds.lower_rad = -pair[UPPER_BOUND];
  }

  void translate_start(std::size_t fit, Start& start, StartLevels& levels) const {
    const float* value = call_.initial_parameters + fit * order_.size();
    start = {};
    for (const Parameter p : order_) set_start(p, *value++, start, levels);
  }

  Bounds bounds_of(std::size_t fit) const {
    Bounds bounds;
    const float* pair = call_.constraints + fit * order_.size() * 2;
    for (std::size_t j = 0; j < order_.size(); ++j, pair += 2) {
      if (call_.parameters_to_fit[j] == 0 || order_[j] == kRotation) continue;
      const auto place = static_cast<std::size_t>(order_[j]);
      const int type = call_.constraint_types[j];
      if ((type & LOWER) != 0) bounds.lower[place] = pair[LOWER_BOUND];
      if ((type & UPPER) != 0) bounds.upper[place] = pair[UPPER_BOUND];
    }
    return bounds;
  }

  void write(std::size_t fit, const Localization& l, const FitDetails* details) const {
    call_.output_states[fit] = state_of(l.status);
    call_.output_chi_squares[fit] = l.chi_square;
    call_.output_n_iterations[fit] = l.iterations;
    for (std::size_t j = 0; j < order_.size(); ++j) {
      const std::size_t place = fit * order_.size() + j;
      const bool kept = l.status == FitStatus::BadInput || call_.parameters_to_fit[j] == 0;
      call_.output_parameters[place] =
          kept ? call_.initial_parameters[place] : value_of(order_[j], l, details);
    }
  }

  const Call& call_;
  const FitOptions& options_;
  Order order_;
  int side_;
  Arrays& a_;
  std::size_t first_ = 0;
};

/// Has all fits of a call done, block by block, by so many threads.
/// @param size  of a block
/// @param work  (thread, first fit, count): does a block
template <class Work>
void fit_in_blocks(const Call& call, std::size_t threads, std::size_t size, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(threads);
  const auto run = [&](std::size_t thread) noexcept {
    try {
      for (std::size_t first = next.fetch_add(size); first < call.n_fits;
           first = next.fetch_add(size))
        work(thread, first, std::min(size, call.n_fits - first));
    } catch (...) {
      failures[thread] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
    run(0);
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

std::size_t cores() {
  return std::max(1u, std::thread::hardware_concurrency());
}

void fit_on_cpu(const Call& call, const FitOptions& options) {
  const std::size_t threads = std::clamp<std::size_t>(call.n_fits / kFewestFits, 1, cores());
  const std::size_t size = std::clamp<std::size_t>(call.n_fits / threads, 1, kBlock);
  std::vector<Arrays> arrays(threads);
  fit_in_blocks(call, threads, size, [&](std::size_t thread, std::size_t first, std::size_t count) {
    Block block(call, options, arrays[thread]);
    const Batch batch = block.translate(first, count);
    fit_batch_cpu(batch, options, block.results(), 1);
    block.write();
  });
}

bool has_gpu() {
  static const bool has = cuda_device_count() > 0;
  return has;
}

/// A GPU, which fits for one call at a time. Threads translate, copy and write, each a block of its
/// own, so that one of these is done while the GPU fits the blocks of others. Their fitters and
/// arrays stay for the next call: to make the ones and to touch the others first takes as long as
/// many fits.
class Gpu {
 public:
  explicit Gpu(int device) : device_(device) {}
  /// False: it cannot be used, and nothing was done.
  bool fit(const Call& call, const FitOptions& options) {
    const std::lock_guard lock(one_at_a_time_);
    if (!usable()) return false;
    const std::size_t most = std::min(kGpuThreads, cores());
    const std::size_t threads = std::clamp<std::size_t>(call.n_fits / kFewestOfAThread, 1, most);
    const std::size_t size = std::clamp<std::size_t>(call.n_fits / threads, 1, kGpuBlock);
    for (std::size_t k = 0; k < threads; ++k) back_end_of(workers_[k]);
    fit_in_blocks(call, threads, size,
                  [&](std::size_t thread, std::size_t first, std::size_t count) {
                    Worker& worker = workers_[thread];
                    Block block(call, options, worker.arrays);
                    const Batch batch = block.translate(first, count);
                    worker.back_end->fit(batch, options, block.results(), kAllCores);
                    block.write();
                  });
    return true;
  }

  /// What keeps it from being used; "" if nothing does.
  std::string obstacle() {
    const std::lock_guard lock(one_at_a_time_);
    if (!workers_[0].back_end) return cuda_obstacle(device_);
    for (const Worker& worker : workers_)
      if (worker.back_end && !worker.back_end->on_gpu()) return worker.back_end->reason();
    return {};
  }

 private:
  static constexpr int kAllCores = 0;  ///< where the GPU fails in the middle of a call
  struct Worker {
    std::optional<BatchBackEnd> back_end;
    Arrays arrays;
  };

  BatchBackEnd& back_end_of(Worker& worker) {
    if (!worker.back_end)
      worker.back_end.emplace(BackEnd::Auto, CudaBatchOptions{.devices = {device_}, .streams = 1});
    return *worker.back_end;
  }

  /// Once it has failed to one it is left by all.
  bool usable() {
    back_end_of(workers_[0]);
    for (const Worker& worker : workers_)
      if (worker.back_end && !worker.back_end->on_gpu()) return false;
    return true;
  }

  int device_;
  std::mutex one_at_a_time_;
  std::array<Worker, kGpuThreads> workers_;
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
  side_of(call);
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
