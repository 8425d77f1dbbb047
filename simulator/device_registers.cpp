// SPDX-License-Identifier: MIT
#include "simulator/device_registers.hpp"

#include <arpa/inet.h>
#include <arv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "simulator/device_description.hpp"

namespace driftd::simulator {
namespace {

using gvcp::Status;
namespace reg = gvcp::reg;

constexpr std::uint32_t kMemoryBytes = ARV_FAKE_CAMERA_MEMORY_SIZE;
constexpr std::uint32_t kLoopbackNet = 127;
/// Off, UserOutput1, ExposureActive.
constexpr std::uint32_t kLineSources = 2, kUserOutput1 = 1;

/// PFNC codes of the formats (GenICam Pixel Format Naming Convention; Mono*Packed: GigE Vision).
constexpr std::array<std::pair<std::uint32_t, camera::PixelFormat>, 8> kFormats = {{
    {0x01080001, camera::PixelFormat::Mono8},
    {0x01100003, camera::PixelFormat::Mono10},
    {0x010c0004, camera::PixelFormat::Mono10Packed},
    {0x010a0046, camera::PixelFormat::Mono10p},
    {0x01100005, camera::PixelFormat::Mono12},
    {0x010c0006, camera::PixelFormat::Mono12Packed},
    {0x010c0047, camera::PixelFormat::Mono12p},
    {0x01100007, camera::PixelFormat::Mono16},
}};

std::optional<camera::PixelFormat> format_of(std::uint32_t code) {
  for (const auto& [known, format] : kFormats) {
    if (known == code) return format;
  }
  return std::nullopt;
}

/// The description as a file that Aravis can be pointed at, without a place on disk.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& text)
      : descriptor_(memfd_create("genicam.xml", MFD_CLOEXEC)) {
    if (descriptor_ < 0 ||
        ::write(descriptor_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      if (descriptor_ >= 0) close(descriptor_);
      throw std::runtime_error("no memory for the camera description");
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

bool within(double value, double low, double high) {
  return value >= low && value <= high;
}

}  // namespace

/// Owns the ArvFakeCamera, which is nothing but registers and description here.
struct DeviceRegisters::Memory {
  Memory(const std::string& serial, const CameraDialect& dialect) {
    const MemoryFile description(describe(dialect));
    camera = arv_fake_camera_new_full(serial.c_str(), description.path().c_str());
    std::size_t size = 0;
    arv_fake_camera_get_genicam_xml(camera, &size);
    description_bytes = static_cast<std::uint32_t>(size);
  }
  ~Memory() { g_object_unref(camera); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  ArvFakeCamera* camera = nullptr;
  std::uint32_t description_bytes = 0;
};

DeviceRegisters::DeviceRegisters(const CameraIdentity& identity, const CameraModel& model)
    : identity_(identity), model_(model) {
  in_addr address{};
  if (inet_pton(AF_INET, identity.address.c_str(), &address) != 1 ||
      ntohl(address.s_addr) >> 24 != kLoopbackNet) {
    throw std::invalid_argument("address: found '" + identity.address +
                                "'; allowed is one of 127.0.0.0/8");
  }
  if (identity.serial.empty() || identity.serial.size() > 15) {
    throw std::invalid_argument("serial: found '" + identity.serial +
                                "'; allowed are 1 to 15 characters");
  }
  power_on();
}

DeviceRegisters::~DeviceRegisters() = default;

void DeviceRegisters::power_on() {
  const std::lock_guard lock(mutex_);
  memory_ = std::make_unique<Memory>(identity_.serial, model_.dialect);
  load_power_on_values();
}

void DeviceRegisters::load_power_on_values() {
  const auto put = [this](std::uint32_t address, std::uint32_t value) {
    arv_fake_camera_write_register(memory_->camera, address, value);
  };
  const auto put_text = [this](std::uint32_t address, std::string text, std::size_t size) {
    text.resize(size);
    arv_fake_camera_write_memory(memory_->camera, address, static_cast<guint32>(size), text.data());
  };
  in_addr address{};
  inet_pton(AF_INET, identity_.address.c_str(), &address);
  const std::uint32_t ip = ntohl(address.s_addr);
  put(reg::kVersion, 0x00010002);
  put(reg::kDeviceMode, 0x80000001);  // big-endian, UTF-8
  put(reg::kMacHigh, 0x0200);         // locally administered, then the IP address
  put(reg::kMacLow, ip);
  put(reg::kIpConfigSupported, 1);
  put(reg::kIpConfigCurrent, 1);
  put(reg::kIpAddress, ip);
  put(reg::kSubnetMask, 0xff000000);
  put_text(reg::kManufacturer, "driftd", 32);
  put_text(reg::kModel, "driftd-sim", 32);
  put_text(reg::kDeviceVersion, "1", 32);
  put_text(reg::kManufacturerInfo, "simulated camera", 48);
  put(reg::kCapability, gvcp::kCapabilityWriteMemory | gvcp::kCapabilityPacketResend |
                            gvcp::kCapabilitySerialNumber | gvcp::kCapabilityUserName);
  put(reg::kStreamPacketSize, 1400);
  put(reg::kStreamSourcePort, stream_source_port_);
  put(feature::kSensorWidth, static_cast<std::uint32_t>(model_.width_px));
  put(feature::kSensorHeight, static_cast<std::uint32_t>(model_.height_px));
  put(feature::kWidth, static_cast<std::uint32_t>(model_.width_px));
  put(feature::kHeight, static_cast<std::uint32_t>(model_.height_px));
  put(feature::kPixelFormat, kFormats[0].first);
  put(feature::kAcquisitionMode, 1);
  put(feature::kFrameRateEnable, model_.dialect.rate_gate == RateGate::Enable ? 1 : 0);
  // As delivered, a camera does what looks nice; a measuring client has to switch it off.
  put(feature::kExposureAuto, 2);
  put(feature::kGainAuto, 2);
  put(feature::kGammaEnable, 1);
  put(feature::kSharpnessEnable, 1);
  put(feature::kDefectCorrectStaticEnable, 1);
  set_double(feature::kExposureTime, model_.exposure_us);
  set_double(feature::kGain, model_.dialect.gain == GainUnit::Factor ? 1 : 0);
  put(feature::kGainRaw, kUnitGainRaw);
  put(feature::kBinningX, static_cast<std::uint32_t>(model_.left_over.binning_x));
  put(feature::kBinningY, static_cast<std::uint32_t>(model_.left_over.binning_y));
  put(feature::kReverseX, model_.left_over.reverse_x ? 1 : 0);
  put(feature::kReverseY, model_.left_over.reverse_y ? 1 : 0);
  put(feature::kLineInverter, 1);  // left so by others
  const auto tick_hz = static_cast<std::uint64_t>(model_.dialect.tick_hz);
  put(reg::kTickFrequencyHigh, static_cast<std::uint32_t>(tick_hz >> 32));
  put(reg::kTickFrequencyLow, static_cast<std::uint32_t>(tick_hz & 0xffffffffU));
  fit_region_to_binning();
  set_double(feature::kFrameRate, model_.rate_hz);
  set_double(feature::kGamma, 1);
}

void DeviceRegisters::fit_region_to_binning() {
  const auto fit = [this](std::uint32_t size_at, std::uint32_t offset_at, std::uint32_t sensor_at,
                          std::uint32_t binning_at, std::uint32_t step) {
    const std::uint32_t room = word(sensor_at) / word(binning_at);
    const std::uint32_t size = std::min(word(size_at), room / step * step);
    const std::uint32_t offset = std::min(word(offset_at), (room - size) / step * step);
    arv_fake_camera_write_register(memory_->camera, size_at, size);
    arv_fake_camera_write_register(memory_->camera, offset_at, offset);
  };
  fit(feature::kWidth, feature::kOffsetX, feature::kSensorWidth, feature::kBinningX, kWidthStep);
  fit(feature::kHeight, feature::kOffsetY, feature::kSensorHeight, feature::kBinningY, kHeightStep);
}

std::uint32_t DeviceRegisters::word(std::uint32_t address) const {
  guint32 value = 0;
  arv_fake_camera_read_register(memory_->camera, address, &value);
  return value;
}

void DeviceRegisters::set_stream_source_port(std::uint16_t port) {
  stream_source_port_ = port;
  set(reg::kStreamSourcePort, port);
}

std::uint32_t DeviceRegisters::get(std::uint32_t address) const {
  const std::lock_guard lock(mutex_);
  return word(address);
}

void DeviceRegisters::set(std::uint32_t address, std::uint32_t value) {
  const std::lock_guard lock(mutex_);
  arv_fake_camera_write_register(memory_->camera, address, value);
}

double DeviceRegisters::get_double(std::uint32_t address) const {
  guint32 high = 0;
  guint32 low = 0;
  arv_fake_camera_read_register(memory_->camera, address, &high);
  arv_fake_camera_read_register(memory_->camera, address + 4, &low);
  return std::bit_cast<double>((static_cast<std::uint64_t>(high) << 32) | low);
}

void DeviceRegisters::set_double(std::uint32_t address, double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  arv_fake_camera_write_register(memory_->camera, address, static_cast<guint32>(bits >> 32));
  arv_fake_camera_write_register(memory_->camera, address + 4,
                                 static_cast<guint32>(bits & 0xffffffffU));
}

Status DeviceRegisters::read(std::uint32_t address, std::span<std::uint8_t> out) const {
  const std::lock_guard lock(mutex_);
  // A client may round the last block of the description up.
  const std::uint64_t end = std::uint64_t{kMemoryBytes} + memory_->description_bytes;
  if (out.empty() || address >= end || address + out.size() > end + out.size() - 1) {
    return Status::InvalidAddress;
  }
  std::fill(out.begin(), out.end(), std::uint8_t{0});
  const auto size = static_cast<guint32>(std::min<std::uint64_t>(out.size(), end - address));
  arv_fake_camera_read_memory(memory_->camera, address, size, out.data());
  return Status::Success;
}

bool DeviceRegisters::streaming_locks(std::uint32_t address) const {
  constexpr std::array kLocked = {
      feature::kWidth,    feature::kHeight,   feature::kPixelFormat, feature::kAcquisitionMode,
      feature::kBinningX, feature::kBinningY, feature::kReverseX,    feature::kReverseY};
  return word(feature::kAcquisition) != 0 &&
         std::find(kLocked.begin(), kLocked.end(), address) != kLocked.end();
}

Status DeviceRegisters::check_word(std::uint32_t address, std::uint32_t value) const {
  const auto allow = [](bool good) { return good ? Status::Success : Status::InvalidParameter; };
  const std::uint32_t columns = word(feature::kSensorWidth) / word(feature::kBinningX);
  const std::uint32_t rows = word(feature::kSensorHeight) / word(feature::kBinningY);
  const auto size_fits = [&](std::uint32_t step, std::uint32_t offset, std::uint32_t room) {
    return value >= step && value % step == 0 && value <= room && word(offset) <= room - value;
  };
  const auto offset_fits = [&](std::uint32_t step, std::uint32_t size, std::uint32_t room) {
    return value % step == 0 && value <= room - word(size);
  };
  switch (address) {
    case feature::kWidth:
      return allow(size_fits(kWidthStep, feature::kOffsetX, columns));
    case feature::kHeight:
      return allow(size_fits(kHeightStep, feature::kOffsetY, rows));
    case feature::kOffsetX:
      return allow(offset_fits(kWidthStep, feature::kWidth, columns));
    case feature::kOffsetY:
      return allow(offset_fits(kHeightStep, feature::kHeight, rows));
    case feature::kPixelFormat:
      return allow(format_of(value).has_value());
    case feature::kAcquisitionMode:
      return allow(value == 1 || value == 2);
    case feature::kExposureAuto:
    case feature::kGainAuto:
      return allow(value == 0 || value == 2);
    case feature::kTriggerActivation:
      return allow(value == 0);
    case feature::kAcquisition:
    case feature::kTriggerMode:
    case feature::kTriggerSource:
    case feature::kTriggerSoftware:
    case feature::kGammaEnable:
    case feature::kSharpnessEnable:
    case feature::kDefectCorrectStaticEnable:
    case feature::kFrameRateEnable:
    case feature::kReverseX:
    case feature::kReverseY:
    case feature::kLineSelector:
    case feature::kLineInverter:
    case feature::kUserOutputValue:
      return allow(value <= 1);
    case feature::kLineMode:
      return allow(value <= word(feature::kLineSelector));
    case feature::kLineSource:
      return allow(value <= kLineSources);
    case feature::kBinningX:
    case feature::kBinningY:
      return allow(value == 1 || value == 2 || value == 4);
    case feature::kGainRaw:
      return allow(value >= kUnitGainRaw && value <= kMaxGainRaw);
    case reg::kStreamPacketSize: {
      const std::uint32_t size = value & gvcp::kPacketSizeMask;
      return allow(size >= kMinPacketBytes && size <= kMaxPacketBytes && size % 4 == 0);
    }
    case reg::kStreamAddress:
      return allow(value == 0 || value >> 24 == kLoopbackNet);
    case reg::kStreamPort:
      return allow(value <= 0xffff);
    case reg::kHeartbeatTimeout:
      return allow(value >= 500);
    case reg::kTimestampControl:
      return model_.dialect.tick_hz > 0 ? Status::Success : Status::WriteProtect;
    case reg::kControlPrivilege:
    case reg::kStreamPacketDelay:
      return Status::Success;
    default:
      return Status::WriteProtect;
  }
}

Status DeviceRegisters::write_double(std::uint32_t address, std::span<const std::uint8_t> data) {
  const double value = std::bit_cast<double>(
      (static_cast<std::uint64_t>(gvcp::get32(data.data())) << 32) | gvcp::get32(data.data() + 4));
  const bool good = (address == feature::kExposureTime && within(value, 10, 1e6)) ||
                    (address == feature::kGain &&
                     (model_.dialect.gain == GainUnit::Factor ? within(value, 1, kMaxGainFactor)
                                                              : within(value, 0, kMaxGainDb))) ||
                    (address == feature::kFrameRate && within(value, 0.1, kMaxRateHz)) ||
                    (address == feature::kGamma && within(value, 0.25, 4));
  if (!good) return Status::InvalidParameter;
  set_double(address, value);
  return Status::Success;
}

Status DeviceRegisters::write(std::uint32_t address, std::span<const std::uint8_t> data) {
  const std::lock_guard lock(mutex_);
  if (address >= reg::kUserName && address + data.size() <= reg::kUserNameEnd) {
    arv_fake_camera_write_memory(memory_->camera, address, static_cast<guint32>(data.size()),
                                 data.data());
    return Status::Success;
  }
  if (address % 4 != 0) return Status::BadAlignment;
  if (address >= feature::kExposureTime && address < feature::kDoublesEnd && data.size() == 8) {
    return write_double(address, data);
  }
  if (data.size() != 4) return Status::InvalidParameter;
  if (address >= kMemoryBytes) return Status::WriteProtect;
  if (streaming_locks(address)) return Status::WriteProtect;
  const std::uint32_t value = gvcp::get32(data.data());
  const Status status = check_word(address, value);
  if (status == Status::Success) {
    if (address == feature::kAcquisition && (value == 0 || word(address) == 0)) ++changes_;
    const bool test_bit = address == reg::kStreamPacketSize;  // reads back as 0
    arv_fake_camera_write_register(memory_->camera, address,
                                   test_bit ? value & ~gvcp::kPacketSizeFireTest : value);
    if (address == feature::kBinningX || address == feature::kBinningY) fit_region_to_binning();
  }
  return status;
}

double DeviceRegisters::gain_db() const {
  switch (model_.dialect.gain) {
    case GainUnit::Factor:
      return 20 * std::log10(get_double(feature::kGain));
    case GainUnit::Raw:
      return 20 * std::log10(static_cast<double>(word(feature::kGainRaw)) / kUnitGainRaw);
    case GainUnit::Db:
      break;
  }
  return get_double(feature::kGain);
}

Acquisition DeviceRegisters::acquisition() const {
  const std::lock_guard lock(mutex_);
  Acquisition a;
  a.running = word(feature::kAcquisition) != 0;
  a.changes = changes_;
  a.single_frame = word(feature::kAcquisitionMode) == 2;
  if (word(feature::kTriggerMode) != 0) {
    a.trigger = word(feature::kTriggerSource) != 0 ? TriggerSource::Software : TriggerSource::Line;
  }
  a.sensor.offset_x_px = static_cast<int>(word(feature::kOffsetX));
  a.sensor.offset_y_px = static_cast<int>(word(feature::kOffsetY));
  a.sensor.width_px = static_cast<int>(word(feature::kWidth));
  a.sensor.height_px = static_cast<int>(word(feature::kHeight));
  a.pixel_format = word(feature::kPixelFormat);
  a.sensor.format = format_of(a.pixel_format).value_or(camera::PixelFormat::Mono8);
  a.sensor.exposure_us = get_double(feature::kExposureTime);
  a.sensor.gain_db = gain_db();
  a.sensor.binning_x = static_cast<int>(word(feature::kBinningX));
  a.sensor.binning_y = static_cast<int>(word(feature::kBinningY));
  a.sensor.reverse_x = word(feature::kReverseX) != 0;
  a.sensor.reverse_y = word(feature::kReverseY) != 0;
  a.sensor.left_aligned = model_.dialect.left_aligned;
  a.line1_high = word(feature::kLineMode) == 1 && word(feature::kLineSource) == kUserOutput1 &&
                 word(feature::kUserOutputValue) != word(feature::kLineInverter);
  a.line_padding_bytes = model_.dialect.line_padding_bytes;
  // The trigger line carries pulses at the scenario's rate.
  double rate_hz =
      word(feature::kFrameRateEnable) != 0 ? get_double(feature::kFrameRate) : kMaxRateHz;
  if (a.trigger == TriggerSource::Line) rate_hz = model_.rate_hz;
  a.period_ns = std::llround(std::max(1e9 / rate_hz, a.sensor.exposure_us * 1e3));
  a.host_address = word(reg::kStreamAddress);
  a.host_port = static_cast<std::uint16_t>(word(reg::kStreamPort) & 0xffff);
  a.packet_size_bytes = word(reg::kStreamPacketSize) & gvcp::kPacketSizeMask;
  return a;
}

void DeviceRegisters::stop_acquisition() {
  const std::lock_guard lock(mutex_);
  ++changes_;
  arv_fake_camera_write_register(memory_->camera, feature::kAcquisition, 0);
}

void DeviceRegisters::end_acquisition(const Acquisition& acquisition) {
  const std::lock_guard lock(mutex_);
  if (acquisition.changes != changes_) return;
  arv_fake_camera_write_register(memory_->camera, feature::kAcquisition, 0);
}

}  // namespace driftd::simulator
