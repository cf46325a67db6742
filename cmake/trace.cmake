# Builds attacca_trace, which reads and sums up traces for `attacca trace`. What records and writes them is in the library.
find_package(nlohmann_json CONFIG REQUIRED)
file(GLOB trace_sources CONFIGURE_DEPENDS src/trace/*.cpp)
list(REMOVE_ITEM trace_sources ${recorder_sources})
add_library(attacca_trace STATIC EXCLUDE_FROM_ALL ${trace_sources})
attacca_unity(attacca_trace)
target_include_directories(attacca_trace PRIVATE src)
target_link_libraries(attacca_trace PUBLIC attacca PRIVATE nlohmann_json::nlohmann_json fmt::fmt)
