// SPDX-License-Identifier: MIT
#include "clients/driftctl/records/text_output.hpp"

#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "base/replaceable.hpp"

namespace driftd::clients {

TextOutput::TextOutput(std::filesystem::path path, const std::vector<std::filesystem::path>& inputs)
    : path_(std::move(path)) {
  if (const std::string why = why_not_replaced(path_, inputs); !why.empty())
    throw std::runtime_error(path_.string() + ": " + why);
  temporary_ = path_;
  temporary_ += ".part-" + std::to_string(getpid());
  file_ = std::fopen(temporary_.c_str(), "wbx");
  if (file_ == nullptr) fail();
}

TextOutput::~TextOutput() {
  if (file_ != nullptr) static_cast<void>(std::fclose(file_));
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void TextOutput::fail() const {
  throw std::runtime_error(path_.string() +
                           ": cannot be written: " + std::generic_category().message(errno));
}

void TextOutput::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail();
}

void TextOutput::keep() {
  std::FILE* file = std::exchange(file_, nullptr);
  if (std::fclose(file) != 0) fail();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
}

}  // namespace driftd::clients
