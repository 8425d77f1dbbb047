// SPDX-License-Identifier: MIT
#include "tools/driftfit/calibrate_z.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/counted.hpp"
#include "base/process/option_range.hpp"
#include "base/replaceable.hpp"
#include "control/axial/calibration/axial_calibration.hpp"
#include "control/axial/calibration/curve_picture.hpp"
#include "control/axial/calibration/dimmer_curves.hpp"
#include "control/axial/curve_file.hpp"
#include "control/axial/picasso_curve.hpp"
#include "tools/driftfit/dimmer_beads.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/few_digits.hpp"
#include "tools/driftfit/output_file.hpp"
#include "tools/driftfit/stack_input.hpp"

namespace driftd::tools {
namespace {

using control::AxialCalibration;
using control::AxialMethod;
using control::BeadReading;
using control::CalibrationError;
using control::CalibrationSettings;
using control::CurvesByBrightness;
using control::PlanesUsed;

/// A ROI for spots out of focus, over that of spots in focus.
constexpr double kDefocusedRoi = 1.4;

AxialMethod method_of(const CalibrateZOptions& options) {
  return options.method == "defocus" ? AxialMethod::Defocus : AxialMethod::Astigmatic;
}

std::vector<std::int64_t> frames_of(const CalibrateZOptions& options,
                                    const camera::StackShape& shape) {
  const std::int64_t first = options.stack.first_frame;
  const std::int64_t last =
      options.stack.last_frame < 0 ? shape.frames - 1 : options.stack.last_frame;
  if (first > last || last >= shape.frames)
    throw UsageError(fmt::format("frames {} to {} are asked for; {} has 0 to {}", first, last,
                                 options.stack.stack.path.string(), shape.frames - 1));
  std::vector<std::int64_t> frames;
  for (std::int64_t frame = first; frame <= last; ++frame) frames.push_back(frame);
  return frames;
}

ZStackSettings settings_for(const CalibrateZOptions& options, std::vector<std::int64_t> frames) {
  const Options& o = options.stack;
  ZStackSettings settings{.detection = o.detection,
                          .find = o.fitter,
                          .fit = o.fitter,
                          .roi_px = o.roi_px,
                          .picks = {},
                          .frames = std::move(frames)};
  settings.detection.roi_px = o.roi_px;
  settings.detection.max_residual_ratio = 1e6;  // no spot of an astigmatic lens is a Gaussian
  settings.find.options.model = fitter::Model::CircularGaussian;
  settings.find.options.estimator = fitter::Estimator::ImplicitLeastSquares;
  fitter::FitOptions& fit = settings.fit.options;
  if (method_of(options) == AxialMethod::Astigmatic) {
    fit.model = fitter::Model::EllipticalGaussian;
    fit.estimator = fitter::Estimator::PoissonLikelihood;
  } else {
    fit.model = fitter::Model::CircularGaussian;
    fit.estimator = fitter::Estimator::ImplicitLeastSquares;
  }
  if (!o.picks.empty())
    settings.picks =
        read_picks(o.picks, o.pixel_told ? std::optional(o.pixel_nm) : std::nullopt, nullptr);
  return settings;
}

std::string table_of(const AxialCalibration& c, const ZStackBeads& beads,
                     const CalibrationSettings& settings) {
  std::string text =
      "frame,bead,x_px,y_px,sigma_x_px,sigma_y_px,photons,dimness,stack_z_nm,height_nm,z_nm,z_read_"
      "nm,"
      "z_sd_nm,held_out\n";
  for (const BeadReading& r : c.readings) {
    const BeadFit& fit = beads.at(r.plane, r.bead);
    const auto place = std::find(c.beads.begin(), c.beads.end(), r.bead) - c.beads.begin();
    text += fmt::format("{},{},{:.4f},{:.4f},{:.5f},{:.5f},{:.1f},{:.7f},{:.3f},{:.3f},{:.3f},",
                        beads.frames[r.plane], r.bead, fit.x_px, fit.y_px, fit.sigma_x_px,
                        fit.sigma_y_px, fit.photons, fit.dimness, settings.z_nm[r.plane],
                        c.heights_nm[static_cast<std::size_t>(place)], r.z_nm);
    text += r.reading.measured ? fmt::format("{:.3f},{:.3f},", r.reading.z_nm, r.reading.sd_nm)
                               : std::string(",,");
    text += r.held_out ? "1\n" : "0\n";
  }
  return text;
}

std::string summary_of(const AxialCalibration& c, const ZStackBeads& beads,
                       const CalibrateZOptions& options) {
  const control::WidthCurve& curve = c.curve;
  const bool astigmatic = curve.method() == AxialMethod::Astigmatic;
  double heights = 0;
  for (const double h : c.heights_nm) heights += h * h / static_cast<double>(c.heights_nm.size());
  std::string text =
      fmt::format("{} of {} used, found in frame {}, and frames {} to {} of the stack; ROI {} px\n",
                  counted(c.beads.size(), "bead"), beads.beads, beads.found_in,
                  beads.frames[c.planes.front()], beads.frames[c.planes.back()], beads.roi_px);
  if (c.beads_left_out > 0)
    text +=
        fmt::format("{} left out: widths of another slope\n", counted(c.beads_left_out, "bead"));
  text +=
      astigmatic
          ? fmt::format("crossing: sigma {:.3f} px, {:.1f} nm along the stack, the curve's zero\n",
                        curve.sigma_x_px(0), c.zero_nm)
          : fmt::format("focus: sigma {:.3f} px, {:.1f} nm along the stack, the curve's zero\n",
                        curve.sigma_x_px(0), c.zero_nm);
  text += fmt::format("z is read from {:.0f} to {:.0f} nm{}\n", curve.lower_nm(), curve.upper_nm(),
                      astigmatic ? "" : fmt::format("; lock at {:.0f} nm", curve.crossing_nm()));
  text += fmt::format(
      "standard deviation of one bead in one frame there: {:.1f} nm at {:.0f} {}, "
      "{:.2f} times what the fit tells\n",
      c.predicted_sd_nm, c.photons,
      options.stack.fitter.options.noise.gain_e_per_adu > 0 ? "photons" : "counts",
      curve.scatter_factor());
  text += fmt::format("heights of the beads: {:.0f} nm rms, tilt {:.1f} nm/um\n",
                      std::sqrt(heights), c.tilt_nm_per_um);
  if (c.held_out)
    text += fmt::format(
        "even steps by the curve of the odd ones: {:.1f} nm rms, at most {:.1f} nm "
        "off, of {}\n",
        c.held_out->rms_nm(), c.held_out->worst_nm(), counted(c.held_out->planes.size(), "plane"));
  for (const std::string& warning : c.warnings) text += "warning: " + warning + "\n";
  return text;
}

/// Likelihood's widths depend on light; without a gain nobody knows how much of it there is.
CurvesByBrightness with_dimmer_curves(camera::ImageStack& stack, const SpotFitterSettings& fit,
                                      const AxialCalibration& made, const ZStackBeads& beads,
                                      const CalibrationSettings& calibration,
                                      const std::function<bool()>& stop) {
  if (calibration.method != AxialMethod::Astigmatic || !(fit.options.noise.gain_e_per_adu > 0))
    return {made.curve, {}};
  const std::vector<double> levels = dimmer_levels(made, beads);
  return curves_by_brightness(made, beads, dimmer_beads(stack, fit, beads, levels, stop),
                              calibration);
}

std::string summary_of(const CurvesByBrightness& curves, const AxialCalibration& made) {
  if (curves.dimmer.empty()) return "";
  const double z_nm = made.curve.crossing_nm();
  return fmt::format(
      "{} of dimmer markers, down to {:.0f} photons on this background\n",
      counted(curves.dimmer.size(), "curve"),
      made.photons * curves.curve.dimness(z_nm) / curves.dimmer.back().dimness(z_nm));
}

/// All files of a run, written when all of them can be.
class Files {
 public:
  Files(const CalibrateZOptions& options, std::vector<std::filesystem::path> inputs)
      : options_(options), inputs_(std::move(inputs)) {}

