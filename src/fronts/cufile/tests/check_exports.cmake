# The shared library exports the calls of cufile.h and nothing else.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY}
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[^\n]* ([^ \n]+)\n" "\\1;" exported "${symbols}")
file(READ ${CMAKE_CURRENT_LIST_DIR}/../include/cufile.h header)
string(REGEX REPLACE "/\\*([^*]|\\*[^/])*\\*/" "" header "${header}")
string(REGEX MATCHALL "cuFile[A-Za-z0-9_]+\\(" declared "${header}")
list(TRANSFORM declared REPLACE "\\(" "")
foreach(name ${exported})
  if(NOT name IN_LIST declared)
    message(FATAL_ERROR "${LIBRARY} exports ${name}")
  endif()
endforeach()
foreach(name ${declared})
  if(NOT name IN_LIST exported)
    message(FATAL_ERROR "${LIBRARY} does not export ${name}")
  endif()
endforeach()

# It talks to an agent and has none inside, and starts without a driver: programs that load it need
# neither.
execute_process(COMMAND ${NM} -D --undefined-only ${LIBRARY}
  OUTPUT_VARIABLE wanted COMMAND_ERROR_IS_FATAL ANY)
if(wanted MATCHES "rocksdb|io_uring| cu[A-Z]| cuda")
  message(FATAL_ERROR "${LIBRARY} has parts of an agent inside, or needs a driver to be loaded")
endif()
