// shared_memory.cpp: maps, reserves and unlinks objects of POSIX shared memory.
#include "comm/process/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace attacca::comm {

SharedMemory SharedMemory::make(std::size_t bytes) {
  static std::atomic<unsigned> made{0};
  SharedMemory shared;
  shared.name_ = fmt::format("/attacca-{}-{}", getpid(), made++);
  const int file = shm_open(shared.name_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  if (file < 0) {
    shared.problem_ = fmt::format("shared memory {}: {}", shared.name_, std::strerror(errno));
    return shared;
  }
  // Reserves the room. Without that a write to memory that is not there would end the process.
  if (const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes)); error != 0) {
    shared.problem_ =
        fmt::format("{} bytes of shared memory: {}; see df /dev/shm", bytes, std::strerror(error));
    close(file);
    shared.unlink();
    return shared;
  }
  shared.map(file, bytes);
  return shared;
}

SharedMemory SharedMemory::open(const std::string& name, std::size_t bytes) {
  SharedMemory shared;
  shared.name_ = name;
  const int file = shm_open(name.c_str(), O_RDWR, 0600);
  if (file < 0)
    shared.problem_ = fmt::format("shared memory {}: {}", name, std::strerror(errno));
  else
    shared.map(file, bytes);
  return shared;
}

void SharedMemory::map(int file, std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    problem_ = fmt::format("mapping {} bytes of shared memory: {}", bytes, std::strerror(errno));
  else
    memory_ = {static_cast<std::byte*>(memory), [bytes](std::byte* p) { munmap(p, bytes); }};
  close(file);
}

void SharedMemory::unlink() const { shm_unlink(name_.c_str()); }

}  // namespace attacca::comm
