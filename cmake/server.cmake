# Builds the OpenAI-compatible server of `attacca serve`. Only two sources include Boost, and one of them Beast. They are the
# target attacca_http, which links nothing of attacca, so presets with the same flags share the objects in ccache. Where Boost,
# OpenSSL or prometheus-cpp is missing, neither that target nor attacca_server is there.
find_package(OpenSSL QUIET)
find_package(prometheus-cpp CONFIG QUIET)
# Only Boost's headers. 1.81 is what the server was written for and is tested with; Debian 12 also has 1.74.
find_path(ATTACCA_BOOST_INCLUDE_DIR boost/beast/version.hpp)
mark_as_advanced(ATTACCA_BOOST_INCLUDE_DIR)
set(boost_version 0)
if(ATTACCA_BOOST_INCLUDE_DIR)
  file(STRINGS ${ATTACCA_BOOST_INCLUDE_DIR}/boost/version.hpp boost_version REGEX "define BOOST_VERSION ")
  string(REGEX REPLACE "[^0-9]*([0-9]+).*" "\\1" boost_version "${boost_version}")
endif()
if(boost_version GREATER_EQUAL 108100 AND OPENSSL_FOUND AND TARGET prometheus-cpp::core)
  file(GLOB server_sources CONFIGURE_DEPENDS src/server/*.cpp)
  set(http_sources ${PROJECT_SOURCE_DIR}/src/server/connection.cpp ${PROJECT_SOURCE_DIR}/src/server/http_server.cpp)
  list(REMOVE_ITEM server_sources ${http_sources})
  add_library(attacca_server STATIC ${server_sources})
  attacca_unity(attacca_server)
  target_include_directories(attacca_server PRIVATE src)
  set(page ${PROJECT_SOURCE_DIR}/src/server/page.html)
  set_source_files_properties(src/server/page.cpp PROPERTIES
    COMPILE_DEFINITIONS "ATTACCA_PAGE_HTML=\"${page}\"" OBJECT_DEPENDS ${page})
  target_link_libraries(attacca_server PUBLIC attacca::llm prometheus-cpp::core PRIVATE nlohmann_json::nlohmann_json fmt::fmt)

  add_library(attacca_http STATIC ${http_sources})
  target_include_directories(attacca_http PRIVATE src include)
  target_include_directories(attacca_http SYSTEM PRIVATE ${ATTACCA_BOOST_INCLUDE_DIR})
  if(ATTACCA_SANITIZE MATCHES "thread")
    # The thread sanitizer does not know fences. One thread runs the io_context, and Asio's mutexes order the rest.
    target_compile_definitions(attacca_http PRIVATE BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
  target_link_libraries(attacca_http PRIVATE fmt::fmt Threads::Threads OpenSSL::SSL INTERFACE attacca_server)
else()
  message(STATUS "attacca serve is left out: it needs the headers of Boost 1.81 or newer, OpenSSL and prometheus-cpp")
endif()
