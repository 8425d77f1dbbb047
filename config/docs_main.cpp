// SPDX-License-Identifier: MIT
// driftd-config-docs: writes what is made from the option table. For developers, after a change of
// the table; `ninja config-docs` runs it.
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "config/documentation.hpp"

namespace {

constexpr const char* kUsage =
    "usage: driftd-config-docs schema      print config/driftd.schema.json\n"
    "       driftd-config-docs markdown    print the tables of docs/configuration.md\n"
    "       driftd-config-docs write ROOT  bring both files of a source tree up to date\n";

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  if (!(out << text) || !out.flush()) throw std::runtime_error("cannot write " + path);
}

void write_both(const std::string& root) {
  const std::string page_path = root + "/docs/configuration.md";
  std::ifstream in(page_path, std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  const auto updated = driftd::config::with_reference(page);
  if (!updated) throw std::runtime_error(page_path + " has no lines to put the reference between");
  write(page_path, *updated);
  write(root + "/config/driftd.schema.json", driftd::config::schema_json());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  try {
    if (command == "schema" && argc == 2) {
      std::cout << driftd::config::schema_json();
    } else if (command == "markdown" && argc == 2) {
      std::cout << driftd::config::reference_markdown();
    } else if (command == "write" && argc == 3) {
      write_both(argv[2]);
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
