// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/calibration_run.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "clients/common/plain.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAskEvery(200);
constexpr std::chrono::milliseconds kLookEvery(20);  // whether somebody presses Ctrl-C
constexpr int kGoneAfter = 2;                        // timeouts
constexpr int kStuckAfter = 15;                      // timeouts
constexpr std::chrono::minutes kFitTakes(3);         // at most, on a computer that is busy

std::size_t columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

/// What the daemon says of the run.
struct Word {
  json body;
  std::string phase, text;
  std::optional<double> progress;
};

/// Empty when the phase is none of the protocol. @throws json::exception
std::optional<Word> read_word(json body) {
  constexpr std::array<std::string_view, 9> kPhases{
      "none", "quiet", "moving", "returning", "fitting", "done", "refused", "stopped", "failed"};
  Word word;
  word.phase = body.at("phase").get<std::string>();
  if (std::ranges::find(kPhases, word.phase) == kPhases.end()) return std::nullopt;
  const auto text = body.find("text");
  if (text != body.end() && !text->is_null()) word.text = text->get<std::string>();
  const auto progress = body.find("progress");
  if (progress != body.end() && !progress->is_null()) {
    const auto share = progress->get<double>();
    if (std::isfinite(share)) word.progress = std::clamp(share, 0.0, 1.0);
  }
  word.body = std::move(body);
  return word;
}

class CalibrationRun {
 public:
  CalibrationRun(CommandClient& client, StopSignal& stop, std::chrono::milliseconds timeout)
      : client_(client), stop_(stop), timeout_(timeout) {}

  json run(const CalibrationRequest& request) {
    if (request.fields.contains("axes")) axes_["axes"] = request.fields["axes"];
    client_.request(command("calibration"));  // is it there, and does it know of calibrations?
    start(request);
    heard_ = changed_ = Clock::now();
    for (;;) {
      try {
        if (stop_.count() > 0 && !told_to_stop_) tell_to_stop();
        if (stop_.count() > 1) leave();
        if (const auto word = ask()) {
          progress_.show(word->phase, word->progress, word->text);
          if (is_over(*word)) return word->body;
          check_progress(*word);
        }
        pause();
      } catch (const Interrupted&) {  // the top of the loop knows why
      } catch (const json::exception& error) {
        refuse_answer(error);
      }
    }
  }

 private:
  /// Of the stage that is calibrated.
  json command(const char* name) const {
    json command = axes_;
    command["command"] = name;
    return command;
  }

  void start(const CalibrationRequest& request) {
    json command = request.fields;
    command["command"] = "calibrate";
    json reply;
    try {
      reply = client_.request(command).body;
    } catch (const Unreachable& error) {
      throw Unreachable(
          fmt::format("{}. The calibration may have begun nonetheless: `driftctl "
                      "unlock` ends it; nothing was written",
                      error.what()));
    }
    try {
      number_ = reply.at("run").get<std::int64_t>();
      excursion_ = fmt::format("{:g} nm", reply.at("excursion_nm").get<double>());
      progress_.say(fmt::format(
          "The stage moves by up to {} each way for about {:g} s, and back to where it is now. "
          "Ctrl-C stops it.",
          excursion_, reply.at("seconds").get<double>()));
      const std::string warning = reply.value("warning", "");
      if (!warning.empty()) progress_.say("warning: " + warning);
    } catch (const json::exception& error) {
      refuse_answer(error);
    }
  }

  /// Empty while the daemon does not answer but may.
  std::optional<Word> ask() {
    json body;
    try {
      body = client_.request(command("calibration"), [this] { return is_new_signal(); }).body;
    } catch (const Refused& error) {
      refuse(error.what());
    } catch (const Unreachable& error) {
      if (Clock::now() - heard_ < kGoneAfter * timeout_) return std::nullopt;
      progress_.end();
      throw Unreachable(
          fmt::format("{}. That is in the middle of the calibration: {}; nothing was written",
                      error.what(), place()));
    }
    heard_ = Clock::now();
    const auto known = read_word(std::move(body));
    if (!known) refuse("driftd told a phase of the calibration that this driftctl does not know");
    const Word& word = *known;
    if (word.phase == "none" || word.body.at("run").get<std::int64_t>() != number_) {
      progress_.end();
      throw std::runtime_error(fmt::format(
          "driftd knows this calibration no longer: it was restarted, or another was begun. The "
          "stage may stand up to {} from its start; nothing was written",
          excursion_));
    }
    return word;
  }

  /// The daemon's answers make no sense: it is told to stop, and not listened to any longer.
  [[noreturn]] void refuse(const std::string& why) {
    if (!told_to_stop_) tell_to_stop();
    progress_.end();
    throw Refused(fmt::format("{}. driftd was told to stop; until it has, the stage may stand up "
                              "to {} from its start; nothing was written",
                              why, excursion_),
                  "bad_reply");
  }

  [[noreturn]] void refuse_answer(const json::exception& error) {
    refuse(fmt::format("the answer is not what docs/reference/protocol.md says: {}", error.what()));
  }

