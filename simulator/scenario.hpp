// SPDX-License-Identifier: MIT
// A simulated world as plain structs: what the optics, the camera, the markers, the disturbance and
// the stage are like, and which faults happen when. Read from YAML by load_scenario(), or made by
// hand in tests; the defaults are a typical instrument that drifts not at all.
//
// Conventions: image axes are x right, y down, in nm of the sample plane, z along the optical axis,
// 0 where the sample is at the start; stage axes are the
// stage's own. `image_to_stage` is the matrix M of the daemon's configuration: a stage displacement
// s moves the image by M^-1 * s, so that the correction for a drift d is -M * d. Times are seconds
// from the start of the scenario.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/vec2.hpp"

namespace driftd::simulator {

using driftd::Vec2;

enum class SpotShape : std::uint8_t {
  Gaussian,
  Airy,        ///< a circular pupil's diffraction pattern: core, rings, defocus (airy_spot.hpp)
  WidthCurve,  ///< a Gaussian whose widths depend on its height (WidthCurveModel)
  Pupil,       ///< diffraction at high numerical aperture, by height (pupil_spot.hpp)
};

/// Widths of a spot by its height z, as behind a cylinder lens (Huang, Wang, Bates and Zhuang 2008,
/// Science 319:810, supporting text): sigma_x = s0 sqrt(1 + Z^2 + A Z^3 + B Z^4) with
/// Z = (z - c) / d; sigma_y with -c for c. Never below 0.3 px.
struct WidthCurveModel {
  double width_px = 1.1;  ///< s0
  double focus_nm = 220;  ///< c; 0: no cylinder lens
  double depth_nm = 350;  ///< d
  double a = 0, b = 0;
};
/// The widths at a height.
Vec2 widths_px(const WidthCurveModel& curve, double z_nm) noexcept;

/// A microscope's pupil; aberrations are rms.
struct PupilModel {
  double numerical_aperture = 1.4;
  double index = 1.518;  ///< of the medium
  double wavelength_nm = 800;
  double focus_nm = 0;     ///< height that is in focus
  double range_nm = 1500;  ///< off focus; beyond it a spot stays as it is there
  double astigmatism_waves = 0;
  double astigmatism_deg = 0;  ///< of its axis, from x towards y
  double coma_waves = 0;
  double coma_deg = 0;
  double spherical_waves = 0;
};

struct OpticsModel {
  double pixel_size_nm = 100;  ///< in the sample plane
  double sigma_px = 1.3;       ///< spot width; along x when astigmatic; of an Airy spot's core
  double sigma_y_px = 0;       ///< along y; 0: circular
  SpotShape shape = SpotShape::Gaussian;
  double defocus_waves = 0;  ///< of an Airy spot: wavefront error at the pupil's edge
  WidthCurveModel width_curve;
  PupilModel pupil;
  bool motion_blur = false;  ///< motion within the exposure widens the spots
};

/// Common to all light of the scene: markers and background.
struct IlluminationModel {
  double flicker_share = 0;  ///< rms, relative; first-order low-pass noise
  double flicker_bandwidth_hz = 20;
  double ripple_share = 0;  ///< amplitude, relative
  double ripple_hz = 100;   ///< of a supply on 50 Hz mains
};

/// Uneven background: blurred structure that moves with the sample and by itself besides.
struct BackgroundModel {
  double structure_share = 0;  ///< rms, relative to the camera's background_e
  double grain_px = 20;        ///< length over which it varies
  Vec2 speed_nm_per_s;         ///< against the sample
};

/// The spot of a laser beam that the cover glass reflects: it moves over the sensor with z alone.
struct ReflectionModel {
  double photons = 0;  ///< per frame in the camera's `exposure_us`; 0: there is none
  Vec2 place_px;       ///< at z = 0
  double px_per_um = 30;
  double direction_deg = 0;  ///< in which it moves while z grows, from x towards y
  double sigma_px = 2;
  double pointing_px_per_sqrt_s = 0;  ///< random walk of the laser's pointing
};

enum class FeatureNames : std::uint8_t {
  Standard,  ///< ExposureTime, AcquisitionFrameRate
  Legacy,    ///< ExposureTimeAbs, AcquisitionFrameRateAbs
};
enum class GainUnit : std::uint8_t {
  Db,      ///< Gain, 0 to 24 dB
  Factor,  ///< Gain, 1 to 16
  Raw,     ///< GainRaw, 32 to 512: 20 log10(raw / 32) dB
};
enum class RateGate : std::uint8_t {
  Enable,     ///< AcquisitionFrameRateEnable, on at power-on
  Mode,       ///< AcquisitionFrameRateMode Off or On, Off at power-on
  ModeBasic,  ///< AcquisitionFrameRateMode Off or Basic, Off at power-on
};

/// How the camera names, counts and lays out things, each as some real ones do (README.md).
struct CameraDialect {
  FeatureNames names = FeatureNames::Standard;
  GainUnit gain = GainUnit::Db;
  RateGate rate_gate = RateGate::Enable;
  bool left_aligned = false;             ///< Mono16 carries the levels in its upper bits
  std::int64_t tick_hz = 1'000'000'000;  ///< of the clock; 0: there is none, and no features of one
  bool counts_zero = false;              ///< frame ids go from 65535 to 0; otherwise to 1
  int line_padding_bytes = 0;            ///< behind each line of an image
};

/// What another program left set, with which the camera powers up.
struct LeftOver {
  int binning_x = 1, binning_y = 1;  ///< 1, 2 or 4 pixels summed
  bool reverse_x = false, reverse_y = false;
};

struct CameraModel {
  int width_px = 256;
  int height_px = 256;
  double rate_hz = 500;       ///< at power-on
  double exposure_us = 1000;  ///< at power-on; photons and background are given for it
  double background_e = 20;   ///< per pixel in `exposure_us`
  double offset_adu = 100;    ///< levels at full bit depth
  double gain_e_per_adu = 4;  ///< at 0 dB and full bit depth
  double read_noise_e = 3;    ///< rms
  double full_well_e = 16000;
  int bit_depth = 12;
  double offset_pattern_adu = 0.5;   ///< fixed pattern: rms of the offset from pixel to pixel
  double gain_pattern = 0.005;       ///< fixed pattern: relative rms of the conversion gain
  std::int64_t clock_offset_ns = 0;  ///< camera clock minus CLOCK_MONOTONIC, at the start
  double clock_rate = 1;             ///< of the camera's clock against real time; 0: stands still
  bool clock_absent = false;         ///< frames carry no time (0)
  double clock_jitter_us = 0;        ///< rms error of each frame's time
  double clock_step_us = 0;          ///< rms of the steps by which the clock is set
  double clock_step_every_s = 60;    ///< mean time between them, exponentially distributed
  double delivery_jitter_us = 0;     ///< mean time a made frame waits before it is sent
  int network_mtu_bytes = 65535;     ///< the cable loses larger packets
  int first_frame_id = 1;            ///< GVSP id of the first frame after power-on
  CameraDialect dialect;
  LeftOver left_over;
};

struct BlinkModel {
  double share = 0;  ///< of the markers that blink
  double on_s = 5;   ///< mean dwell times, exponentially distributed
  double off_s = 0.5;
};

struct MarkerModel {
  int count = 16;
  double photons = 30000;       ///< median, detected per frame in the camera's `exposure_us`
  double photons_spread = 0.3;  ///< standard deviation of ln(photons)
  double min_distance_px = 25;
  double border_px = 20;
  std::vector<Vec2> positions_px;  ///< when given: these, instead of `count` random ones
  BlinkModel blink;
  double bleach_tau_s = 0;                 ///< brightness decays as exp(-t / tau); 0: never
  double bleach_spread = 0;                ///< standard deviation of ln(tau) between markers
  double height_spread_nm = 0;             ///< standard deviation of the markers' heights
  std::vector<double> heights_nm;          ///< when given: these, one a marker
  double tilt_x_nm_per_um = 0;             ///< of the sample: height along x ...
  double tilt_y_nm_per_um = 0;             ///< ... and along y, about the sensor's centre
  double wander_nm_per_sqrt_s = 40;        ///< random walk of a marker that came off
  double intruder_photons = 300000;        ///< a bright particle that passes through the field
  double intruder_speed_nm_per_s = 20000;  ///< along x
};

struct Sine {
  double amplitude_nm = 0;  ///< peak
  double frequency_hz = 0;
  double phase_deg = 0;
  double drift_share_per_s = 0;  ///< the frequency grows so fast, and falls again, by turns of ...
  double drift_turn_s = 10;      ///< ... so long
  double modulation_share = 0;   ///< of the amplitude, which swells and shrinks ...
  double modulation_hz = 0.1;    ///< ... so often
  double from_s = 0, until_s = 1e7;  ///< it is there
};

/// Vibration of no single frequency: a resonance driven by white noise.
struct BroadbandModel {
  double rms_nm = 0;
  double frequency_hz = 12;
  double damping = 0.3;
};

struct AxisDisturbance {
  double linear_nm_per_s = 0;
  double random_walk_nm_per_sqrt_s = 0;
  double settling_nm = 0;  ///< approached as settling_nm * (1 - exp(-t / tau))
  double settling_tau_s = 60;
  double step_nm = 0;
  double step_at_s = 0;
  double step_seconds = 0;  ///< that the step takes, slowly at both ends
  std::vector<Sine> sines;
  BroadbandModel broadband;
};

/// Motion of the field about the sensor's centre.
struct FieldMotion {
  double rotation_urad_per_s = 0;  ///< from x towards y
  double scale_ppm_per_s = 0;      ///< growing
};

struct StageModel {
  std::array<std::array<double, 2>, 2> image_to_stage = {{{1, 0}, {0, 1}}};
  std::array<int, 2> axis_sign = {1, 1};     ///< -1: the axis is wired the wrong way round
  std::array<double, 2> axis_gain = {1, 1};  ///< it moves so many times as far as it is told
  std::array<double, 2> coupling = {0, 0};   ///< what x moves of y's motion, and y of x's
  double turn_deg = 0;                       ///< it moves in a direction turned from x towards y
  double slew_nm_per_s = 0;                  ///< fastest motion of an axis; 0: no limit
  double hysteresis_share = 0;        ///< of a motion that lags after a reversal (actuator.hpp)
  double hysteresis_reach_nm = 1000;  ///< after a motion of twice this all of it follows
  double creep_share_per_decade = 0;  ///< of a motion that comes later, per decade of time
  double delay_jitter_ms = 0;         ///< mean of what adds to delay_ms, exponentially distributed
  double frequency_hz = 150;          ///< second-order response
  double damping = 0.7;
  double second_mode_share = 0;  ///< of a motion that follows by a resonance of its own
  double second_mode_hz = 400;
  double second_mode_damping = 0.05;
  double delay_ms = 2.5;  ///< from the command's arrival to the start of the motion
  double noise_nm = 0.2;  ///< rms per axis, first-order low-pass noise
  double noise_bandwidth_hz = 200;
  double quantisation_nm = 0.05;
  double range_nm = 100000;  ///< largest |position| per axis
  bool stuck = false;        ///< never obeys
};

/// What moves the focus: an actuator as those of x and y are, with dynamics of its own. The first
/// of its `actuator`'s axes counts; what has two axes in there (matrix, coupling, turn) does not.
struct FocusStageModel {
  StageModel actuator;
  double coupling = 1;  ///< nm of the sample for 1 nm of it; -1: an objective or a nosepiece
  double tilt_x_nm_per_um = 0;  ///< image motion along x while it moves, and along y
  double tilt_y_nm_per_um = 0;
};

enum class FaultKind : std::uint8_t {
  Vanish,         ///< cable out for `seconds`, then powered up anew
  DropFrames,     ///< a `share` of frames is never sent
  CorruptFrames,  ///< a `share` of frames lacks a packet that no resend brings back
  LosePackets,    ///< a `share` of packets is lost once; a resend brings them
  HideMarkers,    ///< no light from the markers
  StageStuck,     ///< commands to the stage are ignored
  StageDead,      ///< the same for ever
  StageReversed,  ///< from now on the stage moves the wrong way
  StageGain,      ///< from now on it moves `factor` times as far
  StageTurned,    ///< from now on it moves in a direction turned by `degrees`, x towards y
  ClockStep,      ///< the camera's clock is set ahead by `shift_s`
  ClockJump,      ///< the next frame's time is wrong by `shift_s`
  ClockRate,      ///< from now on the clock runs `factor` times as fast as real time
  ClockAbsent,    ///< frames carry no time
  Step,           ///< the sample jumps by (x_nm, y_nm, z_nm)
  DetachMarker,   ///< marker `index` comes off and wanders
  WalkMarker,     ///< marker `index` moves on by (x_nm, y_nm, z_nm), steadily over `seconds`
  Intruder,       ///< a bright particle passes marker `index`
  Light,          ///< from now on the markers are `factor` times as bright
  Background,     ///< from now on the background is
  HideReflection  ///< the reflected spot is dark
};
/// The axes of the stage that a fault of it meets.
enum class FaultAxes : std::uint8_t { Lateral, Axial };
const char* name_of(FaultKind kind) noexcept;

struct Fault {
  FaultKind kind = FaultKind::Vanish;
  double at_s = 0;  ///< on the time line; a commanded fault happens at once
  double seconds = 1;
  double share = 0.1;
  double x_nm = 0, y_nm = 0;
  int index = 0;
  double factor = 1;
  double degrees = 0;
  double shift_s = 0;
  double z_nm = 0;
  FaultAxes axes = FaultAxes::Lateral;  ///< of the stage's faults
};

struct Scenario {
  std::uint64_t seed = 1;
  OpticsModel optics;
  IlluminationModel illumination;
  BackgroundModel background;
  ReflectionModel reflection;
  CameraModel camera;
  MarkerModel markers;
  AxisDisturbance disturbance_x;
  AxisDisturbance disturbance_y;
  AxisDisturbance disturbance_z;
  FieldMotion field;
  StageModel stage;
  std::optional<FocusStageModel> focus_stage;  ///< none: nothing moves z back
  std::vector<Fault> faults;
  std::string stage_endpoint;  ///< the daemon's wire.corrections; empty: nobody moves the stage
};

/// A mistake in a scenario. what() has one line a mistake: "FILE:LINE:COLUMN: key: found X; ...".
struct ScenarioError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads and checks a scenario; what the file leaves out keeps its default. A section `bench` is
/// not the simulator's and is passed over. @throws ScenarioError
Scenario load_scenario(const std::filesystem::path& file);
/// The same from text; `name` stands for the file in messages.
Scenario load_scenario_text(const std::string& text, const std::string& name);

/// A fault as the control socket and the time line name it ("vanish", "drop_frames", ...).
/// @return false when there is none of that name
bool fault_from_name(const std::string& name, FaultKind& kind) noexcept;

}  // namespace driftd::simulator
