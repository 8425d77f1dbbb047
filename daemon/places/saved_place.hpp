// SPDX-License-Identifier: MIT
// A place to come back to: what is kept of a lock, as the markers lay there, with a note by who
// saved it; its text, which a checksum guards; and what its name may be. Values; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "daemon/resume/saved_lock.hpp"

namespace driftd::daemon {

/// The markers are at the place; session and lock are those of when it was saved.
struct SavedPlace {
  std::string note;
  SavedLock seen;
};

inline constexpr std::size_t kLongestPlaceName = 64;
inline constexpr std::size_t kLongestPlaceNote = 300;  ///< bytes

/// Letters, digits, `-` and `_`: the name of a file wherever it is copied to.
bool is_place_name(std::string_view name) noexcept;
/// One line of UTF-8, not too long.
bool is_place_note(const std::string& note);

inline constexpr Seal kPlaceSeal{"driftd-place", "a saved place"};
std::string to_text(const SavedPlace& place);
/// @throws StateError
SavedPlace read_saved_place(const std::string& text);

/// "2026-11-24T23:50:12Z", as the clock of then had it.
std::string when_of(const SavedPlace& place);
/// When, how many markers, how far they reach.
nlohmann::json summary_of(const SavedPlace& place);
/// All of it, as the command `place` shows it.
nlohmann::json details_of(const SavedPlace& place);

}  // namespace driftd::daemon
