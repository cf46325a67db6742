# Adds the tests that are not GoogleTest. In every preset these are the tool's output and a consumer project. Only in the
# plain host build: headers compiled alone, layers, code that must not compile, the tables of the documentation.

# Only the binary of tests/bench links more than the library.
if(TARGET bench_tests)
  target_link_libraries(bench_tests PRIVATE attacca_harness attacca_bench_serve)
endif()

set(consumer_flags)
if(ATTACCA_SANITIZE)
  set(consumer_flags -fsanitize=${ATTACCA_SANITIZE})
endif()
add_test(NAME consumer
  COMMAND ${CMAKE_COMMAND}
    -D build=${PROJECT_BINARY_DIR}
    -D source=${CMAKE_CURRENT_SOURCE_DIR}/consumer
    -D scratch=${CMAKE_CURRENT_BINARY_DIR}/consumer
    -D compiler=${CMAKE_CXX_COMPILER}
    "-D flags=${consumer_flags}"
    -D version=${PROJECT_VERSION}
    -D llm=${ATTACCA_LLM}
    -D cuda=${ATTACCA_CUDA}
    "-D prefix_path=${CMAKE_PREFIX_PATH}"
    -P ${CMAKE_CURRENT_SOURCE_DIR}/scripts/consumer.cmake)
set_tests_properties(consumer PROPERTIES TIMEOUT 600)
set(scripted consumer)

