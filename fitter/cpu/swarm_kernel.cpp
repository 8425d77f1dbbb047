// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/roi_sums.hpp"
#include "fitter/dispatch.hpp"
#include "fitter/swarm_search.hpp"
#include "fitter/swarm_step.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR
/// Words of philox.hpp, one in each even lane: where a vector multiplies to 64 bits, whose halves
/// then lie where they are needed. What is in the odd lanes does not matter.
template <class D>
struct EvenWords {
  using Narrow = hn::RebindToUnsigned<D>;
  using Wide = hn::RepartitionToWide<Narrow>;
  hn::Vec<Narrow> v;

  EvenWords() = default;
  DRIFTD_HD EvenWords(hn::Vec<Narrow> of) : v(of) {}
  DRIFTD_HD EvenWords(std::uint32_t of_all) : v(hn::Set(Narrow(), of_all)) {}
  DRIFTD_HD friend EvenWords operator^(const EvenWords& a, const EvenWords& b) {
    return hn::Xor(a.v, b.v);
  }
  DRIFTD_HD friend WideProduct<EvenWords> wide_product(const EvenWords& a, std::uint32_t b) {
    const auto product = hn::BitCast(Narrow(), hn::MulEven(a.v, hn::Set(Narrow(), b)));
    return {hn::DupOdd(product), product};
  }
  /// The words of `odd` in the odd lanes.
  DRIFTD_HD friend hn::Vec<Narrow> interleaved(const EvenWords& even, const EvenWords& odd) {
    const auto moved = hn::ShiftLeft<32>(hn::BitCast(Wide(), odd.v));
    return hn::OddEven(hn::BitCast(Narrow(), moved), even.v);
  }
};
#endif

/// The canonical swarm of PSFIT's figures 1 and 2, one particle to a lane, over the shape of the
/// spot: amplitude and background are eliminated as in implicit_least_squares.hpp.
template <class Model>
class Swarm {
 public:
  Swarm(const SwarmJob& job, SwarmWorkspace& w) : job_(job), options_(*job.options), w_(w) {
    roi_.attach(w.roi, job.rois.roi_px, false);
  }

  SwarmReport search(std::size_t index) {
    load_roi(roi_, job_.rois, index);
    roi_number_ = job_.first + index;
    const FitJob& rois = job_.rois;
    domain_ = swarm_domain<Model>(rois.roi_px, rois.options->bounds,
                                  rois.bounds != nullptr ? rois.bounds + index : nullptr);
    if (!roi_.summary().usable || !domain_.valid()) return {{}, {}, NAN};
    scatter();
    for (int i = 1; i <= options_.iterations; ++i) iterate(static_cast<std::uint32_t>(i));
    return best_places_.report(swarm_best_, swarm_value_, options_.spread_of_last);
  }

 private:
  using D = hn::CappedTag<float, kMaxLanes>;
  using V = hn::Vec<D>;
  using Real = Lanes<D>;
  static constexpr D d_{};
  static constexpr int kDimensions = Model::kShape;
  /// Columns whose sums with their profile a row keeps in registers; rows are padded to whole
  /// vectors.
  static constexpr int kColumns = hn::MaxLanes(D()) < 4 ? 1 : 4;
  static constexpr int lanes() { return static_cast<int>(hn::MaxLanes(d_)); }

