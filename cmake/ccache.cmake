# SPDX-License-Identifier: MIT
# What was compiled before is taken from ccache, where that is installed; DRIFTD_CCACHE=OFF does without. Checkouts in
# other folders share what has the same content: paths below the source folder count relative to it.
option(DRIFTD_CCACHE "Take what was compiled before from ccache, where it is installed" ON)
find_program(DRIFTD_CCACHE_PROGRAM ccache)
if(NOT DRIFTD_CCACHE OR NOT DRIFTD_CCACHE_PROGRAM OR CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
# Precompiled headers ask for the two sloppinesses: ccache then does not look for __TIME__, which we have nowhere,
# and for macros that a header no longer sees once it is compiled.
# What a debugger reads names the folder that it was compiled in: that of another checkout has other sources by now.
set(share CCACHE_NOHASHDIR=1)
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
if("${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}" MATCHES " -g( |$)")
  set(share CCACHE_HASHDIR=1)
endif()
set(launcher env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${share}
  CCACHE_SLOPPINESS=pch_defines,time_macros ${DRIFTD_CCACHE_PROGRAM})
# Not where ccache finds no folder that it may write to.
file(WRITE ${PROJECT_BINARY_DIR}/ccache-trial.cpp "")
execute_process(
  COMMAND ${launcher} ${CMAKE_CXX_COMPILER} -c ${PROJECT_BINARY_DIR}/ccache-trial.cpp -o ${PROJECT_BINARY_DIR}/ccache-trial.o
  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
if(NOT failed EQUAL 0)
  message(STATUS "ccache: not used, since it has no folder that it may write to (CCACHE_DIR)")
  return()
endif()
foreach(language C CXX CUDA)
  set(CMAKE_${language}_COMPILER_LAUNCHER ${launcher})
endforeach()
