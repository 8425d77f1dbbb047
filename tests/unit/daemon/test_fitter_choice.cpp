// SPDX-License-Identifier: MIT
#include "daemon/setup/fitter_choice.hpp"

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using namespace driftd;
using config::Backend;
using daemon::choose_backend;
using daemon::choose_fitter;
using daemon::FitterWish;
using fitter::Estimator;

namespace {

/// Fits nothing, in a given time, and fails at a given call.
class FakeFitter final : public fitter::LiveFitter {
 public:
  FakeFitter(const char* name, std::chrono::microseconds time, int fails_at = -1)
      : name_(name), time_(time), fails_at_(fails_at) {}

  int roi_px() const noexcept override { return 9; }
  std::size_t capacity() const noexcept override { return 3; }
  std::uint16_t* staging(std::size_t i) noexcept override { return pixels_.data() + 81 * i; }
  const char* description() const noexcept override { return name_; }
  const char* error() const noexcept override { return failed_ ? "the cable melted" : nullptr; }
  std::span<const fitter::Localization> fit(
      std::span<const fitter::Start> starts) noexcept override {
    failed_ |= calls_++ == fails_at_;
    if (failed_) return {};
    const auto until = std::chrono::steady_clock::now() + time_;
    while (std::chrono::steady_clock::now() < until) {
    }
    results_.assign(starts.size(), fitter::Localization{});
    for (fitter::Localization& l : results_) l.x_px = static_cast<float>(pixels_[40]);
    return results_;
  }

 private:
  const char* name_;
  std::chrono::microseconds time_;
  int fails_at_, calls_ = 0;
  bool failed_ = false;
  std::vector<std::uint16_t> pixels_ = std::vector<std::uint16_t>(3 * 81);
  std::vector<fitter::Localization> results_;
};

daemon::FitterMakers makers(int cpu_us, int cuda_us, int cuda_fails_at = -1) {
  using std::chrono::microseconds;
  return {[=] { return std::make_unique<FakeFitter>("cpu (fake)", microseconds(cpu_us)); },
          [=] {
            return std::make_unique<FakeFitter>("cuda (fake)", microseconds(cuda_us),
                                                cuda_fails_at);
          }};
}

daemon::FitterMakers without_cuda() {
  daemon::FitterMakers made = makers(1, 1);
  made.cuda = []() -> std::unique_ptr<fitter::LiveFitter> {
    throw fitter::FitterError("CUDA: no device");
  };
  return made;
}

}  // namespace

TEST_CASE("auto takes the faster back end and says what it measured", "[fitter_choice]") {
  // No fit of the fakes is faster than it is told to be.
  double cpu_us = 0;
  double cuda_us = 0;
  const auto measured = [&](const std::string& reason) {
    return std::sscanf(reason.c_str(), "p99 of 3 fits: cpu %lf us, cuda %lf us", &cpu_us,
                       &cuda_us) == 2;
  };
  const auto cpu = choose_backend(Backend::Auto, {}, makers(5, 500));
  CHECK(cpu.fitter->description() == std::string("cpu (fake)"));
  REQUIRE(measured(cpu.reason));
  CHECK(cuda_us >= 500);
  CHECK(cpu_us < cuda_us);
  const auto cuda = choose_backend(Backend::Auto, {}, makers(500, 5));
  CHECK(cuda.fitter->description() == std::string("cuda (fake)"));
  REQUIRE(measured(cuda.reason));
  CHECK(cpu_us >= 500);
  CHECK(cuda_us < cpu_us);
}

TEST_CASE("CUDA taken by trial has the CPU as its twin, too", "[fitter_choice]") {
  const auto chosen =
      choose_backend(Backend::Auto, {}, makers(300, 5, 700));  // 620 calls are the trial's
  REQUIRE(chosen.fitter->description() == std::string("cuda (fake)"));
  const std::vector<fitter::Start> starts(3);
  for (int frame = 0; frame < 100; ++frame) REQUIRE(chosen.fitter->fit(starts).size() == 3);
  CHECK(chosen.fitter->error() != nullptr);
  CHECK(chosen.fitter->description() == std::string("cpu (fake)"));
}

TEST_CASE("auto takes the CPU where CUDA cannot be had or fails on trial", "[fitter_choice]") {
  const auto none = choose_backend(Backend::Auto, {}, without_cuda());
  CHECK(none.fitter->description() == std::string("cpu (fake)"));
  CHECK(none.reason == "CUDA: no device");
  const auto failed = choose_backend(Backend::Auto, {}, makers(200, 5, 100));
  CHECK(failed.fitter->description() == std::string("cpu (fake)"));
  CHECK(failed.reason == "the cable melted");
}

TEST_CASE("cpu and cuda by name are what is used", "[fitter_choice]") {
  CHECK(choose_backend(Backend::Cpu, {}, without_cuda()).fitter->description() ==
        std::string("cpu (fake)"));
  CHECK(choose_backend(Backend::Cuda, {}, makers(5, 200)).fitter->description() ==
        std::string("cuda (fake)"));
  CHECK_THROWS_AS(choose_backend(Backend::Cuda, {}, without_cuda()), fitter::FitterError);
}

TEST_CASE("when CUDA fails the CPU fits the same frame", "[fitter_choice]") {
  const auto chosen = choose_backend(Backend::Cuda, {}, makers(5, 5, 2));
  const std::vector<fitter::Start> starts(3);
  for (int frame = 0; frame < 5; ++frame) {
    chosen.fitter->staging(0)[40] = static_cast<std::uint16_t>(100 + frame);
    const auto fits = chosen.fitter->fit(starts);
    REQUIRE(fits.size() == 3);
    CHECK(fits[0].x_px == static_cast<float>(100 + frame));
    CHECK((chosen.fitter->error() != nullptr) == (frame >= 2));
    CHECK(chosen.fitter->description() == std::string(frame < 2 ? "cuda (fake)" : "cpu (fake)"));
  }
}

