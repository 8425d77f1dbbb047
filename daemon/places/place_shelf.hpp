// SPDX-License-Identifier: MIT
// The folder of saved places and the thread that reads and writes it, one order after the other: a
// disk may take seconds, and nobody waits. A thread of its own, so that no folder of places keeps
// the state of a lock from the disk. Owned by Places, whose thread (housekeeping) makes all calls;
// what was ordered is still carried out when it is destroyed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/places/saved_place.hpp"

namespace driftd::daemon {

struct ShelfOrder {
  enum class Kind : std::uint8_t { Save, Remove, Read, List };
  Kind kind = Kind::List;
  std::uint64_t number = 0;  ///< its result has it
  std::string name = {};
  SavedPlace place = {};  ///< Save
  bool replace = false;   ///< Save: one that is there
};

/// A file of the folder.
struct ShelfEntry {
  std::string name;
  std::optional<SavedPlace> place;  ///< none: `problem` says why
  std::string problem = {};
};

struct ShelfResult {
  std::uint64_t number = 0;
  std::string problem = {};              ///< why nothing was done, for people; "": it was
  std::vector<ShelfEntry> entries = {};  ///< Read: one; List: by name
};

class PlaceShelf {
 public:
  static constexpr std::size_t kMostPlaces = 100;
  static constexpr std::size_t kMostWaiting = 8;

  /// @param folder  made with the first place; empty: there is no state directory
  explicit PlaceShelf(std::filesystem::path folder);
  PlaceShelf(const PlaceShelf&) = delete;
  PlaceShelf& operator=(const PlaceShelf&) = delete;

  /// False, with nothing ordered, while too many wait.
  bool order(ShelfOrder order);
  /// The results in the order of the orders; nothing when there is none yet.
  std::optional<ShelfResult> take();
  const std::filesystem::path& folder() const noexcept { return folder_; }

 private:
  void run(const std::stop_token& stop);
  ShelfResult carry_out(const ShelfOrder& order) const;
  std::filesystem::path file_of(const std::string& name) const;
  void save(const ShelfOrder& order) const;
  void remove(const std::string& name) const;
  ShelfEntry read(const std::string& name) const;
  std::vector<std::string> names() const;

  std::filesystem::path folder_;
  std::mutex mutex_;  // for what follows
  std::condition_variable_any changed_;
  std::deque<ShelfOrder> orders_;
  std::deque<ShelfResult> results_;
  std::jthread thread_;  // last: it uses what is above, and ends first
};

}  // namespace driftd::daemon
