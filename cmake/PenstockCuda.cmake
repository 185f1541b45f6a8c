# CUDA: the compiler for our kernels and the driver's header. Programs look for the driver itself at
# run time. PENSTOCK_CUDA: AUTO (use CUDA if it is here), ON (fail without it), OFF.
#
# Sets PENSTOCK_HAS_CUDA, PENSTOCK_NVCC, CUDA_INCLUDE and CUDA_RUNTIME (the static one, for programs; our libraries use
# none).
set(PENSTOCK_CUDA AUTO CACHE STRING "Build the GPU parts: AUTO, ON or OFF")
set(PENSTOCK_HAS_CUDA FALSE)
if(NOT PENSTOCK_CUDA STREQUAL OFF)
  find_program(PENSTOCK_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(PENSTOCK_NVCC)
    execute_process(COMMAND ${PENSTOCK_NVCC} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" nvcc_version "${nvcc_version}")
    set(nvcc_version "${CMAKE_MATCH_1}")
    file(REAL_PATH ${PENSTOCK_NVCC} nvcc_path)
    cmake_path(GET nvcc_path PARENT_PATH nvcc_path)
    find_path(CUDA_INCLUDE cuda.h HINTS ${nvcc_path}/../include NO_DEFAULT_PATH)
    find_library(CUDA_RUNTIME libcudart_static.a HINTS ${nvcc_path}/../lib64 ${nvcc_path}/../lib NO_DEFAULT_PATH)
  endif()
  if(PENSTOCK_NVCC AND CUDA_INCLUDE AND nvcc_version VERSION_GREATER_EQUAL 12.2)
    set(PENSTOCK_HAS_CUDA TRUE)
  elseif(PENSTOCK_CUDA STREQUAL ON)
    message(FATAL_ERROR "PENSTOCK_CUDA is ON, but there is no nvcc 12.2 or newer with cuda.h")
  endif()
endif()
if(NOT PENSTOCK_HAS_CUDA)
  message(STATUS "GPU parts are left out: no nvcc 12.2 or newer (or PENSTOCK_CUDA is OFF)")
endif()

# Compiles kernels for the GPUs that there are, and for later ones by PTX, into a fat binary.
function(penstock_fat_binary image source)
  add_custom_command(OUTPUT ${image}
    COMMAND ${PENSTOCK_NVCC} -fatbin -std=c++20 -O3 --compress-mode=size
      -gencode arch=compute_80,code=sm_80
      -gencode arch=compute_90,code=sm_90
      -gencode arch=compute_90,code=compute_90
      -I${PROJECT_SOURCE_DIR}/src/ring/include -I${PROJECT_SOURCE_DIR}/src/symm/include -I${CMAKE_CURRENT_SOURCE_DIR}/include
      -DPENSTOCK_MAILBOX=$<BOOL:${PENSTOCK_MAILBOX}>
      -MD -MF ${image}.d -MT ${image}
      -ccbin ${CMAKE_CXX_COMPILER}
      -o ${image} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPENDS ${source}
    DEPFILE ${image}.d
    COMMENT "Compiling kernels ${source}"
    VERBATIM)
endfunction()

# penstock_kernels(TARGET SOURCE): a fat binary that image.cc of the target takes in.
function(penstock_kernels target source)
  set(image ${CMAKE_CURRENT_BINARY_DIR}/kernels.fatbin)
  penstock_fat_binary(${image} ${source})
  set_source_files_properties(image.cc PROPERTIES
    OBJECT_DEPENDS ${image}
    COMPILE_DEFINITIONS "PENSTOCK_KERNELS=\"${image}\"")
endfunction()

# penstock_kernel_images(TAKER SOURCE...): a fat binary of each, which TAKER, a source of the same
# directory, takes in; in TAKER the file NAME.cu is PENSTOCK_KERNELS_NAME.
function(penstock_kernel_images taker)
  set(images)
  set(definitions)
  foreach(source ${ARGN})
    cmake_path(GET source STEM name)
    set(image ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
    penstock_fat_binary(${image} ${source})
    list(APPEND images ${image})
    list(APPEND definitions "PENSTOCK_KERNELS_${name}=\"${image}\"")
  endforeach()
  set_source_files_properties(${taker} PROPERTIES
    OBJECT_DEPENDS "${images}"
    COMPILE_DEFINITIONS "${definitions}")
endfunction()

# penstock_cuda_program(NAME
#   KERNELS file.cu...     compiled by nvcc, against the public headers of ring, symm's device layer and api only
#   SOURCES file...        compiled as everything else
#   LINK target...
# )
# A program with kernels of its own. Does nothing where CUDA, or its runtime, is not there.
function(penstock_cuda_program name)
  cmake_parse_arguments(ARG "" "" "KERNELS;SOURCES;LINK" ${ARGN})
  if(NOT PENSTOCK_HAS_CUDA OR NOT CUDA_RUNTIME)
    return()
  endif()
  set(objects)
  foreach(kernel ${ARG_KERNELS})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.${kernel}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${PENSTOCK_NVCC} -c -std=c++20 -O3 -Xcompiler=-Wall,-fPIC
        -gencode arch=compute_80,code=sm_80
        -gencode arch=compute_90,code=sm_90
        -gencode arch=compute_90,code=compute_90
        -I${PROJECT_SOURCE_DIR}/src/ring/include -I${PROJECT_SOURCE_DIR}/src/api/include
        -I${PROJECT_SOURCE_DIR}/src/symm/include
        -MD -MF ${object}.d -MT ${object}
        -ccbin ${CMAKE_CXX_COMPILER}
        -o ${object} ${CMAKE_CURRENT_SOURCE_DIR}/${kernel}
      DEPENDS ${kernel}
      DEPFILE ${object}.d
      COMMENT "Compiling kernels ${kernel}"
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_executable(${name} ${objects} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} penstock_options ${CUDA_RUNTIME} Threads::Threads
    ${CMAKE_DL_LIBS} rt)
endfunction()
