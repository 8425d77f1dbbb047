// SPDX-License-Identifier: MIT
// The files of the page, compiled in (clients/web/page/, by cmake/page_files.cmake) or of a folder.
// Pure but for read_page().
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "clients/web/server.hpp"

namespace driftd::web {

struct EmbeddedFile {
  std::string_view name;  ///< below page/: "index.html"
  std::span<const unsigned char> bytes;
};
/// Made by the build.
std::span<const EmbeddedFile> embedded_files();

/// By name.
using Page = std::map<std::string, std::string, std::less<>>;
Page embedded_page();
/// @throws std::runtime_error where it is none
Page read_page(const std::filesystem::path& folder);

/// The answer to GET and HEAD of a path that is a file's. @param path  "/": index.html
Response serve_file(const Page& page, std::string_view path, const Request& request);

}  // namespace driftd::web