namespace {

constexpr int kSlow_us = 300;  // above the limit wherever the wish is demanding()
const std::string kCpu = "cpu (fake)", kCuda = "cuda (fake)";

/// A limit of 100 ms, which a fake of some us meets on any machine.
FitterWish patient(Backend backend) {
  return {.backend = backend,
          .estimator = config::Estimator::Auto,
          .gain_known = true,
          .frame_rate_hz = 1,
          .spots = {}};
}

/// No frame rate known: 200 us.
FitterWish demanding(Backend backend) {
  return {.backend = backend,
          .estimator = config::Estimator::Auto,
          .gain_known = true,
          .frame_rate_hz = 0,
          .spots = {}};
}

/// Poisson fits in the given times, least squares in 5 us; what is not 0 can be had.
auto estimators(int cpu_us, int cuda_us) {
  return [=](Estimator estimator) {
    if (estimator == Estimator::ImplicitLeastSquares) return makers(5, 5000);
    daemon::FitterMakers poisson = makers(cpu_us, cuda_us);
    if (cuda_us == 0)
      poisson.cuda = []() -> std::unique_ptr<fitter::LiveFitter> {
        throw fitter::FitterError("CUDA: no such estimator");
      };
    return poisson;
  };
}

}  // namespace

TEST_CASE("the limit is a tenth of the frame period, 200 us where that is not known",
          "[fitter_choice]") {
  CHECK(daemon::poisson_limit_us(1000) == Approx(100));
  CHECK(daemon::poisson_limit_us(50) == Approx(2000));
  CHECK(daemon::poisson_limit_us(0) == Approx(200));
}

TEST_CASE("auto takes the Poisson estimator where it is fast enough, and says so",
          "[fitter_choice]") {
  const auto chosen = choose_fitter(patient(Backend::Cpu), estimators(5, 5));
  CHECK(chosen.estimator == Estimator::PoissonLikelihood);
  CHECK(chosen.estimator_reason.find("p99 of 3 fits ") == 0);
  CHECK(chosen.estimator_reason.find(" us, within 100000 us") != std::string::npos);
  CHECK(chosen.fitter->description() == kCpu);
  CHECK(chosen.reason == "fitter.backend is `cpu`");
}

TEST_CASE("auto takes least squares where the Poisson estimator takes too long",
          "[fitter_choice]") {
  const auto chosen = choose_fitter(demanding(Backend::Cpu), estimators(kSlow_us, 5));
  CHECK(chosen.estimator == Estimator::ImplicitLeastSquares);
  CHECK(chosen.estimator_reason.find("poisson: p99 of 3 fits ") == 0);
  CHECK(chosen.estimator_reason.find(" us, above 200 us") != std::string::npos);
  CHECK(chosen.fitter->description() == kCpu);
}

TEST_CASE("auto takes least squares, untried, where the gain is not known", "[fitter_choice]") {
  FitterWish wish = patient(Backend::Cpu);
  wish.gain_known = false;
  const auto chosen = choose_fitter(wish, [](Estimator estimator) {
    REQUIRE(estimator == Estimator::ImplicitLeastSquares);
    return makers(5, 5);
  });
  CHECK(chosen.estimator == Estimator::ImplicitLeastSquares);
  CHECK(chosen.estimator_reason == "camera.gain_e_per_adu is not given");
}

TEST_CASE("an estimator asked for by name is taken, however long it takes", "[fitter_choice]") {
  FitterWish wish = demanding(Backend::Cpu);
  wish.estimator = config::Estimator::Poisson;
  const auto poisson = choose_fitter(wish, estimators(kSlow_us, 5));
  CHECK(poisson.estimator == Estimator::PoissonLikelihood);
  CHECK(poisson.estimator_reason == "fitter.estimator is `poisson`");
  wish.estimator = config::Estimator::LeastSquares;
  CHECK(choose_fitter(wish, estimators(5, 5)).estimator == Estimator::ImplicitLeastSquares);
  // By name on a back end by name that has none: nothing takes its place.
  wish = {.backend = Backend::Cuda,
          .estimator = config::Estimator::Poisson,
          .gain_known = true,
          .frame_rate_hz = 0,
          .spots = {}};
  CHECK_THROWS_AS(choose_fitter(wish, estimators(5, 0)), fitter::FitterError);
}

TEST_CASE("where CUDA has no Poisson estimator, auto and auto take the CPU's", "[fitter_choice]") {
  const auto chosen = choose_fitter(patient(Backend::Auto), estimators(5, 0));
  CHECK(chosen.estimator == Estimator::PoissonLikelihood);
  CHECK(chosen.fitter->description() == kCpu);
  CHECK(chosen.reason == "CUDA: no such estimator");
  const auto has_it = choose_fitter(patient(Backend::Auto), estimators(3000, 5));
  CHECK(has_it.estimator == Estimator::PoissonLikelihood);
  CHECK(has_it.fitter->description() == kCuda);
}

TEST_CASE("where CUDA is asked for and has no Poisson estimator, auto takes its least squares",
          "[fitter_choice]") {
  const auto chosen = choose_fitter(patient(Backend::Cuda), estimators(5, 0));
  CHECK(chosen.estimator == Estimator::ImplicitLeastSquares);
  CHECK(chosen.estimator_reason == "poisson: CUDA: no such estimator");
  CHECK(chosen.fitter->description() == kCuda);
  CHECK_THROWS_AS(choose_fitter(patient(Backend::Cuda), [](Estimator) { return without_cuda(); }),
                  fitter::FitterError);
}
