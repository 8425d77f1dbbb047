// SPDX-License-Identifier: MIT
// What becomes of fits for which a GPU is there that cannot be used, or that fails: in
// BatchBackEnd, libdriftfit and libGpufit, on a pretended device.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <functional>

#include "fitter/batch_back_end.hpp"
#include "fitter/c/driftfit.h"
#include "fitter/cuda/batch_fitter.hpp"
#include "fitter/cuda/spot_finder.hpp"
#include "fitter/gpufit/gpufit.h"
#include "fitter/spots/localize.hpp"
#include "support/catch.hpp"
#include "support/pretended_cuda.hpp"
#include "unit/fitter/drawn_frames.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd::fitter {
namespace {

namespace pretended = test::pretended;
using pretended::Trouble;

const void* g_only_on_device = nullptr;
bool g_no_pinned = false;

}  // namespace

// Instead of those on the real runtime.
int cuda_device_count() noexcept {
  int count = 0;
  return pretended::count_devices(&count) == cudaSuccess ? count : 0;
}
int cuda_current_device() noexcept {
  return 0;
}
std::optional<int> cuda_device_of(const void*) noexcept {
  return std::nullopt;
}
std::string cuda_obstacle(int device) {
  const Trouble trouble = pretended::state().trouble;
  const auto calls = pretended::batch_calls();
  pretended::state().trouble = trouble;
  return cuda::obstacle(calls, device);
}
bool host_can_read(const void* memory) noexcept {
  return memory == nullptr || memory != g_only_on_device;
}
CudaVersions cuda_versions() noexcept {
  return {13000, 13000};
}
void* allocate_pinned(std::size_t bytes, std::optional<int>) noexcept {
  return g_no_pinned ? nullptr : std::malloc(bytes);
}

void free_pinned(void* memory) noexcept {
  std::free(memory);
}

