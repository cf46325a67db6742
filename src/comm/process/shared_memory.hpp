// shared_memory.hpp: memory that processes of one machine share.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace attacca::comm {

/// Maps a shared object of the system, whose bytes start as zeros. Errors are texts.
class SharedMemory {
 public:
  /// Makes one with a new name.
  static SharedMemory make(std::size_t bytes);
  static SharedMemory open(const std::string& name, std::size_t bytes);

  const std::string& name() const { return name_; }
  const std::string& problem() const { return problem_; }  // empty: it is mapped
  const std::shared_ptr<std::byte>& memory() const { return memory_; }
  /// Takes the name away. The memory stays while a process has it mapped.
  void unlink() const;

 private:
  void map(int file, std::size_t bytes);

  std::string name_;
  std::string problem_;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace attacca::comm
