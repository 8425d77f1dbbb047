# SPDX-License-Identifier: MIT
# Headers that most sources include, compiled once. They are to be used with the flags that they were
# made with, -pthread among them, which some libraries ask for.
set(driftd_standard_headers <algorithm> <array> <chrono> <cmath> <filesystem> <fstream> <functional>
  <map> <memory> <mutex> <optional> <random> <sstream> <stdexcept> <string> <thread> <vector>
  <nlohmann/json.hpp>)

# driftd_precompiled(NAME x HEADERS ... [LIBRARIES ...] [OPTIONS ...]): an object library whose headers
# targets of the same flags take by target_precompile_headers(... REUSE_FROM x).
function(driftd_precompiled)
  cmake_parse_arguments(P "" "NAME" "HEADERS;LIBRARIES;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${P_NAME}.cpp CONTENT "")
  add_library(${P_NAME} OBJECT ${CMAKE_BINARY_DIR}/${P_NAME}.cpp)
  target_link_libraries(${P_NAME} PRIVATE driftd_options ${P_LIBRARIES})
  target_compile_options(${P_NAME} PRIVATE -pthread ${P_OPTIONS})
  target_precompile_headers(${P_NAME} PRIVATE ${P_HEADERS})
endfunction()
