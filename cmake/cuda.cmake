# SPDX-License-Identifier: MIT
# Decides from DRIFTD_CUDA (AUTO, ON, OFF) whether the CUDA back end is built, says so, and sets
# DRIFTD_HAVE_CUDA for fitter/. AUTO takes it when there is a CUDA compiler; ON fails without one.
# DRIFTD_CUDA_ARCHITECTURES: what machine code is made for, as CMAKE_CUDA_ARCHITECTURES, e.g. 90-real
# for a quick build; by default one of every generation that the compiler knows, and PTX for those
# to come.
set(DRIFTD_HAVE_CUDA OFF)
set(reason "DRIFTD_CUDA=OFF")
if(NOT DRIFTD_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DRIFTD_CUDA is '${DRIFTD_CUDA}'; it must be AUTO, ON or OFF")
endif()
if(NOT DRIFTD_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(reason "no CUDA compiler found; name one with CMAKE_CUDA_COMPILER")
  else()
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES OFF)  # each target names its own
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(DRIFTD_HAVE_CUDA ON)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # nvcc 12 has C++20, CMake 3.25 does not know it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    # 80 runs on 8.6 and 8.9 as well
    set(all_architectures 75-real 80-real 90)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
      set(all_architectures 75-real 80-real 90-real 100-real 120)
    endif()
    set(DRIFTD_CUDA_ARCHITECTURES "${all_architectures}" CACHE STRING "CUDA architectures")
  endif()
endif()
if(DRIFTD_HAVE_CUDA)
  message(STATUS "CUDA back end: built with ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION} "
    "for ${DRIFTD_CUDA_ARCHITECTURES}")
elseif(DRIFTD_CUDA STREQUAL "ON")
  message(FATAL_ERROR "DRIFTD_CUDA=ON, but ${reason}")
else()
  message(STATUS "CUDA back end: not built (${reason})")
endif()
