// timeline.hpp: a run as a picture: each request as a bar in time, and below it the tokens that
// came in each moment.
#pragma once

#include <string>
#include <vector>

#include "serve/completion.hpp"

namespace bench::serve {

/// An SVG document. `title` heads it, and `footer` stands below, in as many lines as it needs.
std::string timeline_svg(const std::vector<Record>& records, const std::string& title,
                         const std::string& footer);

}  // namespace bench::serve
