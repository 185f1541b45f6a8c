# Language level, warnings and sanitizers for every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(PENSTOCK_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (for example address,undefined)")
option(PENSTOCK_MAILBOX "Small cuFile reads by a kernel that lingers on the GPU (src/gpu/README.md)" ON)
option(PENSTOCK_NEXT_PROTOCOL "Play the release after this one, whose nodes say more to one another (decision 0055)" OFF)
option(PENSTOCK_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)

# Most of a compiler's work are the headers: twelve sources read them once. So names in the anonymous
# namespaces of one library differ (docs/decisions/0041-sources-compiled-together.md).
option(PENSTOCK_TOGETHER "Compile sources a dozen at a time" ON)
set(CMAKE_UNITY_BUILD ${PENSTOCK_TOGETHER})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

if(PENSTOCK_NEXT_PROTOCOL)
  add_compile_definitions(PENSTOCK_NEXT_PROTOCOL=1)
endif()

# Everything that all our targets share; linked privately by penstock_library() and friends.
add_library(penstock_options INTERFACE)
target_compile_options(penstock_options INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  -fno-omit-frame-pointer -msse4.2)
if(PENSTOCK_SANITIZE)
  target_compile_options(penstock_options INTERFACE
    -fsanitize=${PENSTOCK_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(penstock_options INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
endif()
if(PENSTOCK_FUZZERS)
  # libFuzzer sees which branches of our code an input takes.
  target_compile_options(penstock_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees reads of uninitialised memory in std::optional, and in what the sanitizers add.
  target_compile_options(penstock_options INTERFACE -Wno-maybe-uninitialized)
  # mold links the larger test programs in a fraction of the time; any linker will do.
  find_program(MOLD mold)
  if(MOLD)
    target_link_options(penstock_options INTERFACE -fuse-ld=mold)
  endif()
endif()
