// SPDX-License-Identifier: MIT
// Rows of the option table: from pixels to the drift.
#include "config/options.hpp"

namespace driftd::config {
namespace {

std::vector<Option> fitter_options() {
  return {
      row<&Config::fitter, &Fitter::backend>(
          "fitter.backend", Backend::Auto,
          {.text = "`cuda`: an NVIDIA GPU. `cpu`: the vector units of the processor. `auto`: times "
                   "both at start, on `roi_px` and the number of markers, and takes the one whose "
                   "99th percentile is lower; the log and `driftctl status` say which and why."}),
      row<&Config::fitter, &Fitter::estimator>(
          "fitter.estimator", Estimator::Auto,
          {.text =
               "`least_squares`: the fastest. `poisson`: maximum likelihood of the photons, the "
               "most precise there is, above all for bright markers on a dark background (by a "
               "quarter); it takes about twice the time and needs camera.gain_e_per_adu, "
               "offset_adu and read_noise_e. `auto`: `poisson` where camera.gain_e_per_adu is "
               "given and the 99th percentile of a frame's fits, timed at start with every marker "
               "there can be, is at most a tenth of the frame period (200 us where "
               "camera.frame_rate_hz is 0); otherwise `least_squares`. The log and `driftctl "
               "status` say which and why."}),
      row<&Config::fitter, &Fitter::roi_px>(
          "fitter.roi_px", 0,
          {.text = "Side of the square window around each marker. Good: about ten times the "
                   "spot's sigma, and no second spot in it; at least four times. `auto`: chosen "
                   "from the first image as optics.spot_sigma_px is: ten sigma, less where "
                   "neighbours are nearer. With `markers.mode: list`: ten times "
                   "optics.spot_sigma_px, or 13.",
           .unit = "px",
           .min = 4,
           .max = 64,
           .or_auto = true}),
  };
}

std::vector<Option> cuda_options() {
  return {
      row<&Config::cuda, &Cuda::mode>(
          "fitter.cuda.mode", fitter::CudaMode::Graph,
          {.text = "`launch`: one kernel launch a frame. `graph`: the same as a CUDA graph, a "
                   "microsecond or two quicker. `resident`: a kernel that stays on the GPU and "
                   "waits for frames; the quickest, but it keeps multiprocessors busy and is not "
                   "for a GPU that drives a display."}),
      row<&Config::cuda, &Cuda::device>(
          "fitter.cuda.device", 0,
          {.text = "Number of the GPU, as `nvidia-smi` counts them.", .min = 0, .max = 63}),
      row<&Config::cuda, &Cuda::deadline_us>(
          "fitter.cuda.deadline_us", 5000,
          {.text = "A frame whose fits take longer counts as a failure of the GPU: this frame and "
                   "all later ones are fitted by the processor, and an event says so.",
           .unit = "us",
           .min = 100,
           .max = 1'000'000}),
  };
}

std::vector<Option> selection_options() {
  return {
      row<&Config::markers, &Markers::mode>(
          "markers.mode", MarkerMode::Auto,
          {.text = "`auto`: found in the image by the criteria below. `list`: markers.list."}),
      row<&Config::markers, &Markers::list>(
          "markers.list", std::vector<ListedMarker>{},
          {.text = "The markers for `mode: list`, one entry each; see the table of its keys."}),
      row<&Config::markers, &Markers::max_count>(
          "markers.max_count", 16,
          {.text = "Mode auto keeps the best so many, witnesses included. A saved place, or a lock "
                   "that was interrupted, keeps all that it has.",
           .min = 1,
           .max = control::kMaxMarkers}),
      row<&Config::markers, &Markers::min_snr>(
          "markers.min_snr", 10,
          {.text = "Smallest signal-to-noise ratio: fitted amplitude over the noise of the local "
                   "background.",
           .min = 1,
           .max = 10'000,
           .reload = Reload::Live}),
      row<&Config::markers, &Markers::max_sigma_px>(
          "markers.max_sigma_px", 16,
          {.text = "A wider spot is out of focus or a clump.",
           .unit = "px",
           .min = 0.1,
           .max = 32,
           .reload = Reload::Live}),
      row<&Config::markers, &Markers::min_distance_px>(
          "markers.min_distance_px", 0,
          {.text = "Smallest distance to the next spot. 0: fitter.roi_px, so that no other spot "
                   "lies in the window.",
           .unit = "px",
           .min = 0,
           .max = 1000,
           .reload = Reload::Live}),
      row<&Config::markers, &Markers::border_px>(
          "markers.border_px", 4,
          {.text = "Clearance between a marker's window and the border of the region: room to "
                   "drift.",
           .unit = "px",
           .min = 0,
           .max = 1000,
           .reload = Reload::Live}),
      row<&Config::markers, &Markers::witness_fraction>(
          "markers.witness_fraction", 0.2,
          {.text = "Share of the markers found that is set aside as witnesses: measured, but not "
                   "used for the correction.",
           .min = 0,
           .max = 0.5,
           .reload = Reload::Live}),
      row<&Config::markers, &Markers::min_for_witness>(
          "markers.min_for_witness", 6,
          {.text = "With fewer markers than this none is set aside.",
           .min = 2,
           .max = 256,
           .reload = Reload::Live}),
      row<&Config::markers, &Markers::rotate_witness_s>(
          "markers.rotate_witness_s", 600,
          {.text =
               "While locked, so often one witness and one tracking marker, both of good "
               "reputation, exchange their roles, so that each is checked in its turn. Their "
               "weights fade over 30 s; references stay. 0: never. Roles of markers.list stay as "
               "listed.",
           .unit = "s",
           .min = 0,
           .max = 86'400,
           .reload = Reload::Live}),
      row<&Config::markers, &Markers::find_again_after_ms>(
          "markers.find_again_after_ms", 500,
          {.text = "When for so long, and for two frames, no frame had drift.min_markers markers "
                   "in their windows, they are looked for in the whole frame, and the windows "
                   "follow them; what the lock makes of the displacement is decided as ever "
                   "(lock.max_jump_nm). 0: never.",
           .unit = "ms",
           .min = 0,
           .max = 3'600'000,
           .reload = Reload::Live}),
  };
}

std::vector<Option> drift_options() {
  return {
      row<&Config::drift, &Drift::average_frames>(
          "drift.average_frames", 1,
          {.text = "The drift is the mean over so many frames. More lowers the noise and delays "
                   "the correction.",
           .min = 1,
           .max = 1000}),
      row<&Config::drift, &Drift::min_markers>(
          "drift.min_markers", 3,
          {.text = "Fewer healthy tracking markers in a frame give no drift; the lock then holds. "
                   "From three on, a single bad one shows.",
           .min = 1,
           .max = 256}),
      row<&Config::drift, &Drift::outlier_sigma>(
          "drift.outlier_sigma", 4,
          {.text = "A marker further from the others' consensus than this many standard deviations "
                   "is left out of the frame.",
           .min = 1,
           .max = 100}),
      row<&Config::drift, &Drift::outlier_floor_nm>(
          "drift.outlier_floor_nm", 3,
          {.text = "No marker nearer to the consensus than this is left out, however small its "
                   "uncertainty.",
           .unit = "nm",
           .min = 0,
           .max = 1000}),
      row<&Config::drift, &Drift::max_width_change>(
          "drift.max_width_change", 0.5,
          {.text = "A marker is left out when its sigma differs from the reference's by more than "
                   "this share: out of focus, or joined by another spot.",
           .min = 0,
           .max = 10,
           .above_min = true}),
      row<&Config::drift, &Drift::max_brightness_change>(
          "drift.max_brightness_change", 0.8,
          {.text = "A marker is left out when its amplitude differs from its own slow average by "
                   "more than this share.",
           .min = 0,
           .max = 10,
           .above_min = true}),
  };
}

std::vector<Option> axial_options() {
  return {
      row<&Config::axial, &Axial::method>(
          "axial.method", control::AxialMethod::None,
          {.text = "`astigmatic`: a cylinder lens before the camera makes markers wider along x "
                   "above the focus and along y below it; z is read from both widths, fitted by "
                   "likelihood. `defocus`: no lens, and the markers some 500 nm out of focus, to "
                   "one side; z is read from the one width, fitted by least squares. "
                   "`reflection`: z is read from the place of a spot, axial.reflection. `none`: z "
                   "is not measured."}),
      row<&Config::axial, &Axial::curve>(
          "axial.curve", "",
          {.text = "With `astigmatic` and `defocus`: the file that tells how wide a marker is at "
                   "which z, relative to the folder of the configuration file. `driftctl "
                   "calibrate z` makes it by the stage of z, `driftfit calibrate-z` from a stack; "
                   "Picasso's calibration is read, too. Empty: z is not calibrated yet. It "
                   "belongs to its fits: `fitter.roi_px` `auto` takes the curve's.",
           .reload = Reload::Idle}),
      row<&Config::axial, &Axial::hold>(
          "axial.hold", false,
          {.text = "`true`: a `lock` that names no axes holds z, too, by a lock of its own, and "
                   "`lock.at_start` likewise; it takes a stage that moves along z. `false`: z is "
                   "measured, and held only by `lock` with the axes `z` or `xyz`.",
           .reload = Reload::Live}),
      row<&Config::axial, &Axial::step_limit_nm>(
          "axial.step_limit_nm", 10,
          {.text = "Of the correction of z: as control.step_limit_nm.",
           .unit = "nm",
           .min = 0,
           .max = 10'000,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::axial, &Axial::rate_limit_nm_per_s>(
          "axial.rate_limit_nm_per_s", 1000,
          {.text = "Of the correction of z: as control.rate_limit_nm_per_s.",
           .unit = "nm/s",
           .min = 0,
           .max = 1'000'000,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::axial, &Axial::range_limit_nm>(
          "axial.range_limit_nm", 2000,
          {.text = "Largest correction of z from the stage's place where its lock engaged. Beyond "
                   "the curve there is no z to hold: its range less 150 nm is enough.",
           .unit = "nm",
           .min = 0,
           .max = 1'000'000,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::axial, &Axial::travel_limit_nm>(
          "axial.travel_limit_nm", 2000,
          {.text = "Of the stage of z: as control.travel_limit_nm.",
           .unit = "nm",
           .min = 0,
           .max = 1'000'000,
           .above_min = true,
           .reload = Reload::Live}),
      row<&Config::axial, &Axial::max_jump_nm>("axial.max_jump_nm", 150,
                                               {.text = "Of z: as lock.max_jump_nm.",
                                                .unit = "nm",
                                                .min = 0,
                                                .max = 100'000,
                                                .above_min = true,
                                                .reload = Reload::Live}),
      row<&Config::axial, &Axial::max_drift_nm_per_s>("axial.max_drift_nm_per_s", 20,
                                                      {.text = "Of z: as lock.max_drift_nm_per_s.",
                                                       .unit = "nm/s",
                                                       .min = 0,
                                                       .max = 100'000,
                                                       .reload = Reload::Live}),
  };
}

std::vector<Option> axial_stage_options() {
  return {
      row<&Config::axial_stage, &AxialStage::gain>(
          "axial.stage.gain", 1,
          {.text = "nm that the stage of z is told for 1 nm of the sample, up. Below 0: it counts "
                   "the other way, as an objective does, whose way up is the sample's down. With a "
                   "wrong sign the lock of z holds (`stage_not_following`).",
           .min = -10,
           .max = 10,
           .reload = Reload::Idle}),
      row<&Config::axial_stage, &AxialStage::delay_us>("axial.stage.delay_us", 3000,
                                                       {.text = "As stage.delay_us.",
                                                        .unit = "us",
                                                        .min = 0,
                                                        .max = 1'000'000,
                                                        .reload = Reload::Idle}),
      row<&Config::axial_stage, &AxialStage::time_constant_us>(
          "axial.stage.time_constant_us", 1000,
          {.text = "As stage.time_constant_us.",
           .unit = "us",
           .min = 0,
           .max = 1'000'000,
           .reload = Reload::Idle}),
      row<&Config::axial_stage, &AxialStage::resonance_hz>("axial.stage.resonance_hz", 0,
                                                           {.text = "As stage.resonance_hz.",
                                                            .unit = "Hz",
                                                            .min = 0,
                                                            .max = 10'000,
                                                            .reload = Reload::Idle}),
      row<&Config::axial_stage, &AxialStage::damping>(
          "axial.stage.damping", 0.7,
          {.text = "As stage.damping.", .min = 0.01, .max = 100, .reload = Reload::Idle}),
  };
}

std::vector<Option> reflection_options() {
  return {
      row<&Config::reflection, &Reflection::x_px>(
          "axial.reflection.x_px", 0,
          {.text = "Column of the middle of the region that the spot moves in, on the full sensor; "
                   "the first pixel's centre is 0. No markers are looked for there.",
           .unit = "px",
           .min = 0,
           .max = 65535}),
      row<&Config::reflection, &Reflection::y_px>(
          "axial.reflection.y_px", 0, {.text = "Its row.", .unit = "px", .min = 0, .max = 65535}),
      row<&Config::reflection, &Reflection::roi_px>(
          "axial.reflection.roi_px", 48,
          {.text = "Side of the region: the spot's way, and twice its sigma more on each side. "
                   "Nothing else may be there that is a third as bright at its top, such as a "
                   "marker: the spot is then `dark`.",
           .unit = "px",
           .min = 8,
           .max = 64}),
      row<&Config::reflection, &Reflection::nm_per_px>(
          "axial.reflection.nm_per_px", 0,
          {.text = "How far the sample moves up for each pixel that the spot moves along "
                   "angle_deg. Below 0: the spot moves the other way; 0: not known yet, and "
                   "`driftctl calibrate z` measures it.",
           .unit = "nm/px",
           .min = -10'000,
           .max = 10'000,
           .reload = Reload::Idle}),
      row<&Config::reflection, &Reflection::angle_deg>(
          "axial.reflection.angle_deg", 0,
          {.text = "The way that the spot moves, from x towards y.",
           .unit = "deg",
           .min = -180,
           .max = 180,
           .reload = Reload::Idle}),
  };
}

}  // namespace

std::vector<Option> tracking_options() {
  return joined({fitter_options(), cuda_options(), selection_options(), drift_options(),
                 axial_options(), axial_stage_options(), reflection_options()});
}

}  // namespace driftd::config
