# SPDX-License-Identifier: MIT
# DRIFTD_UNITY: up to ten sources of a library or program are compiled as one. DRIFTD_QUICK_BUILD,
# which the presets of tests set: what calculates little is optimised by -O1 alone, and programs' command lines not at
# all. A source that forgets an include, or takes a name of a neighbour's, fails in the preset `clang` and in packages,
# which do without both.
set(quick_options)
if(DRIFTD_QUICK_BUILD)
  set(quick_options $<$<CONFIG:Release>:-O1>)
endif()

# These are compiled for themselves: names in their unnamed namespaces are those of another of their target, too
# ("redefinition", "ambiguous", "shadows": add the file here, or find the two a common home). Tests are, too: most have
# one source, and what two of them call alike may compile and mean something else.
set(sources_apart
  simulator/sensor.cpp
  clients/driftctl/commands/move.cpp
  clients/driftctl/records/science_drift.cpp clients/driftctl/camera/transfer_line.cpp clients/stage/backends/mad_city_labs.cpp
  clients/stage/backends/pi_gcs2.cpp clients/stage/backends/piezoconcept.cpp
  clients/stage/backends/plain_library.cpp clients/stage/backends/thorlabs_apt.cpp clients/stage/report.cpp
  clients/stage/sockets.cpp clients/stage/transport/serial_port.cpp
  config/key_file.cpp config/loader.cpp config/local_sockets.cpp
  control/identification/gain_course.cpp control/identification/stage_description.cpp
  control/identification/stage_identification.cpp control/law/law_judge.cpp control/search/marker_detection.cpp
  control/axial/axial_estimator.cpp control/drift/marker_reputation.cpp control/law/observer/observer.cpp control/law/observer/observer_tuner.cpp
  control/law/observer/residual_forecast.cpp control/drift/roi_tracker.cpp control/search/scale_search.cpp control/search/spot_size.cpp
  control/stage/stage_model.cpp control/stage/stage_monitor.cpp control/stage/stage_probe.cpp control/lock/supervisor.cpp
  daemon/loop/calibration_run.cpp daemon/orders/lock_orders.cpp daemon/markers/marker_keeper.cpp daemon/orders/move_plan.cpp
  daemon/wire/publish_socket.cpp daemon/recorder/frame_keeper.cpp daemon/recorder/record_keeper.cpp
  daemon/recorder/record_writer.cpp daemon/wire/refusals.cpp daemon/status/reporter.cpp daemon/resume/saved_lock.cpp
  daemon/places/saved_place.cpp daemon/stage/stage_channel.cpp daemon/resume/state_writer.cpp daemon/loop/tracking_loop.cpp
  tools/driftfit/marker_follower.cpp clients/web/server.cpp
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
    if(shared_code OR NOT type MATCHES "EXECUTABLE|STATIC_LIBRARY|OBJECT_LIBRARY" OR
       "driftd_test_support" IN_LIST libraries OR NOT "driftd_options" IN_LIST libraries)
      continue()
    endif()
    cmake_path(IS_PREFIX tests_folder ${folder} is_of_tests)
    if(DRIFTD_UNITY AND NOT is_of_tests)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
      set_property(SOURCE ${sources_apart} TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
    if(type STREQUAL "EXECUTABLE" AND DRIFTD_QUICK_BUILD)  # the options' templates: 21 s, 8 s without optimising
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
    elseif(NOT folder MATCHES "/(control|simulator)$")
      target_compile_options(${target} PRIVATE ${quick_options})
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
