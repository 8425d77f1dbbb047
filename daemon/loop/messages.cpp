// SPDX-License-Identifier: MIT
#include "daemon/loop/messages.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>

namespace driftd::daemon {
namespace {

/// A number as JSON: fixed decimals, or null.
struct Number {
  double value;
  bool exists = true;
};

/// A plain word as JSON, or null.
struct Word {
  const char* text;
  bool exists;
};

}  // namespace
}  // namespace driftd::daemon

template <>
struct fmt::formatter<driftd::daemon::Word> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const driftd::daemon::Word& word, Context& context) const {
    return word.exists ? fmt::format_to(context.out(), "\"{}\"", word.text)
                       : fmt::format_to(context.out(), "null");
  }
};

template <>
struct fmt::formatter<driftd::daemon::Number> : fmt::formatter<double> {
  template <typename Context>
  auto format(const driftd::daemon::Number& n, Context& context) const {
    if (!n.exists || !std::isfinite(n.value)) return fmt::format_to(context.out(), "null");
    return fmt::formatter<double>::format(n.value, context);
  }
};

namespace driftd::daemon {
namespace {

template <typename... Arguments>
std::string_view format_into(MessageBuffer& buffer, fmt::format_string<Arguments...> format,
                             Arguments&&... arguments) noexcept {
  const auto end =
      fmt::format_to_n(buffer.data(), buffer.size(), format, std::forward<Arguments>(arguments)...);
  return {buffer.data(), std::min(end.size, buffer.size())};
}

constexpr std::array<std::string_view, 8> kLimitedText = {
    "[]",           R"(["step"])",         R"(["rate"])",         R"(["step","rate"])",
    R"(["range"])", R"(["step","range"])", R"(["rate","range"])", R"(["step","rate","range"])"};

}  // namespace

std::string_view format_position(MessageBuffer& buffer, std::uint64_t seq, std::string_view session,
                                 const FrameResult& result) noexcept {
  const control::DriftEstimate& d = result.drift;
  const control::AxialEstimate& z = result.axial;
  return format_into(
      buffer,
      R"(position {{"v":1,"seq":{},"session":"{}","frame_id":{},"camera_time_ns":{},"arrival_ns":{},)"
      R"("state":"{}","valid":{},"x_nm":{:.4f},"y_nm":{:.4f},"x_sd_nm":{:.4f},"y_sd_nm":{:.4f},)"
      R"("xy_cov_nm2":{:.6f},"frame_x_nm":{:.4f},"frame_y_nm":{:.4f},"markers_used":{},)"
      R"("markers_total":{},"witness_x_nm":{:.4f},"witness_y_nm":{:.4f},"witnesses_used":{},)"
      R"("in_lock":{},"coasting":{},"set_x_nm":{:.4f},"set_y_nm":{:.4f},"moving":{},)"
      R"("z_nm":{:.4f},"z_sd_nm":{:.4f},"frame_z_nm":{:.4f},"frame_z_sd_nm":{:.4f},)"
      R"("witness_z_nm":{:.4f},"set_z_nm":{:.4f},"z_state":{},"in_lock_z":{}}})",
      seq, session, result.frame_id, result.camera_time_ns, result.arrival_ns,
      control::name_of(result.state), d.valid, Number{d.drift_nm.x, d.valid},
      Number{d.drift_nm.y, d.valid}, Number{std::sqrt(d.covariance_nm2.xx), d.valid},
      Number{std::sqrt(d.covariance_nm2.yy), d.valid}, Number{d.covariance_nm2.xy, d.valid},
      Number{d.frame_drift_nm.x, d.valid}, Number{d.frame_drift_nm.y, d.valid}, d.markers_used,
      d.markers_total, Number{d.witness_nm.x, d.witness_valid},
      Number{d.witness_nm.y, d.witness_valid}, d.witnesses_used, result.all_in_lock(),
      result.coasting, Number{result.moved_nm.x, has_set_point(result)},
      Number{result.moved_nm.y, has_set_point(result)}, result.moving, Number{z.z_nm, z.valid},
      Number{z.sd_nm(), z.valid}, Number{z.frame_z_nm, z.valid}, Number{z.frame_sd_nm(), z.valid},
      Number{z.witness_z_nm, z.valid && z.witness_valid},
      Number{result.z.moved_nm.x, has_set_point(result.z)},
      Word{control::name_of(result.z.state), result.measures_z}, result.z.in_lock);
}

std::string_view format_correction(MessageBuffer& buffer, std::uint64_t seq,
                                   std::string_view session, const FrameResult& result,
                                   std::int64_t sent_ns) noexcept {
  const control::Correction& c = result.correction;
  return format_into(
      buffer,
      R"(correction {{"v":1,"seq":{},"session":"{}","lock_id":{},"frame_id":{},"camera_time_ns":{},)"
      R"("arrival_ns":{},"sent_ns":{},"expires_ns":{},"total_x_nm":{:.4f},"total_y_nm":{:.4f},"delta_x_nm":{:.4f},)"
      R"("delta_y_nm":{:.4f},"probe":{},"limited":{},"in_lock":{},"coasting":{},"move_x_nm":{:.4f},)"
      R"("move_y_nm":{:.4f}}})",
      seq, session, result.lock_id, result.frame_id, result.camera_time_ns, result.arrival_ns,
      sent_ns, result.expires_ns, c.total_nm.x, c.total_nm.y, c.delta_nm.x, c.delta_nm.y,
      result.probe, kLimitedText[c.limited & 7], result.in_lock, result.coasting, c.move_nm.x,
      c.move_nm.y);
}

std::string_view format_axial(MessageBuffer& buffer, std::uint64_t seq, std::string_view session,
                              const FrameResult& result, std::int64_t sent_ns) noexcept {
  const HeldResult& z = result.z;
  const control::Correction& c = z.correction;
  return format_into(
      buffer,
      R"(axial {{"v":1,"seq":{},"session":"{}","lock_id":{},"frame_id":{},"camera_time_ns":{},)"
      R"("arrival_ns":{},"sent_ns":{},"expires_ns":{},"total_z_nm":{:.4f},"delta_z_nm":{:.4f},)"
      R"("probe":{},"limited":{},"in_lock":{},"move_z_nm":{:.4f},"coasting":{}}})",
      seq, session, z.lock_id, result.frame_id, result.camera_time_ns, result.arrival_ns, sent_ns,
      result.expires_ns, c.total_nm.x, c.delta_nm.x, z.probe, kLimitedText[c.limited & 7],
      z.in_lock, c.move_nm.x, z.coasting);
}

}  // namespace driftd::daemon
