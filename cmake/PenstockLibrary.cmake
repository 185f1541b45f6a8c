# penstock_library(NAME
#   SOURCES file...        private sources
#   DEPENDS lib...         libraries of ours that the public header uses, without the prefix
#   PRIVATE target...      anything else that only the sources use
# )
# Makes penstock_NAME with include/ as its only public directory, and verifies that every public
# header compiles alone.
function(penstock_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  set(target penstock_${name})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/include/*.h)
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE penstock_options ${ARG_PRIVATE})
    # Only the names that the shared libraries export on purpose are visible outside them.
    set_target_properties(${target} PROPERTIES
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS include FILES ${headers})
  foreach(dependency ${ARG_DEPENDS})
    target_link_libraries(${target} ${scope} penstock_${dependency})
  endforeach()
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

# penstock_test(NAME LABEL unit|sim|crash|posix|ring|gpu SOURCES file... LINK target...)
# One GoogleTest program, one ctest entry. Labels choose what `./dev test` and the sanitizer runs
# execute.
function(penstock_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    # Generous: it ends what hangs, and judges no machine. Thirty-two threads that play a warp take minutes on
    # one that is busy.
    set(ARG_TIMEOUT 900)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  # After the system's directories: a library's limits.h must not stand before <limits.h>.
  target_compile_options(${name} PRIVATE "SHELL:-idirafter ${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_LINK} penstock_options GTest::gmock GTest::gtest_main
    Threads::Threads)
  add_test(NAME ${name} COMMAND ${name})
  # tools/run_tests.py counts the tests of all programs from these reports.
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "GTEST_OUTPUT=json:${CMAKE_BINARY_DIR}/test-reports/${name}.json")
endfunction()

# penstock_fuzz(NAME SOURCES file... LINK target... [RUNS n])
# One fuzz target (tests/fuzz/fuzz.h). In the `fuzz` build NAME_fuzz is a program of libFuzzer; in all
# others it is a test over n inputs of a deterministic generator.
function(penstock_fuzz name)
  cmake_parse_arguments(ARG "" "RUNS" "SOURCES;LINK" ${ARGN})
  set(shared ${PROJECT_SOURCE_DIR}/tests/fuzz)
  if(PENSTOCK_FUZZERS)
    add_executable(${name}_fuzz ${ARG_SOURCES} ${shared}/libfuzzer.cc)
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(${name}_fuzz ${ARG_SOURCES} ${shared}/generated.cc ${shared}/mutator.cc)
    add_test(NAME ${name}_fuzz COMMAND ${name}_fuzz)
    set_tests_properties(${name}_fuzz PROPERTIES LABELS fuzz TIMEOUT 900)
    if(ARG_RUNS)
      set_tests_properties(${name}_fuzz PROPERTIES ENVIRONMENT PENSTOCK_FUZZ_RUNS=${ARG_RUNS})
    endif()
  endif()
  target_compile_options(${name}_fuzz PRIVATE
    "SHELL:-idirafter ${CMAKE_CURRENT_SOURCE_DIR}" "SHELL:-idirafter ${shared}")
  target_link_libraries(${name}_fuzz PRIVATE ${ARG_LINK} penstock_base penstock_options)
endfunction()

enable_testing()
