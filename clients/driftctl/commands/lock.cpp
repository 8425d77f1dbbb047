// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/lock.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/in_words.hpp"
#include "base/process/stop_signal.hpp"
#include "clients/common/axial_lock.hpp"
#include "clients/driftctl/commands/calibration_run.hpp"
#include "clients/driftctl/commands/place.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

struct LockOptions {
  bool resume = false, wait = false;
  std::string place, axes;
};

constexpr std::string_view kXy = "xy", kZ = "z", kXyz = "xyz";

/// How long a reference takes, where that is long enough to wonder; on a terminal as it goes on.
class ReferenceLine {
 public:
  ~ReferenceLine() { line_.end(); }
  ReferenceLine() = default;
  ReferenceLine(const ReferenceLine&) = delete;
  ReferenceLine& operator=(const ReferenceLine&) = delete;

  /// @param lock  x and y's or z's
  void show(const json& lock, const json& status) {
    constexpr double kWorthTelling_s = 1;
    const int left = lock.value("reference_frames_left", 0);
    const json& rate = status.at("camera").at("rate_hz");
    const double seconds = rate.is_number() ? left / rate.get<double>() : kWorthTelling_s;
    if (left == 0 || (most_ == 0 && seconds < kWorthTelling_s)) return;
    if (most_ > 0 && !line_.on_terminal()) return;
    most_ = std::max(most_, left);
    std::string text = fmt::format("{} good frames are needed", left);
    if (rate.is_number())
      text += fmt::format(", {:.0f} s at {:.3g} frames/s", std::ceil(seconds), rate.get<double>());
    std::optional<double> progress;
    if (line_.on_terminal()) progress = 1 - static_cast<double>(left) / most_;
    line_.show("referencing", progress, text);
  }
  void end() { line_.end(); }

 private:
  ProgressLine line_;
  int most_ = 0;
};

/// What a lock finds out of its stage; "" where there is nothing to say.
std::string acquaintance_text(const json& status) {
  const json::json_pointer text("/acquaintance/text");
  return status.contains(text) ? status.at(text).get<std::string>() : "";
}
/// Small moves tell the lock how its stage answers; it corrects after that.
bool gets_acquainted(const json& status) {
  const json::json_pointer state("/acquaintance/state");
  return status.contains(state) && status.at(state) == "under_way";
}

bool is_engaged(const json& lock) {
  const std::string state = lock.is_object() ? lock.value("state", "") : "";
  return state == "referencing" || state == "holding" || state == "locked";
}

/// The lock of x and y, or of z, while it is waited for.
class AwaitedLock {
 public:
  explicit AwaitedLock(bool of_z) : of_z_(of_z) {}

  /// Whether it holds the sample; tells what it does meanwhile. @throws Refused where it has ended
  bool holds(const json& status, ReferenceLine& reference) {
    const json& lock = of_z_ ? axial_lock(status) : status;
    const char* what = of_z_ ? "the lock of z is " : "the lock is ";
    const std::string waits = lock.is_object() ? lock.value("waits", "") : "";
    if (!is_engaged(lock) && !waits.empty()) {
      tell(waits, reference);
      return false;
    }
    if (!is_engaged(lock))
      throw Refused(what + (lock.is_null() ? "not there" : lock_in_words(lock)), "refused");
    const std::string state = lock.at("state");
    if (state == "locked") tell_acquaintance(lock, reference);
    if (state == "locked") return !gets_acquainted(lock);
    if (state == "referencing") reference.show(lock, status);
    // Each reason is told once: distances change all the time.
    if (const std::string reason = lock.at("reason"); state == "holding" && reason != told_) {
      tell(lock_in_words(lock), reference);
      told_ = reason;
    }
    return false;
  }

 private:
  void tell(const std::string& text, ReferenceLine& reference) {
    if (std::exchange(said_, text) == text) return;
    reference.end();
    fmt::print(stderr, "{}{}\n", of_z_ ? "z: " : "", text);
  }
  void tell_acquaintance(const json& lock, ReferenceLine& reference) {
    // A stage that is known already is not spoken of.
    const bool finds_out = gets_acquainted(lock) || !known_.empty();
    const std::string stage = acquaintance_text(lock);
    if (!finds_out || stage == known_) return;
    tell(stage, reference);
    known_ = stage;
  }

  bool of_z_;
  std::string told_, known_, said_;
};

