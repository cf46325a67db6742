// random_file.hpp: a model file of random weights, for benchmarks that open a model as users do.
#pragma once

#include <filesystem>
#include <string>

#include "harness.hpp"
#include "llm/bench_folder.hpp"

namespace bench {

/// The file is in a folder of its own; both are removed with this object.
class RandomFile {
 public:
  /// Writes what `attacca convert --random SHAPE --weights TYPE` writes, with the embedded model's
  /// vocabulary.
  RandomFile(Run& run, const std::string& shape, const std::string& weights);

  std::filesystem::path path() const { return folder_.path() / "random.gguf"; }

 private:
  BenchFolder folder_;
};

}  // namespace bench
