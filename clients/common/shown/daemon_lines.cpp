// SPDX-License-Identifier: MIT
#include "clients/common/shown/daemon_lines.hpp"

#include <spdlog/fmt/fmt.h>

#include "clients/common/plain.hpp"
#include "clients/common/shown/fields.hpp"

namespace driftd::clients::shown {

using nlohmann::json;

Line camera_line(const json& status) {
  const json* connected = find(status, "/camera/connected");
  if (connected == nullptr || !connected->is_boolean() || !connected->get<bool>()) {
    return {"camera      not connected", Tone::Bad};
  }
  return {fmt::format("camera      {}, {} x {} {}", text(status, "/camera/description"),
                      number(status, "/camera/width_px"), number(status, "/camera/height_px"),
                      text(status, "/camera/pixel_format")),
          Tone::Plain};
}

void add_camera_warnings(const json& status, std::vector<Line>& lines) {
  const json* notes = find(status, "/camera/notes");
  if (notes == nullptr || !notes->is_array()) return;
  for (const json& note : *notes) {
    if (text(note, "/severity") != "warning") continue;
    const std::string line = fmt::format("{:<12}{}: asked {}, has {}", "", text(note, "/key"),
                                         text(note, "/asked"), text(note, "/got"));
    lines.push_back({cut(line, kColumns), Tone::Warning});
  }
}

Line frames_line(const json& status) {
  // Gaps in the frames' ids, which incomplete ones and those without a buffer leave, too.
  const std::uint64_t lost = count(status, "/camera/lost");
  const bool bad =
      lost + count(status, "/camera/incomplete") + count(status, "/camera/underruns") > 0;
  return {fmt::format("frames      {}   {} Hz   lost {}   skipped {}   stale {}   reconnects {}",
                      number(status, "/camera/frames"), number(status, "/camera/rate_hz", "{:.1f}"),
                      lost, number(status, "/camera/superseded"), number(status, "/loop/stale"),
                      number(status, "/camera/reconnects")),
          bad ? Tone::Warning : Tone::Plain};
}

Line markers_line(const json& status) {
  if (number(status, "/markers/tracking") == "0" && number(status, "/markers/witness") == "0")
    return {"markers     none are known yet", Tone::Warning};
  return {fmt::format("markers     {} of {} used, {} witnesses", number(status, "/markers/used"),
                      number(status, "/markers/tracking"), number(status, "/markers/witness")),
          Tone::Plain};
}

void add_record(const json& status, std::vector<Line>& lines) {
  if (is_true(status, "/record/recording")) {
    const std::uint64_t left_out = count(status, "/record/not_recorded");
    const json* seconds = find(status, "/record/seconds");
    std::string line = fmt::format(
        "record      {}, for {}: {} frames, {:.1f} MB",
        text(status, "/record/by") == "lock" ? "of the lock" : "by command",
        duration(seconds != nullptr && seconds->is_number() ? seconds->get<double>() : 0),
        number(status, "/record/frames"),
        1e-6 * static_cast<double>(count(status, "/record/bytes")));
    if (left_out > 0) line += fmt::format(", {} left out", left_out);
    lines.push_back({cut(line, kColumns), left_out > 0 ? Tone::Warning : Tone::Plain});
    add_text(status, "/record/file", Tone::Plain, lines);
  } else if (!text_or_nothing(status, "/record/problem").empty()) {
    const bool began = !text_or_nothing(status, "/record/file").empty();
    lines.push_back(
        {began ? "record      has ended, and nothing is recorded:" : "record      could not begin:",
         Tone::Bad});
    add_text(status, "/record/problem", Tone::Bad, lines);
  }
  if (is_true(status, "/raw_frames/saving")) lines.push_back({"raw frames  being saved"});
  if (text_or_nothing(status, "/raw_frames/problem").empty()) return;
  lines.push_back({"raw frames  not all are saved:", Tone::Bad});
  add_text(status, "/raw_frames/problem", Tone::Bad, lines);
}

Line latency_line(const json& status) {
  return {fmt::format(
              "latency     p50 {}   p99 {}   p99.9 {}   max {} us",
              number(status, "/latency_us/total/p50"), number(status, "/latency_us/total/p99"),
              number(status, "/latency_us/total/p99_9"), number(status, "/latency_us/total/max")),
          Tone::Plain};
}

Line fitter_line(const json& status) {
  const json* scheduled = find(status, "/realtime/scheduled");
  const json* locked = find(status, "/realtime/memory_locked");
  const auto is = [](const json* flag) {
    return flag != nullptr && flag->is_boolean() && flag->get<bool>() ? "yes" : "no";
  };
  return {fmt::format("fitter      {}, {} x {} px   real time: scheduled {}, memory locked {}",
                      text(status, "/fitter/description"), number(status, "/fitter/roi_px"),
                      number(status, "/fitter/roi_px"), is(scheduled), is(locked)),
          Tone::Plain};
}

}  // namespace driftd::clients::shown
