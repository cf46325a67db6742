// nearest.hpp: the name that a misspelt one was probably meant to be.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace attacca::tool {

/// The number of letters to insert, drop or change to turn one word into the other. Case is
/// ignored.
std::size_t distance(const std::string& a, const std::string& b);

/// The name with the least distance from `word`; the first of several. Empty where there are none.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

}  // namespace attacca::tool
