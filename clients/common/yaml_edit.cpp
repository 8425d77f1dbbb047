// SPDX-License-Identifier: MIT
#include "clients/common/yaml_edit.hpp"

#include <spdlog/fmt/fmt.h>
#include <yaml-cpp/exceptions.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/yaml/scalar.hpp"

namespace driftd::clients {
namespace {

using Kind = YamlNode::Kind;
using Path = std::vector<std::string>;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

struct Splice {
  std::size_t begin, end;
  std::string text;
};

Path parts_of(const std::string& key) {
  Path parts;
  std::size_t begin = 0;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', begin)) {
    parts.push_back(key.substr(begin, dot - begin));
    begin = dot + 1;
  }
  parts.push_back(key.substr(begin));
  return parts;
}

YamlNode plain_scalar(const std::string& text) {
  return {.kind = Kind::Scalar, .tag = "?", .value = text};
}

/// What a text may have that this does not edit, said of the node that stands at the wanted place.
void refuse_what_is_shared(const YamlNode& node) {
  if (node.kind == Kind::Alias || node.anchor != 0) {
    throw EditError("has an anchor or repeats one (`&`, `*`)");
  }
  if (!node.tag.empty() && node.tag != "?" && node.tag != "!") {
    throw EditError("has a tag (`" + node.tag + "`)");
  }
}

/// Index of the key's value among the children of a map.
std::optional<std::size_t> find_value(const YamlNode& map, const std::string& key) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i + 1 < map.children.size(); i += 2) {
    const YamlNode& name = map.children[i];
    if (name.kind != Kind::Scalar) continue;
    if (name.value == "<<") throw EditError("stands beside a merged mapping (`<<`)");
    if (name.value != key) continue;
    if (found) throw EditError("occurs twice");
    found = i + 1;
  }
  return found;
}

/// One value, and the places of one text where it belongs. Positions are those of that text.
class Edit {
 public:
  Edit(const std::string& text, const Path& path, const std::string& value)
      : text_(text), path_(path), value_(value), wanted_(parse_tree(value)) {
    const std::size_t newline = text.find('\n');
    const bool carriage = newline != std::string::npos && newline > 0 && text[newline - 1] == '\r';
    newline_ = carriage ? "\r\n" : "\n";
  }

  std::string result();

 private:
  void descend(YamlNode& root);
  void replace_value(const YamlNode& key, YamlNode& old);
  void replace_whole(const YamlNode& key, const YamlNode& old);
  void replace_elements(const YamlNode& old, const YamlNode& wanted);
  void insert_into_flow(const YamlNode& map, std::size_t depth);
  void insert_into_block(const YamlNode& map, std::size_t depth);
  void insert_into_nothing(const YamlNode& key, const YamlNode& nothing, bool in_flow,
                           std::size_t depth);
  void append(const std::string& indentation);

  bool same_shape(const YamlNode& old, const YamlNode& wanted) const;
  void splice(std::size_t begin, std::size_t end, std::string text);
  void refuse_lost_comments(const YamlNode& old, std::size_t end) const;
  /// The keys from `depth` on with the value.
  std::string in_block(const std::string& indentation, std::size_t depth) const;
  std::string in_flow(std::size_t depth) const;
  YamlNode subtree(std::size_t depth) const;
  void add_to(YamlNode& map, std::size_t depth) const;

  std::size_t line_begin(std::size_t place) const;
  std::size_t line_end(std::size_t place) const;
  std::size_t next_line(std::size_t place) const;
  std::string blanks_at(std::size_t line) const;
  std::string indentation_of(const YamlNode& key) const;
  std::size_t behind_comments(std::size_t place, const std::string& indentation) const;

  const std::string& text_;
  const Path& path_;
  const std::string& value_;
  YamlNode wanted_;
  std::string newline_;
  std::string unit_ = "  ";  ///< of indentation
  std::vector<Splice> splices_;
};

