# SPDX-License-Identifier: MIT
# What `cmake --install` puts where, and the target driftd_programs: all programs a user runs.
include(GNUInstallDirs)

add_custom_target(driftd_programs)
foreach(program driftd driftctl driftfit-program driftd-sim driftd-demo)
  if(TARGET ${program})
    add_dependencies(driftd_programs ${program})
    # The demo runs from the source tree, whose examples it shows.
    if(NOT program STREQUAL "driftd-demo")
      install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    endif()
  endif()
endforeach()

install(TARGETS driftfit driftd_gpufit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES fitter/c/driftfit.h fitter/gpufit/gpufit.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The unit in the source tree names the paths of a distribution package; another prefix gets its own.
set(unit ${PROJECT_SOURCE_DIR}/systemd/driftd.service)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${unit})
file(READ ${unit} text)
string(REPLACE "/usr/bin/" "${CMAKE_INSTALL_FULL_BINDIR}/" text "${text}")
string(REPLACE "/etc/driftd/" "${CMAKE_INSTALL_FULL_SYSCONFDIR}/driftd/" text "${text}")
file(WRITE ${PROJECT_BINARY_DIR}/systemd/driftd.service "${text}")

install(FILES ${PROJECT_BINARY_DIR}/systemd/driftd.service DESTINATION lib/systemd/system)
install(FILES systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME driftd.conf)
install(FILES systemd/sysctl.conf DESTINATION lib/sysctl.d RENAME 60-driftd.conf)
install(DIRECTORY config/examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
  FILES_MATCHING PATTERN "*.yaml")
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY clients/python/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/python
  FILES_MATCHING PATTERN "*.py")
install(FILES clients/matlab/fit2dgaussian_mex.c clients/matlab/fit2dgaussian.m
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/matlab)