# tool_test(<name> <script> <words...>): a test of the command, which the script gets as its first word.
function(tool_test name script)
  add_test(NAME ${name}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/tools/${script} $<TARGET_FILE:attacca_cli> ${ARGN}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

if(TARGET attacca_cli)
  tool_test(doctor doctor_test.py ${PROJECT_VERSION} $<BOOL:${ATTACCA_CUDA}>)
  tool_test(commands examples_test.py)
  tool_test(bench_command bench_test.py $<BOOL:${ATTACCA_BENCH}>)
  list(APPEND scripted doctor commands bench_command)
  if(ATTACCA_SANITIZE MATCHES address)
    # Looking for leaks takes four seconds at the end of each process. `doctor` and the GoogleTest binaries do look.
    set_tests_properties(commands bench_command PROPERTIES ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1")
  endif()
  if(ATTACCA_LLM)
    tool_test(pull_command pull_test.py)
    tool_test(llm_commands llm_test.py)
    tool_test(score_command score_test.py)
    tool_test(convert_command convert_test.py)
    tool_test(plan_command plan_test.py)
    tool_test(roofline_command roofline_test.py)
    tool_test(trace_command trace_test.py)
    tool_test(llm_usage usage_test.py)
    if(TARGET attacca_http)
      tool_test(serve_command serve_test.py)
      tool_test(serve_http_command serve_http_test.py)
      tool_test(serve_log_command serve_log_test.py)
      tool_test(serve_models_command serve_models_test.py)
      tool_test(plan_live_command plan_live_test.py)
      if(TARGET attacca_lost_device)
        set(lost_device $<TARGET_FILE:attacca_lost_device>)
      endif()
      tool_test(serve_faults_command serve_faults_test.py ${lost_device})
      tool_test(serve_soak_command serve_soak_test.py)
      # Skips itself if openssl is missing.
      tool_test(serve_tls_command serve_tls_test.py)
      set_tests_properties(serve_tls_command PROPERTIES SKIP_RETURN_CODE 77)
      set(serve_tests serve_command serve_http_command serve_log_command serve_models_command plan_live_command
        serve_faults_command serve_soak_command serve_tls_command)
      set_tests_properties(${serve_tests} PROPERTIES TIMEOUT 300)
      list(APPEND scripted ${serve_tests})
    else()
      tool_test(no_serve_command no_serve_test.py)
      list(APPEND scripted no_serve_command)
    endif()
    if(TARGET attacca_http_client)
      tool_test(bench_serve_command bench_serve_test.py)
      tool_test(serve_record serve_record_test.py)
      set_tests_properties(bench_serve_command serve_record PROPERTIES TIMEOUT 300)
      list(APPEND scripted bench_serve_command serve_record)
    endif()
    list(APPEND scripted pull_command llm_commands score_command convert_command plan_command roofline_command trace_command
      llm_usage)
    if(NOT ATTACCA_SANITIZE)
      # Skips itself if torch, transformers or the model is missing.
      add_test(NAME smollm2_oracle
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/oracle/smollm2.py $<TARGET_FILE:attacca_cli>)
      set_tests_properties(smollm2_oracle PROPERTIES LABELS model SKIP_RETURN_CODE 77 TIMEOUT 900)
    endif()
  endif()
endif()

if(TARGET grammar_tests AND NOT ATTACCA_SANITIZE)
  # Skips itself if Python's jsonschema is missing.
  add_test(NAME grammar_oracle
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/oracle/grammar_jsonschema.py $<TARGET_FILE:grammar_tests>)
  set_tests_properties(grammar_oracle PROPERTIES LABELS cpu SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()

if(ATTACCA_CUDA AND NOT ATTACCA_SANITIZE)
  # A guest in PyTorch's process, which has a CUDA runtime of its own. The runtime that attacca links must stay apart.
  add_library(attacca_torch_guest SHARED)
  attacca_kernels(attacca_torch_guest interop/torch_guest.cpp)
  target_link_libraries(attacca_torch_guest PRIVATE attacca::attacca)
  target_link_options(attacca_torch_guest PRIVATE -Wl,--exclude-libs,ALL)
  # Skips itself if torch or a GPU is missing.
  add_test(NAME torch_stream
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/oracle/torch_stream.py $<TARGET_FILE:attacca_torch_guest>)
  set_tests_properties(torch_stream PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()

if(NOT ATTACCA_SANITIZE AND NOT ATTACCA_CUDA)
  # Each public header in a file of its own, included twice.
  file(GLOB public_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/include/attacca/*.hpp ${PROJECT_SOURCE_DIR}/include/attacca/device/*.hpp)
  set(header_sources)
  foreach(header IN LISTS public_headers)
    string(MAKE_C_IDENTIFIER ${header} name)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include <@header@>\n#include <@header@>\n" @ONLY)
    list(APPEND header_sources ${source})
  endforeach()
  add_library(attacca_public_headers OBJECT ${header_sources})
  target_link_libraries(attacca_public_headers PRIVATE attacca::attacca)
  add_test(NAME public_headers_compile_alone
    COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target attacca_public_headers)

  add_test(NAME layers COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/layers.py ${PROJECT_SOURCE_DIR})
  add_test(NAME layers_notices_a_forbidden_include
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/layers_test.py)
  add_test(NAME first_lines
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/first_lines.py ${PROJECT_SOURCE_DIR})
  add_test(NAME first_lines_test
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/first_lines_test.py)

  # tests/compile_fail/<name>.cpp must compile with -DCORRECT, and without it fail with the message it names.
  file(GLOB compile_fail_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/*.cpp)
  foreach(source IN LISTS compile_fail_sources)
    get_filename_component(name ${source} NAME_WE)
    add_test(NAME ${name}_does_not_compile
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/compile_fail.py
        --source ${source} --compiler ${CMAKE_CXX_COMPILER} --
        -std=c++20 -fsyntax-only "-I$<JOIN:$<TARGET_PROPERTY:attacca,INTERFACE_INCLUDE_DIRECTORIES>,;-I>"
        "-D$<JOIN:$<TARGET_PROPERTY:attacca,INTERFACE_COMPILE_DEFINITIONS>,;-D>"
      COMMAND_EXPAND_LISTS)
    list(APPEND scripted ${name}_does_not_compile)
  endforeach()

  add_test(NAME tables_are_generated
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/tables.py --check)
  add_test(NAME measurements_are_generated
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/measurements.py --check)
  add_test(NAME measurements_test
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/measurements_test.py)
  add_test(NAME performance_is_generated
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/performance.py --check)
  add_test(NAME performance_test
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/performance_test.py)
  add_test(NAME chart_is_generated
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/chart.py --check)
  add_test(NAME overview_is_generated
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/overview.py --check)
  add_test(NAME chart_test COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/chart_test.py)
  add_test(NAME checks_are_generated
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/checks.py page --check)
  add_test(NAME checks_test COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/checks_test.py)
  add_test(NAME torch_decode_test
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/torch_decode_test.py)
  add_test(NAME tables_test COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/tables_test.py)
  add_test(NAME code_of_the_interop_page_is_compiled
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/page_code.py ${PROJECT_SOURCE_DIR}/docs/interop.md
      ${CMAKE_CURRENT_SOURCE_DIR}/semantics/interop_page_test.cpp)
  add_test(NAME demo_output_test COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/demo_output_test.py)
  add_test(NAME oracle_parts_test COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/oracle_parts_test.py)
  add_test(NAME links_of_the_documentation
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/docs_check.py --links)
  add_test(NAME docs_check_test COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/scripts/docs_check_test.py)
  list(APPEND scripted public_headers_compile_alone layers layers_notices_a_forbidden_include first_lines
    first_lines_test tables_are_generated
    tables_test measurements_are_generated measurements_test performance_is_generated performance_test
    chart_is_generated overview_is_generated chart_test checks_are_generated checks_test torch_decode_test demo_output_test
    oracle_parts_test
    links_of_the_documentation docs_check_test code_of_the_interop_page_is_compiled)
endif()
set_tests_properties(${scripted} PROPERTIES LABELS cpu)
if(ATTACCA_CUDA)
  # Its kernels also run on the GPU, if there is one.
  set_tests_properties(consumer PROPERTIES LABELS "cpu;gpu")
endif()
