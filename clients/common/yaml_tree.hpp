// SPDX-License-Identifier: MIT
// A YAML document as a tree whose nodes know where in the text they stand, for edits that leave all
// other bytes as they are. Private to the editor of configuration files; pure, any thread.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace driftd::clients {

/// Why a file is not edited, as a sentence about the file.
struct EditError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct YamlNode {
  enum class Kind { Null, Scalar, Sequence, Map, Alias };

  Kind kind = Kind::Null;
  std::size_t begin = 0;  ///< byte of its first character, which is its anchor's or tag's if any
  std::string tag = {};
  std::string value = {};               ///< of a scalar
  std::size_t anchor = 0;               ///< its own, or the one that an alias repeats; 0: none
  bool flow = false;                    ///< of a sequence or map: [..] or {..}
  std::vector<YamlNode> children = {};  ///< of a map: key, value, key, value, ..

  /// The same content, wherever it stands and in whatever style.
  bool operator==(const YamlNode& other) const {
    return kind == other.kind && tag == other.tag && value == other.value &&
           anchor == other.anchor && children == other.children;
  }
};

/// Of one document; Null where the text holds none.
/// @throws YAML::Exception
YamlNode parse_tree(const std::string& text);

/// The byte behind the node's last one. `text` is what the tree was parsed from.
/// @pre the node is no Null, or one that is written out (`~`)
/// @throws EditError when that cannot be told
std::size_t end_of(std::string_view text, const YamlNode& node);
/// The byte behind the colon that follows a key of a map. @throws EditError
std::size_t behind_colon(std::string_view text, const YamlNode& key);
/// A null that is written out: `~`, `null`.
bool is_written(std::string_view text, const YamlNode& null);
/// From `at` on the first byte that is neither blank, nor line end, nor within a comment.
std::size_t skip_space(std::string_view text, std::size_t at);

}  // namespace driftd::clients
