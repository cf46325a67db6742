# Compiler settings for this project, not for its consumers: ccache, warnings, sanitizers and the CUDA language.
find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
if(CCACHE_PROGRAM AND PROJECT_IS_TOP_LEVEL)
  # An object file does not depend on the build folder, so presets with the same flags share it.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE_PROGRAM})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(ATTACCA_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    # The toolkit's installer does not put nvcc on the PATH.
    find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin)
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)  # kernels.cmake adds it to old versions of CMake
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
endif()

add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
if(PROJECT_IS_TOP_LEVEL)
  # A newer compiler's new warning must not break the build of a project that includes this one.
  add_compile_options(
    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror;-Werror=all-warnings>")
endif()

if(ATTACCA_SANITIZE)
  set(attacca_sanitizer_flags -fsanitize=${ATTACCA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${attacca_sanitizer_flags}>")
  add_link_options(-fsanitize=${ATTACCA_SANITIZE})
endif()

# attacca_unity(<target> <files...>): g++ compiles several files of the target at a time, but those named here alone: most
# of a file's time goes to headers that its neighbours include too. Off, it shows that each file includes what it needs.
option(ATTACCA_UNITY "Compile several files of a target at a time" ${PROJECT_IS_TOP_LEVEL})
function(attacca_unity target)
  if(NOT ATTACCA_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # It takes the files for headers.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# attacca_only_drives(<target>): the target's own code only drives the library, so it is compiled without sanitizer checks
# of every pointer and reference. With gtest, gmock and CLI11 these checks are half of what g++ compiles, and a null
# pointer ends the program without them too.
function(attacca_only_drives target)
  if(ATTACCA_SANITIZE MATCHES "undefined")
    target_compile_options(${target} PRIVATE -fno-sanitize=null,alignment,vptr)
  endif()
endfunction()
