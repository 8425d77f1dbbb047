// SPDX-License-Identifier: MIT
// The text of the messages of docs/reference/protocol.md. Frame messages are formatted into a fixed
// buffer, the rest by the JSON library. Every value that is not finite or does not exist becomes
// null.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/process/latency_histogram.hpp"
#include "camera/frame_source.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

constexpr std::string_view kVersion = DRIFTD_VERSION;

/// Room for the longest frame message.
using MessageBuffer = std::array<char, 1536>;

/// "position {...}", "correction {...}" and "axial {...}".
std::string_view format_position(MessageBuffer& buffer, std::uint64_t seq, std::string_view session,
                                 const FrameResult& result) noexcept;
std::string_view format_correction(MessageBuffer& buffer, std::uint64_t seq,
                                   std::string_view session, const FrameResult& result,
                                   std::int64_t sent_ns) noexcept;
std::string_view format_axial(MessageBuffer& buffer, std::uint64_t seq, std::string_view session,
                              const FrameResult& result, std::int64_t sent_ns) noexcept;

}  // namespace driftd::daemon
