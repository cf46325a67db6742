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
    if(NOT CMAKE_CUDA_COMPILER)
      message(FATAL_ERROR "attacca was built with CUDA, so ${target}'s kernel files need nvcc, and there is none on the PATH "
        "or in /usr/local/cuda/bin; set CMAKE_CUDA_COMPILER, or use an attacca that was built without CUDA")
    endif()
    set_source_files_properties(${files} TARGET_DIRECTORY ${target} PROPERTIES LANGUAGE CUDA)
    # The public headers need C++20.
    set_target_properties(${target} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  endif()
endfunction()

# attacca_nested_kernels(<new library> <files...>): adds a static library of kernel files that use dynamic parallelism.
# The executable that uses it links its relocatable device code, once: if two libraries each linked the device runtime,
# its symbols would be defined twice. Links attacca::nested. With no files it is an interface library.
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

# In CMake 3.25 FindCUDAToolkit does not offer the device runtime.
if(ATTACCA_CUDA AND NOT TARGET CUDA::cudadevrt)
  find_library(ATTACCA_CUDADEVRT cudadevrt HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)
  mark_as_advanced(ATTACCA_CUDADEVRT)
  add_library(CUDA::cudadevrt STATIC IMPORTED)
  set_target_properties(CUDA::cudadevrt PROPERTIES IMPORTED_LOCATION ${ATTACCA_CUDADEVRT})
endif()
if(ATTACCA_CUDA AND CMAKE_VERSION VERSION_LESS 3.25.2)
  # CMake 3.25.1 does not know that nvcc 12 and later support C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
