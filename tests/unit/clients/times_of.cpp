// SPDX-License-Identifier: MIT
// times_of FILE COLUMN UNIT COMMA: the times that driftctl export reads, in ns, a line each, for
// tests in Python. UNIT: s or ms; COMMA: 1 for --decimal-comma.
#include <cstdio>
#include <exception>
#include <string>

#include "clients/driftctl/records/frame_times.hpp"

int main(int argc, char** argv) {
  using namespace driftd::clients;
  if (argc != 5) return 2;
  try {
    const TimeColumn where{
        .column = std::stoi(argv[2]),
        .told = true,
        .unit = argv[3] == std::string("ms") ? TimeUnit::Milliseconds : TimeUnit::Seconds,
        .decimal_comma = argv[4] == std::string("1"),
        .no_decimal_comma = argv[4] == std::string("no")};
    for (const std::int64_t ns : read_times(argv[1], where).ns)
      std::printf("%lld\n", static_cast<long long>(ns));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
