// page.cpp: links page.html in. The assembler puts its bytes among the program's constants.
#include "server/page.hpp"

#include <cstddef>

asm(R"(
  .pushsection .rodata
  .global attacca_page_begin
attacca_page_begin:
  .incbin ")" ATTACCA_PAGE_HTML R"("
  .global attacca_page_end
attacca_page_end:
  .byte 0
  .popsection
)");

extern "C" {
extern const char attacca_page_begin[];
extern const char attacca_page_end[];
}

namespace attacca::server {

std::string_view page() {
  return {attacca_page_begin, static_cast<std::size_t>(attacca_page_end - attacca_page_begin)};
}

}  // namespace attacca::server
