# Adds the tests of NCCL's and NVSHMEM's groups, over fakes of the libraries that are found before any other.
foreach(library IN ITEMS nccl=nccl.so.2 nvshmem=nvshmem_host.so.3)
  string(REPLACE = ";" names ${library})
  list(GET names 0 name)
  list(GET names 1 file)
  add_library(fake_${name} MODULE comm/fake_${name}.cpp)
  set_target_properties(fake_${name} PROPERTIES OUTPUT_NAME ${file} SUFFIX ""
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fakes)
  add_executable(comm_${name} comm/${name}_fake.cpp)
  target_link_libraries(comm_${name} PRIVATE ${support_libraries} GTest::gmock GTest::gtest_main)
  target_compile_options(comm_${name} PRIVATE -O0)
  add_dependencies(comm_${name} fake_${name})
  add_test(NAME comm_${name} COMMAND comm_${name} --gtest_brief=1)
  set_tests_properties(comm_${name} PROPERTIES LABELS cpu TIMEOUT 120
    ENVIRONMENT_MODIFICATION LD_LIBRARY_PATH=path_list_prepend:${CMAKE_CURRENT_BINARY_DIR}/fakes)
endforeach()

# Adds the tests of ranks that are processes. They need mpirun. The sanitizers are left to loopback, because they report
# leaks of MPI itself.
if(MPI_CXX_FOUND AND MPIEXEC_EXECUTABLE AND NOT ATTACCA_SANITIZE)
  add_executable(comm_mpi comm/mpi_conformance.cpp)
  target_link_libraries(comm_mpi PRIVATE ${support_libraries} attacca::mpi GTest::gtest)
  target_compile_options(comm_mpi PRIVATE -O0)
  set(mpirun ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe)
  foreach(ranks IN ITEMS 2 4)
    add_test(NAME comm_mpi_${ranks} COMMAND ${mpirun} -n ${ranks} $<TARGET_FILE:comm_mpi> ${ranks} --gtest_brief=1)
    set_tests_properties(comm_mpi_${ranks} PROPERTIES LABELS mpi TIMEOUT 120 PROCESSORS 2)
  endforeach()
  if(ATTACCA_LLM)
    add_executable(engine_mpi engine/mpi_ranks.cpp)
    target_link_libraries(engine_mpi PRIVATE ${support_libraries} attacca::mpi GTest::gtest)
    target_compile_options(engine_mpi PRIVATE -O0)
    foreach(ranks IN ITEMS 2 4)
      add_test(NAME engine_mpi_${ranks} COMMAND ${mpirun} -n ${ranks} $<TARGET_FILE:engine_mpi> --gtest_brief=1
        WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
      set_tests_properties(engine_mpi_${ranks} PROPERTIES LABELS mpi TIMEOUT 120 PROCESSORS 2)
    endforeach()
  endif()
  add_executable(comm_mpi_fault comm/mpi_fault.cpp)
  target_link_libraries(comm_mpi_fault PRIVATE attacca::mpi)
  add_test(NAME comm_mpi_faults COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/comm/mpi_faults_test.py
    ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:comm_mpi_fault>)
  # Alone, because its deadlines are short.
  set_tests_properties(comm_mpi_faults PROPERTIES LABELS mpi TIMEOUT 120 RUN_SERIAL TRUE)
elseif(NOT ATTACCA_SANITIZE)
  foreach(ranks IN ITEMS 2 4)
    add_test(NAME comm_mpi_${ranks} COMMAND ${CMAKE_COMMAND} -E echo "MPI was not found; install libopenmpi-dev")
    set_tests_properties(comm_mpi_${ranks} PROPERTIES LABELS mpi DISABLED TRUE)
  endforeach()
endif()

if(TARGET attacca_cli AND ATTACCA_LLM AND NOT ATTACCA_SANITIZE)
  add_test(NAME ranks_command COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/tools/ranks_test.py
    $<TARGET_FILE:attacca_cli> $<$<BOOL:${MPI_CXX_FOUND}>:${MPIEXEC_EXECUTABLE}>)
  set_tests_properties(ranks_command PROPERTIES LABELS mpi TIMEOUT 120 RUN_SERIAL TRUE)
endif()