/// Whether z is locked, too, or will be.
bool goes_with_z(const json& body) {
  const json z = body.value("z", json::object());
  return z.contains("state") || z.contains("waits");
}

/// Whether z is to be held, too, where no axes were named: axial.hold. A way back has the locks
/// that were lost, and a place says of z itself.
bool holds_z_too(const LockOptions& given, const json& status) {
  const json& z = axial_lock(status);
  return given.axes.empty() && given.place.empty() && !given.resume && z.is_object() &&
         z.value("hold", false);
}

/// Which locks an order to lock was for, by its reply where it named none: numbers of locks are
/// of one count.
std::string axes_of(const LockOptions& given, const json& body, const json& status) {
  if (!given.axes.empty()) return given.axes;
  const json& z = axial_lock(status);
  const bool of_z = z.is_object() && z.value("lock_id", json()) == body.value("lock_id", json(0));
  return std::string(of_z || goes_with_z(body) || holds_z_too(given, status) ? kXyz : kXy);
}

/// Waits until the locks that were ordered hold the sample, and tells which those are.
/// @param body  the reply to the order
/// @throws Refused where one has ended instead
std::string wait_for_lock(const CommonOptions& options, const LockOptions& given, const json& body,
                          StopSignal& stop) {
  constexpr std::chrono::milliseconds kBetween{50};
  ReferenceLine reference;
  std::string which;
  std::vector<AwaitedLock> locks;
  for (;;) {
    const json status = send(options, {{"command", "status"}}).body.at("status");
    if (locks.empty()) {
      which = axes_of(given, body, status);
      if (which != kZ) locks.emplace_back(false);
      if (which != kXy) locks.emplace_back(true);
    }
    bool all = true;
    for (AwaitedLock& lock : locks) all = lock.holds(status, reference) && all;
    if (all) return which;
    if (stop.raised()) throw std::runtime_error("waiting was ended; the lock goes on");
    std::this_thread::sleep_for(kBetween);
  }
}

/// The reply to `request`; who waits tries again while another order to the lock is under way,
/// which is answered within half a second.
json sent(const CommonOptions& options, const json& request, bool waits) {
  constexpr std::chrono::milliseconds kBetween{50};
  constexpr int kTries = 40;
  for (int tries = 1;; ++tries) {
    try {
      return send(options, request).body;
    } catch (const Refused& refused) {
      if (!waits || refused.code != "busy" || tries == kTries) throw;
    }
    std::this_thread::sleep_for(kBetween);
  }
}

/// @param lock  x and y's, which is engaged
std::string without_z(const json& lock, const std::string& why) {
  return "x and y: " + lock.at("state").get<std::string>() + "; z is not locked: " + why;
}

json lock_reply(const json& lock) {
  return {{"state", lock.at("state")}, {"lock_id", lock.at("lock_id")}};
}

/// The reply to an order to lock; who waits takes a lock that is under way already for it.
json ordered(const CommonOptions& options, const LockOptions& given) {
  if (!given.place.empty()) return lock_at_place(options, given.place);
  json request{{"command", "lock"}};
  if (given.resume) request["resume"] = true;
  if (!given.axes.empty()) request["axes"] = given.axes;
  try {
    return sent(options, request, given.wait);
  } catch (const Refused& refused) {
    if (!given.wait || given.resume) throw;
    const json status = send(options, {{"command", "status"}}).body.at("status");
    const json& z = axial_lock(status);
    const bool z_too = holds_z_too(given, status);
    const bool with_xy = given.axes != kZ, with_z = given.axes == kZ || given.axes == kXyz || z_too;
    if (z_too && is_engaged(status) && !is_engaged(z))
      throw Refused(without_z(status, refused.what()), refused.code);
    if ((with_xy && !is_engaged(status)) || (with_z && !is_engaged(z))) throw;
    const auto tell = [](const json& lock, const char* of) {
      fmt::print(stderr, "lock {}{} is {} already; for a new reference `driftctl unlock` first\n",
                 lock.at("lock_id").get<std::uint64_t>(), of, lock.at("state").get<std::string>());
    };
    json body = lock_reply(given.axes == kZ ? z : status);
    if (with_xy) tell(status, "");
    if (with_z) tell(z, " of z");
    if (with_xy && with_z) body["z"] = lock_reply(z);
    return body;
  }
}

