# Builds attacca::llm: model files, tokenizers, chat templates, the kernels of a transformer and the engine that batches
# requests. It is a library of its own, so a program that only wants graphs needs none of the libraries below.
include(cmake/llm_libraries.cmake)

file(GLOB_RECURSE llm_sources CONFIGURE_DEPENDS
  src/formats/*.cpp src/text/*.cpp src/grammar/*.cpp src/model/*.cpp src/step/*.cpp src/schedule/*.cpp src/driver/*.cpp
  src/engine/*.cpp)
file(GLOB llm_host_kernel_sources CONFIGURE_DEPENDS src/kernels/host/*.cpp src/kernels/*/host/*.cpp)
file(GLOB llm_kernel_sources CONFIGURE_DEPENDS src/kernels/*.cpp src/kernels/*/*.cpp src/resident/*.cpp)
list(FILTER llm_kernel_sources EXCLUDE REGEX "/host/")
set(sm90_kernel_sources ${llm_kernel_sources})
list(FILTER sm90_kernel_sources INCLUDE REGEX "/sm90_[^/]*$")
list(REMOVE_ITEM llm_kernel_sources ${sm90_kernel_sources})
add_library(attacca_llm STATIC ${llm_sources} ${llm_host_kernel_sources})
add_library(attacca::llm ALIAS attacca_llm)
attacca_kernels(attacca_llm ${llm_kernel_sources})
# These have names in common with their neighbours.
attacca_unity(attacca_llm ${llm_host_kernel_sources} ${llm_kernel_sources} src/engine/ranked.cpp
  src/step/persistent_step.cpp src/step/streamed_step.cpp src/text/chat/number_filters.cpp src/text/chat/operators.cpp
  src/text/tokenizer/json_steps.cpp src/text/tokenizer/open.cpp)
# Files called sm90_* use instructions of Hopper only.
add_library(attacca_sm90 OBJECT)
attacca_kernels(attacca_sm90 ${sm90_kernel_sources})
set_target_properties(attacca_sm90 PROPERTIES POSITION_INDEPENDENT_CODE ON CUDA_ARCHITECTURES 90a-real)
target_include_directories(attacca_sm90 PRIVATE src)
target_link_libraries(attacca_sm90 PRIVATE attacca)
target_sources(attacca_llm PRIVATE $<TARGET_OBJECTS:attacca_sm90>)
set_target_properties(attacca_llm PROPERTIES POSITION_INDEPENDENT_CODE ON EXPORT_NAME llm)
target_include_directories(attacca_llm PRIVATE src)
target_link_libraries(attacca_llm PUBLIC attacca
  PRIVATE attacca_hwy attacca_pcre2 attacca_utf8proc nlohmann_json::nlohmann_json fmt::fmt)
if(ATTACCA_SANITIZE)
  # At -O0 vector code takes minutes to run.
  set_source_files_properties(${llm_host_kernel_sources} ${llm_kernel_sources} PROPERTIES COMPILE_OPTIONS -O1)
endif()
# The embedded model.
set(embedded_model ${PROJECT_SOURCE_DIR}/models/attacca-small.gguf)
set_source_files_properties(src/model/embedded.cpp PROPERTIES
  COMPILE_DEFINITIONS "ATTACCA_SMALL_GGUF=\"${embedded_model}\"" OBJECT_DEPENDS ${embedded_model})

# `attacca plan`. It reads logs and needs no engine.
file(GLOB planner_sources CONFIGURE_DEPENDS src/planner/*.cpp)
add_library(attacca_planner STATIC EXCLUDE_FROM_ALL ${planner_sources})
attacca_unity(attacca_planner)
target_include_directories(attacca_planner PRIVATE src)
target_link_libraries(attacca_planner PRIVATE attacca fmt::fmt)

if(ATTACCA_EXAMPLES)
  add_executable(attacca_story examples/llm/story.cpp)
  target_link_libraries(attacca_story PRIVATE attacca::llm)
endif()
