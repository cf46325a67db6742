# attacca_lab: variants of kernels against those of the library; see lab/products.cpp. ATTACCA_LAB_VARIANT names a folder
# whose kernels/cuda/*.cuh come before the library's own.
set(ATTACCA_LAB_VARIANT "" CACHE PATH "Where attacca_lab finds a variant's kernels/cuda/*.cuh")
add_executable(attacca_lab)
attacca_kernels(attacca_lab lab/products.cpp)
if(ATTACCA_LAB_VARIANT)
  target_include_directories(attacca_lab PRIVATE ${ATTACCA_LAB_VARIANT})
endif()
target_include_directories(attacca_lab PRIVATE src)
target_link_libraries(attacca_lab PRIVATE attacca::llm)
set_target_properties(attacca_lab PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
