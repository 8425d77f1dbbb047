# SPDX-License-Identifier: MIT
# Man pages and shell completions, made by tools/pages from what exists once: the programs' option tables,
# the pages on the configuration and on the protocol. Left out where scdoc or Python is missing.
find_program(DRIFTD_SCDOC scdoc)
find_program(DRIFTD_PAGES_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(NOT DRIFTD_SCDOC OR NOT DRIFTD_PAGES_PYTHON)
  message(STATUS "Man pages and completions: not made (scdoc or python3 is missing)")
  return()
endif()
file(GLOB sources ${PROJECT_SOURCE_DIR}/tools/pages/driftd_pages/*.py)
set(make_page ${DRIFTD_PAGES_PYTHON} -B ${PROJECT_SOURCE_DIR}/tools/pages/make-page)
list(APPEND sources ${PROJECT_SOURCE_DIR}/tools/pages/make-page)
set(folder ${PROJECT_BINARY_DIR}/man)
set(pages "")
set(completions "")

# made_page(NAME SECTION SOURCE ARGUMENT...): build/man/NAME.SECTION, from a program or a page.
macro(made_page name section kind source dependency)
  set(page ${folder}/${name}.${section})
  set(tail ${PROJECT_SOURCE_DIR}/docs/man/${name}.${section}.scd)
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND ${make_page} ${page}.scd ${PROJECT_VERSION} ${kind} ${source} ${name} ${section} ${ARGN} ${tail}
    COMMAND sh -c "\"$1\" < \"$2.scd\" > \"$2\"" sh ${DRIFTD_SCDOC} ${page}
    DEPENDS ${dependency} ${tail} ${sources} COMMENT "man page ${name}(${section})" VERBATIM)
  list(APPEND pages ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endmacro()

foreach(program driftd:8 driftctl:1 driftd-exporter:8 driftd-web:8 driftd-stage:8 driftd-sim:1 driftfit:1)
  string(REGEX MATCH "^[^:]*" name ${program})
  string(REGEX MATCH "[0-9]$" section ${program})
  set(target ${name})
  if(name STREQUAL "driftfit")
    set(target driftfit-program)
  endif()
  made_page(${name} ${section} command $<TARGET_FILE:${target}> ${target})
  set(completion ${PROJECT_BINARY_DIR}/completions/${name})
  add_custom_command(OUTPUT ${completion}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/completions
    COMMAND ${make_page} ${completion} ${PROJECT_VERSION} completion $<TARGET_FILE:${target}> ${name}
    DEPENDS ${target} ${sources} COMMENT "completion of ${name}" VERBATIM)
  list(APPEND completions ${completion})
  install(FILES ${completion} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endforeach()
foreach(document "driftd.yaml;5;reference/configuration.md;configuration of driftd"
    "driftd-stage.yaml;5;reference/stage-configuration.md;configuration of driftd-stage"
    "driftd-protocol;7;reference/protocol.md;messages and commands of driftd"
    "driftd-stage-emulator;1;../tools/stage-emulator/README.md;emulated stage controllers")
  list(GET document 0 name)
  list(GET document 1 section)
  list(GET document 2 file)
  list(GET document 3 summary)
  set(file ${PROJECT_SOURCE_DIR}/docs/${file})
  made_page(${name} ${section} markdown ${file} ${file} ${summary})
endforeach()
add_custom_target(driftd_pages ALL DEPENDS ${pages} ${completions})