  void tell_to_stop() {
    if (!stopping_) {
      progress_.say(
          "Stopping: the stage goes back to its start. Ctrl-C again does not wait for it.");
    }
    stopping_ = true;
    try {
      json stop = command("calibrate");
      stop["stop"] = true;
      client_.request(stop, [this] { return stop_.count() > 1; });
    } catch (const Refused&) {  // it is over already, and what is asked next tells how
    } catch (const Unreachable&) {
      // What is asked next tells whether it is gone; if it is not, it is told again.
      return;
    } catch (const Interrupted&) {  // not waited for
      return;
    }
    told_to_stop_ = true;
  }

  /// Whether there is a signal that the top of the loop has not acted upon.
  bool is_new_signal() { return stop_.count() > (stopping_ ? 1 : 0); }

  /// Where the stage is, as far as the last word tells.
  std::string place() const {
    if (last_.phase == "fitting") return "the stage is back at its start";
    return fmt::format("the stage may stand up to {} from its start", excursion_);
  }

  [[noreturn]] void leave() {
    progress_.end();
    if (last_.phase == "fitting") {
      throw std::runtime_error("not waited for: " + place() + "; nothing was written");
    }
    throw std::runtime_error(fmt::format(
        "not waited for: {}; until driftd has brought it back the stage may stand up to {} from "
        "its start; nothing was written",
        told_to_stop_ ? "driftd was told to stop" : "driftd may not know that it shall stop",
        excursion_));
  }

  /// True: it is done. @throws where it ended in another way
  bool is_over(const Word& word) {
    const bool done = word.phase == "done";
    const bool stopped = word.phase == "stopped";
    if (!done && !stopped && word.phase != "refused" && word.phase != "failed") return false;
    progress_.end();
    const std::string why = word.text.empty() ? "no reason given" : word.text;
    if (word.phase == "refused") throw Refused(why, "refused");
    if (word.phase == "failed") throw std::runtime_error("the calibration failed: " + why);
    if (told_to_stop_) {
      // driftd says where the stage is: `unlock` at the same time would leave it elsewhere.
      throw std::runtime_error(
          fmt::format("stopped: {}; nothing was written",
                      word.text.empty() ? "the stage is back at its start" : word.text));
    }
    if (stopped) throw std::runtime_error("the calibration was stopped by another: " + why);
    const auto result = word.body.find("result");
    if (result == word.body.end() || !result->is_object()) {
      throw Refused("driftd says that the calibration is done, and told no result", "bad_reply");
    }
    return true;
  }

  void check_progress(const Word& word) {
    const auto now = Clock::now();
    if (word.phase != last_.phase || word.text != last_.text || word.progress != last_.progress) {
      changed_ = now;
    }
    last_ = word;
    if (now - changed_ < kStuckAfter * timeout_) return;
    if (word.phase == "fitting") {
      if (now - changed_ >= kFitTakes) leave_it_fitting(now - changed_);
      return;
    }
    if (!told_to_stop_) tell_to_stop();
    progress_.end();
    throw std::runtime_error(fmt::format(
        "driftd has told nothing new for {:.0f} s (phase {}) and was told to stop; the stage may "
        "stand up to {} from its start; nothing was written",
        std::chrono::duration<double>(now - changed_).count(), word.phase, excursion_));
  }

  [[noreturn]] void leave_it_fitting(Clock::duration waited) {
    progress_.end();
    throw std::runtime_error(fmt::format(
        "not waited for any longer: the evaluation has taken {:.0f} s and goes on in driftd, whose "
        "reply to the command `calibration` has the result when it is over "
        "(docs/reference/protocol.md). The stage is back at its start; nothing was written",
        std::chrono::duration<double>(waited).count()));
  }

  void pause() {
    const auto end = Clock::now() + kAskEvery;
    while (Clock::now() < end && !is_new_signal()) std::this_thread::sleep_for(kLookEvery);
  }

  CommandClient& client_;
  StopSignal& stop_;
  std::chrono::milliseconds timeout_;
  ProgressLine progress_;
  json axes_ = json::object();
  std::int64_t number_ = 0;
  std::string excursion_ = "the excursion";
  bool stopping_ = false, told_to_stop_ = false;
  Clock::time_point heard_, changed_;
  Word last_;
};

}  // namespace

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressLine::show(const std::string& phase, std::optional<double> progress,
                        const std::string& text) {
  constexpr int kBar = 20;
  std::string line;
  if (progress) {
    const int full = static_cast<int>(*progress * kBar);
    if (terminal_) line = fmt::format("[{:#<{}}{:.<{}}] ", "", full, "", kBar - full);
    line += fmt::format("{:3.0f} %  ", 100 * *progress);
  }
  line += phase + (text.empty() ? "" : ": " + text);
  if (terminal_) {
    line = cut(line, columns() - 1);
    fmt::print(stderr, "\r\033[K{}", line);
    open_ = true;
  } else {
    const auto now = Clock::now();
    if (line == shown_ || (phase == phase_ && now - last_ < std::chrono::seconds(1))) return;
    fmt::print(stderr, "{}\n", line);
    last_ = now;
  }
  std::fflush(stderr);
  phase_ = phase;
  shown_ = line;
}

void ProgressLine::say(const std::string& text) {
  end();
  fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
}

void ProgressLine::end() {
  if (open_) fmt::print(stderr, "\n");
  open_ = false;
}

json run_calibration(CommandClient& client, StopSignal& stop, const CalibrationRequest& request,
                     std::chrono::milliseconds timeout) {
  return CalibrationRun(client, stop, timeout).run(request);
}

}  // namespace driftd::clients
