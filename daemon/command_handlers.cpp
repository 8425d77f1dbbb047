// SPDX-License-Identifier: MIT
#include "daemon/command_handlers.hpp"

#include <spdlog/fmt/fmt.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

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

std::optional<std::string> text_of(const nlohmann::json& request, const char* field) {
  if (!request.contains(field)) return std::nullopt;
  if (!request[field].is_string()) {
    throw CommandRefused{Refusal::BadRequest, std::string("`") + field + "` is a string"};
  }
  return request[field].get<std::string>();
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

/// The answer, with one more field where it is a reply.
Answer with_field(const char* field, nlohmann::json value, Answer answer) {
  return [field, value = std::move(value), answer = std::move(answer)](const Outcome& outcome) {
    const auto* reply = std::get_if<Reply>(&outcome);
    if (reply == nullptr) return answer(outcome);
    Reply told = *reply;
    told.fields[field] = value;
    answer(told);
  };
}

/// The answer, with the lock that cannot be gone back to any more.
Answer telling(const std::string& forgotten, Answer answer) {
  return forgotten.empty() ? answer : with_field("forgotten", forgotten, std::move(answer));
}

/// As it was reported last: of a lock that an order leaves as it is.
nlohmann::json state_of(const LockOrders& lock) {
  return {{"state", control::name_of(lock.lock_now().lock.state)}};
}

CommandRefused no_z() {
  return {Refusal::Refused, "z is not measured (axial.method is `none`): there is none to hold"};
}

struct Axes {
  bool xy, z;
};

/// Nothing where `axes` is not said. @throws CommandRefused
std::optional<Axes> axes_of(const nlohmann::json& request, bool has_z) {
  const auto text = text_of(request, "axes");
  if (!text) return std::nullopt;
  if (*text != "xy" && *text != "z" && *text != "xyz")
    throw CommandRefused{Refusal::BadRequest, "`axes` is \"xy\", \"z\" or \"xyz\""};
  const Axes axes{.xy = *text != "z", .z = *text != "xy"};
  if (axes.z && !has_z) throw no_z();
  return axes;
}

/// Which of both calibrations is meant. @throws CommandRefused
bool is_of_z(const nlohmann::json& request, bool has_z) {
  const auto axes = axes_of(request, has_z);
  if (axes && axes->xy && axes->z)
    throw CommandRefused{Refusal::BadRequest,
                         "`axes` is \"xy\" or \"z\": each stage is calibrated by itself"};
  return axes && axes->z;
}

/// One answer of an order to both locks: that of x and y, with what came of z in `z`. Where x and y
/// refuse, it is refused.
class BothAnswers {
 public:
  explicit BothAnswers(Answer answer) : answer_(std::move(answer)) {}

  void of_xy(const Outcome& outcome) { xy_ = outcome, give(); }
  void of_z(const Outcome& outcome) { z_ = outcome, give(); }

 private:
  void give() {
    if (!xy_ || !z_) return;
    const auto* reply = std::get_if<Reply>(&*xy_);
    if (reply == nullptr) return answer_(*xy_);
    Reply told = *reply;
    if (const auto* refused = std::get_if<CommandRefused>(&*z_))
      told.fields["z"] = {{"refused", refused->text}};
    else
      told.fields["z"] = std::get<Reply>(*z_).fields;
    answer_(told);
  }

  Answer answer_;
  std::optional<Outcome> xy_, z_;
};

/// Gives an order whose refusal is its answer: the other of two is to be given all the same.
void order_anyway(Answer answer, const std::function<void(Answer)>& order) {
  try {
    order(answer);
  } catch (const CommandRefused& refused) {
    answer(refused);
  }
}

}  // namespace

