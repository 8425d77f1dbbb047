// SPDX-License-Identifier: MIT
#include "clients/web/calibration_proposal.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/monotonic.hpp"
#include "clients/web/json_response.hpp"

namespace driftd::web {

using nlohmann::json;

void CalibrationProposal::with_result(std::int64_t now_ns, const Done& done,
                                      const std::function<void(const json& word)>& then) {
  instance_.command(
      kind_.question, {}, now_ns, [this, done, then](unsigned status, const json& word) {
        if (status != 200 || !flag_of(word, "ok")) return done(json_response(status, word));
        if (text_of(word, "phase") != "done")
          return done(refusal(fmt::format("no {} has found anything yet", kind_.name)));
        then(word);
      });
}

bool CalibrationProposal::is_remembered(const json& word) const {
  return memory_ && memory_->run == part_of(word, "run") &&
         memory_->session == part_of(word, "session");
}

/// Whether it can be written is tried by writing: only for who may.
CalibrationProposal::Proposed CalibrationProposal::proposed(const json& word, bool chosen,
                                                            const std::string& why_not) const {
  Proposed found{
      {{"ok", true}, {"run", part_of(word, "run")}, {"session", part_of(word, "session")}},
      std::nullopt};
  json& reply = found.reply;
  try {
    const json& result = word.at("result");
    describe(result, chosen, reply);
    reply["problem"] = why_not;
    if (!instance_.file().empty()) found.kept = kept(result);
    if (found.kept && is_remembered(word)) found.kept->lines = memory_->lines;
    if (found.kept)
      reply["written"] = {{"lines", found.kept->lines}, {"restart", found.kept->restart}};
    if (found.kept || !why_not.empty()) return found;
    if (instance_.file().empty())
      throw std::runtime_error(
          fmt::format("{}: driftctl --config FILE {} --write", kNoFile, kind_.command));
    check(result, chosen, reply);
  } catch (const clients::CannotWrite& error) {
    reply["problem"] =
        may_not_write(error, instance_.file(), kind_.command) + "; it calibrates again first";
  } catch (const std::exception& error) {
    reply["problem"] = error.what();
  }
  return found;
}

void CalibrationProposal::propose(const json& asked, const std::string& why_not,
                                  std::int64_t now_ns, const Done& done) {
  const bool chosen = flag_of(asked, kind_.choice);
  with_result(now_ns, done, [this, chosen, why_not, done](const json& word) {
    Proposed found = proposed(word, chosen, why_not);
    if (!found.kept || !why_not.empty()) return done(json_response(200, found.reply));
    ask_taken_over(std::move(found), is_remembered(word) ? memory_->loaded : Loaded{}, done);
  });
}

/// @param loaded  what was said of it when it was written
void CalibrationProposal::ask_taken_over(Proposed found, const Loaded& loaded, const Done& done) {
  instance_.command(
      {{"command", "reload"}, {"check", true}}, {}, monotonic_ns(),
      [found = std::move(found), loaded, done](unsigned, const json& word) mutable {
        const json differs = word.value("differs", json::array());
        const bool waits = std::ranges::any_of(found.kept->keys, [&differs](const auto& key) {
          return std::ranges::find(differs, json(key)) != differs.end();
        });
        json& written = found.reply["written"];
        std::string say;
        if (waits && !loaded.sentence.empty() && !loaded.taken_over)
          say = loaded.sentence;
        else if (waits && !found.kept->restart)
          say =
              "Restart driftd: it does not go by them yet, as a reload was refused or not ordered.";
        else if (!waits && flag_of(word, "ok") && !loaded.sentence.empty())
          say = loaded.taken_over ? loaded.sentence : "Taken over by driftd since.";
        if (!say.empty()) written["lines"].push_back(say);
        written["restart"] = waits || found.kept->restart;
        done(json_response(200, found.reply));
      });
}

void CalibrationProposal::write(const json& asked, std::int64_t now_ns, const Done& done) {
  const bool chosen = flag_of(asked, kind_.choice);
  with_result(now_ns, done, [this, asked, chosen, done](const json& word) {
    // Runs are counted anew at each start of driftd.
    for (const char* name : {"run", "session"}) {
      if (part_of(asked, name).is_null() && !part_of(word, name).is_null())
        return done(
            refusal(fmt::format("`{}` is missing: as the proposal tells it that is to be "
                                "written; nothing was written",
                                name)));
      if (part_of(asked, name) != part_of(word, name))
        return done(refusal(
            fmt::format("this is not the last {} any more; nothing was written", kind_.name)));
    }
    const Proposed now = proposed(word, chosen, instance_.why_observe());
    if (const std::string problem = text_of(now.reply, "problem"); !problem.empty())
      return done(refusal(problem));
    if (now.kept) return done(refusal("this calibration is written already; nothing was written"));
    try {
      const WrittenFiles written = write_files(word.at("result"), chosen);
      memory_ = Memory{part_of(word, "run"), part_of(word, "session"), written.lines, {}};
      load_written(instance_, written, monotonic_ns(),
                   [this, word, done](const json& said, const Loaded& loaded) {
                     if (is_remembered(word)) memory_->loaded = loaded;
                     done(answer_of(said));
                   });
    } catch (const std::exception& error) {
      done(refusal(error.what()));
    }
  });
}

}  // namespace driftd::web
