# SPDX-License-Identifier: MIT
# What `cmake --install` puts where, and the target driftd_programs: all programs a user runs.
include(GNUInstallDirs)

add_custom_target(driftd_programs)
foreach(program driftd driftctl driftd-stage driftd-exporter driftfit-program driftd-sim
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

install(TARGETS driftfit driftd_gpufit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES clients/stage/backends/driftd_stage_library.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES fitter/c/driftfit.h fitter/gpufit/gpufit.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The units in the source tree name the paths of a distribution package; another prefix gets its own.
foreach(name driftd.service driftd-stage@.service driftd-exporter.service)
  set(unit ${PROJECT_SOURCE_DIR}/systemd/${name})
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${unit})
  file(READ ${unit} text)
  string(REPLACE "/usr/bin/" "${CMAKE_INSTALL_FULL_BINDIR}/" text "${text}")
  string(REPLACE "/etc/driftd/" "${CMAKE_INSTALL_FULL_SYSCONFDIR}/driftd/" text "${text}")
  file(WRITE ${PROJECT_BINARY_DIR}/systemd/${name} "${text}")
  install(FILES ${PROJECT_BINARY_DIR}/systemd/${name} DESTINATION lib/systemd/system)
endforeach()
install(FILES systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME driftd.conf)
install(FILES systemd/sysctl.conf DESTINATION lib/sysctl.d RENAME 60-driftd.conf)
install(DIRECTORY config/examples/ clients/stage/examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
  FILES_MATCHING PATTERN "*.yaml")
install(PROGRAMS config/examples/mail-on-event DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES config/driftd.schema.json config/driftd-stage.schema.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/driftd)
install(FILES clients/exporter/alerts.yaml clients/exporter/prometheus.yaml
  clients/exporter/grafana-dashboard.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/driftd/watching)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

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
install(FILES clients/python/stage_driver_example.py DESTINATION ${CMAKE_INSTALL_DOCDIR}/python)
install(FILES fitter/matlab/fit2dgaussian_mex.c fitter/matlab/fit2dgaussian.m
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/matlab)
