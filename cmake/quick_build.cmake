# SPDX-License-Identifier: MIT
# DRIFTD_QUICK_BUILD, which the asan-ubsan preset sets: libraries, too, take precompiled headers, as tests
# do everywhere, and programs' command lines are not optimised. The other presets do without: a source of
# a library that forgets an include fails there. For clang: g++ 12 warns of the standard library's own
# code when it comes precompiled and is optimised, by -O1 as by -O3.
target_compile_options(driftd_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-pthread>)
driftd_precompiled(NAME driftd_headers HEADERS ${driftd_standard_headers})

# Not the fitter, which is compiled with flags of its own.
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
      target_precompile_headers(${target} REUSE_FROM driftd_headers)
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below ${folders})
    if(NOT below MATCHES "/fitter$")
      driftd_compile_quickly(${below})
    endif()
  endforeach()
endfunction()
driftd_compile_quickly(${PROJECT_SOURCE_DIR})
