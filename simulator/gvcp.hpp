// SPDX-License-Identifier: MIT
// The parts of the GigE Vision protocols (GVCP control, GVSP stream) that the simulated camera
// speaks: numbers from the standard and big-endian access to packet bytes. All packets are made and
// read byte by byte, so that nothing depends on structure layout.
#pragma once

#include <cstddef>
#include <cstdint>

namespace driftd::simulator::gvcp {

constexpr std::uint16_t kPort = 3956;
constexpr std::uint8_t kKey = 0x42;  ///< first byte of every command
constexpr std::uint8_t kFlagAckRequired = 0x01;
constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kMaxDataBytes = 540;     ///< largest command or acknowledge payload
constexpr std::size_t kDiscoveryBytes = 0xf8;  ///< the bootstrap registers sent on discovery

enum class Command : std::uint16_t {
  Discovery = 0x0002,
  PacketResend = 0x0040,
  ReadRegister = 0x0080,
  WriteRegister = 0x0082,
  ReadMemory = 0x0084,
  WriteMemory = 0x0086,
};  // an acknowledge has the command's number plus one

enum class Status : std::uint16_t {
  Success = 0x0000,
  NotImplemented = 0x8001,
  InvalidParameter = 0x8002,
  InvalidAddress = 0x8003,
  WriteProtect = 0x8004,
  BadAlignment = 0x8005,
  AccessDenied = 0x8006,
  PacketUnavailable = 0x800c,
};

/// Bootstrap registers (GigE Vision 1.2, section 28).
namespace reg {
constexpr std::uint32_t kVersion = 0x0000;
constexpr std::uint32_t kDeviceMode = 0x0004;
constexpr std::uint32_t kMacHigh = 0x0008;
constexpr std::uint32_t kMacLow = 0x000c;
constexpr std::uint32_t kIpConfigSupported = 0x0010;
constexpr std::uint32_t kIpConfigCurrent = 0x0014;
constexpr std::uint32_t kIpAddress = 0x0024;
constexpr std::uint32_t kSubnetMask = 0x0034;
constexpr std::uint32_t kManufacturer = 0x0048;
constexpr std::uint32_t kModel = 0x0068;
constexpr std::uint32_t kDeviceVersion = 0x0088;
constexpr std::uint32_t kManufacturerInfo = 0x00a8;
constexpr std::uint32_t kUserName = 0x00e8;
constexpr std::uint32_t kUserNameEnd = 0x00f8;
constexpr std::uint32_t kCapability = 0x0934;
constexpr std::uint32_t kHeartbeatTimeout = 0x0938;   ///< ms
constexpr std::uint32_t kTickFrequencyHigh = 0x093c;  ///< Hz; 0: no clock
constexpr std::uint32_t kTickFrequencyLow = 0x0940;
constexpr std::uint32_t kTimestampControl = 0x0944;  ///< write 2: latch
constexpr std::uint32_t kTimestampHigh = 0x0948;
constexpr std::uint32_t kTimestampLow = 0x094c;
constexpr std::uint32_t kControlPrivilege = 0x0a00;
constexpr std::uint32_t kControllerPort = 0x0a04;     ///< who has control; 0: nobody
constexpr std::uint32_t kControllerAddress = 0x0a14;  ///< IPv4
constexpr std::uint32_t kStreamPort = 0x0d00;
constexpr std::uint32_t kStreamPacketSize = 0x0d04;
constexpr std::uint32_t kStreamPacketDelay = 0x0d08;
constexpr std::uint32_t kStreamAddress = 0x0d18;
constexpr std::uint32_t kStreamSourcePort = 0x0d1c;
}  // namespace reg

constexpr std::uint32_t kCapabilityWriteMemory = 1U << 1;
constexpr std::uint32_t kCapabilityPacketResend = 1U << 2;
constexpr std::uint32_t kCapabilitySerialNumber = 1U << 30;
constexpr std::uint32_t kCapabilityUserName = 1U << 31;
constexpr std::uint32_t kPacketSizeMask = 0x0000ffff;
constexpr std::uint32_t kPacketSizeFireTest = 1U << 31;

/// GVSP content types of a packet.
enum class Content : std::uint8_t { Leader = 1, Trailer = 2, Payload = 3 };
constexpr std::size_t kStreamHeaderBytes = 8;
constexpr std::size_t kLeaderBytes = 36;
constexpr std::size_t kTrailerBytes = 8;
constexpr std::size_t kIpUdpBytes = 28;  ///< counted in the packet size register

inline std::uint16_t get16(const std::uint8_t* bytes) noexcept {
  return static_cast<std::uint16_t>((bytes[0] << 8) | bytes[1]);
}
inline std::uint32_t get32(const std::uint8_t* bytes) noexcept {
  return (static_cast<std::uint32_t>(get16(bytes)) << 16) | get16(bytes + 2);
}
inline void put16(std::uint8_t* bytes, std::uint16_t value) noexcept {
  bytes[0] = static_cast<std::uint8_t>(value >> 8);
  bytes[1] = static_cast<std::uint8_t>(value & 0xff);
}
inline void put32(std::uint8_t* bytes, std::uint32_t value) noexcept {
  put16(bytes, static_cast<std::uint16_t>(value >> 16));
  put16(bytes + 2, static_cast<std::uint16_t>(value & 0xffff));
}

}  // namespace driftd::simulator::gvcp
