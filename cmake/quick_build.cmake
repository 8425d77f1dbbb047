# SPDX-License-Identifier: MIT
# DRIFTD_UNITY: up to ten sources of a library or program are compiled as one. DRIFTD_QUICK_BUILD, which the presets of
# tests set: what calculates is optimised less, all else not at all, which takes half of the time by gcc, 40 % by clang
# under sanitizers. A source that forgets an include, or takes a name of a neighbour's, fails in the preset `clang` and in
# packages, which do without both.
set(not_optimised)
set(optimised_less)
if(DRIFTD_QUICK_BUILD)
  set(not_optimised $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  set(optimised_less $<$<CONFIG:Release>:-O1>)
endif()
# What calculates, by folder or target: a second of it under test costs more than it takes to optimise.
set(calculating_well "/(control|simulator)$")  # worlds of hours are flown
set(calculating "/(base|camera|stillness)$|/tools/driftfit$|^driftd_(photon_transfer|measurement)$")

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

# What is not optimised takes the headers that nearly all of it includes compiled once.
if(DRIFTD_QUICK_BUILD)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/driftd_shared_headers.cpp CONTENT "")
  add_library(driftd_shared_headers OBJECT ${PROJECT_BINARY_DIR}/driftd_shared_headers.cpp)
  target_link_libraries(driftd_shared_headers PRIVATE driftd_options nlohmann_json::nlohmann_json)
  target_compile_options(driftd_shared_headers PRIVATE -pthread ${not_optimised})
  target_precompile_headers(driftd_shared_headers PRIVATE <algorithm> <array> <chrono> <cmath> <filesystem> <fstream>
    <functional> <map> <memory> <mutex> <optional> <sstream> <stdexcept> <string> <thread> <vector> <nlohmann/json.hpp>)
endif()

function(driftd_do_not_optimise target)
  if(DRIFTD_QUICK_BUILD)
    target_compile_options(${target} PRIVATE -pthread ${not_optimised})
    target_precompile_headers(${target} REUSE_FROM driftd_shared_headers)
  endif()
endfunction()

function(driftd_compile_quickly folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    get_target_property(shared_code ${target} POSITION_INDEPENDENT_CODE)
    if(shared_code OR target STREQUAL "driftd_shared_headers" OR NOT type MATCHES "EXECUTABLE|STATIC_LIBRARY|OBJECT_LIBRARY" OR
       "driftd_test_support" IN_LIST libraries OR NOT "driftd_options" IN_LIST libraries)
      continue()
    endif()
    cmake_path(IS_PREFIX tests_folder ${folder} is_of_tests)
    if(DRIFTD_UNITY AND NOT is_of_tests)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
      set_property(SOURCE ${sources_apart} TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
    if(type STREQUAL "EXECUTABLE")
      driftd_do_not_optimise(${target})
    elseif(folder MATCHES ${calculating} OR target MATCHES ${calculating})
      target_compile_options(${target} PRIVATE ${optimised_less})
    elseif(NOT folder MATCHES ${calculating_well})
      driftd_do_not_optimise(${target})
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
