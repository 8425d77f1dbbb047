// SPDX-License-Identifier: MIT
#include "schema_validator.hpp"

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "random_config.hpp"
#include "yaml_to_json.hpp"

namespace driftd::test {

struct SchemaValidator::Implementation {
  valijson::Schema schema;
};

SchemaValidator::SchemaValidator() : implementation_(std::make_unique<Implementation>()) {
  const auto json = nlohmann::json::parse(project_file("config/driftd.schema.json"));
  valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(json), implementation_->schema);
}

SchemaValidator::~SchemaValidator() = default;

bool SchemaValidator::accepts(const std::string& yaml) const {
  const auto json = yaml_to_json(YAML::Load(yaml));
  valijson::Validator validator;
  return validator.validate(implementation_->schema, valijson::adapters::NlohmannJsonAdapter(json),
                            nullptr);
}

}  // namespace driftd::test
