// resident.cpp: what a resident scheduler refuses.
#include <attacca/error.hpp>
#include <attacca/resident.hpp>

#include <string>

namespace attacca::detail {

void refuse_started(const char* what) {
  throw BadArgument(std::string("ResidentScheduler: cannot ") + what +
                    " once it was started; do it before");
}

void check_graph_count(std::size_t count) {
  if (count == 0)
    throw BadArgument("ResidentScheduler: no graph to run; add the graphs of its jobs first");
}

}  // namespace attacca::detail
