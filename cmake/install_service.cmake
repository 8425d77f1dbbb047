# SPDX-License-Identifier: MIT
# Run by `cmake --install`, which knows the prefix only then: the units, which name programs and
# configuration by their paths, and the configuration, which is never replaced. In the source tree the units
# have the paths of a distribution's package.
# Given: DRIFTD_SOURCE_DIR, DRIFTD_BUILD_DIR, DRIFTD_BINDIR, DRIFTD_DATADIR.
set(prefix "${CMAKE_INSTALL_PREFIX}")
if(prefix STREQUAL "/usr")  # as in GNUInstallDirs
  set(etc /etc)
elseif(prefix MATCHES "^/opt/")
  set(etc "/etc${prefix}")
else()
  set(etc "${prefix}/etc")
endif()

file(READ "${DRIFTD_SOURCE_DIR}/systemd/driftd.service" daemon)
file(READ "${DRIFTD_SOURCE_DIR}/systemd/driftd-stage@.service" stage)
file(READ "${DRIFTD_SOURCE_DIR}/systemd/driftd-exporter.service" exporter)
file(READ "${DRIFTD_SOURCE_DIR}/systemd/driftd-web.service" web)
# The template for several cameras is the daemon's own unit with the name put in.
set(instance "${daemon}")
foreach(change
    "microscope sample|microscope sample (%i)" "/etc/driftd/driftd.yaml|/etc/driftd/driftd-%i.yaml"
    "RuntimeDirectory=driftd|RuntimeDirectory=driftd/%i" "StateDirectory=driftd|StateDirectory=driftd/%i")
  string(REGEX MATCH "^[^|]*" from "${change}")
  string(REGEX MATCH "[^|]*$" to "${change}")
  string(REPLACE "${from}\n" "${to}\n" instance "${instance}")
endforeach()
string(REGEX REPLACE "# driftd@NAME.service.*# What your" "# Made from driftd.service. What your" instance
  "${instance}")
string(REPLACE "systemctl edit driftd" "systemctl edit driftd@NAME" instance "${instance}")
# Only its own folder lies in it.
string(REGEX REPLACE "# The folders of driftd@NAME[^\n]*\nRuntimeDirectoryPreserve=yes\n" "" instance
  "${instance}")

foreach(unit daemon instance stage exporter web)
  string(REPLACE "/usr/bin/" "${prefix}/${DRIFTD_BINDIR}/" ${unit} "${${unit}}")
  string(REPLACE "/usr/share/" "${prefix}/${DRIFTD_DATADIR}/" ${unit} "${${unit}}")
  string(REPLACE "/etc/driftd/" "${etc}/driftd/" ${unit} "${${unit}}")
endforeach()
set(made "${DRIFTD_BUILD_DIR}/systemd")
file(WRITE "${made}/driftd.service" "${daemon}")
file(WRITE "${made}/driftd@.service" "${instance}")
file(WRITE "${made}/driftd-stage@.service" "${stage}")
file(WRITE "${made}/driftd-exporter.service" "${exporter}")
file(WRITE "${made}/driftd-web.service" "${web}")
file(INSTALL "${made}/driftd.service" "${made}/driftd@.service" "${made}/driftd-stage@.service"
  "${made}/driftd-exporter.service" "${made}/driftd-web.service" DESTINATION "${prefix}/lib/systemd/system")

if(NOT EXISTS "$ENV{DESTDIR}${etc}/driftd/driftd.yaml")
  file(READ "${DRIFTD_SOURCE_DIR}/systemd/driftd.yaml" configuration)
  string(REPLACE "/usr/share/" "${prefix}/${DRIFTD_DATADIR}/" configuration "${configuration}")
  file(WRITE "${made}/driftd.yaml" "${configuration}")
  file(INSTALL "${made}/driftd.yaml" DESTINATION "${etc}/driftd")
endif()
