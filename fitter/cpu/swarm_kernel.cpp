// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "fitter/choice.hpp"
#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/roi_sums.hpp"
#include "fitter/swarm_search.hpp"
#include "fitter/swarm_step.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {
namespace {

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
  /// Of a row, summed with their profile in registers; rows are padded to whole vectors.
  static constexpr int kColumns = hn::MaxLanes(D()) < 4 ? 1 : 4;
  static constexpr int lanes() { return static_cast<int>(hn::MaxLanes(d_)); }

  float* random(int number) { return w_.random[static_cast<std::size_t>(number)]; }

  /// Numbers for all particles.
  void draw(std::uint32_t iteration, int numbers) {
    for (int block = 0; 4 * block < numbers; ++block) {
      for (int i = 0; i < options_.particles; ++i) {
        const Philox r = swarm_numbers(options_.seed, roi_number_, static_cast<std::uint32_t>(i),
                                       iteration, static_cast<std::uint32_t>(block));
        for (int k = 0; k < 4; ++k) random(4 * block + k)[i] = uniform(r.v[k]);
      }
    }
  }

  void scatter() {
    draw(0, kDimensions);
    swarm_value_ = std::numeric_limits<float>::infinity();
    best_places_.count = 0;
    for (int i = 0; i < options_.particles; i += lanes()) {
      V at[kMaxDimensions];
      for (int j = 0; j < kDimensions; ++j) {
        const V extent = hn::Set(d_, domain_.highest[j] - domain_.lowest[j]);
        at[j] = hn::MulAdd(hn::Load(d_, random(j) + i), extent, hn::Set(d_, domain_.lowest[j]));
        hn::Store(at[j], d_, w_.position[j] + i);
        hn::Store(at[j], d_, w_.best[j] + i);
        hn::Store(hn::Zero(d_), d_, w_.velocity[j] + i);
      }
      hn::Store(value_at(at), d_, w_.best_value + i);
    }
    update_swarm_best();
  }

  void iterate(std::uint32_t iteration) {
    draw(iteration, 2 * kDimensions);
    for (int i = 0; i < options_.particles; i += lanes()) {
      V at[kMaxDimensions];
      for (int j = 0; j < kDimensions; ++j) at[j] = moved(i, j);
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
  V moved(int i, int j) {
    const V fastest = hn::Set(d_, options_.max_velocity * (domain_.highest[j] - domain_.lowest[j]));
    const V position = hn::Load(d_, w_.position[j] + i);
    const V own = hn::Sub(hn::Load(d_, w_.best[j] + i), position);
    const V swarm = hn::Sub(hn::Set(d_, swarm_best_[j]), position);
    const V v = next_velocity<Real>(options_, hn::Load(d_, w_.velocity[j] + i), own, swarm,
                                    hn::Load(d_, random(2 * j) + i),
                                    hn::Load(d_, random(2 * j + 1) + i), fastest)
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
    int best = -1;
    for (int i = 0; i < options_.particles; ++i) {
      if (w_.best_value[i] < swarm_value_) {
        swarm_value_ = w_.best_value[i];
        best = i;
      }
    }
    if (best < 0) return;
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