  /// The random numbers of a vector of particles from `first` on, a pair for each dimension.
  struct Random {
    UniformPair<V> of[kMaxDimensions];
  };
  Random random(std::uint32_t iteration, int first) const {
    const auto particle = static_cast<std::uint32_t>(first);
    Random numbers;
#if HWY_TARGET == HWY_SCALAR
    const Philox words = swarm_numbers(options_.seed, roi_number_, particle, iteration);
    for (int j = 0; j < kDimensions; ++j) {
      const UniformPair<float> pair = uniform_pair(words.v[j]);
      numbers.of[j] = {hn::Set(d_, pair.of_low), hn::Set(d_, pair.of_high)};
    }
#else
    using Words = EvenWords<D>;
    const hn::RebindToUnsigned<D> du;
    const PhiloxOf<Words> even =
        swarm_numbers<Words>(options_.seed, roi_number_, hn::Iota(du, particle), iteration);
    const PhiloxOf<Words> odd =
        swarm_numbers<Words>(options_.seed, roi_number_, hn::Iota(du, particle + 1), iteration);
    for (int j = 0; j < kDimensions; ++j) {
      const auto words = interleaved(even.v[j], odd.v[j]);
      numbers.of[j] = {uniform(hn::And(words, hn::Set(du, 0xFFFFu))),
                       uniform(hn::ShiftRight<16>(words))};
    }
#endif
    return numbers;
  }

#if HWY_TARGET != HWY_SCALAR
  /// As uniform_pair() makes them.
  static V uniform(hn::Vec<hn::RebindToUnsigned<D>> half) {
    const hn::RebindToSigned<D> di;
    return hn::MulAdd(hn::ConvertTo(d_, hn::BitCast(di, half)), hn::Set(d_, kUniformStep),
                      hn::Set(d_, 0.5f * kUniformStep));
  }
#endif

  void scatter() {
    swarm_value_ = std::numeric_limits<float>::infinity();
    best_places_.count = 0;
    for (int i = 0; i < options_.particles; i += lanes()) {
      const Random numbers = random(0, i);
      V at[kMaxDimensions];
      for (int j = 0; j < kDimensions; ++j) {
        const V extent = hn::Set(d_, domain_.highest[j] - domain_.lowest[j]);
        at[j] = hn::MulAdd(numbers.of[j].of_low, extent, hn::Set(d_, domain_.lowest[j]));
        hn::Store(at[j], d_, w_.position[j] + i);
        hn::Store(at[j], d_, w_.best[j] + i);
        hn::Store(hn::Zero(d_), d_, w_.velocity[j] + i);
      }
      hn::Store(value_at(at), d_, w_.best_value + i);
    }
    update_swarm_best();
  }

  void iterate(std::uint32_t iteration) {
    for (int i = 0; i < options_.particles; i += lanes()) {
      const Random numbers = random(iteration, i);
      V at[kMaxDimensions];
      for (int j = 0; j < kDimensions; ++j) at[j] = moved(i, j, numbers.of[j]);
      const V value = value_at(at);
      const V before = hn::Load(d_, w_.best_value + i);
      const auto better = hn::Lt(value, before);
      hn::Store(hn::IfThenElse(better, value, before), d_, w_.best_value + i);
      for (int j = 0; j < kDimensions; ++j) {
        const V best = hn::Load(d_, w_.best[j] + i);
        hn::Store(hn::IfThenElse(better, at[j], best), d_, w_.best[j] + i);
      }
    }
    update_swarm_best();
  }

  /// Dimension j of the particles from i on, a step further.
  V moved(int i, int j, const UniformPair<V>& random) {
    const V fastest = hn::Set(d_, options_.max_velocity * (domain_.highest[j] - domain_.lowest[j]));
    const V position = hn::Load(d_, w_.position[j] + i);
    const V own = hn::Sub(hn::Load(d_, w_.best[j] + i), position);
    const V swarm = hn::Sub(hn::Set(d_, swarm_best_[j]), position);
    const V v = next_velocity<Real>(options_, hn::Load(d_, w_.velocity[j] + i), own, swarm,
                                    random.of_low, random.of_high, fastest)
                    .v;
    const V to = hn::Min(hn::Max(hn::Add(position, v), hn::Set(d_, domain_.lowest[j])),
                         hn::Set(d_, domain_.highest[j]));
    hn::Store(v, d_, w_.velocity[j] + i);
    hn::Store(to, d_, w_.position[j] + i);
    return to;
  }

