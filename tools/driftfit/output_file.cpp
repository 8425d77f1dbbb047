// SPDX-License-Identifier: MIT
#include "tools/driftfit/output_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/replaceable.hpp"
#include "tools/driftfit/errors.hpp"

namespace driftd::tools {

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw OutputError(path_, "there is no folder " + folder.string());
  }
  if (!path_.has_filename()) throw OutputError(path_, "is a folder");
  if (const std::string why = why_not_replaced(path_); !why.empty()) throw OutputError(path_, why);
  temporary_ = folder / ("." + path_.filename().string() + "." + std::to_string(getpid()));
  std::filesystem::remove(temporary_, error);
}

OutputFile::~OutputFile() {
  std::error_code error;
  if (!kept_) std::filesystem::remove(temporary_, error);
}

void OutputFile::keep() {
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) throw OutputError(path_, error.message());
  kept_ = true;
}

TextFile::TextFile(const OutputFile& output)
    : output_(&output), file_(std::fopen(output.temporary().c_str(), "wbx")) {
  if (!file_) fail();
}

void TextFile::fail() const {
  throw OutputError(output_->path(), "cannot be written: " +
                                         std::error_code(errno, std::generic_category()).message());
}

void TextFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) fail();
}

void TextFile::finish() {
  if (std::fclose(file_.release()) != 0) fail();
}

}  // namespace driftd::tools
