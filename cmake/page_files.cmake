# SPDX-License-Identifier: MIT
# `cmake -DFOLDER=.. -DOUTPUT=.. -P`: the files of a folder as a source of C++ (clients/web/page_files.hpp).
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*)
list(SORT files)
set(arrays "")
set(rows "")
set(count 0)
foreach(name ${files})
  file(READ ${FOLDER}/${name} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "const unsigned char kFile${count}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", {static_cast<const unsigned char*>(kFile${count}), sizeof(kFile${count}) - 1}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${OUTPUT} "// Made by cmake/page_files.cmake.
#include \"clients/web/page_files.hpp\"

namespace driftd::web {
namespace {

${arrays}
const EmbeddedFile kFiles[] = {
${rows}};

}  // namespace

std::span<const EmbeddedFile> embedded_files() {
  return kFiles;
}

}  // namespace driftd::web
")
