// page.hpp: the page that a browser gets at /. It is page.html, linked into the program.
#pragma once

#include <string_view>

namespace attacca::server {

std::string_view page();

}  // namespace attacca::server