void CommandHandlers::carry_out(const Json& request, Answer answer, std::int64_t now_ns) {
  const auto name = request["command"].get<std::string>();
  if (name == "markers") {
    allow_only(request, {"find", "add", "remove", "tracking", "witness"});
    const bool find = flag_of(request, "find");
    if (find && has_choice(request))
      throw CommandRefused{Refusal::BadRequest,
                           "`find` excludes `add`, `remove`, `tracking` and `witness`"};
    if (find) return markers_.find(std::move(answer), now_ns);
    if (has_choice(request))
      return markers_.choose(read_choice(request), std::move(answer), now_ns);
    return answer(Reply{.fields = markers_.listed()});
  }
  if (name == "stage")
    return answer(take_stage_report(request, stage_, axial_ ? &axial_->stage : nullptr, now_ns));
  if (name == "calibrate") return calibrate(request, std::move(answer), now_ns);
  if (name == "lock") return lock(request, std::move(answer), now_ns);
  if (name == "move") return move(request, std::move(answer), now_ns);
  if (name == "unlock") return unlock(request, std::move(answer), now_ns);
  if (name == "place") return place(request, std::move(answer), now_ns);
  if (name == "exposure") return exposure(request, std::move(answer), now_ns);
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
  if (name == "calibration") {
    allow_only(request, {"axes"});
    const bool of_z = is_of_z(request, axial_.has_value());
    Json fields = of_z ? axial_->sweep.progress() : calibration_.progress();
    fields["session"] = stage_.session();  // runs are counted anew in each
    return answer(Reply{.fields = std::move(fields)});
  }
  allow_only(request, {});
  if (name == "status") return answer(Reply{.fields = {{"status", status_()}}});
  if (name == "reset") return reset(std::move(answer), now_ns);
  if (name == "snapshot") return snapshots_.request(std::move(answer), now_ns);
  throw CommandRefused{
      Refusal::BadRequest,
      "unknown command `" + beginning_of(name) +
          "`; there are status, lock, unlock, reset, move, markers, snapshot, "
          "calibrate, calibration, stage, record, place, exposure, access, reload, restart"};
}

void CommandHandlers::calibrate(const Json& request, Answer answer, std::int64_t now_ns) {
  if (is_of_z(request, axial_.has_value())) {
    allow_only(request, {"axes", "range_nm", "step_nm", "frames", "settle_s", "stop"});
    if (flag_of(request, "stop")) return axial_->sweep.stop(answer);
    using Plan = control::SweepPlan;
    SweepRequest wanted;
    wanted.range_nm = number_of(request, "range_nm", Plan::kLeastRangeNm, Plan::kMostRangeNm);
    wanted.step_nm = number_of(request, "step_nm", Plan::kLeastStepNm, Plan::kMostStepNm);
    wanted.settle_s =
        number_of(request, "settle_s", AxialSweep::kLeastSettleS, AxialSweep::kMostSettleS);
    if (const auto frames =
            number_of(request, "frames", AxialSweep::kFewestFrames, AxialSweep::kMostFrames))
      wanted.frames = static_cast<int>(std::lround(*frames));
    return axial_->sweep.begin(wanted, std::move(answer), now_ns);
  }
  allow_only(request, {"axes", "excursion_nm", "seconds", "stop"});
  if (flag_of(request, "stop")) return calibration_.stop(answer);
  using Limits = Calibration::Limits;
  calibration_.begin(
      number_of(request, "excursion_nm", Limits::kLeastExcursionNm, Limits::kMostExcursionNm),
      number_of(request, "seconds", Limits::kLeastSeconds, Limits::kMostSeconds), std::move(answer),
      now_ns);
}

