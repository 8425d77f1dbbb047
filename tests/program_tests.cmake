# SPDX-License-Identifier: MIT
# The tests of tests/integration and tests/fault: whole programs over loopback and real ZeroMQ sockets, driven from Python
# (python3-zmq). Debian's packages are for Debian's interpreter, whatever else is on the PATH.
find_program(DRIFTD_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
set(slowness 1)
if(DRIFTD_SANITIZE OR DRIFTD_COVERAGE)
  set(slowness 5)
endif()

# driftd_program_test(FILE file [VIRTUAL | VIRTUAL_ONLY] [TIER full] CASES Class.test ...): one ctest for each test method. VIRTUAL: in
# virtual time; and, unless ONLY, in real time, over packets, as "NAME in real time: ..." of the full tier. The label `full` keeps a
# test out of `./run test`.
function(driftd_program_test)
  cmake_parse_arguments(T "VIRTUAL;VIRTUAL_ONLY;SANITIZED" "FILE;TIER" "CASES" ${ARGN})
  get_filename_component(stem ${T_FILE} NAME_WE)
  set(sanitized)
  if(T_SANITIZED)
    set(sanitized sanitized)
  endif()
  foreach(case ${T_CASES})
    set(name "${stem}: ${case}")
    if(T_VIRTUAL_ONLY)
      one_program_test("${name}" ${T_FILE} ${case} virtual 1 "virtual;${T_TIER}")
    elseif(T_VIRTUAL)
      one_program_test("${name}" ${T_FILE} ${case} virtual 1 "virtual;${T_TIER};${sanitized}")
      one_program_test("${stem} in real time: ${case}" ${T_FILE} ${case} real ${slowness} "program;full")
    else()
      one_program_test("${name}" ${T_FILE} ${case} real ${slowness} "program;${T_TIER}")
    endif()
  endforeach()
endfunction()

function(one_program_test name file case clock slowness labels)
  add_test(NAME "${name}" COMMAND ${DRIFTD_PYTHON} ${file} -v ${case} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties("${name}" PROPERTIES
    ENVIRONMENT "DRIFTD_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};PYTHONDONTWRITEBYTECODE=1;DRIFTD_TEST_SLOWNESS=${slowness};DRIFTD_TEST_CLOCK=${clock}"
    SKIP_REGULAR_EXPRESSION "SKIPPED: ;OK \\(skipped=" TIMEOUT 900 LABELS "${labels}" ${sanitizer_properties})
endfunction()

# driftd_program_tests(test_x.py [VIRTUAL | VIRTUAL_ONLY] [SANITIZED]): all of a file. The names of the test methods are read from it, so
# that none is forgotten. Those of a line, or of a class, that ends in "# tier: full" are of that tier.
function(driftd_program_tests file)
  cmake_path(ABSOLUTE_PATH file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} lines REGEX "^class |^    def test_")
  set(cases)
  set(full_cases)
  foreach(line ${lines})
    if(line MATCHES "^class ([A-Za-z]+)")
      set(class ${CMAKE_MATCH_1})
      set(class_line "${line}")
    elseif(line MATCHES "def (test_[a-z0-9_]+)")
      set(case ${class}.${CMAKE_MATCH_1})
      if("${class_line}${line}" MATCHES "# tier: full")
        list(APPEND full_cases ${case})
      else()
        list(APPEND cases ${case})
      endif()
    endif()
  endforeach()
  driftd_program_test(FILE ${file} ${ARGN} CASES ${cases})
  driftd_program_test(FILE ${file} ${ARGN} TIER full CASES ${full_cases})
endfunction()
