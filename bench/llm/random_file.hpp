// random_file.hpp: a model's file of random weights, for benchmarks that open one as people do.
#pragma once

#include <filesystem>
#include <string>

#include "harness.hpp"

namespace bench {

/// In a folder of its own under the system's temporary one; gone with this object.
class RandomFile {
 public:
  /// What `attacca convert --random SHAPE --weights TYPE` writes, with the embedded model's words.
  RandomFile(Run& run, const std::string& shape, const std::string& weights);
  RandomFile(const RandomFile&) = delete;
  ~RandomFile();

  std::filesystem::path path() const { return folder_ / "random.gguf"; }

 private:
  std::filesystem::path folder_;
};

}  // namespace bench