void cuda_copy(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
std::unique_ptr<LiveFitter> make_cuda_live_fitter(int, std::size_t, const FitOptions&,
                                                  const CudaLiveOptions&) {
  throw FitterError("not here");
}
std::unique_ptr<CudaBatchFitter> make_cuda_batch_fitter(const CudaBatchOptions& cuda) {
  const Trouble trouble = pretended::state().trouble;
  const auto calls = pretended::batch_calls();
  pretended::state().trouble = trouble;
  return cuda::make_batch_fitter(cuda, calls);
}
std::unique_ptr<CudaSpotFinder> make_cuda_spot_finder(const CudaBatchOptions& cuda) {
  const Trouble trouble = pretended::state().trouble;
  const auto calls = pretended::batch_calls();
  pretended::state().trouble = trouble;
  return cuda::make_spot_finder({.devices = cuda.devices, .streams = 1, .chunk_bytes = 20'000},
                                calls);
}

namespace {

constexpr int kSide = 7;
constexpr std::size_t kFits = 200;

struct Work {
  test::SpotImages<float> images = test::simulate_spots<float>(kSide, 4000, 400, kFits, 3);
  std::vector<float> variances = std::vector<float>(images.pixels.size(), 30.0f);
  FitOptions options;
  std::vector<Localization> expected = std::vector<Localization>(kFits), found = expected;

  Work() {
    options.estimator = Estimator::WeightedLeastSquares;
    fit_batch_cpu(batch(), options, expected);
  }
  /// With variances, for which a GPU makes room when they first come.
  Batch batch() const {
    return {.pixels = images.pixels.data(),
            .type = PixelType::F32,
            .roi_px = kSide,
            .count = kFits,
            .variances = variances.data()};
  }
  bool right() const {
    return std::memcmp(expected.data(), found.data(), kFits * sizeof(found[0])) == 0;
  }
};

TEST_CASE("auto takes the CPU where the GPU cannot be had, and says why") {
  for (const auto& [trouble, says] : pretended::at_start()) {
    pretended::state().trouble = trouble;
    Work work;
    BatchBackEnd back_end(BackEnd::Auto);
    CHECK(!back_end.on_gpu());
    CHECK_THAT(back_end.reason(), contains(says));
    back_end.fit(work.batch(), work.options, work.found, 1);
    CHECK(work.right());
    CHECK_THROWS_WITH(BatchBackEnd(BackEnd::Cuda), contains(says));
  }
}

TEST_CASE("The thread's current device is as it was, after a call that fails, too") {
  constexpr int kCallers = 5;
  for (const Trouble trouble : {Trouble::None, Trouble::NoStream, Trouble::LaunchFails}) {
    Work work;
    pretended::state() = {};
    pretended::state().current_device = kCallers;
    pretended::state().trouble = trouble;
    CHECK(cuda_obstacle(0).empty());
    CHECK(pretended::state().current_device == kCallers);
    BatchBackEnd back_end(BackEnd::Auto);
    CHECK(pretended::state().current_device == kCallers);
    back_end.fit(work.batch(), work.options, work.found, 1);
    CHECK(pretended::state().current_device == kCallers);
    CHECK(back_end.on_gpu() == (trouble == Trouble::None));
  }
}

TEST_CASE("auto goes on with the CPU where the GPU fails later, from the same batch on") {
  for (const auto& [trouble, says] : pretended::both(pretended::later(), pretended::of_memory())) {
    Work work;
    pretended::state() = {};
    BatchBackEnd back_end(BackEnd::Auto);
    REQUIRE(back_end.on_gpu());
    CHECK_THAT(back_end.reason(), contains("a GPU that can be used"));
    pretended::state().trouble = trouble;
    back_end.fit(work.batch(), work.options, work.found, 1);
    CHECK(work.right());
    CHECK(!back_end.on_gpu());
    CHECK_THAT(back_end.reason(), contains(says));
    pretended::state() = {};
    work.found.assign(kFits, {});
    back_end.fit(work.batch(), work.options, work.found, 1);
    CHECK(work.right());
    CHECK(pretended::state().fitted == 0);
  }
}

TEST_CASE("A GPU's memory grows with what is fitted") {
  Work work;
  pretended::state() = {};
  BatchBackEnd back_end(BackEnd::Cuda);
  const auto fit = [&](std::size_t count) {
    Batch batch = work.batch();
    batch.count = count;
    back_end.fit(batch, work.options, {work.found.data(), count}, 1);
    return pretended::state().pinned_bytes;
  };
  CHECK(fit(1) < 2048);
  const std::size_t of_all = fit(kFits);
  CHECK(of_all > kFits * sizeof(Localization));
  CHECK(fit(1) == of_all);
  CHECK(fit(kFits) == of_all);
  CHECK(work.right());
}

TEST_CASE("What only the GPU can read, and what was asked of CUDA by name, fails as CUDA says") {
  const bool by_name = GENERATE(true, false);
  Work work;
  pretended::state() = {};
  BatchBackEnd back_end(by_name ? BackEnd::Cuda : BackEnd::Auto);
  if (!by_name) g_only_on_device = work.variances.data();
  pretended::state().trouble = Trouble::LaunchFails;
  CHECK_THROWS_WITH(back_end.fit(work.batch(), work.options, work.found, 1),
                    contains("unspecified launch failure"));
  CHECK(back_end.on_gpu());
  g_only_on_device = nullptr;
}

TEST_CASE("Senseless arguments are no failure of the GPU") {
  Work work;
  pretended::state() = {};
  BatchBackEnd back_end(BackEnd::Auto);
  work.options.max_iterations = 0;
  CHECK_THROWS_WITH(back_end.fit(work.batch(), work.options, work.found, 1),
                    contains("max_iterations"));
  CHECK(back_end.on_gpu());
}

/// Frames with pixels that are gone, whose spots are to be found and fitted.
struct SpotWork {
  static constexpr int kWidth = 90, kHeight = 61;
  std::vector<std::uint16_t> pixels;
  std::vector<float> variances = std::vector<float>(kWidth * kHeight, 2.0f);
  Frames frames;
  FitOptions options;

  SpotWork() : pixels(test::drawn<std::uint16_t>({kWidth, kHeight, PixelType::U16}, 7, 100, 3, 5)) {
    for (std::size_t i = 40; i < variances.size(); i += 307) variances[i] = 1e6f;
    frames = {.pixels = pixels.data(),
              .type = PixelType::U16,
              .width_px = kWidth,
              .height_px = kHeight,
              .count = 7,
              .row_bytes = kWidth * 2,
              .frame_bytes = kWidth * kHeight * 2,
              .variances_adu2 = variances.data()};
    options.estimator = Estimator::PoissonLikelihood;
  }
  std::vector<PicassoLocalization> localized(BatchBackEnd& back_end) const {
    GpuSearch gpu;
    return FrameSpots(frames, options, box_of(kSide), 0).localize(back_end, gpu, kSide, 1, 3, 1);
  }
};

TEST_CASE("Spots are found and fitted by a GPU as by the CPU, which goes on where it fails") {
  const SpotWork work;
  BatchBackEnd cpu(BackEnd::Cpu);
  const auto expected = work.localized(cpu);
  REQUIRE(expected.size() > 20);
  const auto is_right = [&](const std::vector<PicassoLocalization>& found) {
    return found.size() == expected.size() &&
           std::memcmp(found.data(), expected.data(), found.size() * sizeof(found[0])) == 0;
  };
  pretended::state() = {};
  BatchBackEnd gpu(BackEnd::Cuda);
  CHECK(is_right(work.localized(gpu)));
  CHECK(pretended::state().fitted >= expected.size());
  for (const auto& [trouble, says] : pretended::both(pretended::later(), pretended::of_memory())) {
    pretended::state() = {};
    BatchBackEnd automatic(BackEnd::Auto), by_name(BackEnd::Cuda);
    pretended::state().trouble = trouble;
    CHECK(is_right(work.localized(automatic)));
    CHECK(!automatic.on_gpu());
    CHECK_THAT(automatic.reason(), contains("CUDA: "));
    CHECK(is_right(work.localized(automatic)));
    CHECK_THROWS_AS(work.localized(by_name), FitterError);
    CHECK(by_name.on_gpu());
  }
  pretended::state() = {};
}

/// A fitter of libdriftfit, destroyed with this.
struct CFitter {
  driftfit_fitter* get = nullptr;
  char message[300] = "";
  int code;
  explicit CFitter(int backend)
      : code(driftfit_create(backend, 1, nullptr, 0, &get, message, sizeof message)) {}
  ~CFitter() { driftfit_destroy(get); }
  CFitter(const CFitter&) = delete;
  CFitter& operator=(const CFitter&) = delete;

  int fit(Work& work) {
    driftfit_options options;
    driftfit_default_options(&options, sizeof options);
    options.estimator = DRIFTFIT_WEIGHTED_LEAST_SQUARES;
    driftfit_images images = {};
    images.size = sizeof images;
    images.pixel_type = DRIFTFIT_F32;
    images.side = kSide;
    images.count = kFits;
    images.pixels = work.images.pixels.data();
    images.variances = work.variances.data();
    return driftfit_fit_images(get, &options, &images,
                               reinterpret_cast<driftfit_result*>(work.found.data()), nullptr,
                               nullptr, message, sizeof message);
  }
};

/// The images of Work as frames of 5 x 10 of them, with every map and a start for each ROI.
struct FrameWork {
  static constexpr int kAcross = 5, kDown = 10, kWidth = kAcross * kSide;
  std::vector<float> pixels = std::vector<float>(kFits * kSide * kSide), gains = pixels;
  std::vector<float> offsets = std::vector<float>(pixels.size(), 3.0f), variances = gains;
  std::vector<driftfit_place> places;
  std::vector<driftfit_start> starts;
  std::vector<driftfit_result> expected = std::vector<driftfit_result>(kFits), found = expected;
  driftfit_frames frames = {};
  driftfit_options options;

  FrameWork() {
    const Work work;
    for (std::size_t i = 0; i < kFits; ++i) {
      const std::size_t in_frame = i % (kAcross * kDown), frame = i / (kAcross * kDown);
      const std::size_t x = in_frame % kAcross * kSide, row = in_frame / kAcross * kSide;
      const std::size_t first = (frame * kDown * kSide + row) * kWidth + x;
      for (std::size_t k = 0; k < kSide * kSide; ++k)
        pixels[first + k / kSide * kWidth + k % kSide] = work.images.pixels[i * kSide * kSide + k];
      places.push_back({static_cast<int>(x) + kSide / 2, static_cast<int>(row) + kSide / 2,
                        static_cast<int>(frame)});
      starts.push_back({static_cast<float>(x) + 3, static_cast<float>(row) + 3, 1.4f, 1.4f});
    }
    for (std::size_t i = 0; i < gains.size(); ++i) gains[i] = 1 + 0.01f * static_cast<float>(i % 9);
    variances = gains;
    frames.size = sizeof frames;
    frames.pixel_type = DRIFTFIT_F32;
    frames.width = kWidth;
    frames.height = kDown * kSide;
    frames.frame_count = kFits / (kAcross * kDown);
    frames.pixels = pixels.data();
    frames.side = kSide;
    frames.count = kFits;
    frames.places = places.data();
    frames.starts = starts.data();
    frames.gain_map = gains.data();
    frames.offset_map = offsets.data();
    frames.variance_map = variances.data();
    driftfit_default_options(&options, sizeof options);
    options.estimator = DRIFTFIT_POISSON_LIKELIHOOD;
    const CFitter cpu(DRIFTFIT_CPU);
    CHECK(fit(cpu.get) == DRIFTFIT_OK);
    expected.swap(found);
  }
  int fit(driftfit_fitter* fitter) {
    return driftfit_fit_frames(fitter, &options, &frames, found.data(), nullptr, nullptr, nullptr,
                               0);
  }
  bool right() const {
    return std::memcmp(expected.data(), found.data(), kFits * sizeof(found[0])) == 0;
  }
};

TEST_CASE("libdriftfit: frames that are more than a block are cut block after block") {
  constexpr std::size_t kWide = 64, kFrames = 20;
  constexpr std::size_t kMany = 2100;  // 32 KiB each with variances: five blocks of 16 MiB
  std::vector<float> pixels(kFrames * kWide * kWide, 100), variances(kWide * kWide, 2);
  for (std::size_t row = 0; row < kFrames * kWide; ++row)  // a spot in each frame, elsewhere
    for (std::size_t x = 0; x < kWide; ++x)
      pixels[row * kWide + x] +=
          500 * std::exp(-0.1f * (std::pow(static_cast<float>(x) - 30, 2.0f) +
                                  std::pow(static_cast<float>(row % kWide) - 24 -
                                               static_cast<float>(row / kWide),
                                           2.0f)));
  std::vector<driftfit_place> places;
  std::vector<driftfit_start> starts;
  for (std::size_t i = 0; i < kMany; ++i) {
    places.push_back({kWide / 2, kWide / 2, static_cast<int>(i % kFrames)});
    starts.push_back({30.5f, 24 + static_cast<float>(i % kFrames), 2.0f, 2.0f});
  }
  driftfit_frames frames = {};
  frames.size = sizeof frames;
  frames.pixel_type = DRIFTFIT_F32;
  frames.width = frames.height = frames.side = kWide;
  frames.frame_count = kFrames;
  frames.pixels = pixels.data();
  frames.count = kMany;
  frames.places = places.data();
  frames.starts = starts.data();
  frames.variance_map = variances.data();
  driftfit_options options;
  driftfit_default_options(&options, sizeof options);
  options.estimator = DRIFTFIT_WEIGHTED_LEAST_SQUARES;
  std::vector<driftfit_result> found(kMany), expected(kMany);
  const auto fit = [&](driftfit_fitter* fitter, std::vector<driftfit_result>& results) {
    return driftfit_fit_frames(fitter, &options, &frames, results.data(), nullptr, nullptr, nullptr,
                               0);
  };
  const CFitter cpu(DRIFTFIT_CPU);
  REQUIRE(fit(cpu.get, expected) == DRIFTFIT_OK);
  for (std::size_t i = 0; i < kMany; ++i)
    if (!(expected[i].status < 3 && std::fabs(expected[i].y - starts[i].y) < 0.01f))
      FAIL("fit " << i);
  g_no_pinned = GENERATE(false, true);
  for (const Trouble trouble : {Trouble::None, Trouble::LaterLaunchFails}) {
    pretended::state() = {};
    const CFitter gpu(DRIFTFIT_AUTO);
    pretended::state().trouble = trouble;
    for (int again = 0; again < 2; ++again) {
      found.assign(kMany, {});
      REQUIRE(fit(gpu.get, found) == DRIFTFIT_OK);
      CHECK(std::memcmp(found.data(), expected.data(), kMany * sizeof found[0]) == 0);
    }
    CHECK((pretended::state().fitted == 2 * kMany) == (trouble == Trouble::None));
    CHECK(pretended::state().fitted >= 100);
    CHECK(driftfit_backend(gpu.get) == std::string(trouble == Trouble::None ? "cuda" : "cpu"));
  }
  g_no_pinned = false;
}

TEST_CASE("libdriftfit: frames are cut for a GPU, and for the CPU where it fails") {
  FrameWork work;
  CHECK(converged(static_cast<FitStatus>(work.expected[kFits - 1].status)));
  CHECK(work.expected[kFits - 1].y > FrameWork::kDown * kSide - kSide);
  pretended::state() = {};
  CFitter automatic(DRIFTFIT_AUTO);
  REQUIRE(work.fit(automatic.get) == DRIFTFIT_OK);
  CHECK(pretended::state().fitted == kFits);
  CHECK(work.right());
  CHECK(driftfit_backend(automatic.get) == std::string("cuda"));
  for (const void* array :
       {static_cast<const void*>(work.frames.pixels), static_cast<const void*>(work.frames.places),
        static_cast<const void*>(work.frames.variance_map),
        static_cast<const void*>(work.frames.starts)}) {
    g_only_on_device = array;
    CHECK(work.fit(automatic.get) == DRIFTFIT_BAD_ARGUMENT);
  }
  g_only_on_device = nullptr;
  pretended::state().trouble = Trouble::LaunchFails;
  work.found.assign(kFits, {});
  CHECK(work.fit(automatic.get) == DRIFTFIT_OK);
  CHECK(work.right());
  CHECK(driftfit_backend(automatic.get) == std::string("cpu"));
}

TEST_CASE("libdriftfit: auto takes the CPU and tells why, cuda is refused") {
  for (const auto& [trouble, says] : pretended::at_start()) {
    pretended::state().trouble = trouble;
    Work work;
    CFitter automatic(DRIFTFIT_AUTO);
    REQUIRE(automatic.code == DRIFTFIT_OK);
    CHECK(driftfit_backend(automatic.get) == std::string("cpu"));
    CHECK_THAT(driftfit_backend_reason(automatic.get), contains(says));
    CHECK(automatic.fit(work) == DRIFTFIT_OK);
    CHECK(work.right());
    const CFitter cuda(DRIFTFIT_CUDA);
    CHECK(cuda.code == DRIFTFIT_NO_BACKEND);
    CHECK_THAT(cuda.message, contains(says));
  }
  CHECK(driftfit_backend_reason(nullptr) == std::string());
}

TEST_CASE("libdriftfit: auto leaves a GPU that fails, cuda reports it") {
  for (const auto& [trouble, says] : pretended::both(pretended::later(), pretended::of_memory())) {
    Work work;
    pretended::state() = {};
    CFitter automatic(DRIFTFIT_AUTO), cuda(DRIFTFIT_CUDA);
    REQUIRE(driftfit_backend(automatic.get) == std::string("cuda"));
    pretended::state().trouble = trouble;
    CHECK(automatic.fit(work) == DRIFTFIT_OK);
    CHECK(work.right());
    CHECK(driftfit_backend(automatic.get) == std::string("cpu"));
    CHECK_THAT(driftfit_backend_reason(automatic.get), contains(says));
    CHECK(cuda.fit(work) == DRIFTFIT_FAILED);
    CHECK_THAT(cuda.message, contains(says));
    CHECK(driftfit_backend(cuda.get) == std::string("cuda"));
  }
}

/// libGpufit keeps its GPU for the life of the process: each trial has one of its own.
bool in_a_process(const std::function<bool()>& trial) {
  const pid_t child = fork();
  if (child == 0) {
    pretended::state() = {};
    _exit(trial() ? 0 : 1);
  }
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

struct GpufitCall {
  std::vector<float> data, start, parameters, chi_squares = std::vector<float>(kFits);
  std::vector<float> weights;
  std::vector<int> states = std::vector<int>(kFits, -1), steps = states;

  explicit GpufitCall(const Work& work)
      : data(work.images.pixels.begin(), work.images.pixels.end()), weights(data.size(), 0.1f) {
    for (std::size_t i = 0; i < kFits; ++i)
      for (const float v : {300.0f, 3.0f, 3.0f, 1.4f, 8.0f}) start.push_back(v);
    parameters.resize(start.size());
  }
  int operator()() {
    int all[] = {1, 1, 1, 1, 1};
    return gpufit(kFits, kSide * kSide, data.data(), weights.data(), GAUSS_2D, start.data(), 1e-5f,
                  30, all, LSE, 0, nullptr, parameters.data(), states.data(), chi_squares.data(),
                  steps.data());
  }
};

bool says(const char* text) {
  return std::string(gpufit_get_last_error()).find(text) != std::string::npos;
}

TEST_CASE("libGpufit fits ellipses and then lines on a GPU, whose arrays stay from call to call") {
  CHECK(in_a_process([] {
    constexpr std::size_t kPoints = kSide * kSide;
    std::vector<float> ellipses, lines, start_of_ellipse, start_of_line;
    for (std::size_t i = 0; i < kFits; ++i) {
      for (std::size_t k = 0; k < kPoints; ++k) {
        const double u = static_cast<double>(k % kSide) - 3.2;
        const double v = static_cast<double>(k / kSide) - 2.9;
        ellipses.push_back(
            static_cast<float>(20 + 300 * std::exp(-0.5 * (0.6 * u * u + 0.4 * u * v + v * v))));
        const double w = (static_cast<double>(k) - 25.4) / 4;
        lines.push_back(static_cast<float>(20 + 300 * std::exp(-0.5 * w * w)));
      }
      for (const float v : {250.0f, 3.0f, 3.0f, 1.3f, 1.0f, 15.0f, 0.0f})
        start_of_ellipse.push_back(v);
      for (const float v : {250.0f, 24.0f, 3.0f, 15.0f}) start_of_line.push_back(v);
    }
    int all[] = {1, 1, 1, 1, 1, 1, 1};
    std::vector<float> found(7 * kFits), chi_squares(kFits);
    std::vector<int> states(kFits), steps(kFits);
    const auto fitted = [&](int model, std::vector<float>& data, std::vector<float>& start) {
      return gpufit(kFits, kPoints, data.data(), nullptr, model, start.data(), 1e-6f, 50, all, LSE,
                    0, nullptr, found.data(), states.data(), chi_squares.data(),
                    steps.data()) == OK &&
             states[0] == CONVERGED && states[kFits - 1] == CONVERGED;
    };
    const auto near = [](float value, double truth) {
      return std::fabs(static_cast<double>(value) - truth) < 2e-3;
    };
    bool good = fitted(GAUSS_2D_ROTATED, ellipses, start_of_ellipse);
    // a = 0.6, b = 0.2, c = 1: tan 2 angle = 2 b / (a - c), and Gpufit turns the other way.
    good = good && near(found[1], 3.2) && near(found[2], 2.9) && near(found[6], 0.3927);
    good = good && fitted(GAUSS_1D, lines, start_of_line);
    good = good && near(found[1], 25.4) && near(found[2], 4) && near(found[4 * kFits - 3], 25.4);
    return good && pretended::state().fitted > 0;
  }));
}

TEST_CASE("libGpufit takes the CPU where the GPU cannot be had, and tells why") {
  const Work work;
  for (const auto& [trouble, text] :
       pretended::both(pretended::at_start(), pretended::of_memory())) {
    INFO(text);
    CHECK(in_a_process([&, trouble = trouble, text = text] {
      GpufitCall call(work);
      pretended::state().trouble = trouble;
      const bool there = cuda_device_count() > 0;
      const bool fitted = call() == OK && call.states[kFits - 1] == CONVERGED;
      const bool told = says(there ? text : "");
      return fitted && told && gpufit_cuda_available() == 0 && says("fits run on the CPU") &&
             pretended::state().fitted == 0;
    }));
  }
}

TEST_CASE("libGpufit says beforehand that a GPU cannot be used") {
  for (const Trouble trouble : {Trouble::TooOld, Trouble::NoImage, Trouble::Exclusive}) {
    CHECK(in_a_process([=] {
      pretended::state().trouble = trouble;
      return gpufit_cuda_available() == 0 && says("gpufit: fits run on the CPU: CUDA: ");
    }));
  }
  CHECK(in_a_process([] { return gpufit_cuda_available() == 1; }));
}

TEST_CASE("libGpufit goes on with the CPU where the GPU fails, with the same fits") {
  const Work work;
  GpufitCall expected(work);
  REQUIRE(in_a_process([&] { return expected() == OK && pretended::state().fitted == kFits; }));
  for (const auto& [trouble, text] : pretended::later()) {
    INFO(text);
    CHECK(in_a_process([&, trouble = trouble, text = text] {
      GpufitCall call(work);
      bool good = call() == OK && pretended::state().fitted == kFits;
      const std::vector<float> before = call.parameters;
      pretended::state().trouble = trouble;
      call.parameters.assign(call.parameters.size(), 0);
      good = good && call() == OK && call.parameters == before && says(text);
      pretended::state() = {};
      return good && call() == OK && call.parameters == before &&
             pretended::state().fitted == 0;  // for good
    }));
  }
}

}  // namespace
}  // namespace driftd::fitter
