// SPDX-License-Identifier: MIT
// What is believed of how one axis of the sample moves by itself: a random walk with a slowly
// changing velocity, lines (pumps, fans, resonances of the table), and the noise of a measurement.
// A plain value; any thread.
//
// The structure, and the pairs of states that stand for a line, are those of Meimon et al. 2010,
// J. Opt. Soc. Am. A 27:A122, and Petit et al. 2014, Opt. Express 22:11526.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace driftd::control {

constexpr std::size_t kMaxLines = 6;

/// What a line that the frames show is of.
enum class LineOrigin : std::uint8_t {
  Unknown,
  Own,    ///< the sample moves as the frames show it
  Alias,  ///< of a faster vibration; its frequency is that one's
};

/// A vibration: two states that turn by the frequency, fade, and are kicked at random.
struct Line {
  double frequency_hz = 0;
  double fade_per_s = 0;      ///< the amplitude falls by so much; pi times the line's width in Hz
  double kick_nm2_per_s = 0;  ///< variance that either state gains
  bool followed = true;       ///< by the stage; as decide_followed() had it
  LineOrigin origin = LineOrigin::Unknown;
};

struct DisturbanceModel {
  double walk_nm2_per_s = 1;  ///< variance that the random walk gains
  double noise_nm2 = 0.1;     ///< of a frame's measurement, the stage's own noise included
  std::array<Line, kMaxLines> lines{};
  std::size_t line_count = 0;
  bool tracks = false;  ///< frequencies follow what is seen
};

/// Of slower cameras sharp lines are noise.
constexpr double kLeastRateForLinesHz = 44;
/// Decides which of a model's lines the stage is to follow. A camera shows vibrations above half
/// its rate as slower ones, and nothing in its images tells which. What is broad, or takes longer
/// than 32 frames a period, is no line but walk: a few slow lines would explain any walk, and then
/// nothing would follow it. Each fit finds a line a little otherwise: near a bound it stays what it
/// was.
/// @param before  the model in use
void decide_followed(DisturbanceModel& model, const DisturbanceModel& before,
                     double period_s) noexcept;
/// The same of a camera whose lines are verified (line_verifier.hpp), of any rate from
/// kLeastRateForLinesHz on: a sharp line is followed once it is known to be the sample's own.
void decide_verified(DisturbanceModel& model, const DisturbanceModel& before,
                     double period_s) noexcept;
/// Whether it matters whether a line is an alias: it is sharp, and no faint one.
bool needs_verdict(const Line& line, const DisturbanceModel& model) noexcept;
bool follows_all(const DisturbanceModel& model) noexcept;

/// The velocity is a random walk, too: it gains so much variance, (nm/s)^2 per s, for each nm^2 per
/// s that the walk gains. Fitting this share made locks worse by 3 to 6 %.
constexpr double kVelocityShare = 0.04;

/// The same shape with all variances times `factor`: the steady filter stays what it is.
inline DisturbanceModel scaled(DisturbanceModel model, double factor) noexcept {
  model.walk_nm2_per_s *= factor;
  model.noise_nm2 *= factor;
  for (Line& line : model.lines) line.kick_nm2_per_s *= factor;
  return model;
}

}  // namespace driftd::control
