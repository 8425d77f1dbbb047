# SPDX-License-Identifier: MIT
# What `cmake --install` puts where, and the target driftd_programs: all programs a user runs.
include(GNUInstallDirs)

add_custom_target(driftd_programs)
foreach(program driftd driftctl driftd-stage driftd-exporter driftd-web driftfit-program driftd-sim
        driftd-demo)
  if(TARGET ${program})
    add_dependencies(driftd_programs ${program})
    # The demo runs from the source tree, whose examples it shows.
    if(NOT program STREQUAL "driftd-demo")
      install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    endif()
  endif()
endforeach()

# Runs in place as well: it looks for its modules beside itself, then here.
install(PROGRAMS tools/stage-emulator/driftd-stage-emulator DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY tools/stage-emulator/driftd_stage_emulator DESTINATION share/driftd/stage-emulator
  FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)

# libdriftfit, as pkg-config and CMake find it: both files find the rest from where they lie.
include(CMakePackageConfigHelpers)
install(TARGETS driftfit EXPORT driftfit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS driftd_gpufit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES clients/stage/backends/driftd_stage_library.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES fitter/c/driftfit.h fitter/gpufit/gpufit.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(RELATIVE_PATH DRIFTFIT_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/package/driftfit.pc.in package/driftfit.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/driftfit.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/driftfit)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/driftfitConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/driftfitConfigVersion.cmake DESTINATION ${folder})
install(EXPORT driftfit FILE driftfitConfig.cmake NAMESPACE driftfit:: DESTINATION ${folder})

# Units and what is in /etc know the prefix, which `cmake --install --prefix` may choose.
install(CODE "set(DRIFTD_SOURCE_DIR \"${PROJECT_SOURCE_DIR}\")
set(DRIFTD_BUILD_DIR \"${PROJECT_BINARY_DIR}\")
set(DRIFTD_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
set(DRIFTD_DATADIR \"${CMAKE_INSTALL_DATADIR}\")")
install(SCRIPT cmake/install_service.cmake)
install(FILES systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME driftd.conf)
install(FILES systemd/tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME driftd.conf)
install(FILES systemd/sysctl.conf DESTINATION lib/sysctl.d RENAME 60-driftd.conf)
install(FILES systemd/usb3vision.rules DESTINATION lib/udev/rules.d RENAME 60-driftd-usb3vision.rules)
install(DIRECTORY config/examples/ clients/stage/examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
  FILES_MATCHING PATTERN "*.yaml")
install(PROGRAMS config/examples/mail-on-event DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES config/driftd.schema.json config/driftd-stage.schema.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/driftd)
install(FILES clients/exporter/alerts.yaml clients/exporter/prometheus.yaml
  clients/exporter/grafana-dashboard.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/driftd/watching)
install(FILES LICENSE CHANGELOG.md README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN benchmarks EXCLUDE)
include(cmake/pages.cmake)

# Debian's interpreter reads packages in /usr/lib/python3 and /usr/local/lib/python3.x.
find_program(DRIFTD_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
set(python python3)
if(DRIFTD_PYTHON AND NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  execute_process(COMMAND ${DRIFTD_PYTHON} -c "import sys; print('python%d.%d' % sys.version_info[:2])"
    OUTPUT_VARIABLE python OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
set(DRIFTD_PYTHON_DIR lib/${python}/dist-packages CACHE STRING "Where the Python modules are installed")
install(DIRECTORY clients/python/driftd fitter/python/driftd_fit fitter/python/pygpufit
  DESTINATION ${DRIFTD_PYTHON_DIR}
  FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)
install(FILES clients/python/stage_driver_example.py clients/python/remote_example.py clients/python/tiling_example.py
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/python)
install(FILES fitter/matlab/fit2dgaussian_mex.c fitter/matlab/fit2dgaussian.m fitter/matlab/driftfit_mex.c
  fitter/matlab/driftfit.m fitter/matlab/arrays.h
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/matlab)
