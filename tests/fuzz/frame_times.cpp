// SPDX-License-Identifier: MIT
// The list of another camera's frames, as driftctl export takes it.
#include "clients/driftctl/records/frame_times.hpp"

#include <ctime>
#include <stdexcept>

#include "fuzz/recordings.hpp"

namespace driftd::fuzz {
namespace {

/// The second that a date in UTC names is the one that is read.
void check_date(const std::string& text, std::int64_t ns) {
  const std::time_t seconds = ns / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::string shown(64, '\0');
  shown.resize(std::strftime(shown.data(), shown.size(), "%Y-%m-%dT%H:%M:%S", &utc));
  require(clients::time_ns(shown + "Z", clients::TimeUnit::Seconds) == seconds * 1'000'000'000,
          "a date reads back", text);
  const bool in_utc = text.size() > shown.size() && text[5] != 'W' && text[10] == 'T' &&
                      text[16] == ':' && text.back() == 'Z' && text[11] != '2' && text[17] != '6';
  if (in_utc) require(text.starts_with(shown), "a date is the one that is said", text);
}

void check_time(const std::string& text) {
  for (const auto unit : {clients::TimeUnit::Seconds, clients::TimeUnit::Nanoseconds}) {
    try {
      const std::int64_t ns = clients::time_ns(text, unit);
      if (text.find(':') != std::string::npos && ns >= 0) check_date(text, ns);
    } catch (const std::runtime_error& error) {
      require(error.what()[0] != '\0', "a refusal says something");
    }
  }
}

}  // namespace

void frame_times(Bytes bytes) {
  static const FolderFile file("times.csv");
  file.hold(bytes);
  for (const int column : {1, 2}) {
    try {
      const auto times = clients::read_times(file.path(), {.column = column});
      require(!times.ns.empty(), "a list has times");
    } catch (const std::runtime_error& error) {
      require(error.what()[0] != '\0', "a refusal says something");
    }
    try {
      const auto texts = clients::read_column(file.path(), column, true);
      require(!texts.empty(), "a list has values");
      for (const std::string& text : texts) check_time(text);
    } catch (const std::runtime_error& error) {
      require(error.what()[0] != '\0', "a refusal says something");
    }
  }
}

}  // namespace driftd::fuzz
