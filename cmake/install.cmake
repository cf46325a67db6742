# Installs the library, the command and the package that find_package(attacca) reads.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attacca)
# Tells a consumer's executable that it has device code to link.
set_property(TARGET attacca_nested PROPERTY EXPORT_PROPERTIES CUDA_SEPARABLE_COMPILATION)

install(TARGETS attacca attacca_nested attacca_mpi EXPORT attacca_targets)
if(ATTACCA_LLM)
  install(TARGETS attacca_llm EXPORT attacca_targets)
endif()
install(DIRECTORY include/attacca DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.hpp PATTERN *.cuh)
install(EXPORT attacca_targets NAMESPACE attacca:: DESTINATION ${package_dir})
configure_package_config_file(cmake/attaccaConfig.cmake.in ${PROJECT_BINARY_DIR}/attaccaConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attaccaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attaccaConfig.cmake ${PROJECT_BINARY_DIR}/attaccaConfigVersion.cmake
  cmake/kernels.cmake cmake/llm_libraries.cmake DESTINATION ${package_dir})
