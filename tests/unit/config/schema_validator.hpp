// SPDX-License-Identifier: MIT
// Validates against the committed config/driftd.schema.json with valijson.
#pragma once

#include <memory>
#include <string>

namespace driftd::test {

class SchemaValidator {
 public:
  SchemaValidator();
  ~SchemaValidator();
  SchemaValidator(const SchemaValidator&) = delete;
  SchemaValidator& operator=(const SchemaValidator&) = delete;
  /// `yaml` must parse.
  bool accepts(const std::string& yaml) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace driftd::test
