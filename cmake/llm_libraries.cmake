# Finds the libraries that attacca::llm links: when it is built, and again when a project that found the package links it.
find_package(nlohmann_json CONFIG REQUIRED)

# attacca_library(<name> <header> <library>): adds an imported target for a library without a CMake package in Debian.
function(attacca_library name header library)
  find_path(${name}_INCLUDE_DIR ${header})
  find_library(${name}_LIBRARY ${library})
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
  if(NOT ${name}_INCLUDE_DIR OR NOT ${name}_LIBRARY)
    message(FATAL_ERROR "${header} (Debian: ${ARGN}) was not found. Install it, or configure with -DATTACCA_LLM=OFF.")
  endif()
  add_library(attacca_${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(attacca_${name} PROPERTIES
    IMPORTED_LOCATION ${${name}_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${${name}_INCLUDE_DIR})
endfunction()
attacca_library(hwy hwy/highway.h hwy libhwy-dev)
attacca_library(pcre2 pcre2.h pcre2-8 libpcre2-dev)
attacca_library(utf8proc utf8proc.h utf8proc libutf8proc-dev)
