# SPDX-License-Identifier: MIT
# DRIFTD_QUICK_BUILD, which the presets of CI set: libraries, too, take precompiled headers, as tests do
# everywhere, and are optimised by -O1 alone; programs' command lines are not optimised. The other presets
# do without: a source that forgets an include, or takes a name of a neighbour's, fails there. What calculates
# much is optimised as ever.
set(quick_options -pthread $<$<CONFIG:Release>:-O1>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False reports inside std::string where its header comes precompiled; the other presets keep them.
  list(APPEND quick_options $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds> $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>)
endif()
target_compile_options(driftd_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-pthread>)
driftd_precompiled(NAME driftd_headers HEADERS ${driftd_standard_headers} OPTIONS ${quick_options})

# Up to ten sources of a library or program are compiled as one, in a quarter of the time. These are apart: names
# in their unnamed namespaces are those of another of their target, too ("redefinition", "ambiguous", "shadows": add
# the file here, or find the two a common home). Not tests: most have one source, and what two of them call alike
# may compile and mean something else.
set(sources_apart
  camera/simulator/sensor.cpp
  clients/common/yaml_tree.cpp clients/driftctl/main.cpp clients/driftctl/move.cpp
  clients/driftctl/science_drift.cpp clients/driftctl/transfer_line.cpp clients/stage/backends/mad_city_labs.cpp
  clients/stage/backends/pi_gcs2.cpp clients/stage/backends/piezoconcept.cpp
  clients/stage/backends/plain_library.cpp clients/stage/backends/thorlabs_apt.cpp clients/stage/report.cpp
  clients/stage/sockets.cpp clients/stage/transport/serial_port.cpp
  config/key_file.cpp config/loader.cpp config/local_sockets.cpp
  control/identification/gain_course.cpp control/identification/stage_description.cpp
  control/identification/stage_identification.cpp control/law_judge.cpp control/marker_detection.cpp
  control/marker_reputation.cpp control/observer/observer.cpp control/observer/observer_tuner.cpp
  control/observer/residual_forecast.cpp control/roi_tracker.cpp control/scale_search.cpp control/spot_size.cpp
  control/stage_model.cpp control/stage_monitor.cpp control/stage_probe.cpp control/supervisor.cpp
  daemon/calibration_run.cpp daemon/lock_orders.cpp daemon/marker_keeper.cpp daemon/move_plan.cpp
  daemon/publish_socket.cpp daemon/recorder/frame_keeper.cpp daemon/recorder/record_keeper.cpp
  daemon/recorder/record_writer.cpp daemon/refusals.cpp daemon/reporter.cpp daemon/saved_lock.cpp
  daemon/saved_place.cpp daemon/stage_channel.cpp daemon/state_writer.cpp daemon/tracking_loop.cpp
  tools/driftfit/marker_follower.cpp
  clients/stage/transport/open_stream.cpp)  # a fuzzer takes its place
list(TRANSFORM sources_apart PREPEND ${PROJECT_SOURCE_DIR}/)
foreach(source ${sources_apart})
  if(NOT EXISTS ${source})
    message(FATAL_ERROR "cmake/quick_build.cmake keeps ${source} apart, which is not there")
  endif()
endforeach()
set(tests_folder ${PROJECT_SOURCE_DIR}/tests)

function(driftd_compile_quickly folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    get_target_property(shared_code ${target} POSITION_INDEPENDENT_CODE)
    if(shared_code OR NOT type MATCHES "EXECUTABLE|STATIC_LIBRARY|OBJECT_LIBRARY" OR target MATCHES "_headers$")
      continue()
    endif()
    cmake_path(IS_PREFIX tests_folder ${folder} is_of_tests)
    if("driftd_test_support" IN_LIST libraries OR folder MATCHES "/(control|simulator)$")
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
    if(NOT below STREQUAL "${PROJECT_SOURCE_DIR}/fitter")
      driftd_compile_quickly(${below})
    endif()
  endforeach()
endfunction()
driftd_compile_quickly(${PROJECT_SOURCE_DIR})
