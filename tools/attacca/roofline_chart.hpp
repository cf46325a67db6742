// roofline_chart.hpp: kernels under their roofs as a picture, and as a page with the tables.
#pragma once

#include <attacca/roofline.hpp>
#include <string>
#include <vector>

namespace attacca::tool {

/// FLOPs per second over FLOPs per byte, both logarithmic. A dot's area is its share of the time.
std::string roofline_svg(const Roofline& found);
/// One file that needs no other.
std::string roofline_html(const Roofline& found, const std::vector<Trial>& trials);

}  // namespace attacca::tool
