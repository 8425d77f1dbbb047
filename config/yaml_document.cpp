// SPDX-License-Identifier: MIT
#include "config/yaml_document.hpp"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

#include "config/scalar.hpp"

namespace driftd::config {
namespace {

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

/// Sees what yaml-cpp lets pass: a quote that is never closed swallows all the lines below it.
class QuoteCheck : public YAML::EventHandler {
 public:
  QuoteCheck(std::string_view text, Mistakes& mistakes) : mistakes_(mistakes) {
    while (true) {
      const std::size_t end = text.find('\n');
      lines_.push_back(text.substr(0, end));
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
  }
  /// Where the document begins that was read last.
  Place start() const { return start_; }

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = place_of(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string&) override {
    if (tag != "!" || mark.is_null()) return;  // "!": quoted, or a block
    const auto line = static_cast<std::size_t>(mark.line);
    const auto column = static_cast<std::size_t>(mark.column);
    if (line >= lines_.size() || column >= lines_[line].size()) return;
    const std::string_view rest = lines_[line].substr(column);
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
};

Place place_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<int>(std::ranges::count(before, '\n')) + 1,
          static_cast<int>(offset - line_start) + 1};
}

}  // namespace

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
    QuoteCheck check(text, mistakes);
    parser.HandleNextDocument(check);
    // One at a time: YAML::LoadAll() never ends on a text that begins with a comma.
    if (parser.HandleNextDocument(check)) {
      mistakes.add(check.start(), "", "found more than one YAML document; allowed one");
      return std::nullopt;
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    mistakes.add(place_of(error.mark), "", "not valid YAML: " + error.msg);
    return std::nullopt;
  }
}

}  // namespace driftd::config