std::size_t Edit::line_begin(std::size_t place) const {
  const std::size_t newline = place == 0 ? std::string::npos : text_.rfind('\n', place - 1);
  return newline == std::string::npos ? 0 : newline + 1;
}

std::size_t Edit::line_end(std::size_t place) const {
  const std::size_t newline = text_.find('\n', place);
  if (newline == std::string::npos) return text_.size();
  return newline > place && text_[newline - 1] == '\r' ? newline - 1 : newline;
}

std::size_t Edit::next_line(std::size_t place) const {
  const std::size_t newline = text_.find('\n', place);
  return newline == std::string::npos ? text_.size() : newline + 1;
}

std::string Edit::blanks_at(std::size_t line) const {
  const std::size_t end = text_.find_first_not_of(" \t", line);
  return text_.substr(line, std::min(end, text_.size()) - line);
}

std::string Edit::indentation_of(const YamlNode& key) const {
  std::size_t begin = line_begin(key.begin);
  if (begin == 0 && text_.starts_with(kByteOrderMark)) begin = kByteOrderMark.size();
  std::string blanks = blanks_at(begin);
  if (begin + blanks.size() != key.begin) {
    throw EditError("stands beside a key that does not begin its line");
  }
  return blanks;
}

/// The end of the line at `place` or of the comments right below it that are indented so.
std::size_t Edit::behind_comments(std::size_t place, const std::string& indentation) const {
  std::size_t end = line_end(place);
  for (std::size_t line = next_line(place); line < text_.size(); line = next_line(line)) {
    if (!text_.substr(line, line_end(line) - line).starts_with(indentation + '#')) break;
    end = line_end(line);
  }
  return end;
}

void Edit::splice(std::size_t begin, std::size_t end, std::string text) {
  splices_.push_back({begin, end, std::move(text)});
}

void Edit::refuse_lost_comments(const YamlNode& old, std::size_t end) const {
  std::string_view lost = std::string_view(text_).substr(old.begin, end - old.begin);
  if (old.kind == Kind::Scalar) {  // a comment is only where a block of text begins
    const bool is_block = lost.starts_with('|') || lost.starts_with('>');
    lost = is_block ? lost.substr(0, lost.find('\n')) : "";
  }
  for (std::size_t i = lost.find('#'); i != std::string_view::npos; i = lost.find('#', i + 1)) {
    if (std::string_view(" \t\r\n").find(lost[i - 1]) != std::string_view::npos) {
      throw EditError("has a comment within its value, which would be lost");
    }
  }
}

std::string Edit::in_block(const std::string& indentation, std::size_t depth) const {
  std::string text;
  std::string blanks = indentation;
  for (std::size_t i = depth; i < path_.size(); ++i, blanks += unit_) {
    text += newline_ + blanks + path_[i] + ':';
  }
  return text + ' ' + value_;
}

std::string Edit::in_flow(std::size_t depth) const {
  std::string text = value_;
  for (std::size_t i = path_.size(); i-- > depth;) {
    text = path_[i] + ": " + (i + 1 == path_.size() ? text : '{' + text + '}');
  }
  return text;
}

YamlNode Edit::subtree(std::size_t depth) const {
  if (depth == path_.size()) return wanted_;
  YamlNode map{.kind = Kind::Map, .tag = "?"};
  add_to(map, depth);
  return map;
}

void Edit::add_to(YamlNode& map, std::size_t depth) const {
  map.children.push_back(plain_scalar(path_[depth]));
  map.children.push_back(subtree(depth + 1));
}

bool Edit::same_shape(const YamlNode& old, const YamlNode& wanted) const {
  if (old.kind == Kind::Scalar && wanted.kind == Kind::Scalar) return true;
  return old.kind == Kind::Sequence && wanted.kind == Kind::Sequence &&
         std::ranges::equal(
             old.children, wanted.children,
             [this](const YamlNode& a, const YamlNode& b) { return same_shape(a, b); });
}

