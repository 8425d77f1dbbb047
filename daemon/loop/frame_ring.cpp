// SPDX-License-Identifier: MIT
#include "daemon/loop/frame_ring.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace driftd::daemon {
namespace {

constexpr std::size_t kLeastPlaceBytes = 4096;  // smaller frames leave memory unused
constexpr std::size_t kAlignment = 64;
/// The oldest ones are given up while the first one to hold is looked for.
constexpr std::uint64_t kGivenUp = 8;
constexpr double kMostOfMemory = 0.8;

/// The number behind `key` in a file of lines "key: number"; none where it is not there.
double number_in(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    double value = 0;
    if (word == key && in >> value) return value;
  }
  return std::numeric_limits<double>::infinity();
}

/// What systemd's MemoryMax= or a container allows.
double group_limit() {
  std::ifstream groups("/proc/self/cgroup");
  double least = std::numeric_limits<double>::infinity();
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string path = line.substr(3);; path.erase(path.rfind('/'))) {
      std::ifstream in("/sys/fs/cgroup" + path + "/memory.max");
      double value = 0;
      if (in >> value) least = std::min(least, value);
      if (path.empty()) break;  // a container's own
    }
  }
  return least;
}

void require_memory(std::size_t bytes) {
  const double there = std::min(number_in("/proc/meminfo", "MemAvailable:") * 1024, group_limit());
  if (static_cast<double>(bytes) <= kMostOfMemory * there) return;
  throw std::runtime_error(
      fmt::format("record.frames_memory_mb: {:.0f} MB of memory are needed, and of {:.0f} MB that "
                  "there are for driftd at most {:.0f} % are taken",
                  static_cast<double>(bytes) * 1e-6, there * 1e-6, kMostOfMemory * 100));
}

}  // namespace

FrameRing::FrameRing(std::size_t bytes) : bytes_(bytes) {
  require_memory(bytes);
  slots_ = std::make_unique<Slot[]>(bytes / kLeastPlaceBytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error(
        fmt::format("record.frames_memory_mb: the kernel gives no {:.0f} MB: {}; where memory is "
                    "locked, LimitMEMLOCK= (systemd) or memlock (limits.conf) has to allow it",
                    static_cast<double>(bytes) * 1e-6, std::generic_category().message(errno)));
  }
  memory_ = static_cast<std::byte*>(memory);
  madvise(memory_, bytes_, MADV_DONTDUMP);
  if (mlock(memory_, bytes_) != 0) not_locked_ = std::generic_category().message(errno);
}

FrameRing::~FrameRing() {
  munmap(memory_, bytes_);
}

std::size_t FrameRing::place_bytes(std::size_t frame_bytes) noexcept {
  return std::max(kLeastPlaceBytes, (frame_bytes + kAlignment - 1) / kAlignment * kAlignment);
}

/// Makes places of another size, which loses all that is kept: frames of another size come. Not
/// while some are held.
bool FrameRing::fit(std::size_t frame_bytes) noexcept {
  const std::size_t slot_bytes = place_bytes(frame_bytes);
  if (slot_bytes == slot_bytes_) return room_.load(std::memory_order_relaxed) > 0;
  fitting_.store(true);
  const bool free = held_from_.load() > newest_.load(std::memory_order_relaxed);
  if (free) {
    for (std::size_t i = 0; i < room_.load(std::memory_order_relaxed); ++i)
      slots_[i].number.store(0, std::memory_order_relaxed);
    slot_bytes_ = slot_bytes;
    room_.store(bytes_ / slot_bytes);
  }
  fitting_.store(false);
  return free && slot_bytes <= bytes_;
}

void FrameRing::keep(const camera::Frame& frame, std::int64_t taken_ns) noexcept {
  if (!wanted.load(std::memory_order_relaxed)) return;
  const std::size_t frame_bytes = camera::held_bytes(frame);
  if (!fit(frame_bytes)) {
    not_kept.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::uint64_t number = newest_.load(std::memory_order_relaxed) + 1;
  const std::size_t place = number % room_.load(std::memory_order_relaxed);
  Slot& slot = slots_[place];
  const std::uint64_t before = slot.number.load(std::memory_order_relaxed);
  const auto is_held = [&] { return before != 0 && before >= held_from_.load(); };
  bool held = is_held();  // then nobody may see it gone
  if (!held) {
    // Either this sees that it is held now, or who holds it sees that it is being written: both are
    // sequentially consistent.
    slot.number.store(0);
    held = is_held();
  }
  if (held) {
    slot.number.store(before);
    not_kept.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::byte* pixels = memory_ + place * slot_bytes_;
  std::memcpy(pixels, frame.pixels, frame_bytes);
  slot.kept = {frame, taken_ns};
  slot.kept.frame.pixels = pixels;
  slot.number.store(number, std::memory_order_release);
  newest_.store(number, std::memory_order_release);
}

std::uint64_t FrameRing::hold(std::int64_t from_ns) noexcept {
  const auto oldest = [this] {
    const std::uint64_t newest = newest_.load();
    const std::uint64_t room = room_.load();
    const std::uint64_t given_up = std::min(kGivenUp, room / 4);
    return newest + given_up < room ? 1 : newest + given_up - room + 1;
  };
  held_from_.store(oldest());
  while (fitting_.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::uint64_t number = oldest();
  const std::uint64_t newest = newest_.load();
  for (; number <= newest; ++number) {
    const Kept* kept = at(number);
    if (kept != nullptr && kept->frame.arrival_ns >= from_ns) break;
  }
  held_from_.store(number);
  return number;
}

const FrameRing::Kept* FrameRing::at(std::uint64_t number) const noexcept {
  const std::uint64_t room = room_.load();
  if (room == 0) return nullptr;
  const Slot& slot = slots_[number % room];
  return slot.number.load() == number ? &slot.kept : nullptr;
}

const FrameRing::Kept* FrameRing::next(std::uint64_t& number) const noexcept {
  const std::uint64_t newest = newest_.load();  // first: one that comes now is not passed over
  for (;; ++number) {
    if (const Kept* kept = at(number)) return kept;
    if (number > newest) return nullptr;  // else it was overwritten when it was to be held
  }
}

}  // namespace driftd::daemon
