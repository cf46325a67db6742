// A kernel file of a consumer project whose kernels spawn kernels. attacca_nested_kernels makes a
// library of it.
#include <attacca/nested.hpp>

#include "kernels.hpp"

namespace consumer {

// Not anonymous: there nvcc would treat the name of a kernel that is only spawned as unused.
namespace spawning {

struct AddOne {
  static constexpr const char* name = "add_one";
  struct Args {
    std::uint32_t* value;
  };
  static attacca::Cost cost(const Args&) { return {1, 8}; }
  ATTACCA_HD static void body(attacca::Thread& t, const Args& a) {
    if (t.is_first()) *a.value += 1;
  }
};

struct SpawnAdditions {
  static constexpr const char* name = "spawn_additions";
  using Args = SpawnArgs;
  static attacca::Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(attacca::SpawningThread& t, const Args& a) {
    for (std::uint32_t at = 0; at < a.kernels; ++at)
      t.spawn<AddOne>(attacca::Grid{}, {a.values + at}, attacca::SpawnMode::fire_and_forget);
  }
};

}  // namespace spawning

const attacca::Kernel<SpawnArgs> spawn_additions = attacca::make_kernel<spawning::SpawnAdditions>();

}  // namespace consumer