void CommandHandlers::lock(const Json& request, Answer answer, std::int64_t now_ns) {
  allow_only(request, {"resume", "place", "axes"});
  const bool resumes = flag_of(request, "resume");
  const auto axes = axes_of(request, axial_.has_value());
  if (const auto place = text_of(request, "place")) {
    if (resumes)
      throw CommandRefused{Refusal::BadRequest, "`resume` and `place` exclude one another"};
    if (axes) throw CommandRefused{Refusal::BadRequest, "`place` and `axes` exclude one another"};
    return places_.lock(*place, telling(interrupted_.name_with_axial(), std::move(answer)), now_ns);
  }
  const auto lock_xy = [&](Answer told) {
    if (!resumes) {
      told = telling(interrupted_.name_with_axial(), std::move(told));
      return lock_.lock(std::move(told), now_ns, std::nullopt, axes && !axes->z);
    }
    lock_.check_can_lock();  // there is nothing to go back to while a lock is engaged
    lock_.lock(std::move(told), now_ns, interrupted_.resumption(), axes && !axes->z);
  };
  const auto lock_z = [&](Answer told) {
    if (!resumes) {
      told = telling(interrupted_.axial_name(), std::move(told));
      axial_->lock.lock(std::move(told), now_ns);
      if (!interrupted_.is_of_z_alone()) interrupted_.forget_axial();  // that is, once it holds
      return;
    }
    axial_->lock.check_can_lock();
    axial_->lock.lock(std::move(told), now_ns, interrupted_.axial_resumption());
  };
  const bool resumes_z = resumes && !axes && interrupted_.is_of_z_alone();
  if (axial_ && resumes_z) return lock_z(with_field("axes", "z", std::move(answer)));
  if (axes && !axes->xy) return lock_z(std::move(answer));
  const bool z_too = axial_ && (resumes ? interrupted_.has_axial() : axial_->is_held());
  const bool with_z = axes ? axes->z : z_too;
  if (!with_z) {
    const bool leaves_z = axes && resumes;
    lock_xy(leaves_z ? telling(interrupted_.axial_name(), std::move(answer)) : std::move(answer));
    if (leaves_z) interrupted_.forget_axial();
    if (axes && axial_) axial_->lock.end_at_start();
    return;
  }
  // Of two, one that holds already is no obstacle to the other.
  if (lock_.lock_now().holds() && axial_->lock.lock_now().holds())
    throw CommandRefused{Refusal::Refused,
                         lock_.is_text() + " already, and " + axial_->lock.is_text()};
  if (lock_.lock_now().holds() && !axial_->lock.lock_now().holds())
    return lock_z(with_field("axes", "z", std::move(answer)));
  if (!lock_.lock_now().holds() && axial_->lock.lock_now().holds())
    return lock_xy(with_field("axes", "xy", std::move(answer)));
  const auto both = std::make_shared<BothAnswers>(std::move(answer));
  lock_xy([both](const Outcome& outcome) { both->of_xy(outcome); });
  try {
    lock_z([both](const Outcome& outcome) { both->of_z(outcome); });
  } catch (const CommandRefused& refused) {  // x and y are held without
    both->of_z(refused);
  }
}

void CommandHandlers::unlock(const Json& request, Answer answer, std::int64_t now_ns) {
  allow_only(request, {"axes"});
  const auto axes = axes_of(request, axial_.has_value());
  if (axes && !axes->xy) {
    axial_->sweep.give_up();
    places_.give_up_axial();
    answer = telling(interrupted_.end_axial(), std::move(answer));
    return axial_->lock.unlock(std::move(answer), now_ns);
  }
  places_.give_up();
  const bool with_z = axes ? axes->z : axial_.has_value();
  std::string forgotten;
  if (with_z || !interrupted_.is_of_z_alone()) forgotten = interrupted_.forget();
  if (with_z) interrupted_.end_axial();
  answer = telling(forgotten, std::move(answer));
  if (!with_z) return lock_.unlock(std::move(answer), now_ns);
  axial_->sweep.give_up();
  lock_.withhold();
  axial_->lock.withhold();
  const auto both = std::make_shared<BothAnswers>(std::move(answer));
  order_anyway([both](const Outcome& outcome) { both->of_xy(outcome); },
               [&](Answer told) { lock_.unlock(std::move(told), now_ns); });
  order_anyway([both](const Outcome& outcome) { both->of_z(outcome); },
               [&](Answer told) { axial_->lock.unlock(std::move(told), now_ns); });
}

