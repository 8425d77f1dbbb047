// SPDX-License-Identifier: MIT
// The entry points that libFuzzer calls, and replay_main.cpp where there is no libFuzzer.
#include "fuzz/fuzz.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace driftd::fuzz {
namespace {

constexpr const char* kVariable = "DRIFTD_FUZZ_TARGET";
const Target* chosen = nullptr;

}  // namespace

const Target* target_named(std::string_view name) {
  const auto found = std::ranges::find(targets(), name, &Target::name);
  return found == targets().end() ? nullptr : &*found;
}

void require(bool holds, std::string_view rule, std::string_view found) {
  if (holds) return;
  std::fprintf(stderr, "broken rule: %.*s: %.*s\n", static_cast<int>(rule.size()), rule.data(),
               static_cast<int>(found.size()), found.data());
  std::abort();
}

std::vector<std::string> split(std::string_view text, char separator, std::size_t most) {
  std::vector<std::string> parts;
  while (parts.size() + 1 < most) {
    const std::size_t end = text.find(separator);
    if (end == std::string_view::npos) break;
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.emplace_back(text);
  return parts;
}

Bytes Choices::take_bytes(std::size_t count) {
  const Bytes part = bytes_.first(std::min(count, bytes_.size()));
  bytes_ = bytes_.subspan(part.size());
  return part;
}

}  // namespace driftd::fuzz

// NOLINTBEGIN(readability-identifier-naming): libFuzzer's names
/// Takes the target's name off the command line. The processes that libFuzzer starts get it by the
/// environment.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace driftd::fuzz;
  if (*argc > 1 && target_named((*argv)[1]) != nullptr) {
    setenv(kVariable, (*argv)[1], 1);  // NOLINT(concurrency-mt-unsafe): there is one thread yet
    std::rotate(*argv + 1, *argv + 2, *argv + *argc);
    --*argc;
  }
  const char* name = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe)
  chosen = name != nullptr ? target_named(name) : nullptr;
  if (chosen != nullptr) return 0;
  std::fputs("usage: driftd_fuzz TARGET [ARGUMENT...]\ntargets:", stderr);
  for (const Target& target : targets()) {
    std::fprintf(stderr, " %.*s", static_cast<int>(target.name.size()), target.name.data());
  }
  std::fputs("\n", stderr);
  std::exit(2);  // NOLINT(concurrency-mt-unsafe)
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  driftd::fuzz::chosen->run({data, size});
  return 0;
}
// NOLINTEND(readability-identifier-naming)
