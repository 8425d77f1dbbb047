// SPDX-License-Identifier: MIT
// The simulated camera's memory: Aravis' ArvFakeCamera holds the bootstrap registers and our
// GenICam description; this class adds what a camera's firmware does with them: power-on values,
// what may be written, ranges, and the settings an acquisition runs with. Thread-safe: the control
// thread writes, the stream thread reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "simulator/gvcp.hpp"
#include "simulator/scenario.hpp"
#include "simulator/sensor_settings.hpp"

namespace driftd::simulator {

struct CameraIdentity {
  std::string address = "127.0.0.1";  ///< dotted IPv4 of 127.0.0.0/8
  std::string serial = "SIM01";       ///< 1 to 15 characters
};

enum class TriggerSource : std::uint8_t { Free, Software, Line };

/// All the stream thread needs of the registers, taken at once.
struct Acquisition {
  bool running = false;
  std::uint32_t changes = 0;  ///< how often it was started and stopped, but for its own ends
  bool single_frame = false;
  TriggerSource trigger = TriggerSource::Free;
  SensorSettings sensor;
  std::uint32_t pixel_format = 0;  ///< PFNC code of sensor.format
  std::int64_t period_ns = 0;      ///< never shorter than the exposure
  std::uint32_t host_address = 0;  ///< host byte order
  std::uint16_t host_port = 0;
  std::size_t packet_size_bytes = 0;  ///< with IP and UDP headers
  int line_padding_bytes = 0;
  bool line1_high = false;  ///< the output
};

class DeviceRegisters {
 public:
  /// @throws std::invalid_argument for an address or a serial number that cannot be
  DeviceRegisters(const CameraIdentity& identity, const CameraModel& model);
  ~DeviceRegisters();
  DeviceRegisters(const DeviceRegisters&) = delete;
  DeviceRegisters& operator=(const DeviceRegisters&) = delete;

  /// Everything as when the power comes on: nobody in control, not streaming.
  void power_on();
  void set_stream_source_port(std::uint16_t port);

  gvcp::Status read(std::uint32_t address, std::span<std::uint8_t> out) const;
  /// Writes as a client in control may; refused values leave the register as it was.
  gvcp::Status write(std::uint32_t address, std::span<const std::uint8_t> data);

  std::uint32_t get(std::uint32_t address) const;
  /// Sets a register as the firmware itself does, without checks.
  void set(std::uint32_t address, std::uint32_t value);
  Acquisition acquisition() const;
  void stop_acquisition();
  /// The acquisition ends by itself, unless it was started or stopped since `acquisition`.
  void end_acquisition(const Acquisition& acquisition);

 private:
  struct Memory;
  std::uint32_t word(std::uint32_t address) const;
  double get_double(std::uint32_t address) const;
  void set_double(std::uint32_t address, double value);
  bool streaming_locks(std::uint32_t address) const;
  gvcp::Status check_word(std::uint32_t address, std::uint32_t value) const;
  gvcp::Status write_double(std::uint32_t address, std::span<const std::uint8_t> data);
  void load_power_on_values();
  /// Makes the region fit the binning, as cameras do by themselves.
  void fit_region_to_binning();
  double gain_db() const;

  mutable std::mutex mutex_;  ///< guards memory_ and changes_
  std::uint32_t changes_ = 0;
  std::unique_ptr<Memory> memory_;
  CameraIdentity identity_;
  CameraModel model_;
  std::uint16_t stream_source_port_ = 0;
};

/// Registers of the camera's own features, as the GenICam description names them.
namespace feature {
constexpr std::uint32_t kSensorWidth = 0xa000;
constexpr std::uint32_t kSensorHeight = 0xa004;
constexpr std::uint32_t kWidth = 0xa008;
constexpr std::uint32_t kHeight = 0xa00c;
constexpr std::uint32_t kOffsetX = 0xa010;
constexpr std::uint32_t kOffsetY = 0xa014;
constexpr std::uint32_t kPixelFormat = 0xa018;
constexpr std::uint32_t kAcquisitionMode = 0xa01c;
constexpr std::uint32_t kAcquisition = 0xa020;
constexpr std::uint32_t kTriggerMode = 0xa024;
constexpr std::uint32_t kTriggerSource = 0xa028;
constexpr std::uint32_t kTriggerActivation = 0xa02c;
constexpr std::uint32_t kTriggerSoftware = 0xa030;
constexpr std::uint32_t kExposureAuto = 0xa034;
constexpr std::uint32_t kGainAuto = 0xa038;
constexpr std::uint32_t kGammaEnable = 0xa03c;
constexpr std::uint32_t kSharpnessEnable = 0xa040;
constexpr std::uint32_t kDefectCorrectStaticEnable = 0xa044;
constexpr std::uint32_t kFrameRateEnable = 0xa048;
constexpr std::uint32_t kGainRaw = 0xa04c;
constexpr std::uint32_t kExposureTime = 0xa050;  ///< 8-byte floating point from here on
constexpr std::uint32_t kGain = 0xa058;          ///< dB or a factor, as the dialect says
constexpr std::uint32_t kFrameRate = 0xa060;
constexpr std::uint32_t kGamma = 0xa068;
constexpr std::uint32_t kDoublesEnd = 0xa070;
constexpr std::uint32_t kBinningX = 0xa070;
constexpr std::uint32_t kBinningY = 0xa074;
constexpr std::uint32_t kReverseX = 0xa078;
constexpr std::uint32_t kReverseY = 0xa07c;
constexpr std::uint32_t kLineSelector = 0xa080;  ///< 0: Line0, an input for ever; 1: Line1
constexpr std::uint32_t kLineMode = 0xa084;      ///< of Line1, as all below; 1: an output
constexpr std::uint32_t kLineSource = 0xa088;
constexpr std::uint32_t kLineInverter = 0xa08c;
constexpr std::uint32_t kUserOutputValue = 0xa090;
}  // namespace feature

/// Steps in which the region may be set, as many sensors have them.
constexpr std::uint32_t kWidthStep = 4;
constexpr std::uint32_t kHeightStep = 2;
constexpr double kMaxRateHz = 10000;
constexpr double kMaxGainDb = 24;
constexpr double kMaxGainFactor = 16;
constexpr std::uint32_t kUnitGainRaw = 32;  ///< 0 dB; twice as much: 6 dB
constexpr std::uint32_t kMaxGainRaw = 512;
constexpr std::uint32_t kMinPacketBytes = 576;
constexpr std::uint32_t kMaxPacketBytes = 9000;

}  // namespace driftd::simulator
