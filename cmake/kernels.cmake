# Helpers for kernel files: .cpp files that g++ compiles in a host build and nvcc (-x cu) in a CUDA build.
# Installed with the package, so that a project that uses attacca can build its own kernels the same way.

# attacca_kernels(<target> <files...>): adds the files to the target as kernel files.
function(attacca_kernels target)
  set(files)
  foreach(file IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH file)
    list(APPEND files ${file})
  endforeach()
  target_sources(${target} PRIVATE ${files})
  if(ATTACCA_CUDA)
    set_source_files_properties(${files} TARGET_DIRECTORY ${target} PROPERTIES LANGUAGE CUDA)
  endif()
endfunction()

# attacca_nested_kernels(<new library> <files...>): a static library of kernel files that use dynamic parallelism.
# Its relocatable device code is linked by the executable that uses it, once: two libraries that had each linked the
# device runtime would define its symbols twice. Links attacca::nested. With no files it is an interface library.
function(attacca_nested_kernels target)
  if(NOT ARGN)
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE attacca::nested)
    return()
  endif()
  add_library(${target} STATIC)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CUDA_SEPARABLE_COMPILATION ON)
  attacca_kernels(${target} ${ARGN})
  target_link_libraries(${target} PUBLIC attacca::nested)
endfunction()

# FindCUDAToolkit does not offer the device runtime in CMake 3.25.
if(ATTACCA_CUDA AND NOT TARGET CUDA::cudadevrt)
  find_library(ATTACCA_CUDADEVRT cudadevrt HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)
  mark_as_advanced(ATTACCA_CUDADEVRT)
  add_library(CUDA::cudadevrt STATIC IMPORTED)
  set_target_properties(CUDA::cudadevrt PROPERTIES IMPORTED_LOCATION ${ATTACCA_CUDADEVRT})
endif()
