// SPDX-License-Identifier: MIT
#include "daemon/command_handlers.hpp"

#include <spdlog/fmt/fmt.h>

#include <optional>
#include <set>
#include <string>

namespace driftd::daemon {
namespace {

/// What a refusal repeats of a request: the replies that nobody reads take up memory.
std::string beginning_of(const std::string& text) {
  constexpr std::size_t kMost = 40;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

void allow_only(const nlohmann::json& request, const std::set<std::string>& fields) {
  for (const auto& [key, value] : request.items()) {
    if (key == "command" || key == "id" || fields.count(key) != 0) continue;
    throw CommandRefused{Refusal::BadRequest,
                         "unknown field `" + beginning_of(key) + "` for command `" +
                             beginning_of(request["command"].get<std::string>()) + "`"};
  }
}

bool flag_of(const nlohmann::json& request, const char* field) {
  if (!request.contains(field)) return false;
  if (!request[field].is_boolean()) {
    throw CommandRefused{Refusal::BadRequest, std::string("`") + field + "` is true or false"};
  }
  return request[field].get<bool>();
}

std::optional<double> number_of(const nlohmann::json& request, const char* field, double min,
                                double max) {
  if (!request.contains(field)) return std::nullopt;
  const nlohmann::json& value = request[field];
  if (!value.is_number() || !(value.get<double>() >= min && value.get<double>() <= max)) {
    throw CommandRefused{Refusal::BadRequest,
                         fmt::format("`{}` is a number from {} to {}", field, min, max)};
  }
  return value.get<double>();
}

}  // namespace

void CommandHandlers::carry_out(const Json& request, Answer answer, std::int64_t now_ns) {
  const auto name = request["command"].get<std::string>();
  if (name == "markers") {
    allow_only(request, {"find"});
    if (flag_of(request, "find")) return markers_.find(std::move(answer), now_ns);
    return answer(Reply{.fields = {{"markers", markers_.markers()}}});
  }
  if (name == "stage") return answer(stage_.take(request, now_ns));
  if (name == "calibrate") {
    allow_only(request, {"excursion_nm", "seconds", "stop"});
    if (flag_of(request, "stop")) return calibration_.stop(answer);
    using Limits = Calibration::Limits;
    return calibration_.begin(
        number_of(request, "excursion_nm", Limits::kLeastExcursionNm, Limits::kMostExcursionNm),
        number_of(request, "seconds", Limits::kLeastSeconds, Limits::kMostSeconds),
        std::move(answer), now_ns);
  }
  if (name == "lock") {
    allow_only(request, {"resume"});
    if (!flag_of(request, "resume")) return lock_.lock(std::move(answer), now_ns);
    return lock_.lock(std::move(answer), now_ns, interrupted_.resumption());
  }
  if (name == "record") {
    allow_only(request, {"start", "stop", "frames"});
    const bool start = flag_of(request, "start");
    const bool stop = flag_of(request, "stop");
    const bool frames = flag_of(request, "frames");
    if (start + stop + frames > 1) {
      throw CommandRefused{Refusal::BadRequest, "`start`, `stop` and `frames` exclude one another"};
    }
    if (frames) return answer(raw_frames_.save(now_ns));
    if (start) return record_.start(std::move(answer), now_ns);
    if (stop) return record_.stop(std::move(answer), now_ns);
    return answer(Reply{.fields = {{"record", record_.status(now_ns)}}});
  }
  allow_only(request, {});
  if (name == "calibration") return answer(Reply{.fields = calibration_.progress()});
  if (name == "status") return answer(Reply{.fields = {{"status", status_()}}});
  if (name == "unlock") {
    interrupted_.forget();
    return lock_.unlock(std::move(answer), now_ns);
  }
  if (name == "reset") {
    lock_.reset(std::move(answer), now_ns);
    return interrupted_.forget();
  }
  if (name == "snapshot") return snapshots_.request(std::move(answer), now_ns);
  throw CommandRefused{Refusal::BadRequest,
                       "unknown command `" + beginning_of(name) +
                           "`; there are status, lock, unlock, reset, markers, snapshot, "
                           "calibrate, calibration, stage, record, access"};
}

}  // namespace driftd::daemon
