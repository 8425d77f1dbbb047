// SPDX-License-Identifier: MIT
#include "base/yaml/document.hpp"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/yaml/scalar.hpp"

namespace driftd::yaml {
namespace {

/// Far more than any configuration or scenario; a larger file is not one.
constexpr std::size_t kLargestFileBytes = 1 << 20;

/// Is the text whose opening quote stands first closed within this line?
bool is_closed(std::string_view line) {
  const char quote = line.front();
  for (std::size_t i = 1; i < line.size(); ++i) {
    const bool escaped = line[i] == '\\' && quote == '"';
    const bool doubled = quote == '\'' && line.substr(i).starts_with("''");  // stands for one
    if (escaped || doubled) {
      ++i;
    } else if (line[i] == quote) {
      return true;
    }
  }
  return false;
}

/// Sees what yaml-cpp lets pass: a quote that is never closed swallows all the lines below it, and
/// escapes ("\_" and "\N") that it makes bytes of which are no text.
class ScalarCheck : public YAML::EventHandler {
 public:
  ScalarCheck(std::string_view text, Mistakes& mistakes) : mistakes_(mistakes) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // in no column
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    while (true) {
      const std::size_t end = text.find('\n');
      lines_.push_back(text.substr(0, end));
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
  }
  /// Where the document begins that was read last.
  Place start() const { return start_; }
  bool all_are_text() const { return all_are_text_; }

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = place_of(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    if (all_are_text_ && first_no_text(value) != std::string_view::npos) {
      all_are_text_ = false;  // one tells
      mistakes_.add(place_of(mark), "",
                    "found an escape that makes no text; allowed text in UTF-8");
    }
    if (mark.is_null()) return;
    const auto line = static_cast<std::size_t>(mark.line);
    const auto column = static_cast<std::size_t>(mark.column);
    if (line >= lines_.size() || column >= lines_[line].size()) return;
    std::string_view rest = lines_[line].substr(column);
    while (rest.front() == '&' || rest.front() == '!') {  // an anchor or a tag before the text
      const std::size_t next = rest.find_first_not_of(' ', rest.find(' '));
      if (next == std::string_view::npos) return;
      rest.remove_prefix(next);
    }
    if ((rest.front() == '"' || rest.front() == '\'') && !is_closed(rest)) {
      mistakes_.add(place_of(mark), "",
                    "found a quote that is not closed; allowed text on one line");
    }
  }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  Mistakes& mistakes_;
  std::vector<std::string_view> lines_;
  Place start_;
  bool all_are_text_ = true;
};

Place place_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<int>(std::ranges::count(before, '\n')) + 1,
          static_cast<int>(offset - line_start) + 1};
}

}  // namespace

std::optional<std::string> read_file(const std::filesystem::path& file, Mistakes& mistakes) {
  const auto refuse = [&mistakes](const std::string& why) {
    mistakes.add({}, "", why);
    return std::nullopt;
  };
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    return refuse("found a folder; allowed a YAML file");
  // A pipe would be waited for, a device is without an end.
  if (std::filesystem::is_other(file, error))
    return refuse("found no regular file; allowed a YAML file");
  std::ifstream in(file, std::ios::binary);
  if (!in) return refuse("cannot be opened: " + std::generic_category().message(errno));
  std::string text(kLargestFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return refuse("cannot be read: " + std::generic_category().message(errno));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() <= kLargestFileBytes) return text;
  return refuse("found more than " + std::to_string(kLargestFileBytes) +
                " bytes; allowed no more: this is no configuration");
}

Place place_of(const YAML::Mark& mark) {
  return mark.is_null() ? Place{} : Place{mark.line + 1, mark.column + 1};
}

std::optional<YAML::Node> read_document(const std::string& text, Mistakes& mistakes) {
  if (const std::size_t at = first_no_text(text); at != std::string::npos) {
    mistakes.add(place_at(text, at), "", "found a byte that is no text; allowed UTF-8");
    return std::nullopt;
  }
  try {
    std::istringstream in(text);
    YAML::Parser parser(in);
    ScalarCheck check(text, mistakes);
    parser.HandleNextDocument(check);
    // One at a time: YAML::LoadAll() never ends on a text that begins with a comma.
    if (parser.HandleNextDocument(check)) {
      mistakes.add(check.start(), "", "found more than one YAML document; allowed one");
      return std::nullopt;
    }
    if (!check.all_are_text()) return std::nullopt;
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    mistakes.add(place_of(error.mark), "", "not valid YAML: " + printable(error.msg));
    return std::nullopt;
  }
}

}  // namespace driftd::yaml
