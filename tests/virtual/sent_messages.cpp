// SPDX-License-Identifier: MIT
#include "tests/virtual/sent_messages.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <utility>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" {
int __real_zmq_send(void* socket, const void* buffer, std::size_t bytes, int flags);
int __wrap_zmq_send(void* socket, const void* buffer, std::size_t bytes, int flags);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace driftd::virtual_time {
namespace {

std::mutex mutex;
std::condition_variable changed;
bool held = false;
std::vector<std::string> messages;
std::atomic<std::uint64_t> replies{0};

bool is_published(std::string_view text) {
  constexpr std::array<std::string_view, 6> kTopics = {"position {", "correction {", "axial {",
                                                       "markers {",  "status {",     "event {"};
  for (const std::string_view topic : kTopics)
    if (text.starts_with(topic)) return true;
  return false;
}

}  // namespace

std::vector<std::string> take_sent_messages() {
  const std::lock_guard lock(mutex);
  return std::exchange(messages, {});
}

void hold_corrections(bool hold) {
  const std::lock_guard lock(mutex);
  held = hold;
  changed.notify_all();
}

std::uint64_t sent_replies() {
  return replies;
}

}  // namespace driftd::virtual_time

int __wrap_zmq_send(void* socket, const void* buffer, std::size_t bytes, int flags) {
  const std::string_view text(static_cast<const char*>(buffer), bytes);
  if (text.starts_with("correction {") || text.starts_with("axial {")) {
    std::unique_lock lock(driftd::virtual_time::mutex);
    driftd::virtual_time::changed.wait(lock, [] { return !driftd::virtual_time::held; });
  }
  const int sent = __real_zmq_send(socket, buffer, bytes, flags);
  if (sent < 0) return sent;
  if (driftd::virtual_time::is_published(text)) {
    const std::lock_guard lock(driftd::virtual_time::mutex);
    driftd::virtual_time::messages.emplace_back(text);
  } else if (text.starts_with("{")) {
    ++driftd::virtual_time::replies;
  }
  return sent;
}
