// SPDX-License-Identifier: MIT
#include "clients/driftctl/records/table_csv.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <cstring>
#include <iterator>

namespace driftd::clients {
namespace {

using record::Column;
using record::Kind;

template <typename T>
T value_at(const char* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

/// RFC 4180.
std::string quoted(const char* text) {
  std::string result = "\"";
  for (const char* c = text; *c != '\0'; ++c) {
    if (*c == '"') result += '"';
    result += *c;
  }
  return result + "\"";
}

void add_value(fmt::memory_buffer& out, const Column& column, const char* place) {
  const auto end = std::back_inserter(out);
  const auto real = [&](auto value) {
    if (std::isfinite(value)) fmt::format_to(end, "{}", value);
  };
  switch (column.kind) {
    case Kind::Flag:
      fmt::format_to(end, "{}", value_at<bool>(place) ? 1 : 0);
      break;
    case Kind::U8:
      fmt::format_to(end, "{}", value_at<std::uint8_t>(place));
      break;
    case Kind::U16:
      fmt::format_to(end, "{}", value_at<std::uint16_t>(place));
      break;
    case Kind::U32:
      fmt::format_to(end, "{}", value_at<std::uint32_t>(place));
      break;
    case Kind::U64:
      fmt::format_to(end, "{}", value_at<std::uint64_t>(place));
      break;
    case Kind::I64:
      fmt::format_to(end, "{}", value_at<std::int64_t>(place));
      break;
    case Kind::F32:
      real(value_at<float>(place));
      break;
    case Kind::F64:
      real(value_at<double>(place));
      break;
    case Kind::Choice: {
      const auto value = value_at<std::uint8_t>(place);
      fmt::format_to(end, "{}", value < column.choices.size() ? column.choices[value] : "?");
      break;
    }
    case Kind::Text:
      fmt::format_to(end, "{}", quoted(value_at<const char*>(place)));
      break;
  }
}

}  // namespace

std::string csv_heading(const record::TableLayout& layout) {
  std::string line;
  for (const Column& column : layout.columns)
    line += (line.empty() ? "" : ",") + std::string(column.name);
  return line + "\n";
}

std::string csv_lines(const record::TableLayout& layout, const void* rows, std::size_t count) {
  fmt::memory_buffer out;
  const char* row = static_cast<const char*>(rows);
  for (std::size_t i = 0; i < count; ++i, row += layout.row_bytes) {
    bool first = true;
    for (const Column& column : layout.columns) {
      if (!first) out.push_back(',');
      first = false;
      add_value(out, column, row + column.offset);
    }
    out.push_back('\n');
  }
  return {out.data(), out.size()};
}

std::string csv_lines(std::span<const record::Event> events) {
  std::string text;
  for (const record::Event& e : events) {
    const record::EventRow row{e.time_ns,      e.wall_ns,      e.level.c_str(),
                               e.code.c_str(), e.text.c_str(), e.fields.c_str()};
    text += csv_lines(record::events_layout(), &row, 1);
  }
  return text;
}

}  // namespace driftd::clients
