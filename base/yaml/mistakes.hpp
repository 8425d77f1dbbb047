// SPDX-License-Identifier: MIT
// The mistakes of one file, collected so that all are told at once. Private to
// config/; used by the thread that loads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace driftd::yaml {

/// Line and column, both counted from 1.
struct Place {
  int line = 1;
  int column = 1;
};

class Mistakes {
 public:
  /// `found X; allowed Y`. An empty key speaks of the file as a whole.
  void add(Place place, std::string_view key, std::string_view found, std::string_view allowed);
  /// Anything else to say about a key.
  void add(Place place, std::string_view key, std::string_view text);
  bool empty() const { return list_.empty(); }
  /// "FILE:LINE:COLUMN: key: text", one line a mistake, in the order of the file.
  std::string report(const std::string& file) const;

 private:
  struct Mistake {
    Place place;
    std::string text;
  };
  std::vector<Mistake> list_;
};

}  // namespace driftd::yaml
