# Programs as users have them: C of two standards, C++, linked with the shared library.
function(shmem_program name source)
  cmake_parse_arguments(ARG "" "STANDARD" "LINK" ${ARGN})
  add_executable(shmem_${name} ${source})
  add_dependencies(shmem_${name} shmem_made)
  target_include_directories(shmem_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/tests)
  target_link_libraries(shmem_${name} PRIVATE shmem_shared ${ARG_LINK})
  # Optimised they take ten times as long to compile, and do the same.
  target_compile_options(shmem_${name} PRIVATE -O0 -Wall -Wextra -Werror -Wno-unused-function -D_GNU_SOURCE)
  set_target_properties(shmem_${name} PROPERTIES
    C_STANDARD ${ARG_STANDARD} C_EXTENSIONS OFF UNITY_BUILD OFF)
  if(PENSTOCK_SANITIZE)
    # A sanitizer's runtime must be loaded first, so the program needs it as soon as the library does.
    target_compile_options(shmem_${name} PRIVATE -fsanitize=${PENSTOCK_SANITIZE})
    target_link_options(shmem_${name} PRIVATE -fsanitize=${PENSTOCK_SANITIZE})
  endif()
  add_dependencies(shmem_tests shmem_${name})
  target_compile_definitions(shmem_tests PRIVATE SHMEM_${name}="$<TARGET_FILE:shmem_${name}>")
endfunction()

penstock_test(shmem_tests LABEL posix
  SOURCES tests/environment_test.cc tests/handle_table_test.cc tests/jobs.cc tests/misuse_test.cc tests/operators_test.cc
    tests/programs_test.cc tests/wrappers_test.cc
  LINK penstock_shmem penstock_job penstock_testing
)
add_dependencies(shmem_tests shmem_stage)
target_compile_definitions(shmem_tests PRIVATE SHMEM_BIN="${CMAKE_BINARY_DIR}/bin")

shmem_program(every_function ${made}/every_function.c STANDARD 99)
shmem_program(every_selection ${made}/every_selection.c STANDARD 11)
shmem_program(every_overload ${made}/every_overload.cc STANDARD 11)
shmem_program(every_other_function tests/every_other_function.c STANDARD 11 LINK Threads::Threads)
shmem_program(c_in_cxx tests/c_in_cxx.cc STANDARD 11)
shmem_program(large_arrays tests/large_arrays.c STANDARD 11)
shmem_program(misuse tests/misuse.c STANDARD 11)
shmem_program(profiled tests/profiled.c STANDARD 11)

add_test(NAME shmem_exports COMMAND
  ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tests/check_exports.py
  --nm ${CMAKE_NM} --library $<TARGET_FILE:shmem_shared>)
set_tests_properties(shmem_exports PROPERTIES LABELS unit)
# A test's target has the test's name, so that a selection of tests builds what it needs.
add_custom_target(shmem_exports DEPENDS shmem_shared)
