// random_file.hpp: a model file of random weights, for benchmarks that open a model as users do.
#pragma once

#include <filesystem>
#include <string>

#include "harness.hpp"

namespace bench {

/// The file is in its own folder under the system's temporary one; both are removed with this
/// object.
class RandomFile {
 public:
  /// Writes what `attacca convert --random SHAPE --weights TYPE` writes, with the embedded model's
  /// vocabulary.
  RandomFile(Run& run, const std::string& shape, const std::string& weights);
  RandomFile(const RandomFile&) = delete;
  ~RandomFile();

  std::filesystem::path path() const { return folder_ / "random.gguf"; }

 private:
  std::filesystem::path folder_;
};

}  // namespace bench