void Edit::replace_elements(const YamlNode& old, const YamlNode& wanted) {
  refuse_what_is_shared(old);
  if (old.kind == Kind::Scalar) {
    const std::size_t end = end_of(text_, old);
    refuse_lost_comments(old, end);
    splice(old.begin, end, value_.substr(wanted.begin, end_of(value_, wanted) - wanted.begin));
    return;
  }
  for (std::size_t i = 0; i < old.children.size(); ++i) {
    replace_elements(old.children[i], wanted.children[i]);
  }
}

void Edit::replace_whole(const YamlNode& key, const YamlNode& old) {
  if (old.kind == Kind::Null && !is_written(text_, old)) {
    const std::size_t place = behind_colon(text_, key);
    splice(place, place, ' ' + value_);
    return;
  }
  const std::size_t end = end_of(text_, old);
  refuse_lost_comments(old, end);
  const bool is_list = old.kind == Kind::Sequence || old.kind == Kind::Map;
  if (!is_list || old.flow) {
    splice(old.begin, end, value_);
    return;
  }
  // A block begins on a line of its own; a comment behind the colon stays.
  const std::size_t colon = behind_colon(text_, key);
  splice(colon, colon, ' ' + value_);
  if (skip_space(text_, colon) != old.begin || text_.find('#', next_line(colon)) < old.begin) {
    throw EditError("has a comment within its value, which would be lost");
  }
  splice(line_end(colon), end, "");
}

void Edit::replace_value(const YamlNode& key, YamlNode& old) {
  refuse_what_is_shared(old);
  if (same_shape(old, wanted_)) {
    replace_elements(old, wanted_);
  } else {
    replace_whole(key, old);
  }
  old = wanted_;
}

void Edit::insert_into_flow(const YamlNode& map, std::size_t depth) {
  if (text_[map.begin] != '{') throw EditError("belongs into a mapping with a tag");
  if (map.children.empty()) {
    splice(map.begin + 1, map.begin + 1, in_flow(depth));
    return;
  }
  const YamlNode& last = map.children.back();
  const bool absent = last.kind == Kind::Null && !is_written(text_, last);
  const std::size_t end =
      absent ? behind_colon(text_, map.children[map.children.size() - 2]) : end_of(text_, last);
  const std::size_t comma = skip_space(text_, end);
  if (comma < text_.size() && text_[comma] == ',') {
    splice(comma + 1, comma + 1, ' ' + in_flow(depth));
  } else {
    splice(end, end, ", " + in_flow(depth));
  }
}

void Edit::insert_into_block(const YamlNode& map, std::size_t depth) {
  const std::string indentation = indentation_of(map.children.front());
  if (depth == 0) {
    append(indentation);
    return;
  }
  const std::size_t place = behind_comments(end_of(text_, map), indentation);
  splice(place, place, in_block(indentation, depth));
}

void Edit::insert_into_nothing(const YamlNode& key, const YamlNode& nothing, bool in_flow,
                               std::size_t depth) {
  const std::string braces = '{' + this->in_flow(depth) + '}';
  if (is_written(text_, nothing)) {
    splice(nothing.begin, end_of(text_, nothing), braces);
    return;
  }
  const std::size_t colon = behind_colon(text_, key);
  if (in_flow) {
    splice(colon, colon, ' ' + braces);
    return;
  }
  // Below keys that are commented out, indented as they are.
  const std::string outer = indentation_of(key);
  const std::string below = blanks_at(next_line(colon));
  const std::size_t comment = next_line(colon) + below.size();
  const bool commented = below.size() > outer.size() && below.starts_with(outer) &&
                         comment < text_.size() && text_[comment] == '#';
  const std::string indentation = commented ? below : outer + unit_;
  const std::size_t place = behind_comments(colon, indentation);
  splice(place, place, in_block(indentation, depth));
}