  /// Sums of the profile along one axis, and the profile itself.
  struct Axis {
    V sum, squares;
  };
  Axis profile(V centre, V sigma, V* values) const {
    constexpr float kLog2E = 1.44269504f;
    const V smallest = hn::Set(d_, -28.0f * kLog2E);  // as in RoiSums
    const V factor = hn::Div(hn::Set(d_, -0.5f * kLog2E), hn::Mul(sigma, sigma));
    Axis a = {hn::Zero(d_), hn::Zero(d_)};
    for (int i = 0; i < roi_.side(); ++i) {
      const V u = hn::Sub(hn::Set(d_, static_cast<float>(i)), centre);
      values[i] = exp2_of(Real(hn::Max(hn::Mul(hn::Mul(u, u), factor), smallest))).v;
      a.sum = hn::Add(a.sum, values[i]);
      a.squares = hn::MulAdd(values[i], values[i], a.squares);
    }
    return a;
  }

  V value_at(const V* at) const {
    V across[kMaxRoiPx], down[kMaxRoiPx];
    Vec<kDimensions, Real> place;
    for (int j = 0; j < kDimensions; ++j) place[j] = at[j];
    const ProfileOf<Real> p = Model::profile(place);
    const Axis x = profile(p.x_px.v, p.sigma_x_px.v, across);
    const Axis y = profile(p.y_px.v, p.sigma_y_px.v, down);
    for (int c = roi_.side(); c % kColumns != 0; ++c) across[c] = hn::Zero(d_);
    V fg = hn::Zero(d_);
    for (int first = 0; first < roi_.side(); first += kColumns) {
      V f[kColumns];  // in registers
      for (int c = 0; c < kColumns; ++c) f[c] = across[first + c];
      for (int row = 0; row < roi_.side(); ++row) {
        const float* const pixels = roi_.pixels_of(row) + first;
        V of_row = hn::Mul(f[0], hn::Set(d_, pixels[0]));
        for (int c = 1; c < kColumns; ++c)
          of_row = hn::MulAdd(f[c], hn::Set(d_, pixels[c]), of_row);
        fg = hn::MulAdd(of_row, down[row], fg);
      }
    }
    const float count = static_cast<float>(roi_.side() * roi_.side());
    return swarm_chi_square<Real>(roi_.summary(), count, hn::Mul(x.sum, y.sum),
                                  hn::Mul(x.squares, y.squares), fg)
        .v;
  }

  void update_swarm_best() {
    V least = hn::Load(d_, w_.best_value);
    for (int i = lanes(); i < options_.particles; i += lanes())
      least = hn::Min(least, hn::Load(d_, w_.best_value + i));
    const float value = hn::GetLane(hn::MinOfLanes(d_, least));
    if (!(value < swarm_value_)) return;
    swarm_value_ = value;
    int best = 0;
    while (w_.best_value[best] != value) ++best;
    for (int j = 0; j < kDimensions; ++j) swarm_best_[j] = w_.best[j][best];
    best_places_.add(swarm_best_, options_.spread_of_last);
  }

  const SwarmJob& job_;
  const SwarmOptions& options_;
  SwarmWorkspace& w_;
  RoiSums<D, 0> roi_;
  std::uint64_t roi_number_ = 0;
  SwarmDomain<Model> domain_ = {};
  float swarm_best_[kMaxDimensions] = {};
  float swarm_value_ = 0;
  BestPlaces<Model> best_places_ = {};
};

template <class Model>
void search_all(const SwarmJob& job, SwarmWorkspace& workspace) {
  Swarm<Model> swarm(job, workspace);
  for (std::size_t i = 0; i < job.rois.count; ++i) job.reports[i] = swarm.search(i);
}

}  // namespace

void search_swarms(const SwarmJob& job, SwarmWorkspace& workspace) {
  with_model(job.rois.options->model, [&]<class Model>() { search_all<Model>(job, workspace); });
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
