# SPDX-License-Identifier: MIT
# driftd_options: warnings, sanitizers and coverage; every target of ours links it. Warnings are errors where
# CMAKE_COMPILE_WARNING_AS_ERROR is ON, as in all presets but `release`, `test` and `test-sanitized`: a user's compiler, newer than ours, may warn
# of more. What nvcc compiles gets the warnings that hold there.
add_library(driftd_options INTERFACE)
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-align -Wformat=2 -Wundef)
target_compile_options(driftd_options INTERFACE
  "$<$<COMPILE_LANGUAGE:C,CXX>:${warnings}>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-Woverloaded-virtual>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False reports inside std::string (GCC bug 105651).
  target_compile_options(driftd_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13 AND
   CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  # It sees elements beyond small matrices in loops over them that it has unrolled.
  target_compile_options(driftd_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=array-bounds>)
endif()
target_include_directories(driftd_options INTERFACE ${PROJECT_SOURCE_DIR})
if(DRIFTD_SANITIZE)
  set(sanitizers
    -fsanitize=${DRIFTD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # A target with the property DRIFTD_NOT_SANITIZED goes without.
  set(sanitized $<NOT:$<BOOL:$<TARGET_PROPERTY:DRIFTD_NOT_SANITIZED>>>)
  target_compile_options(driftd_options INTERFACE "$<$<AND:${sanitized},$<COMPILE_LANGUAGE:C,CXX>>:${sanitizers}>")
  target_link_options(driftd_options INTERFACE -fsanitize=${DRIFTD_SANITIZE})
  # g++ 12 sees both where its own instrumentation stands in std::regex and operator delete.
  target_compile_options(driftd_options INTERFACE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-error=maybe-uninitialized;-Wno-error=mismatched-new-delete>")
endif()
if(DRIFTD_COVERAGE)
  target_compile_options(driftd_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:--coverage;-O0>")
  target_link_options(driftd_options INTERFACE --coverage)
endif()
