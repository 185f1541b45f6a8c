# What goes where: `cmake --install BUILD [--component NAME]`, once the target `stage` is built. Each
# component is a Debian package (debian/rules):
#
#   penstock          the program, man pages, completions, the service, the mount helpers
#   libpenstock       libpenstock.so.0
#   libpenstock-dev   its headers, link, penstock.pc and man pages
#   penstock-compat   what carries other projects' names, each project in directories of its own
#
# penstock_install() is called once, after penstock_stage().

# Debian's own, for any prefix: its loader looks in /usr/local/lib/TRIPLET, too.
if(NOT DEFINED CMAKE_INSTALL_LIBDIR AND CMAKE_LIBRARY_ARCHITECTURE AND EXISTS /etc/debian_version)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE})
endif()
include(GNUInstallDirs)

# Installs a file of packaging/ with @PREFIX@, @BINDIR@, @LIBDIR@ and @INCLUDEDIR@ as the prefix of
# the installation has them, which is known only when it is made.
function(penstock_install_configured component template destination)
  cmake_path(GET template FILENAME name)
  string(REGEX REPLACE "\\.in$" "" name ${name})
  install(CODE "
    set(PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
    set(BINDIR \"\${PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    set(LIBDIR \"\${PREFIX}/${CMAKE_INSTALL_LIBDIR}\")
    set(INCLUDEDIR \"\${PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")
    set(VERSION \"${PROJECT_VERSION}\")
    configure_file(\"${PROJECT_SOURCE_DIR}/packaging/${template}\"
      \"${CMAKE_BINARY_DIR}/installed/${name}\" @ONLY)
    file(INSTALL \"${CMAKE_BINARY_DIR}/installed/${name}\" DESTINATION \"\${PREFIX}/${destination}\")"
    COMPONENT ${component})
endfunction()

# penstock_install_compat(PROJECT TARGET HEADER): a library with another project's name, where
# nobody's looks: programs find it by LD_LIBRARY_PATH or penstock-PROJECT.pc.
function(penstock_install_compat project target header)
  if(NOT TARGET ${target})
    return()
  endif()
  install(TARGETS ${target} COMPONENT penstock-compat
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/penstock/${project}/lib)
  install(FILES ${header} COMPONENT penstock-compat
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock/${project})
  penstock_install_configured(penstock-compat pkgconfig/penstock-${project}.pc.in
    ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# Man pages and completions, which the program's own description is the source of.
function(penstock_manual)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(share ${CMAKE_BINARY_DIR}/share)
  file(GLOB sources CONFIGURE_DEPENDS packaging/*.py packaging/man/*)
  add_custom_command(OUTPUT ${share}/made
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${share}
    COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/packaging/generate.py
      --program $<TARGET_FILE:penstock> --version ${PROJECT_VERSION} --output ${share}
    COMMAND ${CMAKE_COMMAND} -E touch ${share}/made
    DEPENDS penstock ${sources} docs/mounting.md src/api/include/penstock.h
      src/api/include/penstock_model.h src/api/include/penstock_device_ring.h
    COMMENT "Man pages and completions"
    VERBATIM)
  add_custom_target(manual DEPENDS ${share}/made)
  add_dependencies(stage manual)
  install(DIRECTORY ${share}/man/man1 ${share}/man/man8 COMPONENT penstock
    DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(DIRECTORY ${share}/man/man3 COMPONENT libpenstock-dev DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(FILES ${share}/bash-completion/completions/penstock COMPONENT penstock
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${share}/zsh/_penstock COMPONENT penstock
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
endfunction()

function(penstock_install)
  install(TARGETS penstock COMPONENT penstock)
  foreach(name mount.penstock mount.fuse.penstock)
    install(FILES ${CMAKE_BINARY_DIR}/sbin/${name} COMPONENT penstock
      DESTINATION ${CMAKE_INSTALL_SBINDIR})
  endforeach()
  penstock_install_configured(penstock penstock@.service.in lib/systemd/system)
  install(FILES packaging/examples/penstock.conf COMPONENT penstock
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/penstock/examples)
  install(FILES README.md docs/limits.md docs/metrics.md docs/mounting.md docs/packaging.md
    docs/posix.md docs/grafana/penstock.json COMPONENT penstock
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/penstock)
  penstock_manual()

  install(TARGETS penstock_shared
    LIBRARY COMPONENT libpenstock NAMELINK_COMPONENT libpenstock-dev)
  install(FILES src/api/include/penstock.h src/api/include/penstock_device_ring.h
    src/api/include/penstock_model.h src/ring/include/penstock_device.h COMPONENT libpenstock-dev
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(DIRECTORY src/ring/include/penstock_device COMPONENT libpenstock-dev
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  penstock_install_configured(libpenstock-dev pkgconfig/penstock.pc.in
    ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

  penstock_install_compat(hf3fs hf3fs_api_shared src/fronts/usrbio/include/hf3fs_usrbio.h)
  penstock_install_compat(cufile cufile_shared src/fronts/cufile/include/cufile.h)
  set(hf3fs ${CMAKE_INSTALL_LIBDIR}/penstock/hf3fs)
  # The name that mount(8) looks for; a link in /sbin makes it found (docs/packaging.md).
  install(CODE "
    set(helper \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${hf3fs}/sbin/mount.fuse.hf3fs\")
    cmake_path(GET helper PARENT_PATH directory)
    file(MAKE_DIRECTORY \"\${directory}\")
    file(RELATIVE_PATH program \"\${directory}\"
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/penstock\")
    file(CREATE_LINK \"\${program}\" \"\${helper}\" SYMBOLIC)"
    COMPONENT penstock-compat)
  # oshcc finds headers and library beside itself, and oshrun the program penstock in the path.
  set(openshmem ${CMAKE_INSTALL_LIBDIR}/penstock/openshmem)
  install(TARGETS shmem_shared COMPONENT penstock-compat LIBRARY DESTINATION ${openshmem}/lib)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/src/fronts/shmem/made/include/ COMPONENT penstock-compat
    DESTINATION ${openshmem}/include)
  install(PROGRAMS src/fronts/shmem/wrappers/oshcc src/fronts/shmem/wrappers/oshrun COMPONENT penstock-compat
    DESTINATION ${openshmem}/bin)
  foreach(name oshc++ oshcxx oshCC)
    install(CODE "
      file(CREATE_LINK oshcc
        \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${openshmem}/bin/${name}\" SYMBOLIC)"
      COMPONENT penstock-compat)
  endforeach()
  penstock_install_configured(penstock-compat pkgconfig/penstock-openshmem.pc.in
    ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  # A whole NVSHMEM_HOME. libnvshmem.a is told where it will be, which is known only now.
  if(TARGET nvshmem_host)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    set(nvshmem ${CMAKE_INSTALL_LIBDIR}/penstock/nvshmem)
    install(TARGETS nvshmem_host nvshmem_device COMPONENT penstock-compat
      LIBRARY DESTINATION ${nvshmem}/lib ARCHIVE DESTINATION ${nvshmem}/lib)
    penstock_install_configured(penstock-compat pkgconfig/penstock-nvshmem.pc.in
      ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    install(TARGETS nvshmem_info COMPONENT penstock-compat RUNTIME DESTINATION ${nvshmem}/bin)
    install(CODE "
      execute_process(COMMAND \"${Python3_EXECUTABLE}\" -B
        \"${PROJECT_SOURCE_DIR}/src/fronts/nvshmem/trampoline/install_trampoline.py\"
        \"$<TARGET_FILE:nvshmem_trampoline>\"
        \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${nvshmem}/lib/libnvshmem.a\"
        --beside \"\${CMAKE_INSTALL_PREFIX}/${nvshmem}/lib\" COMMAND_ERROR_IS_FATAL ANY)"
      COMPONENT penstock-compat)
    install(DIRECTORY ${CMAKE_BINARY_DIR}/lib/cmake/nvshmem COMPONENT penstock-compat
      DESTINATION ${nvshmem}/lib/cmake)
    install(DIRECTORY ${CMAKE_BINARY_DIR}/src/fronts/nvshmem/made/include/ src/fronts/nvshmem/headers/
      COMPONENT penstock-compat DESTINATION ${nvshmem}/include)
    install(FILES src/symm/include/penstock_device_symm.h COMPONENT penstock-compat DESTINATION ${nvshmem}/include)
    install(DIRECTORY src/symm/include/penstock_device/symm COMPONENT penstock-compat
      DESTINATION ${nvshmem}/include/penstock_device)
    install(PROGRAMS src/fronts/shmem/wrappers/oshrun COMPONENT penstock-compat
      DESTINATION ${nvshmem}/bin RENAME nvshmrun)
  endif()
  if(TARGET hf3fs_py_usrbio)
    install(TARGETS hf3fs_py_usrbio COMPONENT penstock-compat LIBRARY DESTINATION ${hf3fs}/python)
    install(DIRECTORY ${CMAKE_BINARY_DIR}/python/hf3fs_fuse COMPONENT penstock-compat
      DESTINATION ${hf3fs}/python FILES_MATCHING PATTERN "*.py")
  endif()
endfunction()
