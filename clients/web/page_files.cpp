// SPDX-License-Identifier: MIT
#include "clients/web/page_files.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>

#include "config/config.hpp"

namespace driftd::web {
namespace {

std::string_view type_of(std::string_view name) {
  constexpr std::array<std::array<std::string_view, 2>, 8> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".mjs", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".json", "application/json"},
      {".webmanifest", "application/manifest+json"},
  }};
  for (const auto& [end, type] : kTypes)
    if (name.ends_with(end)) return type;
  return "application/octet-stream";
}

/// FNV-1a of 64 bits.
std::string tag_of(std::string_view content) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : content) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return fmt::format("\"{:016x}\"", hash);
}

}  // namespace

Page embedded_page() {
  Page page;
  for (const EmbeddedFile& file : embedded_files())
    page.emplace(file.name, std::string(file.bytes.begin(), file.bytes.end()));
  return page;
}

Page read_page(const std::filesystem::path& folder) {
  Page page;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    page[std::filesystem::relative(entry.path(), folder).generic_string()] = {
        std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  if (!page.contains("index.html"))
    throw config::ConfigError("--page " + folder.string() +
                              ": there is no index.html, so this is no folder of a page");
  return page;
}

Response serve_file(const Page& page, std::string_view path, const Request& request) {
  const std::string_view name = path == "/" ? "index.html" : path.substr(1);
  const auto file = page.find(name);
  if (file == page.end()) return {.status = 404, .body = "there is no such file\n"};
  const std::string tag = tag_of(file->second);
  Response response = {.type = std::string(type_of(name)),
                       .body = {},
                       .headers = {{"ETag", tag}, {"Cache-Control", "no-cache"}}};
  if (request.header("if-none-match") == tag)
    response.status = 304;
  else
    response.body = file->second;
  return response;
}

}  // namespace driftd::web
