// SPDX-License-Identifier: MIT
// What the user of driftfit can set, and the command line that sets it. `driftfit --help` shows it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "camera/recording/image_stack.hpp"
#include "control/axial/curve_file.hpp"
#include "control/search/marker_detection.hpp"
#include "tools/driftfit/camera_maps.hpp"
#include "tools/driftfit/shard.hpp"
#include "tools/driftfit/spot_fitter.hpp"

namespace CLI {
class App;
}

namespace driftd::tools {

struct Outputs {
  std::filesystem::path thunderstorm, picasso, drift, drift_csv;  ///< empty: not wanted
  bool overwrite = false;
};

struct Options {
  camera::StackSettings stack;
  std::int64_t first_frame = 0;
  std::int64_t last_frame = -1;  ///< inclusive; -1: the last there is
  Shard shard;                   ///< in place of these two
  std::string merged;            ///< OUT, which the shards' results are merged to

  std::filesystem::path picks;
  bool find_markers = false;
  bool every_spot = false;
  /// --help says what of it can be set. Nothing is set aside as a witness.
  control::DetectionSettings detection{.roi_px = 0,  // 0, here and for sigma: found in the image
                                       .max_count = 16,
                                       .expected_sigma_px = 0,
                                       .min_snr = 10,
                                       .min_sigma_px = 0.6,
                                       .max_sigma_px = 16,
                                       .min_distance_px = 0,
                                       .border_px = 4,
                                       .saturation_adu = 0,
                                       .max_residual_ratio = 3,
                                       .witness_fraction = 0,
                                       .min_for_witness = 6};
  double min_net_gradient = 0;  ///< 0: by the frame's own noise

  int roi_px = 0;  ///< 0: chosen from the image
  CameraMapFiles maps;
  SpotFitterSettings fitter;
  /// As given; maps make that of the fitter infinite.
  float recorded_saturation_adu = std::numeric_limits<float>::infinity();
  std::string instruction_set = "auto";  ///< of the CPU: fitter/instruction_sets.hpp

  std::filesystem::path axial_curve;                ///< empty: no z
  std::shared_ptr<const control::CurveFile> curve;  ///< what it holds

  double pixel_nm = 100;
  bool pixel_told = false;            ///< by the user
  std::int64_t reference_frame = -1;  ///< -1: the first that has a drift
  int min_markers = 3;                ///< for a drift; all, where fewer are followed
  double min_drift_share = 0.5;       ///< of the frames; with fewer nothing is written
  double warn_drift_share = 0.95;     ///< with fewer there is a warning
  Outputs outputs;
  bool show_progress = false;
  bool quiet = false;
};

/// Strings as the user typed them, until resolve() has looked them up.
struct OptionTexts {
  std::vector<std::filesystem::path> stack;
  std::string type, byte_order, model = "circular", estimator = "implicit", back_end = "auto";
  std::string cold_start = "peak";
  std::string prefix, shard;
};

/// As on the command line: "implicit", "circular".
std::string estimator_name(fitter::Estimator estimator);
std::string model_name(fitter::Model model);

/// Binds those that say which frames of which recording; and looks up what they named.
void add_stack_options(CLI::App& app, Options& options, OptionTexts& texts);
void resolve_stack(Options& options, const OptionTexts& texts);

/// Binds all options; both structs must outlive `app`.
void add_options(CLI::App& app, Options& options, OptionTexts& texts);

/// Looks the names up, fills in defaults and checks what single options cannot show: that those
/// given agree, and that each has an effect.
/// @throws UsageError
void resolve(const CLI::App& app, Options& options, const OptionTexts& texts);

}  // namespace driftd::tools