/// A section at the end of the text, before the document's end where that is marked.
void Edit::append(const std::string& indentation) {
  std::size_t end = text_.size();
  for (std::size_t line = 0; line < text_.size(); line = next_line(line)) {
    const std::string rest = text_.substr(line, line_end(line) - line);
    if (rest == "..." || rest.starts_with("... ")) end = line;
  }
  std::string addition = in_block(indentation, 0);
  if (end == 0 || text_ == kByteOrderMark) {
    splice(end, end, addition.substr(newline_.size()) + newline_);
    return;
  }
  const bool ended = text_[end - 1] == '\n';
  const std::size_t last_line = ended ? line_begin(end - 1) : line_begin(end);
  const std::size_t place = ended ? line_end(last_line) : end;
  // Where blank lines part the sections, one parts this one, too.
  const bool parted = text_.find(newline_ + newline_) != std::string::npos;
  if (parted && place != last_line) addition = newline_ + addition;
  splice(place, place, addition);
}

void Edit::descend(YamlNode& root) {
  for (std::size_t i = 0; root.kind == Kind::Map && !root.flow && i < root.children.size();
       i += 2) {
    const YamlNode& section = root.children[i + 1];
    if (section.kind != Kind::Map || section.flow || section.children.empty()) continue;
    const std::string outer = blanks_at(line_begin(root.children[i].begin));
    const std::string inner = blanks_at(line_begin(section.children[0].begin));
    if (inner.size() > outer.size() && inner.starts_with(outer)) {
      unit_ = inner.substr(outer.size());
      break;
    }
  }
  if (root.kind == Kind::Null && !is_written(text_, root)) {
    append("");
    root = subtree(0);
    return;
  }
  YamlNode* map = &root;
  for (std::size_t depth = 0;; ++depth) {
    refuse_what_is_shared(*map);
    if (map->kind != Kind::Map) throw EditError("belongs into something that is no mapping");
    const auto found = find_value(*map, path_[depth]);
    if (!found) {
      if (map->flow) {
        insert_into_flow(*map, depth);
      } else {
        insert_into_block(*map, depth);
      }
      add_to(*map, depth);
      return;
    }
    const YamlNode& key = map->children[*found - 1];
    YamlNode& value = map->children[*found];
    if (depth + 1 == path_.size()) {
      replace_value(key, value);
      return;
    }
    if (value.kind == Kind::Null) {
      refuse_what_is_shared(value);
      insert_into_nothing(key, value, map->flow, depth + 1);
      value = subtree(depth + 1);
      return;
    }
    map = &value;
  }
}

std::string Edit::result() {
  YamlNode expected = parse_tree(text_);
  descend(expected);
  std::string edited = text_;
  // From the last one on, so that places before stay right; of two at one place, too.
  std::ranges::reverse(splices_);
  std::ranges::stable_sort(splices_, std::greater(), &Splice::begin);
  for (const Splice& splice : splices_) {
    edited.replace(splice.begin, splice.end - splice.begin, splice.text);
  }
  try {
    if (parse_tree(edited) == expected) return edited;
  } catch (const YAML::Exception&) {  // the same answer
  }
  throw EditError("is written in a way that cannot be edited here");
}

void check_value(const std::string& value) {
  const bool one_line = value.find_first_of("\r\n#") == std::string::npos;
  if (!one_line || parse_tree(value).kind == Kind::Null) {
    throw std::invalid_argument("`" + value + "` is no value on one line");
  }
}

}  // namespace

std::string with_values(std::string text, const KeyValues& values) {
  for (const auto& [key, value] : values) {
    check_value(value);
    const Path path = parts_of(key);
    try {
      text = Edit(text, path, value).result();
    } catch (const EditError& error) {
      throw EditError(fmt::format("{} {}", key, error.what()));
    } catch (const YAML::Exception& error) {
      throw EditError(fmt::format("not valid YAML: {}", yaml::printable(error.msg)));
    }
  }
  return text;
}

}  // namespace driftd::clients