/// Of the locks that are not engaged; where one is and the other is idle, as if there were one.
void CommandHandlers::reset(Answer answer, std::int64_t now_ns) {
  const bool z_waits = axial_ && !axial_->lock.lock_now().is_idle() && !axial_->lock.is_engaged();
  if (z_waits && lock_.is_engaged()) {
    places_.give_up_axial();
    axial_->sweep.give_up();
    answer = telling(interrupted_.axial_name(), std::move(answer));
    answer = with_field("xy", state_of(lock_), with_field("axes", "z", std::move(answer)));
    axial_->lock.reset(std::move(answer), now_ns);
    interrupted_.forget_axial();
    return;
  }
  answer = telling(interrupted_.name(), std::move(answer));
  if (z_waits) {
    const auto both = std::make_shared<BothAnswers>(std::move(answer));
    lock_.reset([both](const Outcome& outcome) { both->of_xy(outcome); }, now_ns);
    order_anyway([both](const Outcome& outcome) { both->of_z(outcome); },
                 [&](Answer told) { axial_->lock.reset(std::move(told), now_ns); });
  } else {
    if (axial_ && axial_->lock.is_engaged())
      answer = with_field("z", state_of(axial_->lock), std::move(answer));
    lock_.reset(std::move(answer), now_ns);
  }
  if (axial_) axial_->sweep.give_up();
  places_.give_up();
  interrupted_.forget();
}

void CommandHandlers::move(const Json& request, Answer answer, std::int64_t now_ns) {
  allow_only(request, {"x_nm", "y_nm", "z_nm", "dx_nm", "dy_nm", "dz_nm", "speed_nm_per_s",
                       "dwell_s", "path", "repeat", "home", "stop", "axes"});
  Json fields = request;
  fields.erase("command");
  fields.erase("id");
  MoveRequests moves = read_moves(fields);
  if (!axial_) {
    if (!moves.xy) throw no_z();
    if (!moves.of_any && moves.z) throw no_z();
    moves.z.reset();
  } else if (moves.of_any) {  // of whom there is something to move
    if (!axial_->moves.is_engaged())
      moves.z.reset();
    else if (!moves_.is_engaged())
      moves.xy.reset();
  }
  if (!moves.z) return moves_.order(*moves.xy, std::move(answer), now_ns);
  if (!moves.xy) return axial_->moves.order(*moves.z, std::move(answer), now_ns);
  // To a place both go, or neither; whatever keeps one from it, the other stops or goes home.
  const bool each = moves.of_any || moves.xy->kind == MoveRequest::Kind::Stop;
  if (!each) axial_->moves.check(*moves.z);
  const auto both = std::make_shared<BothAnswers>(std::move(answer));
  const auto order_xy = [&](Answer told) { moves_.order(*moves.xy, std::move(told), now_ns); };
  const Answer of_xy = [both](const Outcome& outcome) { both->of_xy(outcome); };
  if (each)
    order_anyway(of_xy, order_xy);
  else
    order_xy(of_xy);
  order_anyway([both](const Outcome& outcome) { both->of_z(outcome); },
               [&](Answer told) { axial_->moves.order(*moves.z, std::move(told), now_ns); });
}

/// In the ranges of camera.exposure_us and camera.gain_db; the camera's are narrower.
void CommandHandlers::exposure(const Json& request, Answer answer, std::int64_t now_ns) {
  allow_only(request, {"exposure_us", "gain_db"});
  const camera::ExposureOrder order{.exposure_us = number_of(request, "exposure_us", 1, 1e7),
                                    .gain_db = number_of(request, "gain_db", -24, 60)};
  if (order.exposure_us || order.gain_db) return exposure_.order(order, std::move(answer), now_ns);
  answer(Reply{.fields = {{"exposure", exposure_.now()}}});
}

void CommandHandlers::place(const Json& request, Answer answer, std::int64_t now_ns) {
  allow_only(request, {"save", "note", "replace", "remove", "show"});
  const auto save = text_of(request, "save");
  const auto remove = text_of(request, "remove");
  const auto show = text_of(request, "show");
  const auto note = text_of(request, "note");
  const bool replace = flag_of(request, "replace");
  if (save.has_value() + remove.has_value() + show.has_value() > 1) {
    throw CommandRefused{Refusal::BadRequest, "`save`, `remove` and `show` exclude one another"};
  }
  if (!save && (note || replace)) {
    throw CommandRefused{Refusal::BadRequest, "`note` and `replace` go with `save`"};
  }
  if (save) return places_.save(*save, note.value_or(""), replace, std::move(answer), now_ns);
  if (remove) return places_.remove(*remove, std::move(answer), now_ns);
  if (show) return places_.show(*show, std::move(answer), now_ns);
  places_.list(std::move(answer), now_ns);
}

}  // namespace driftd::daemon
