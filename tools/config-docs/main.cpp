// SPDX-License-Identifier: MIT
// driftd-config-docs: writes what is made from the option tables. For developers, after a change of
// a table; `ninja config-docs` runs it.
#include <array>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "clients/stage/config.hpp"
#include "config/documentation.hpp"
#include "config/options.hpp"

namespace {

constexpr const char* kUsage =
    "usage: driftd-config-docs [stage] schema      print the JSON Schema\n"
    "       driftd-config-docs [stage] markdown    print the tables of the reference page\n"
    "       driftd-config-docs write ROOT          bring all files of a source tree up to date\n"
    "With `stage` those of driftd-stage, else those of driftd.\n";

struct Document {
  const driftd::config::Table& table;
  const char* schema;
  const char* page;
};

std::array<Document, 2> documents() {
  return {
      {{driftd::config::table(), "/config/driftd.schema.json", "/docs/reference/configuration.md"},
       {driftd::stage::table(), "/config/driftd-stage.schema.json",
        "/docs/reference/stage-configuration.md"}}};
}

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  if (!(out << text) || !out.flush()) throw std::runtime_error("cannot write " + path);
}

void write_all(const std::string& root) {
  for (const Document& document : documents()) {
    const std::string page_path = root + document.page;
    std::ifstream in(page_path, std::ios::binary);
    const std::string page{std::istreambuf_iterator<char>(in), {}};
    const auto updated = driftd::config::with_reference(document.table, page);
    if (!updated)
      throw std::runtime_error(page_path + " has no lines to put the reference between");
    write(page_path, *updated);
    write(root + document.schema, driftd::config::schema_json(document.table));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool stage = argc > 1 && argv[1] == std::string("stage");
  const int first = stage ? 2 : 1;
  const std::string command = argc > first ? argv[first] : "";
  const auto& table = documents()[stage ? 1 : 0].table;
  try {
    if (command == "schema" && argc == first + 1) {
      std::cout << driftd::config::schema_json(table);
    } else if (command == "markdown" && argc == first + 1) {
      std::cout << driftd::config::reference_markdown(table);
    } else if (command == "write" && argc == 3 && !stage) {
      write_all(argv[2]);
    } else {
      std::cerr << kUsage;
      return 2;
    }
  } catch (const std::exception& error) {
    std::cerr << "driftd-config-docs: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
