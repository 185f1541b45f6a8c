# The shared library exports the calls of hf3fs_usrbio.h and nothing else.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY}
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[^\n]* ([^ \n]+)\n" "\\1;" names "${symbols}")
set(count 0)
foreach(name ${names})
  if(NOT name MATCHES "^hf3fs_[a-z0-9_]+$")
    message(FATAL_ERROR "${LIBRARY} exports ${name}")
  endif()
  math(EXPR count "${count} + 1")
endforeach()
file(READ ${CMAKE_CURRENT_LIST_DIR}/../include/hf3fs_usrbio.h header)
string(REGEX REPLACE "/\\*([^*]|\\*[^/])*\\*/" "" header "${header}")
string(REGEX MATCHALL "hf3fs_[a-z0-9_]+\\(" declared "${header}")
list(LENGTH declared wanted)
if(NOT count EQUAL wanted)
  message(FATAL_ERROR "${LIBRARY} exports ${count} calls, the header declares ${wanted}")
endif()

# It talks to an agent and has none inside: programs that load it need no database.
execute_process(COMMAND ${NM} -D --undefined-only ${LIBRARY}
  OUTPUT_VARIABLE wanted_symbols COMMAND_ERROR_IS_FATAL ANY)
if(wanted_symbols MATCHES "rocksdb|io_uring")
  message(FATAL_ERROR "${LIBRARY} has parts of an agent inside")
endif()
