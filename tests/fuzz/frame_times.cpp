// SPDX-License-Identifier: MIT
// The list of another camera's frames, as driftctl export takes it.
#include "clients/driftctl/frame_times.hpp"

#include <ctime>
#include <stdexcept>

#include "fuzz/recordings.hpp"

namespace driftd::fuzz {
namespace {

/// The second that a date names is the one that is read.
void check_date(const std::string& text, std::int64_t ns) {
  const std::time_t seconds = ns / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::string shown(64, '\0');
  shown.resize(std::strftime(shown.data(), shown.size(), "%Y-%m-%dT%H:%M:%S", &utc));
  std::string said = text.substr(0, shown.size());
  if (said.size() > 10) said[10] = 'T';
  require(said == shown, "a date is the one that is said", text);
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
      const auto texts = clients::read_column(file.path(), column);
      require(!texts.empty(), "a list has values");
      for (const std::string& text : texts) check_time(text);
    } catch (const std::runtime_error& error) {
      require(error.what()[0] != '\0', "a refusal says something");
    }
  }
}

}  // namespace driftd::fuzz
