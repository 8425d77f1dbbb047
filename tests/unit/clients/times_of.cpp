// SPDX-License-Identifier: MIT
// times_of FILE COLUMN UNIT COMMA [notes]: the times that driftctl export reads, in ns, a line
// each, or what it says of them, for tests in Python. COLUMN "": none is told. UNIT: s or ms;
// COMMA: 1 for --decimal-comma.
#include <cstdio>
#include <exception>
#include <string>

#include "clients/driftctl/records/frame_times.hpp"

int main(int argc, char** argv) {
  using namespace driftd::clients;
  if (argc != 5 && argc != 6) return 2;
  try {
    const std::string column = argv[2];
    const TimeColumn where{
        .column = column.empty() ? 1 : std::stoi(column),
        .told = !column.empty(),
        .unit = argv[3] == std::string("ms") ? TimeUnit::Milliseconds : TimeUnit::Seconds,
        .decimal_comma = argv[4] == std::string("1"),
        .no_decimal_comma = argv[4] == std::string("no")};
    const FrameTimes times = read_times(argv[1], where);
    if (argc == 6) {
      for (const std::string& note : times.notes) std::printf("%s\n", note.c_str());
      return 0;
    }
    for (const std::int64_t ns : times.ns) std::printf("%lld\n", static_cast<long long>(ns));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
