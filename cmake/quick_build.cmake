# SPDX-License-Identifier: MIT
# DRIFTD_QUICK_BUILD, which the presets of CI set: libraries, too, take precompiled headers, as tests do
# everywhere, and are optimised by -O1 alone; programs' command lines are not optimised. The other presets
# do without: a source of a library that forgets an include fails there. What calculates much stays as it is.
set(quick_options -pthread $<$<CONFIG:Release>:-O1>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False reports inside std::string where its header comes precompiled; the other presets keep them.
  list(APPEND quick_options $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds> $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>)
endif()
target_compile_options(driftd_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-pthread>)
driftd_precompiled(NAME driftd_headers HEADERS ${driftd_standard_headers} OPTIONS ${quick_options})

function(driftd_compile_quickly folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    get_target_property(shared_code ${target} POSITION_INDEPENDENT_CODE)
    if(shared_code OR NOT type MATCHES "EXECUTABLE|STATIC_LIBRARY|OBJECT_LIBRARY"
        OR target MATCHES "_headers$" OR "driftd_test_support" IN_LIST libraries)
      continue()
    endif()
    if(type STREQUAL "EXECUTABLE")  # the options' templates: 21 s, 8 s without optimising
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
    elseif("driftd_options" IN_LIST libraries)
      target_compile_options(${target} PRIVATE ${quick_options})
      target_precompile_headers(${target} REUSE_FROM driftd_headers)
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below ${folders})
    if(NOT below MATCHES "/(fitter|control|simulator)$")
      driftd_compile_quickly(${below})
    endif()
  endforeach()
endfunction()
driftd_compile_quickly(${PROJECT_SOURCE_DIR})
