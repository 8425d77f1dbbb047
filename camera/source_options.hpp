// SPDX-License-Identifier: MIT
// What a source of frames can be told to do, where it is one of a few. Values; any thread.
#pragma once

#include <cstdint>

namespace driftd::camera {

enum class Trigger : std::uint8_t { Off, HardwareLine, Software };
/// Are packets that got lost asked for again?
enum class Resend : std::uint8_t { Always, Never };

enum class ReplayFormat : std::uint8_t { Tiff, Hdf5, RawU8, RawU16 };
enum class ReplayPace : std::uint8_t { Rate, Recorded, Fast };
enum class ReplayEnd : std::uint8_t { Stop, Loop };

}  // namespace driftd::camera
