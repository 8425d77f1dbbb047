// SPDX-License-Identifier: MIT
#include "clients/web/tools.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/monotonic.hpp"
#include "clients/common/calibration/written_words.hpp"
#include "clients/common/calibration_file.hpp"
#include "clients/common/kept_choice.hpp"
#include "clients/common/plain.hpp"
#include "clients/web/json_response.hpp"
#include "clients/web/tool_replies.hpp"

namespace driftd::web {
namespace {

using clients::KeyValues;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::int64_t kTellNs = kNanosecondsPerSecond / 4;
constexpr std::int64_t kBetweenSnapshotsNs = 2 * kNanosecondsPerSecond;
constexpr std::size_t kMostAwaitSnapshot = 8;
constexpr double kGraceS = 30;  // for a driftctl that is slow to begin and to evaluate
constexpr double kMostMeasureS = 600, kSeriesS = 120, kReportS = 120;
constexpr int kSeriesFrames = 512;
constexpr std::uintmax_t kMostReportBytes = std::uintmax_t{16} * 1024 * 1024;

/// The files of the recording that one of them is of, in their order.
std::vector<fs::path> recording_of(const fs::path& file) {
  const std::string name = file.filename().string();
  const std::size_t end = name.rfind('_');
  std::vector<fs::path> files;
  std::error_code error;
  if (end != std::string::npos)
    for (const auto& entry : fs::directory_iterator(file.parent_path(), error)) {
      const std::string other = entry.path().filename().string();
      if (other.starts_with(name.substr(0, end + 1)) && other.ends_with(".h5"))
        files.push_back(entry.path());
    }
  if (files.empty()) return {file};
  std::ranges::sort(files);
  return files;
}

/// The values of a report of `driftctl --json calibrate camera`.
KeyValues camera_values(const json& report) {
  KeyValues values;
  const json& camera = report.at("proposal").at("camera");
  for (const char* name :
       {"gain_e_per_adu", "offset_adu", "read_noise_e", "saturation_adu", "gain_db"})
    if (camera.contains(name) && camera[name].is_number())
      values.emplace_back(std::string("camera.") + name, camera[name].dump());
  return values;
}

}  // namespace

const Tools::Choice Tools::kMarkers = {"markers", clients::markers_file, clients::markers_to_keep};
const Tools::Choice Tools::kExposure = {
    "exposure", clients::exposure_file,
    [](const json& reply, const json&) { return clients::exposure_to_keep(reply); }};

Tools::Tools(Instance& instance, Instance::Tell tell)
    : instance_(instance), stage_(instance), axial_(instance), tell_(std::move(tell)) {}

Tools::~Tools() {
  job_.reset();
  std::error_code error;
  if (!folder_.empty()) fs::remove_all(folder_, error);
}

void Tools::use(const json& asked, const std::string& forbidden, std::int64_t now_ns,
                const Done& done) {
  const std::string tool = text_of(asked, "tool");
  const std::string why_not = forbidden.empty() ? instance_.why_observe() : forbidden;
  if (tool == "proposal") return stage_.propose(asked, why_not, now_ns, done);
  if (tool == "proposal_z") return axial_.propose(asked, why_not, now_ns, done);
  if (tool == "snapshot") return give_snapshot(now_ns, done);
  if (!why_not.empty()) return done(refusal(why_not));
  if (tool == "write_stage") return stage_.write(asked, now_ns, done);
  if (tool == "write_z") return axial_.write(asked, now_ns, done);
  if (tool == "write_camera") return write_camera(now_ns, done);
  if (tool == "write_markers" || tool == "write_exposure")
    return write_choice(tool == "write_markers" ? kMarkers : kExposure, now_ns, done);
  if (tool == "report_page")
    return done(report_.empty() ? refusal("there is no report yet")
                                : Response{.type = "text/html; charset=utf-8", .body = report_});
  if (tool == "stop") {
    if (job_ != nullptr) {
      tell_job(job_->tool, {{"phase", "stopped"}, {"text", "stopped"}});
      job_.reset();
    }
    return done(json_response(200, {{"ok", true}}));
  }
  if (tool == "measure" || tool == "camera" || tool == "report") return start(asked, now_ns, done);
  done({.status = 400, .body = "there is no such tool\n"});
}

// --- the camera's, and what somebody chose ---

void Tools::write_and_load(const clients::CalibrationFile& file, const KeyValues& values,
                           std::int64_t now_ns, const Done& done) {
  load_written(instance_, write_values(file, values), now_ns,
               [done](json said, const Loaded&) { done(answer_of(std::move(said))); });
}

/// What `write` has to be given, or why nothing is written.
/// @param command  of driftctl, which does the same for who may
void Tools::write_or_refuse(const std::string& command, const Done& done,
                            const std::function<void(const fs::path& config)>& write) {
  try {
    if (instance_.file().empty()) throw std::runtime_error(kNoFile);
    write(instance_.file());
  } catch (const clients::CannotWrite& error) {
    done(refusal(may_not_write(error, instance_.file(), command)));
  } catch (const std::exception& error) {
    done(refusal(error.what()));
  }
}

/// @throws std::runtime_error where the file asks for another gain than this was measured at
void Tools::check_gain() const {
  constexpr double kSameDb = 0.1;  // makes no other noise
  const json measured = part_of(camera_, "gain_db");
  if (!measured.is_number() || camera_.at("proposal").at("camera").contains("gain_db")) return;
  const double in_file = config::load(instance_.file()).camera.gain_db;
  if (std::abs(in_file - measured.get<double>()) <= kSameDb) return;
  throw std::runtime_error(
      fmt::format("this was measured at a gain of {:.4g} dB, and camera.gain_db is {:.4g} by now: "
                  "measure again; nothing was written",
                  measured.get<double>(), in_file));
}

void Tools::write_camera(std::int64_t now_ns, const Done& done) {
  if (!camera_.is_object()) return done(refusal("the camera has not been measured yet"));
  write_or_refuse("calibrate camera --dark", done, [&](const fs::path& config) {
    if (const std::string why = text_of(camera_, "why_not_written"); !why.empty())
      throw std::runtime_error(why + "; nothing was written");
    if (text_of(camera_, "camera") != text_of(part_of(instance_.status(), "camera"), "description"))
      throw std::runtime_error("driftd has another camera now; nothing was written");
    check_gain();
    write_and_load(
        clients::checked_calibration_file(config, clients::kCameraFile, kBy, instance_.status()),
        camera_values(camera_), now_ns, done);
  });
}

void Tools::write_choice(const Choice& choice, std::int64_t now_ns, const Done& done) {
  instance_.command({{"command", choice.command}}, {}, now_ns,
                    [this, choice, done, now_ns](unsigned status, const json& chosen) {
                      if (status != 200 || !flag_of(chosen, "ok"))
                        return done(json_response(status, chosen));
                      instance_.command(
                          {{"command", "status"}}, {}, now_ns,
                          [this, choice, chosen, done](unsigned answered, const json& word) {
                            if (answered != 200 || !flag_of(word, "ok"))
                              return done(json_response(answered, word));
                            write_or_refuse(choice.command, done, [&](const fs::path& config) {
                              const json now = part_of(word, "status");
                              const clients::CalibrationFile file = choice.file(config, kBy, now);
                              clients::check_to_write(file, now);
                              write_and_load(file, choice.values(chosen, now), monotonic_ns(),
                                             done);
                            });
                          });
                    });
}

// --- what driftctl does ---

std::vector<std::string> Tools::driftctl() const {
  std::vector<std::string> words = {beside_this("driftctl"), "--json"};
  if (!instance_.file().empty()) words.insert(words.end(), {"--config", instance_.file().string()});
  if (instance_.in_folder()) words.insert(words.end(), {"--instance", instance_.name()});
  return words;
}

fs::path Tools::folder() {
  if (!folder_.empty()) return folder_;
  std::string name = (fs::temp_directory_path() / "driftd-web-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw std::runtime_error("cannot make a folder in " + fs::temp_directory_path().string() +
                             ": " + std::generic_category().message(errno));
  return folder_ = name;
}

void Tools::start(const json& asked, std::int64_t now_ns, const Done& done) {
  const std::string tool = text_of(asked, "tool");
  if (job_ != nullptr)
    return done(refusal("something is being measured already: wait for it, or stop it"));
  std::vector<std::string> words = driftctl();
  const auto add = [&words](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  double takes_s = 0, most_s = kSeriesS;
  fs::path result;
  try {
    if (tool == "measure") {
      const json seconds = asked.value("seconds", json());
      takes_s = seconds.is_number() ? seconds.get<double>() : 0;
      if (!(takes_s >= 1 && takes_s <= kMostMeasureS))
        return done(refusal(fmt::format("a measurement takes 1 to {:g} s", kMostMeasureS)));
      most_s = takes_s;
      add({"measure", fmt::format("{}", takes_s)});
    } else if (tool == "camera") {
      const fs::path dark = folder() / "dark.json";
      add({"calibrate", "camera", "--frames", std::to_string(kSeriesFrames), "--seconds",
           fmt::format("{}", kSeriesS)});
      if (flag_of(asked, "dark")) add({"--dark-only"});
      if (flag_of(asked, "dark") || fs::exists(dark)) add({"--dark-result", dark.string()});
    } else {
      const fs::path file = text_of(part_of(instance_.status(), "record"), "file");
      if (file.empty()) return done(refusal("nothing has been recorded since driftd's start"));
      most_s = kReportS;
      result = folder() / "report.html";
      fs::remove(result);
      add({"report", "--output", result.string()});
      for (const fs::path& one : recording_of(file)) words.push_back(one.string());
    }
    const double end_s = most_s + kGraceS;
    job_.reset(new Job{.tool = tool,
                       .program = Program(words),
                       .begin_ns = now_ns,
                       .end_ns = now_ns + static_cast<std::int64_t>(end_s * 1e9),
                       .takes_s = takes_s,
                       .result = result});
  } catch (const std::exception& error) {
    return done(refusal(error.what()));
  }
  told_ns_ = now_ns;
  tell_job(tool, {{"phase", "running"}, {"text", ""}});
  done(json_response(200, {{"ok", true}}));
}

void Tools::tell_job(const std::string& tool, json news) {
  news["kind"] = "job";
  news["tool"] = tool;
  tell_(std::make_shared<const std::string>(packed(news)), "job " + tool);
  told_[tool] = {std::move(news), monotonic_ns()};
}

void Tools::turn(std::int64_t now_ns) {
  ask_snapshot(now_ns);
  if (job_ == nullptr) return;
  if (job_->program.turn()) return end_job(true);
  if (now_ns >= job_->end_ns) return end_job(false);
  if (now_ns - told_ns_ < kTellNs) return;
  told_ns_ = now_ns;
  json news = {{"phase", "running"}, {"text", job_->program.last_error()}};
  if (job_->takes_s > 0)
    news["progress"] =
        std::min(1.0, static_cast<double>(now_ns - job_->begin_ns) * 1e-9 / job_->takes_s);
  tell_job(job_->tool, std::move(news));
}

void Tools::end_job(bool on_time) {
  const std::unique_ptr<Job> job = std::exchange(job_, nullptr);
  const auto fail = [&](const std::string& why) {
    tell_job(job->tool, {{"phase", "failed"}, {"text", why}});
  };
  if (!on_time) return fail("driftctl took too long, and was ended");
  if (job->program.failure()) {
    std::string why = job->program.last_error();
    constexpr std::string_view kWho = "driftctl: ";
    if (why.starts_with(kWho)) why.erase(0, kWho.size());
    return fail(why.empty() ? "driftctl " + *job->program.failure() : why);
  }
  if (!job->result.empty()) {
    std::error_code error;
    if (fs::file_size(job->result, error) > kMostReportBytes || error)
      return fail("the report cannot be read, or is too large for a page");
    std::ifstream file(job->result, std::ios::binary);
    report_.assign(std::istreambuf_iterator<char>(file), {});
    return tell_job(job->tool, {{"phase", "done"}, {"text", ""}});
  }
  json result = clients::parse_plain(job->program.output());
  if (!result.is_object()) return fail("driftctl said what is not understood here");
  if (job->tool == "camera") camera_ = result;
  tell_job(job->tool, {{"phase", "done"}, {"text", ""}, {"result", std::move(result)}});
}

std::vector<std::string> Tools::past() const {
  std::vector<std::string> messages;
  for (const auto& [tool, told] : told_) {
    json news = told.news;
    news["ago_s"] = static_cast<double>(monotonic_ns() - told.at_ns) * 1e-9;
    messages.push_back(packed(news));
  }
  return messages;
}

// --- the whole picture ---

/// One who asks gets a picture of 2 s ago at most: the next one, with all who wait for it.
void Tools::give_snapshot(std::int64_t now_ns, const Done& done) {
  // Each is a whole frame in memory until the browser has it.
  if (await_snapshot_.size() >= kMostAwaitSnapshot)
    return done(refusal(
        fmt::format("{} wait for a whole picture already: again, please", kMostAwaitSnapshot)));
  await_snapshot_.push_back(done);
  ask_snapshot(now_ns);
}

void Tools::ask_snapshot(std::int64_t now_ns) {
  if (await_snapshot_.empty() || snapshot_asked_) return;
  if (snapshot_ns_ != 0 && now_ns - snapshot_ns_ < kBetweenSnapshotsNs) return;
  snapshot_ns_ = now_ns;
  snapshot_asked_ = true;
  instance_.whole_picture(now_ns, [this](std::optional<clients::Reply> reply) {
    snapshot_asked_ = false;
    Response response = refusal("driftd has not answered");
    if (reply && !reply->body.contains("frame")) response = json_response(200, reply->body);
    if (reply && reply->body.contains("frame"))
      response = {
          .type = "application/octet-stream",
          .body = packed({{"kind", "frame"}, {"frame", reply->body["frame"]}}, reply->attachment)};
    for (const Done& done : std::exchange(await_snapshot_, {})) done(response);
  });
}

}  // namespace driftd::web
