// random_file.cpp: writes a model file of random weights into a temporary folder and removes it.
#include "llm/random_file.hpp"

#include <fmt/core.h>

#include <attacca/error.hpp>
#include <cstdlib>

#include "model/embedded.hpp"
#include "model/random_model.hpp"
#include "model/shapes.hpp"

namespace bench {

RandomFile::RandomFile(Run& run, const std::string& shape, const std::string& weights) {
  namespace model = attacca::model;
  const model::RandomModel random{.config = model::shape_called(shape),
                                  .weights = model::weight_type_called(weights)};
  std::string name = (std::filesystem::temp_directory_path() / "attacca-bench-XXXXXX").string();
  if (!::mkdtemp(name.data()))
    throw attacca::Error(
        fmt::format("cannot make a folder in '{}'; set TMPDIR to one that can be "
                    "written",
                    std::filesystem::temp_directory_path().string()));
  folder_ = name;
  try {
    model::write_random_model(random, *model::open_embedded().gguf(), path(),
                              [&](std::string_view, std::uint64_t done, std::uint64_t all) {
                                run.show_progress(fmt::format("writing {} in {}", shape, weights),
                                                  100 * done / all, 100);
                              });
  } catch (...) {
    std::filesystem::remove_all(folder_);
    throw;
  }
}

RandomFile::~RandomFile() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace bench
