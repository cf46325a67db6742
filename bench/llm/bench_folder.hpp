// bench_folder.hpp: a folder for model files that a benchmark writes.
#pragma once

#include <filesystem>

namespace bench {

/// A folder under the system's temporary one, removed with this object.
class BenchFolder {
 public:
  BenchFolder();
  BenchFolder(const BenchFolder&) = delete;
  ~BenchFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace bench