void add_axes(CLI::App& command, std::string& axes, const char* help) {
  command.add_option("--axes", axes, help)
      ->check(CLI::IsMember({std::string(kXy), std::string(kZ), std::string(kXyz)}));
}

void lock(const CommonOptions& options, const LockOptions& given) {
  std::optional<StopSignal> stop;
  if (given.wait) stop.emplace();
  json body = ordered(options, given);
  if (const json z = body.value("z", json::object()); z.contains("refused"))
    throw Refused(without_z(body, z.at("refused").get<std::string>()), "refused");
  const bool of_z = given.axes == kZ || body.value("axes", "") == kZ;
  if (stop) {
    const std::string which = wait_for_lock(options, given, body, *stop);
    body["state"] = "locked";
    if (which == kXyz && !of_z) body["z"]["state"] = "locked";
  }
  print_state(options, body, of_z ? "z" : "state");
  if (given.place.empty() || options.json) return;
  print_way_to_place(given.place, body);
  const json z = body.value("z", json::object());
  if (z.contains("left")) fmt::print("{}\n", z.at("left").get<std::string>());
  if (!given.wait && z.contains("waits")) fmt::print("z: {}\n", z.at("waits").get<std::string>());
}

}  // namespace

std::string lock_in_words(const json& status) {
  std::string words = status.at("state").get<std::string>() + " (" +
                      in_words(status.at("reason"), status.value("held_for", "none"),
                               status.value("held_first", "none")) +
                      ")";
  const std::string cure = status.value("cure", "");
  if (!cure.empty()) words += ": " + cure;
  const json offer = status.value("interrupted", json());
  if (status.at("state") == "lost" && offer.is_object()) words += "; " + offer.value("text", "");
  return words;
}

void print_state(const CommonOptions& options, const json& body, const char* of) {
  if (options.json) {
    fmt::print("{}\n", body.dump());
    return;
  }
  if (const json xy = body.value("xy", json::object()); xy.contains("state"))
    fmt::print("state: {}\n", xy.at("state").get<std::string>());
  fmt::print("{}: {}\n", of, body.at("state").get<std::string>());
  if (const json z = body.value("z", json::object()); z.contains("state"))
    fmt::print("z: {}\n", z.at("state").get<std::string>());
  if (const std::string forgotten = body.value("forgotten", ""); !forgotten.empty())
    fmt::print("{}: forgotten\n", forgotten);
  for (const json& told : {body, body.value("z", json::object())})
    if (const std::string warning = told.value("warning", ""); !warning.empty())
      fmt::print(stderr, "warning: {}\n", warning);
}

void add_lock(CLI::App& app, const CommonOptions& options) {
  const auto given = std::make_shared<LockOptions>();
  CLI::App* command =
      app.add_subcommand("lock", "Take the reference anew and hold the sample there");
  command->add_flag("--resume", given->resume,
                    "Go back to where a lock held it that was lost, or that the end of driftd "
                    "interrupted; `status` says how far that is");
  command
      ->add_option("--place", given->place,
                   "Go to a place that was saved (`place save`): its markers are looked for in the "
                   "whole image")
      ->excludes("--resume");
  add_axes(*command, given->axes,
           "xy, z or xyz, each with a lock of its own; without: x and y, and z where axial.hold is "
           "true");
  command->add_flag(
      "--wait", given->wait,
      "Return when it is locked, also by a lock that is under way already; where that ends "
      "otherwise, say why, and exit with 1");
  command->callback([given, &options] { lock(options, *given); });
}

void add_unlock(CLI::App& app, const CommonOptions& options) {
  const auto axes = std::make_shared<std::string>();
  const auto order = [&options, axes](const char* command) {
    json request{{"command", command}};
    if (!axes->empty()) request["axes"] = *axes;
    const json body = send(options, request).body;
    const bool of_z = *axes == kZ || body.value("axes", "") == kZ;
    print_state(options, body, of_z ? "z" : "state");
  };
  CLI::App* unlock = app.add_subcommand("unlock", "Stop correcting; the stage stays where it is");
  add_axes(*unlock, *axes, "xy, z or xyz; without: all. `--axes z` keeps x and y held");
  unlock->callback([order] { order("unlock"); });
  app.add_subcommand("reset", "From lost or fault back to idle")->callback([order] {
    order("reset");
  });
}

}  // namespace driftd::clients
