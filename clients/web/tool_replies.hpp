// SPDX-License-Identifier: MIT
// What the tools of a page answer (docs/internals/web.md), and how what they wrote beside the
// configuration is taken over. One thread, which waits for nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
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

/// What was written beside the configuration.
struct WrittenFiles {
  std::vector<std::string> lines;  ///< a sentence each
  bool reloads = false;            ///< driftd can take it over while it runs
  bool restart = false;            ///< it does so at its start only, which `lines` say
};

/// @throws std::exception why nothing was written
WrittenFiles write_values(const clients::CalibrationFile& file, const clients::KeyValues& values);

/// What came of the reload.
struct Loaded {
  std::string sentence;  ///< "": none was ordered
  bool taken_over = false;
};

/// Has the daemon read what was written, where that is enough. `done` is given
/// {"lines":[...],"restart":true}: what is said of it, and whether it needs a restart.
void load_written(Instance& instance, const WrittenFiles& written, std::int64_t now_ns,
                  const std::function<void(nlohmann::json said, const Loaded& loaded)>& done);

}  // namespace driftd::web
