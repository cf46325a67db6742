// drive.hpp: sends the requests of a load when they are due and collects what became of them.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "serve/completion.hpp"
#include "serve/load.hpp"
#include "serve/transport.hpp"

namespace bench::serve {

/// A call for a planned request.
using MakeCall = std::function<HttpCall(const Planned&)>;

struct Progress {
  double share = 0;  // of the run
  std::size_t ended = 0;
  std::size_t failed = 0;
  std::size_t running = 0;
};
using OnProgress = std::function<void(const Progress&)>;

/// Runs a load to its end: requests that began within `options.seconds` are waited for. At a
/// concurrency, a request that failed is followed by the next after 100 ms, so a server that
/// refuses is not flooded. Records are in the order in which their requests were sent.
std::vector<Record> drive(Transport& transport, const LoadOptions& options,
                          const MakeCall& make_call, const OnProgress& on_progress);

}  // namespace bench::serve
