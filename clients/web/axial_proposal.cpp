// SPDX-License-Identifier: MIT
#include "clients/web/axial_proposal.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/monotonic.hpp"
#include "clients/common/calibration/axial_calibration.hpp"
#include "clients/common/calibration/axial_files.hpp"
#include "clients/common/kept_choice.hpp"
#include "clients/web/json_response.hpp"
#include "clients/web/tool_replies.hpp"

namespace driftd::web {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kCommand = "calibrate z";  // of driftctl

/// Empty: none is to be written.
fs::path curve_for(const fs::path& config, bool keep_curve) {
  return keep_curve ? fs::path() : clients::curve_beside(config);
}

/// For who is asked whether the curve until now is right; null where there was none.
json question_of(const json& result) {
  const json gain = part_of(result, "gain_by_curve");
  if (!gain.is_number()) return nullptr;
  return json::array(
      {fmt::format("By the curve until now axial.stage.gain is {:.3g}, and {:.3g} is configured.",
                   gain.get<double>(), result.at("stage_gain").get<double>()),
       "Where that curve is right it can stay, and the gain is what it says."});
}

std::vector<std::string> lines_of(const clients::KeyValues& values) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : values) lines.push_back(fmt::format("{}: {}", key, value));
  return lines;
}

clients::CalibrationFile checked_file(const Instance& instance, bool writes_curve) {
  auto file = clients::checked_calibration_file(instance.file(), clients::kAxialFile, kBy,
                                                instance.status());
  if (writes_curve) clients::check_curve_writable(file, clients::curve_beside(instance.file()));
  return file;
}

}  // namespace

void AxialProposal::with_result(std::int64_t now_ns, const Done& done,
                                const std::function<void(const json& word)>& then) {
  instance_.command({{"command", "calibration"}, {"axes", "z"}}, {}, now_ns,
                    [done, then](unsigned status, const json& word) {
                      if (status != 200 || !flag_of(word, "ok"))
                        return done(json_response(status, word));
                      if (text_of(word, "phase") != "done")
                        return done(refusal("no calibration of z has found anything yet"));
                      then(word);
                    });
}

json AxialProposal::written_of(const json& word) const {
  if (written_.is_object() && written_["run"] == word.value("run", json()) &&
      written_["session"] == instance_.session())
    return written_["said"];
  const fs::path config = instance_.file();
  const auto file = clients::calibration_file(config, clients::kAxialFile, kBy, instance_.status());
  if (!clients::sweep_is_kept(file, word.at("result"))) return nullptr;
  return {{"lines", {fmt::format("{} has this curve and these values already.", config.string())}},
          {"restart", false}};
}

/// Whether it can be written is tried by writing: only for who may.
json AxialProposal::proposal_of(const json& word, bool keep_curve,
                                const std::string& why_not) const {
  json proposal = {{"ok", true}, {"run", word.value("run", json())}};
  try {
    const json& result = word.at("result");
    const fs::path config = instance_.file();
    proposal["findings"] = clients::axial_findings(result);
    proposal["question"] = question_of(result);
    proposal["problem"] = why_not;
    if (config.empty() && why_not.empty())
      throw std::runtime_error(
          fmt::format("{}: driftctl --config FILE {} --write", kNoFile, kCommand));
    if (config.empty()) return proposal;
    proposal["lines"] =
        lines_of(clients::sweep_values(config, result, curve_for(config, keep_curve)));
    if (json written = written_of(word); !written.is_null()) proposal["written"] = written;
    if (proposal.contains("written") || !why_not.empty()) return proposal;
    const bool writes_curve = !keep_curve && !clients::curve_texts(result).curve.empty();
    proposal["file"] = checked_file(instance_, writes_curve).path().string();
    if (writes_curve) proposal["curve"] = clients::curve_beside(config).string();
  } catch (const clients::CannotWrite& error) {
    proposal["problem"] =
        may_not_write(error, instance_.file(), kCommand) + "; it calibrates again first";
  } catch (const std::exception& error) {
    proposal["problem"] = error.what();
  }
  return proposal;
}

void AxialProposal::propose(const json& asked, const std::string& why_not, std::int64_t now_ns,
                            const Done& done) {
  const bool keep_curve = flag_of(asked, "keep_curve");
  with_result(now_ns, done, [this, keep_curve, why_not, done](const json& word) {
    json proposal = proposal_of(word, keep_curve, why_not);
    if (!proposal.contains("written") || !why_not.empty())
      return done(json_response(200, proposal));
    check_taken_over(instance_, std::move(proposal), "axial.", done);
  });
}

void AxialProposal::write(const json& asked, std::int64_t now_ns, const Done& done) {
  const json run = asked.value("run", json());
  const bool keep_curve = flag_of(asked, "keep_curve");
  with_result(now_ns, done, [this, run, keep_curve, done](const json& word) {
    if (word.value("run", json()) != run)
      return done(refusal("this is not the last calibration of z any more; nothing was written"));
    const json now = proposal_of(word, keep_curve, instance_.why_observe());
    if (const std::string problem = text_of(now, "problem"); !problem.empty())
      return done(refusal(problem));
    if (now.contains("written"))
      return done(refusal("this calibration is written already; nothing was written"));
    try {
      const json& result = word.at("result");
      const fs::path config = instance_.file();
      const auto file =
          clients::calibration_file(config, clients::kAxialFile, kBy, instance_.status());
      auto written = clients::write_sweep(file, instance_.config(), result,
                                          curve_for(config, keep_curve), false);
      spdlog::info("{}: {}", instance_.name(), fmt::join(written.lines, " "));
      const auto tell = [this, run, of = instance_.session(), done](json said) {
        written_ = {{"run", run}, {"session", of}, {"said", said}};
        done(answer_of(std::move(said)));
      };
      if (!written.changed) return tell(json{{"lines", written.lines}, {"restart", false}});
      reload_written(instance_, std::move(written.lines), monotonic_ns(), tell);
    } catch (const std::exception& error) {
      done(refusal(error.what()));
    }
  });
}

}  // namespace driftd::web
