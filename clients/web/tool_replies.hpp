// SPDX-License-Identifier: MIT
// What the tools of a page answer (docs/internals/web.md), and how what they wrote beside the
// configuration is taken over. One thread, which waits for nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "clients/common/calibration/written_words.hpp"
#include "clients/web/instance.hpp"
#include "clients/web/server.hpp"

namespace driftd::web {

inline constexpr const char* kBy = "driftd-web";
inline constexpr const char* kNoFile =
    "driftd-web was started without --config, so it does not know which file driftd runs with";

Response refusal(const std::string& why);
Response answer_of(nlohmann::json said);

/// "" where it is no text.
std::string text_of(const nlohmann::json& object, const char* name);
bool flag_of(const nlohmann::json& object, const char* name);
/// An object, or null.
nlohmann::json part_of(const nlohmann::json& object, const char* name);

/// @param command  of driftctl, which does the same for who may
std::string may_not_write(const clients::CannotWrite& error, const std::filesystem::path& config,
                          const std::string& command);

/// Has the daemon read what was written. `done` is given {"lines":[...],"restart":true}: what is
/// said of it, and whether it needs a restart.
void reload_written(Instance& instance, std::vector<std::string> lines, std::int64_t now_ns,
                    const std::function<void(nlohmann::json said)>& done);

/// What a proposal says to be written may still wait for a reload that driftd refused, or that
/// nobody ordered. @param keys  of the options that it is about begin with this
void check_taken_over(Instance& instance, nlohmann::json proposal, std::string_view keys,
                      const std::function<void(Response)>& done);

}  // namespace driftd::web
