# Builds the command line tool, build/<preset>/bin/attacca.
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
file(GLOB tool_sources CONFIGURE_DEPENDS tools/attacca/*.cpp)
if(ATTACCA_BENCH)
  list(REMOVE_ITEM tool_sources ${PROJECT_SOURCE_DIR}/tools/attacca/no_bench.cpp)
else()
  list(REMOVE_ITEM tool_sources ${PROJECT_SOURCE_DIR}/tools/attacca/bench.cpp)
endif()
if(TARGET attacca_http_client)
  list(REMOVE_ITEM tool_sources ${PROJECT_SOURCE_DIR}/tools/attacca/no_bench_serve.cpp)
else()
  list(REMOVE_ITEM tool_sources ${PROJECT_SOURCE_DIR}/tools/attacca/bench_serve.cpp)
endif()
if(ATTACCA_LLM)
  file(GLOB tool_llm_sources CONFIGURE_DEPENDS tools/attacca/llm/*.cpp)
  if(TARGET attacca_http)
    list(REMOVE_ITEM tool_llm_sources ${PROJECT_SOURCE_DIR}/tools/attacca/llm/no_serve.cpp)
  else()
    list(REMOVE_ITEM tool_llm_sources ${PROJECT_SOURCE_DIR}/tools/attacca/llm/serve.cpp)
  endif()
  list(APPEND tool_sources ${tool_llm_sources})
endif()
if(NOT ATTACCA_BENCH)  # the benchmarks bring these along
  list(APPEND tool_sources bench/svg.cpp)
  if(ATTACCA_LLM)
    list(APPEND tool_sources bench/llm/synthetic_step.cpp)
  endif()
endif()
add_executable(attacca_cli ${tool_sources})
attacca_only_drives(attacca_cli)
attacca_unity(attacca_cli)
if(NOT ATTACCA_SANITIZE)
  # No loop of the tool is hot. At -O2 its files take a fifth longer to compile, command_line.cpp with CLI11 half.
  target_compile_options(attacca_cli PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
endif()
set_target_properties(attacca_cli PROPERTIES
  OUTPUT_NAME attacca RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
target_include_directories(attacca_cli PRIVATE src tools/attacca bench)
target_link_libraries(attacca_cli PRIVATE attacca::attacca attacca::mpi attacca_examples attacca_examples_nested attacca_trace
  CLI11::CLI11 nlohmann_json::nlohmann_json fmt::fmt)
target_compile_definitions(attacca_cli PRIVATE ATTACCA_WITH_LLM=$<BOOL:${ATTACCA_LLM}>)
if(ATTACCA_BENCH)
  target_link_libraries(attacca_cli PRIVATE attacca_bench $<TARGET_NAME_IF_EXISTS:attacca_http_client>)
endif()
if(ATTACCA_LLM)
  target_link_libraries(attacca_cli PRIVATE attacca::llm attacca_planner $<TARGET_NAME_IF_EXISTS:attacca_http>)
  find_package(yaml-cpp CONFIG QUIET)  # for the option --config
  target_compile_definitions(attacca_cli PRIVATE ATTACCA_WITH_YAML=$<BOOL:${yaml-cpp_FOUND}>)
  if(yaml-cpp_FOUND)
    target_link_libraries(attacca_cli PRIVATE $<IF:$<TARGET_EXISTS:yaml-cpp::yaml-cpp>,yaml-cpp::yaml-cpp,yaml-cpp>)
  endif()
endif()
install(TARGETS attacca_cli)

if(ATTACCA_TESTS AND TARGET attacca_http AND NOT ATTACCA_CUDA)
  # The command once more, with a device that a test can take away.
  add_executable(attacca_lost_device tests/tools/lost_device.cpp $<TARGET_OBJECTS:attacca_cli>)
  target_include_directories(attacca_lost_device PRIVATE src tests)
  get_target_property(tool_libraries attacca_cli LINK_LIBRARIES)
  target_link_libraries(attacca_lost_device PRIVATE attacca_test_support ${tool_libraries})
  target_link_options(attacca_lost_device PRIVATE -Wl,--wrap=_ZN7attacca6Device4hostEj)
endif()

if(PROJECT_IS_TOP_LEVEL)
  # build/attacca is the tool of the preset built last. It has a target of its own, because a build with nothing to link
  # must move the name too.
  file(RELATIVE_PATH tool_path ${PROJECT_SOURCE_DIR}/build ${PROJECT_BINARY_DIR}/bin/attacca)
  add_custom_target(attacca_link ALL
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_SOURCE_DIR}/build
    COMMAND ${CMAKE_COMMAND} -E create_symlink ${tool_path} ${PROJECT_SOURCE_DIR}/build/attacca
    DEPENDS attacca_cli
    COMMENT "build/attacca -> ${tool_path}"
    VERBATIM)
endif()
