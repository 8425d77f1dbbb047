// SPDX-License-Identifier: MIT
#include "support/allocation_watch.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>

namespace {

thread_local bool watched = false;
std::atomic<std::uint64_t> count{0};

}  // namespace

namespace driftd::test {

void watch_this_thread(bool on) noexcept {
  watched = on;
}
std::uint64_t watched_allocations() noexcept {
  return count.load();
}

#ifdef DRIFTD_SANITIZED
bool can_watch() noexcept {
  return false;
}
#else
bool can_watch() noexcept {
  const std::uint64_t before = count.load();
  watched = true;
  void* volatile block = std::malloc(1);  // volatile: not optimised away
  std::free(block);
  watched = false;
  if (count.exchange(before) != before + 2) std::abort();  // a watch that sees nothing
  return true;
}
#endif

}  // namespace driftd::test

#ifndef DRIFTD_SANITIZED
// glibc's own entry points, under which its malloc can still be had. operator new ends here, too.
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) {
  if (watched) ++count;
  return __libc_malloc(size);
}
void* calloc(std::size_t n, std::size_t size) {
  if (watched) ++count;
  return __libc_calloc(n, size);
}
void* realloc(void* block, std::size_t size) {
  if (watched) ++count;
  return __libc_realloc(block, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  if (watched) ++count;
  return __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  if (watched) ++count;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  if (watched) ++count;
  *block = __libc_memalign(alignment, size);
  return *block == nullptr ? 12 : 0;  // ENOMEM
}
void free(void* block) {
  if (watched && block != nullptr) ++count;
  __libc_free(block);
}
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
#endif
