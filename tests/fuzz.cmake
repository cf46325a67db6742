# Builds the fuzz targets, tests/fuzz/<name>_fuzz.cpp. Every build compiles them and, as a test, feeds them seeds and
# changed copies of the seeds. A build by clang++ can also make <name>_fuzz, in which libFuzzer searches for inputs; see
# scripts/fuzz.sh.
set(fuzz_seeds ${CMAKE_CURRENT_BINARY_DIR}/fuzz)
add_test(NAME fuzz_seeds
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/make_seeds.py ${fuzz_seeds})
set_tests_properties(fuzz_seeds PROPERTIES FIXTURES_SETUP fuzz_seeds LABELS cpu)
set(fuzz_inputs 20000)
if(ATTACCA_SANITIZE)
  set(fuzz_inputs 4000)
endif()

file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/*_fuzz.cpp)
foreach(source IN LISTS fuzz_sources)
  string(REGEX REPLACE ".*/(.*)_fuzz\\.cpp" "\\1" name ${source})
  set(inputs ${fuzz_inputs})
  if(name MATCHES "^(http|requests)$" AND NOT TARGET attacca_server)
    continue()
  endif()
  if(name STREQUAL http)
    set(inputs 4000)  # each is a connection
  endif()
  add_executable(${name}_replay ${source} fuzz/replay.cpp)
  target_link_libraries(${name}_replay PRIVATE attacca_test_settings)
  if(name STREQUAL plan)
    target_link_libraries(${name}_replay PRIVATE attacca_planner)
  elseif(name STREQUAL requests)
    target_link_libraries(${name}_replay PRIVATE attacca_server)
  elseif(name STREQUAL http)
    target_link_libraries(${name}_replay PRIVATE attacca_http)
  elseif(name STREQUAL sse)
    target_link_libraries(${name}_replay PRIVATE attacca_bench_serve)
  elseif(name STREQUAL trace)
    target_link_libraries(${name}_replay PRIVATE attacca_trace)
  endif()
  add_test(NAME ${name}_replay COMMAND ${name}_replay ${fuzz_seeds}/${name} ${inputs} ${fuzz_seeds}/${name}.last)
  set_tests_properties(${name}_replay PROPERTIES FIXTURES_REQUIRED fuzz_seeds LABELS cpu TIMEOUT 300)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    add_executable(${name}_fuzz EXCLUDE_FROM_ALL ${source})
    target_link_libraries(${name}_fuzz PRIVATE attacca_parsers)
    if(name STREQUAL http)
      target_link_libraries(${name}_fuzz PRIVATE attacca_http)
    endif()
    if(name MATCHES "^(roofs|trace)$")  # their writers need the library
      target_link_libraries(${name}_fuzz PRIVATE attacca_trace)
    endif()
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  endif()
endforeach()

# Only the sources that the targets need: half as much to compile as attacca::llm and its libraries.
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  file(GLOB_RECURSE parser_sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/src/formats/*.cpp ${PROJECT_SOURCE_DIR}/src/text/*.cpp
    ${PROJECT_SOURCE_DIR}/src/grammar/*.cpp ${PROJECT_SOURCE_DIR}/src/planner/*.cpp
    ${PROJECT_SOURCE_DIR}/src/server/fields.cpp ${PROJECT_SOURCE_DIR}/src/server/openai_*.cpp
    ${PROJECT_SOURCE_DIR}/src/server/tool_calls.cpp ${PROJECT_SOURCE_DIR}/src/comm/tcp/inbox.cpp
    ${PROJECT_SOURCE_DIR}/src/comm/tcp/launch.cpp
    ${PROJECT_SOURCE_DIR}/bench/serve/completion.cpp ${PROJECT_SOURCE_DIR}/bench/serve/sse.cpp)
  add_library(attacca_parsers STATIC EXCLUDE_FROM_ALL ${parser_sources})
  target_include_directories(attacca_parsers PUBLIC
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/bench
    ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(attacca_parsers PUBLIC attacca_pcre2 attacca_utf8proc nlohmann_json::nlohmann_json fmt::fmt)
endif()
