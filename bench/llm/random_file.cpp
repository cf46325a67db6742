// random_file.cpp: writes a model file of random weights.
#include "llm/random_file.hpp"

#include <fmt/core.h>

#include "model/embedded.hpp"
#include "model/random_model.hpp"
#include "model/shapes.hpp"

namespace bench {

RandomFile::RandomFile(Run& run, const std::string& shape, const std::string& weights) {
  namespace model = attacca::model;
  const model::RandomModel random{.config = model::shape_called(shape),
                                  .weights = model::weight_type_called(weights)};
  model::write_random_model(random, *model::open_embedded().gguf(), path(),
                            [&](std::string_view, std::uint64_t done, std::uint64_t all) {
                              run.show_progress(fmt::format("writing {} in {}", shape, weights),
                                                100 * done / all, 100);
                            });
}

}  // namespace bench
