# Builds the benchmarks of the command `attacca bench`. bench/*.cpp is the harness, which tests link too; bench/overhead,
# bench/claims, bench/ranks and bench/llm hold the benchmarks, bench/serve the load on a server. Files called kernels.cpp or
# *_kernels.cpp are kernel files, and nested_* may launch kernels from kernels.
find_package(nlohmann_json CONFIG REQUIRED)
file(GLOB harness_sources CONFIGURE_DEPENDS bench/*.cpp)
add_library(attacca_harness STATIC EXCLUDE_FROM_ALL ${harness_sources})
attacca_only_drives(attacca_harness)
add_custom_target(attacca_commit BYPRODUCTS ${PROJECT_BINARY_DIR}/commit.cpp VERBATIM COMMENT ""
  COMMAND ${CMAKE_COMMAND} -D source=${PROJECT_SOURCE_DIR} -D output=${PROJECT_BINARY_DIR}/commit.cpp
    -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake)
target_sources(attacca_harness PRIVATE ${PROJECT_BINARY_DIR}/commit.cpp)
add_dependencies(attacca_harness attacca_commit)
target_compile_definitions(attacca_harness PRIVATE "ATTACCA_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")
target_include_directories(attacca_harness PUBLIC bench PRIVATE src)
target_link_libraries(attacca_harness PUBLIC attacca::attacca nlohmann_json::nlohmann_json fmt::fmt)

# The load on a server; tests link it too. It is compiled without the settings of attacca, so presets with the same flags
# share its objects in ccache. Only one source includes Boost, and only the command links it.
file(GLOB serve_sources CONFIGURE_DEPENDS bench/serve/*.cpp)
set(http_client_source ${PROJECT_SOURCE_DIR}/bench/serve/http_client.cpp)
list(REMOVE_ITEM serve_sources ${http_client_source})
add_library(attacca_bench_serve STATIC EXCLUDE_FROM_ALL ${serve_sources})
target_include_directories(attacca_bench_serve PRIVATE bench src include)
target_link_libraries(attacca_bench_serve PUBLIC nlohmann_json::nlohmann_json fmt::fmt INTERFACE attacca_harness)
if(ATTACCA_BENCH AND TARGET attacca_http)
  add_library(attacca_http_client STATIC ${http_client_source})
  target_include_directories(attacca_http_client PRIVATE bench src include)
  target_include_directories(attacca_http_client SYSTEM PRIVATE ${ATTACCA_BOOST_INCLUDE_DIR})
  target_link_libraries(attacca_http_client PRIVATE fmt::fmt Threads::Threads OpenSSL::SSL INTERFACE attacca_bench_serve)
endif()

if(ATTACCA_BENCH)
  file(GLOB bench_sources CONFIGURE_DEPENDS bench/overhead/*.cpp bench/claims/*.cpp bench/ranks/*.cpp)
  set(bench_programs mpi_all_reduce.cpp device_processes.cpp process_kernels.cpp)
  list(TRANSFORM bench_programs PREPEND ${PROJECT_SOURCE_DIR}/bench/ranks/)
  list(REMOVE_ITEM bench_sources ${bench_programs})
  # The plain add and copy must be as fast as the compiler can make it.
  set_source_files_properties(bench/ranks/ranks.cpp PROPERTIES COMPILE_OPTIONS -O3)
  if(ATTACCA_CUDA)
    file(GLOB bench_cuda_sources CONFIGURE_DEPENDS bench/overhead/*.cu bench/claims/*.cu)
    list(APPEND bench_sources ${bench_cuda_sources})
  endif()
  if(ATTACCA_LLM)
    file(GLOB bench_llm_sources CONFIGURE_DEPENDS bench/llm/*.cpp)
    list(APPEND bench_sources ${bench_llm_sources})
  endif()
  set(bench_nested ${bench_sources})
  list(FILTER bench_nested INCLUDE REGEX "/nested_[^/]*$")
  list(FILTER bench_sources EXCLUDE REGEX "/nested_[^/]*$")
  set(bench_kernels ${bench_sources})
  list(FILTER bench_kernels INCLUDE REGEX "[/_]kernels\\.cpp$")
  list(FILTER bench_sources EXCLUDE REGEX "[/_]kernels\\.cpp$")

  attacca_nested_kernels(attacca_bench_nested ${bench_nested})
  target_include_directories(attacca_bench_nested PRIVATE ${PROJECT_SOURCE_DIR} src bench)

  # An object library, because a benchmark registers itself: nothing refers to it, so a linker would drop it from an
  # archive.
  add_library(attacca_bench OBJECT ${bench_sources})
  attacca_kernels(attacca_bench ${bench_kernels})
  target_include_directories(attacca_bench PRIVATE ${PROJECT_SOURCE_DIR} src bench)
  target_link_libraries(attacca_bench PUBLIC attacca_harness attacca_bench_nested TBB::tbb attacca::mpi)
  # The processes that `attacca bench ranks-device` starts.
  add_executable(attacca_device_processes bench/ranks/device_processes.cpp)
  attacca_kernels(attacca_device_processes bench/ranks/process_kernels.cpp)
  target_include_directories(attacca_device_processes PRIVATE bench)
  target_link_libraries(attacca_device_processes PRIVATE attacca_harness attacca::attacca)
  add_dependencies(attacca_bench attacca_device_processes)
  target_compile_definitions(attacca_bench PRIVATE
    "ATTACCA_DEVICE_PROCESSES=\"${PROJECT_SOURCE_DIR}/scripts/under_mps.sh 2 $<TARGET_FILE:attacca_device_processes>\"")
  if(MPI_CXX_FOUND AND MPIEXEC_EXECUTABLE)
    # The processes that `attacca bench ranks` starts.
    add_executable(attacca_mpi_all_reduce bench/ranks/mpi_all_reduce.cpp)
    target_link_libraries(attacca_mpi_all_reduce PRIVATE attacca_harness attacca::mpi MPI::MPI_CXX)
    add_dependencies(attacca_bench attacca_mpi_all_reduce)
    target_compile_definitions(attacca_bench PRIVATE "ATTACCA_MPIRUN=\"${MPIEXEC_EXECUTABLE}\""
      "ATTACCA_MPI_ALL_REDUCE=\"$<TARGET_FILE:attacca_mpi_all_reduce>\"")
  endif()
  if(ATTACCA_LLM)
    target_link_libraries(attacca_bench PUBLIC attacca::llm attacca_planner)
  endif()
endif()
