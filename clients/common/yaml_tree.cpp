// SPDX-License-Identifier: MIT
#include "clients/common/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

namespace driftd::clients {
namespace {

using Kind = YamlNode::Kind;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kSpace = " \t\r\n";

/// Gathers the nodes; those that are open are the path to the newest.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::size_t first_byte) : first_byte_(first_byte) {}
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add({.kind = Kind::Null, .begin = place(mark), .anchor = anchor});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add({.kind = Kind::Alias, .begin = place(mark), .anchor = anchor});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    add({.kind = Kind::Scalar, .begin = place(mark), .tag = tag, .value = value, .anchor = anchor});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open_.push_back(list(Kind::Sequence, mark, tag, anchor, style));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open_.push_back(list(Kind::Map, mark, tag, anchor, style));
  }
  void OnMapEnd() override { close(); }

 private:
  std::size_t place(const YAML::Mark& mark) const {
    return mark.is_null() ? std::string_view::npos
                          : first_byte_ + static_cast<std::size_t>(mark.pos);
  }
  YamlNode list(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                YAML::EmitterStyle::value style) const {
    return {.kind = kind,
            .begin = place(mark),
            .tag = tag,
            .anchor = anchor,
            .flow = style == YAML::EmitterStyle::Flow};
  }
  void add(YamlNode node) {
    (open_.empty() ? root_ : open_.back().children.emplace_back()) = std::move(node);
  }
  void close() {
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    add(std::move(node));
  }

  std::size_t first_byte_;
  YamlNode root_;
  std::vector<YamlNode> open_;
};

[[noreturn]] void cannot_tell() {
  throw EditError("is written in a way that cannot be edited here");
}

char at(std::string_view text, std::size_t place) {
  return place < text.size() ? text[place] : '\0';
}

bool is_space(char c) {
  return kSpace.find(c) != std::string_view::npos;
}

/// Behind an anchor and a tag, in any order.
std::size_t skip_properties(std::string_view text, std::size_t place) {
  while (at(text, place) == '&' || at(text, place) == '!') {
    place = skip_space(text, std::min(text.find_first_of(kSpace, place), text.size()));
  }
  return place;
}

/// Behind the characters of `value`, blanks and line ends apart: these change when lines are
/// joined.
std::size_t behind_words(std::string_view text, std::size_t place, std::string_view value) {
  std::size_t end = place;
  for (const char c : value) {
    if (is_space(c)) continue;
    while (is_space(at(text, place))) ++place;
    if (at(text, place) != c) cannot_tell();
    end = ++place;
  }
  return end;
}

std::size_t end_of_quoted(std::string_view text, std::size_t place) {
  const char quote = text[place];
  for (++place; place < text.size(); ++place) {
    if (quote == '"' && text[place] == '\\') {
      ++place;
    } else if (text[place] == quote) {
      if (quote == '"' || at(text, place + 1) != quote) return place + 1;
      ++place;  // '' within single quotes is a quote
    }
  }
  cannot_tell();
}

std::size_t end_of_scalar(std::string_view text, const YamlNode& node) {
  std::size_t place = skip_properties(text, node.begin);
  const char first = at(text, place);
  if (first == '"' || first == '\'') return end_of_quoted(text, place);
  if (node.tag == "?" || (first != '|' && first != '>')) {
    return behind_words(text, place, node.value);
  }
  // A block: its lines follow the one with the sign, which may end in a comment.
  const std::size_t line_end = std::min(text.find('\n', place), text.size());
  place = text.find_last_not_of(kSpace, line_end - 1) + 1;
  const std::size_t end = behind_words(text, line_end, node.value);
  return end == line_end ? place : end;
}

/// Behind the closing bracket of a flow list, after its last child.
std::size_t behind_bracket(std::string_view text, std::size_t place, char bracket) {
  place = skip_space(text, place);
  while (at(text, place) == ',' || at(text, place) == ':') place = skip_space(text, place + 1);
  if (at(text, place) != bracket) cannot_tell();
  return place + 1;
}

std::size_t end_of_child(std::string_view text, const YamlNode& list, std::size_t index) {
  const YamlNode& child = list.children[index];
  if (child.kind != Kind::Null || is_written(text, child)) return end_of(text, child);
  if (list.kind == Kind::Map && index % 2 == 1) {
    return behind_colon(text, list.children[index - 1]);
  }
  cannot_tell();
}

}  // namespace

YamlNode parse_tree(const std::string& text) {
  const std::size_t first_byte = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  std::istringstream in(text.substr(first_byte));
  YAML::Parser parser(in);
  TreeBuilder builder(first_byte);
  parser.HandleNextDocument(builder);
  return builder.take();
}

std::size_t skip_space(std::string_view text, std::size_t place) {
  while (place < text.size()) {
    if (is_space(text[place])) {
      ++place;
    } else if (text[place] == '#') {
      place = std::min(text.find('\n', place), text.size());
    } else {
      break;
    }
  }
  return place;
}

bool is_written(std::string_view text, const YamlNode& null) {
  if (null.begin >= text.size()) return false;
  const std::string_view rest = text.substr(null.begin);
  for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
    if (!rest.starts_with(word)) continue;
    const std::string_view behind = rest.substr(word.size());
    // `null: 1` on the next line is a key.
    return behind.empty() ||
           std::string_view(" \t\r\n,]}").find(behind.front()) != std::string_view::npos;
  }
  return false;
}

std::size_t end_of(std::string_view text, const YamlNode& node) {
  if (node.begin >= text.size()) cannot_tell();
  switch (node.kind) {
    case Kind::Scalar:
      return end_of_scalar(text, node);
    case Kind::Alias:
      return std::min(text.find_first_of(" \t\r\n,]}", node.begin), text.size());
    case Kind::Null:
      return node.begin + (text[node.begin] == '~' ? 1 : 4);
    case Kind::Sequence:
    case Kind::Map:
      break;
  }
  if (node.flow) {
    const std::size_t open = skip_properties(text, node.begin);
    const char bracket = node.kind == Kind::Map ? '}' : ']';
    if (at(text, open) != (node.kind == Kind::Map ? '{' : '[')) cannot_tell();
    return behind_bracket(
        text, node.children.empty() ? open + 1 : end_of_child(text, node, node.children.size() - 1),
        bracket);
  }
  if (node.children.empty()) cannot_tell();
  return end_of_child(text, node, node.children.size() - 1);
}

std::size_t behind_colon(std::string_view text, const YamlNode& key) {
  const std::size_t colon = skip_space(text, end_of(text, key));
  if (at(text, colon) != ':') cannot_tell();
  return colon + 1;
}

}  // namespace driftd::clients