  void add(const std::filesystem::path& path, std::string text) {
    if (path.empty()) return;
    std::error_code error;
    if (const std::string why = why_not_replaced(path, inputs_); !why.empty())
      throw OutputError(path, why);
    for (const auto& file : files_)
      if (is_same_place(file->path(), path))
        throw UsageError(path.string() + " is named for two results");
    if (!options_.overwrite && std::filesystem::exists(path, error))
      throw OutputError(path, "exists already; --overwrite replaces it");
    files_.push_back(std::make_unique<OutputFile>(path));
    TextFile file(*files_.back());
    file.write(text);
    file.finish();
  }
  std::string keep() {
    keep_all(files_, nullptr);
    std::string names;
    for (const auto& file : files_) names += (names.empty() ? "" : ", ") + file->path().string();
    return names;
  }

 private:
  const CalibrateZOptions& options_;
  std::vector<std::filesystem::path> inputs_;
  std::vector<std::unique_ptr<OutputFile>> files_;
};

}  // namespace

void add_calibrate_z_options(CLI::App& app, CalibrateZOptions& o) {
  o.stack.detection.max_count = 64;
  add_stack_options(app, o.stack, o.texts);
  const char* group = "Calibration";
  app.add_option(
         "--step-nm", o.step_nm,
         "How far the sample goes up from one plane to the next, nm; below 0: down, as when "
         "an objective goes up")
      ->required()
      ->check(in_range(-10000, 10000, "FLOAT"))
      ->group(group);
  app.add_option("--frames-per-step", o.frames_per_step, "Frames that were taken at each z")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str()
      ->group(group);
  app.add_option("--method", o.method,
                 "astigmatic (a cylinder lens: elliptical fits by likelihood) or defocus (none: "
                 "circular fits by least squares)")
      ->check(CLI::IsMember({"astigmatic", "defocus"}))
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--planes", o.planes,
         "Make the curve of all steps, or of those with odd or even numbers, from 0, alone: "
         "--table then says how the others are read")
      ->check(CLI::IsMember({"all", "odd", "even"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--picks", o.stack.picks, "The beads of the first plane (default: found)")
      ->group(group);
  app.add_option("--roi", o.stack.roi_px,
                 "Side of the ROIs, px, as fitter.roi_px of the lock (default: by the spots)")
      ->check(CLI::Range(fitter::kMinRoiPx, fitter::kMaxRoiPx))
      ->group(group);
  app.add_option("--spot-sigma", o.stack.detection.expected_sigma_px,
                 "Of the spots where they are round, px (default: found)")
      ->check(in_range(0.3, 20, "POSITIVE"))
      ->group(group);
  app.add_option("--max-beads", o.stack.detection.max_count, "Use at most so many")
      ->check(CLI::Range(1, 256))
      ->group(group);
  app.add_option("--min-snr", o.stack.detection.min_snr, "Fainter spots are no beads")
      ->check(in_range(1, 1e6, "FLOAT"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--pixel-nm", o.stack.pixel_nm, "Side of a pixel in the sample, nm")
      ->check(in_range(1, 10000, "FLOAT"))
      ->required()
      ->group(group);
  fitter::FitOptions& fit = o.stack.fitter.options;
  app.add_option("--gain", fit.noise.gain_e_per_adu,
                 "Electrons per count, as camera.gain_e_per_adu")
      ->check(in_range(1e-6, 1e6, "POSITIVE"))
      ->group(group);
  app.add_option("--offset", fit.noise.offset_adu, "The camera's dark level, counts")
      ->check(in_range(-1e9, 1e9, "FLOAT"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--read-noise", fit.noise.read_noise_e, "Electrons rms")
      ->check(in_range(0, 1e6, "NONNEGATIVE"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--saturation", fit.saturation_adu, "A bead with a pixel at or above has no width")
      ->check(in_range(1e-6, 1e9, "POSITIVE"))
      ->group(group);
  app.add_option("-o,--output", o.curve, "CURVE.yaml: the curve; its picture is CURVE.svg")
      ->group(group);
  app.add_option("--picasso", o.picasso, "The curve as Picasso's calibration (YAML)")->group(group);
  app.add_option("--table", o.table, "CSV of all beads in all planes: widths, z, z read")
      ->group(group);
  app.add_flag("--overwrite", o.overwrite, "Replace files that are there already")->group(group);
  app.add_flag("-q,--quiet", o.quiet, "No summary")->group(group);
}

std::string calibrate_z(CalibrateZOptions options, const std::function<bool()>& stop) {
  resolve_stack(options.stack, options.texts);
  options.stack.pixel_told = true;
  if (options.step_nm == 0)
    throw UsageError("--step-nm is 0; allowed are steps up (above 0) and down (below)");
  if (options.curve.empty() && options.picasso.empty() && options.table.empty())
    throw UsageError("no result is asked for: --output CURVE.yaml, --picasso or --table");
  if (!options.curve.empty() && options.curve.extension() == ".svg")
    throw UsageError("--output names the curve's YAML file; its .svg is written beside it");
  if (!options.picasso.empty() && method_of(options) != AxialMethod::Astigmatic)
    throw UsageError("--picasso is for --method astigmatic: Picasso knows no other curve");
  if (!(options.stack.fitter.options.noise.gain_e_per_adu > 0) &&
      options.stack.fitter.options.noise.read_noise_e > 0)
    throw UsageError("--read-noise is in electrons: --gain says how many a count is");
  const std::unique_ptr<camera::ImageStack> stack = open_input(options.stack.stack);
  const std::vector<std::int64_t> frames = frames_of(options, stack->shape());
  ZStackSettings settings = settings_for(options, frames);
  if (method_of(options) == AxialMethod::Defocus) settings.roi_scale = kDefocusedRoi;
  const ZStackBeads beads = beads_of(*stack, settings, stop);
  CalibrationSettings calibration{.method = method_of(options),
                                  .z_nm = {},
                                  .step = {},
                                  .planes = options.planes == "odd"    ? PlanesUsed::Odd
                                            : options.planes == "even" ? PlanesUsed::Even
                                                                       : PlanesUsed::All,
                                  .pixel_nm = options.stack.pixel_nm,
                                  .step_nm = options.step_nm};
  for (const std::int64_t frame : frames) {
    calibration.step.push_back(static_cast<std::size_t>(frame / options.frames_per_step));
    calibration.z_nm.push_back(options.step_nm * static_cast<double>(calibration.step.back()));
  }
  try {
    const AxialCalibration made = calibrate_axial(beads, calibration);
    const CurvesByBrightness curves =
        with_dimmer_curves(*stack, settings.fit, made, beads, calibration, stop);
    const std::string name = options.stack.stack.path.filename().string();
    const control::CurveFile file{
        .curve = curves.curve,
        .fits =
            control::CurveFits{
                .model = settings.fit.options.model,
                .estimator = settings.fit.options.estimator,
                .integrated = false,
                .roi_px = beads.roi_px,
                .pixel_size_nm = options.stack.pixel_nm,
                .gain_e_per_adu = settings.fit.options.noise.gain_e_per_adu > 0
                                      ? in_few_digits(settings.fit.options.noise.gain_e_per_adu)
                                      : 0.0},
        .notes = {.source = fmt::format("{}, frames {} to {}, {:g} nm a step", name,
                                        beads.frames[made.planes.front()],
                                        beads.frames[made.planes.back()], options.step_nm),
                  .photons = made.photons,
                  .predicted_sd_nm = made.predicted_sd_nm},
        .dimmer = curves.dimmer};
    std::string text = summary_of(made, beads, options) + summary_of(curves, made);
    Files files(options, stack->facts().files.empty() ? std::vector{options.stack.stack.path}
                                                      : stack->facts().files);
    files.add(options.curve, control::curve_text(file));
    if (!options.curve.empty())
      files.add(std::filesystem::path(options.curve).replace_extension(".svg"),
                curve_picture(made, beads, name));
    if (!options.picasso.empty()) {
      const auto picasso = control::picasso_curve_of(made.curve, false, options.step_nm);
      text += fmt::format("Picasso's polynomials are at most {:.1f} nm off the curve\n",
                          control::error_nm(picasso, made.curve, false));
      files.add(options.picasso, control::picasso_text(picasso));
    }
    files.add(options.table, table_of(made, beads, calibration));
    return text + "written: " + files.keep() + "\n";
  } catch (const CalibrationError& error) {
    if (beads.saturated == 0) throw InputError(options.stack.stack.path, error.what());
    throw InputError(
        options.stack.stack.path,
        fmt::format("{} of {} reach --saturation and tell no width, less light or a shorter "
                    "exposure helps; of the others: {}",
                    beads.saturated,
                    counted(beads.beads * beads.planes, "image of beads", "images of beads"),
                    error.what()));
  }
}

}  // namespace driftd::tools
