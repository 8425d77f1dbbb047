// SPDX-License-Identifier: MIT
// How the file spells the values of enumerations; nothing else in driftd compares their names.
// Constant; any thread.
#pragma once

#include <array>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/config.hpp"

namespace driftd::config {

template <typename Enum>
struct Named {
  std::string_view name;
  Enum value;
};

/// Every value of an enumeration once, in the order in which the reference lists them.
template <typename Enum>
constexpr auto kNames = std::array<Named<Enum>, 0>{};

template <>
inline constexpr auto kNames<Source> = std::to_array<Named<Source>>({
    {"aravis", Source::Aravis},
    {"replay", Source::Replay},
});
template <>
inline constexpr auto kNames<camera::PixelFormat> = std::to_array<Named<camera::PixelFormat>>({
    {"Mono8", camera::PixelFormat::Mono8},
    {"Mono10", camera::PixelFormat::Mono10},
    {"Mono10Packed", camera::PixelFormat::Mono10Packed},
    {"Mono10p", camera::PixelFormat::Mono10p},
    {"Mono12", camera::PixelFormat::Mono12},
    {"Mono12Packed", camera::PixelFormat::Mono12Packed},
    {"Mono12p", camera::PixelFormat::Mono12p},
    {"Mono16", camera::PixelFormat::Mono16},
});
template <>
inline constexpr auto kNames<camera::Trigger> = std::to_array<Named<camera::Trigger>>({
    {"off", camera::Trigger::Off},
    {"hardware", camera::Trigger::HardwareLine},
    {"software", camera::Trigger::Software},
});
template <>
inline constexpr auto kNames<camera::Resend> = std::to_array<Named<camera::Resend>>({
    {"always", camera::Resend::Always},
    {"never", camera::Resend::Never},
});
template <>
inline constexpr auto kNames<camera::ReplayFormat> = std::to_array<Named<camera::ReplayFormat>>({
    {"tiff", camera::ReplayFormat::Tiff},
    {"hdf5", camera::ReplayFormat::Hdf5},
    {"raw_u8", camera::ReplayFormat::RawU8},
    {"raw_u16", camera::ReplayFormat::RawU16},
});
template <>
inline constexpr auto kNames<camera::ReplayPace> = std::to_array<Named<camera::ReplayPace>>({
    {"rate", camera::ReplayPace::Rate},
    {"recorded", camera::ReplayPace::Recorded},
    {"fast", camera::ReplayPace::Fast},
});
template <>
inline constexpr auto kNames<camera::ReplayEnd> = std::to_array<Named<camera::ReplayEnd>>({
    {"stop", camera::ReplayEnd::Stop},
    {"loop", camera::ReplayEnd::Loop},
});
template <>
inline constexpr auto kNames<Backend> = std::to_array<Named<Backend>>({
    {"auto", Backend::Auto},
    {"cpu", Backend::Cpu},
    {"cuda", Backend::Cuda},
});
template <>
inline constexpr auto kNames<Estimator> = std::to_array<Named<Estimator>>({
    {"auto", Estimator::Auto},
    {"least_squares", Estimator::LeastSquares},
    {"poisson", Estimator::Poisson},
});
template <>
inline constexpr auto kNames<fitter::CudaMode> = std::to_array<Named<fitter::CudaMode>>({
    {"launch", fitter::CudaMode::Launch},
    {"graph", fitter::CudaMode::Graph},
    {"resident", fitter::CudaMode::Resident},
});
template <>
inline constexpr auto kNames<MarkerMode> = std::to_array<Named<MarkerMode>>({
    {"auto", MarkerMode::Auto},
    {"list", MarkerMode::List},
});
template <>
inline constexpr auto kNames<control::MarkerRole> = std::to_array<Named<control::MarkerRole>>({
    {"tracking", control::MarkerRole::Tracking},
    {"witness", control::MarkerRole::Witness},
});
template <>
inline constexpr auto kNames<RealTimeMode> = std::to_array<Named<RealTimeMode>>({
    {"require", RealTimeMode::Require},
    {"prefer", RealTimeMode::Prefer},
    {"off", RealTimeMode::Off},
});
template <>
inline constexpr auto kNames<Resume> = std::to_array<Named<Resume>>({
    {"ask", Resume::Ask},
    {"always", Resume::Always},
    {"never", Resume::Never},
});
template <>
inline constexpr auto kNames<LogLevel> = std::to_array<Named<LogLevel>>({
    {"debug", LogLevel::Debug},
    {"info", LogLevel::Info},
    {"warning", LogLevel::Warning},
    {"error", LogLevel::Error},
});
template <>
inline constexpr auto kNames<control::AxialMethod> = std::to_array<Named<control::AxialMethod>>({
    {"none", control::AxialMethod::None},
    {"astigmatic", control::AxialMethod::Astigmatic},
    {"defocus", control::AxialMethod::Defocus},
    {"reflection", control::AxialMethod::Reflection},
});
template <>
inline constexpr auto kNames<control::AcquaintWhen> = std::to_array<Named<control::AcquaintWhen>>({
    {"first", control::AcquaintWhen::First},
    {"held", control::AcquaintWhen::Held},
    {"never", control::AcquaintWhen::Never},
});
template <>
inline constexpr auto kNames<control::ControlLaw> = std::to_array<Named<control::ControlLaw>>({
    {"auto", control::ControlLaw::Auto},
    {"observer", control::ControlLaw::Observer},
    {"pi", control::ControlLaw::Pi},
});
template <>
inline constexpr auto kNames<RawFramesAt> = std::to_array<Named<RawFramesAt>>({
    {"command", RawFramesAt::Command},
    {"lost", RawFramesAt::Lost},
    {"holding", RawFramesAt::Holding},
});
template <>
inline constexpr auto kNames<EventLevel> = std::to_array<Named<EventLevel>>({
    {"info", EventLevel::Info},
    {"warning", EventLevel::Warning},
    {"error", EventLevel::Error},
});

/// An enumeration that the file knows.
template <typename Enum>
concept HasNames = std::is_enum_v<Enum> && !kNames<Enum>.empty();

template <HasNames Enum>
std::vector<std::string_view> names_of() {
  std::vector<std::string_view> names;
  names.reserve(kNames<Enum>.size());
  for (const auto& known : kNames<Enum>) names.push_back(known.name);
  return names;
}

template <HasNames Enum>
constexpr std::string_view text_of(Enum value) {
  for (const auto& known : kNames<Enum>) {
    if (known.value == value) return known.name;
  }
  throw std::logic_error("a value of a configuration that has no name");
}

/// Empty when no value has that name.
template <HasNames Enum>
constexpr std::optional<Enum> value_named(std::string_view name) {
  for (const auto& known : kNames<Enum>) {
    if (known.name == name) return known.value;
  }
  return std::nullopt;
}

}  // namespace driftd::config
