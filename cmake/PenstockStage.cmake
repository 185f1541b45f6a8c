# The stable places that other programs build on: bin/, lib/ and include/ of the build directory.
# penstock_stage() is called once, after every library is known.
function(penstock_stage)
  set(bin ${CMAKE_BINARY_DIR}/bin)
  set(lib ${CMAKE_BINARY_DIR}/lib)
  set(include ${CMAKE_BINARY_DIR}/include)
  add_custom_target(stage)
  if(TARGET penstock)
    set_target_properties(penstock PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${bin})
    add_dependencies(stage penstock)
    # The names under which mount(8) looks for what it runs (docs/mounting.md).
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/sbin)
    foreach(name mount.penstock mount.fuse.penstock mount.fuse.hf3fs)
      file(CREATE_LINK ../bin/penstock ${CMAKE_BINARY_DIR}/sbin/${name} SYMBOLIC)
    endforeach()
  endif()
  foreach(library penstock_shared hf3fs_api_shared cufile_shared nvshmem_host nvshmem_trampoline nvshmem_device shmem_shared)
    if(TARGET ${library})
      set_target_properties(${library} PROPERTIES
        LIBRARY_OUTPUT_DIRECTORY ${lib} ARCHIVE_OUTPUT_DIRECTORY ${lib})
      add_dependencies(stage ${library})
    endif()
  endforeach()
  set(staged)
  file(GLOB kernel_headers RELATIVE ${CMAKE_SOURCE_DIR} src/ring/include/penstock_device/*.h)
  foreach(header src/api/include/penstock.h src/api/include/penstock_device_ring.h
      src/api/include/penstock_model.h
      src/ring/include/penstock_device.h ${kernel_headers}
      src/fronts/usrbio/include/hf3fs_usrbio.h src/fronts/cufile/include/cufile.h)
    set(source ${CMAKE_SOURCE_DIR}/${header})
    if(EXISTS ${source})
      string(REGEX REPLACE "^.*/include/" "" name ${header})
      add_custom_command(OUTPUT ${include}/${name}
        COMMAND ${CMAKE_COMMAND} -E copy ${source} ${include}/${name}
        DEPENDS ${source} VERBATIM)
      list(APPEND staged ${include}/${name})
    endif()
  endforeach()
  if(staged)
    add_custom_target(stage_headers DEPENDS ${staged})
    add_dependencies(stage stage_headers)
  endif()
  # Its headers are made, and its programs find each other by where they stand.
  if(TARGET shmem_stage)
    add_dependencies(stage shmem_stage)
  endif()
  if(TARGET nvshmem_host)
    add_dependencies(stage nvshmem_stage)
  endif()
  if(TARGET hf3fs_fuse)
    add_dependencies(stage hf3fs_fuse)
  endif()
  # The reference that the mount is measured against (bench/).
  if(TARGET passthrough_ll)
    add_dependencies(stage passthrough_ll)
  endif()
endfunction()
