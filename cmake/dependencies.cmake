# SPDX-License-Identifier: MIT
# Every outside library, found once. Debian names the packages (see `run`).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
if(DRIFTD_FITTER_ONLY)
  set_target_properties(PkgConfig::HWY PROPERTIES
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${HWY_INCLUDE_DIRS}")
  return()
endif()
pkg_check_modules(ARAVIS REQUIRED IMPORTED_TARGET aravis-0.8)
pkg_check_modules(SYSTEMD REQUIRED IMPORTED_TARGET libsystemd)
pkg_check_modules(TIFF REQUIRED IMPORTED_TARGET libtiff-4)
pkg_check_modules(PUGIXML REQUIRED IMPORTED_TARGET pugixml)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_search_module(HDF5 REQUIRED IMPORTED_TARGET hdf5-serial hdf5)
find_package(Boost REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(cppzmq REQUIRED)

# yaml-cpp 0.7 (Debian 12) exports `yaml-cpp`, 0.8 (Debian 13) `yaml-cpp::yaml-cpp`.
add_library(driftd_yaml INTERFACE)
if(TARGET yaml-cpp::yaml-cpp)
  target_link_libraries(driftd_yaml INTERFACE yaml-cpp::yaml-cpp)
else()
  target_link_libraries(driftd_yaml INTERFACE yaml-cpp)
endif()

# libhwy-dev and libaravis-dev headers are not warning-clean under our flags: pkg-config paths as SYSTEM.
foreach(target PkgConfig::ARAVIS PkgConfig::HWY PkgConfig::TIFF PkgConfig::SYSTEMD PkgConfig::PNG
        PkgConfig::HDF5 PkgConfig::PUGIXML)
  get_target_property(dirs ${target} INTERFACE_INCLUDE_DIRECTORIES)
  if(dirs)
    set_property(TARGET ${target} PROPERTY INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${dirs})
  endif()
endforeach()
