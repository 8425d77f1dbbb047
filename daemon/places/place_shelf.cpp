// SPDX-License-Identifier: MIT
#include "daemon/places/place_shelf.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/process/realtime.hpp"
#include "base/state_file.hpp"

namespace driftd::daemon {
namespace {

constexpr const char* kSuffix = ".place";
constexpr std::size_t kMostNamed = 10;  ///< in a sentence

/// "there are a, b and 12 more"
std::string listed(const std::vector<std::string>& names) {
  if (names.empty()) return "none is saved";
  const std::size_t shown = std::min(names.size(), kMostNamed);
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + static_cast<std::ptrdiff_t>(shown));
  const std::string more =
      shown < names.size() ? fmt::format(" and {} more", names.size() - shown) : "";
  return fmt::format("there are {}{}", fmt::join(first, ", "), more);
}

}  // namespace

PlaceShelf::PlaceShelf(std::filesystem::path folder)
    : folder_(std::move(folder)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

bool PlaceShelf::order(ShelfOrder order) {
  const std::lock_guard guard(mutex_);
  if (orders_.size() >= kMostWaiting) return false;
  orders_.push_back(std::move(order));
  changed_.notify_one();
  return true;
}

std::optional<ShelfResult> PlaceShelf::take() {
  const std::lock_guard guard(mutex_);
  if (results_.empty()) return std::nullopt;
  ShelfResult result = std::move(results_.front());
  results_.pop_front();
  return result;
}

void PlaceShelf::run(const std::stop_token& stop) {
  schedule_as_ordinary("driftd-places");
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !orders_.empty(); })) {
    const ShelfOrder order = std::move(orders_.front());
    orders_.pop_front();
    lock.unlock();
    ShelfResult result = carry_out(order);
    lock.lock();
    results_.push_back(std::move(result));
  }
}

ShelfResult PlaceShelf::carry_out(const ShelfOrder& order) const {
  ShelfResult result{.number = order.number};
  try {
    if (folder_.empty())
      throw std::runtime_error(
          "neither STATE_DIRECTORY, XDG_STATE_HOME nor HOME says where places are kept");
    switch (order.kind) {
      case ShelfOrder::Kind::Save:
        save(order);
        break;
      case ShelfOrder::Kind::Remove:
        remove(order.name);
        break;
      case ShelfOrder::Kind::Read:
        result.entries.push_back(read(order.name));
        if (!result.entries.front().place)
          throw std::runtime_error(fmt::format("the place `{}` is not used: {}", order.name,
                                               result.entries.front().problem));
        break;
      case ShelfOrder::Kind::List:
        for (const std::string& name : names())  // more were put there by hand
          if (result.entries.size() < kMostPlaces) result.entries.push_back(read(name));
    }
  } catch (const std::exception& error) {
    result.problem = error.what();
  }
  return result;
}

std::filesystem::path PlaceShelf::file_of(const std::string& name) const {
  return folder_ / (name + kSuffix);
}

void PlaceShelf::save(const ShelfOrder& order) const {
  const StateOwner folder(folder_ / "places");  // until this place is there
  if (!folder.is_ours())
    throw std::runtime_error(fmt::format("another driftd, {}, is just saving one in {}: try again",
                                         folder.other(), folder_.string()));
  const std::vector<std::string> there = names();
  const bool is_there = std::ranges::find(there, order.name) != there.end();
  if (is_there && !order.replace)
    throw std::runtime_error(fmt::format(
        "there is a place `{}` already: `replace` it, or take another name", order.name));
  if (!is_there && there.size() >= kMostPlaces)
    throw std::runtime_error(
        fmt::format("there are {} places, and no more are kept: remove one", there.size()));
  write_state(file_of(order.name), to_text(order.place));
}

void PlaceShelf::remove(const std::string& name) const {
  const std::vector<std::string> there = names();
  if (std::ranges::find(there, name) == there.end())
    throw std::runtime_error(fmt::format("there is no place `{}`: {}", name, listed(there)));
  remove_state(file_of(name));
}

ShelfEntry PlaceShelf::read(const std::string& name) const {
  ShelfEntry entry{.name = name, .place = std::nullopt};
  try {
    if (const auto text = read_state(file_of(name)))
      entry.place = read_saved_place(*text);
    else
      entry.problem = "there is none of this name; " + listed(names());
  } catch (const std::exception& error) {
    entry.problem = error.what();
  }
  return entry;
}

/// Passes over other files in the folder in silence.
std::vector<std::string> PlaceShelf::names() const {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  if (!fs::exists(folder_)) return names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() == kSuffix && is_place_name(name)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace driftd::daemon
