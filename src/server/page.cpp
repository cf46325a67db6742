// page.cpp: links page.html in. The assembler puts its bytes among the program's constants.
#include "server/page.hpp"

#include <cstddef>

#include "core/linked_file.hpp"

ATTACCA_LINK_FILE(attacca_page, ATTACCA_PAGE_HTML);

namespace attacca::server {

std::string_view page() {
  return {attacca_page_begin, static_cast<std::size_t>(attacca_page_end - attacca_page_begin)};
}

}  // namespace attacca::server
