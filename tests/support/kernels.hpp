// kernels.hpp: the kernels of the tests, each as small as its one purpose allows. Their bodies are
// in kernels.cpp, which nvcc compiles in a CUDA build; test files only see this header.
#pragma once

#include <attacca/kernel.hpp>
#include <attacca/persistent.hpp>
#include <cstdint>

namespace attacca::test {

/// Where kernels leave tags, in the order they ran. See DeviceLog in log.hpp.
struct Log {
  unsigned* next;
  int* entries;
};
/// Appends `tag`, once per grid.
struct NoteArgs {
  Log log;
  int tag;
};
extern const Kernel<NoteArgs> note;

/// *to = value, once per grid.
struct SetArgs {
  int* to;
  int value;
};
extern const Kernel<SetArgs> set_value;

/// x[i] = x[i] * factor + summand. Two of these with different factors do not commute.
struct AffineArgs {
  int* x;
  std::uint64_t count;
  int factor;
  int summand;
};
extern const Kernel<AffineArgs> affine;
/// The same by another function, for updates that change the function.
extern const Kernel<AffineArgs> other_affine;

/// The same, with declared accesses.
extern const Kernel<AffineArgs> declared_affine;

/// *sum = the sum of the values at in[0..count), plus `more`.
struct SumArgs {
  static constexpr unsigned kMaxInputs = 16;
  int* sum;
  const int* in[kMaxInputs];
  unsigned count;
  int more;
};
extern const Kernel<SumArgs> sum;

/// out[number of the thread in the whole grid] = first + its block's coordinates packed with its
/// thread's: bx by bz tx ty tz, four bits each.
struct StampArgs {
  std::uint32_t* out;
  std::uint32_t first;
};
extern const Kernel<StampArgs> stamp;
std::uint32_t stamp_of(const Dim3& block, const Dim3& thread);

/// *out = the address `of`, as the device sees it.
struct AddressArgs {
  std::uint64_t* out;
  const void* of;
};
extern const Kernel<AddressArgs> tell_address;

/// Adds one to cell 0 from every thread of the grid.
struct CountThreadsArgs {
  unsigned* cell;
};
extern const Kernel<CountThreadsArgs> count_threads;

// --- conditions ---------------------------------------------------------------------------------

struct SetConditionArgs {
  Condition condition;
  unsigned value;
};
extern const Kernel<SetConditionArgs> set_condition;

/// condition = values[*at], then ++*at.
struct NextConditionArgs {
  Condition condition;
  const unsigned* values;
  unsigned* at;
};
extern const Kernel<NextConditionArgs> next_condition;

/// Decrements *left and sets the condition to whether it is not zero.
struct CountDownArgs {
  Condition again;
  unsigned* left;
};
extern const Kernel<CountDownArgs> count_down;
/// The same, but it sets the condition only to end the loop.
extern const Kernel<CountDownArgs> stop_at_zero;

// --- programmatic edges -------------------------------------------------------------------------

/// Lets consumers start, then writes *to = value.
extern const Kernel<SetArgs> produce;
/// Waits for producers, then *to = *from + 1.
struct ConsumeArgs {
  int* to;
  const int* from;
};
extern const Kernel<ConsumeArgs> consume;
/// Lets consumers start, waits for producers, then x[i] = value for all i.
struct RewriteArgs {
  int* x;
  unsigned count;
  int value;
};
extern const Kernel<RewriteArgs> rewrite;
/// The same, but reads x `passes` times: wrong[thread] += how often it found another value.
struct ReadAgainArgs {
  const int* x;
  unsigned count;
  int value;
  unsigned passes;
  int* wrong;
};
extern const Kernel<ReadAgainArgs> read_again;
/// Reads all of x before it waits for producers, with many loads under way in every thread:
/// sums[thread] = the sum of the values it read.
struct CrowdArgs {
  const std::uint32_t* x;
  unsigned count;
  std::uint32_t* sums;
};
extern const Kernel<CrowdArgs> crowd;
/// Declares waits and does not wait.
extern const Kernel<ConsumeArgs> forget_to_wait;

// --- device launches ----------------------------------------------------------------------------

/// How often each LaunchStatus came back: counts[status].
struct Tally {
  unsigned* counts;
};
inline constexpr unsigned kStatuses = 16;

/// Every thread launches `graph`.
struct LaunchArgs {
  DeviceGraph graph;
  LaunchMode mode;
  Tally tally;
};
extern const Kernel<LaunchArgs> launch;

/// Launches graphs[0..count), in order.
struct LaunchManyArgs {
  const DeviceGraph* graphs;
  unsigned count;
  LaunchMode mode;
  Tally tally;
};
extern const Kernel<LaunchManyArgs> launch_many;

/// If *left is not zero: decrements it and calls relaunch_self `times` times.
struct RelaunchArgs {
  unsigned* left;
  unsigned times;
  Tally tally;
};
extern const Kernel<RelaunchArgs> relaunch;

/// *flag = 1, for another kernel to see while both run.
struct RaiseArgs {
  unsigned* flag;
};
extern const Kernel<RaiseArgs> raise_flag;
/// Waits for the flag, for about a second at most, and stores in *was_raised whether it came.
struct AwaitArgs {
  unsigned* flag;
  unsigned* was_raised;
};
extern const Kernel<AwaitArgs> await_flag;

// --- reports -------------------------------------------------------------------------------------

/// Each thread of block `block` reports that its wait for a letter timed out.
inline constexpr unsigned kEveryBlock = ~0u;
struct GiveUpArgs {
  unsigned block;
  std::uint64_t wanted;
  std::uint64_t seen;
};
extern const Kernel<GiveUpArgs> give_up;
/// Reports that source number `source` broke.
struct LoseSourceArgs {
  unsigned source;
};
extern const Kernel<LoseSourceArgs> lose_source;

// --- device updates -----------------------------------------------------------------------------

/// Sets the node's arguments, unless *only_if is zero.
struct UpdateArgsArgs {
  DeviceNode<SetArgs> node;
  SetArgs args;
  const unsigned* only_if = nullptr;
};
extern const Kernel<UpdateArgsArgs> update_args;

struct UpdateBlocksArgs {
  DeviceNode<CountThreadsArgs> node;
  unsigned blocks;
};
extern const Kernel<UpdateBlocksArgs> update_blocks;

struct UpdateEnabledArgs {
  DeviceNode<SetArgs> node;
  unsigned is_enabled;
};
extern const Kernel<UpdateEnabledArgs> update_enabled;

// --- the rest -----------------------------------------------------------------------------------

/// Throws on the host; does nothing on CUDA.
struct NothingArgs {
  int unused;
};
extern const Kernel<NothingArgs> throw_on_host;

/// cells[self] = hash of itself, the salt and the cells it reads. The property tests run it.
struct MixArgs {
  static constexpr unsigned kMaxReads = 6;
  std::uint32_t* cells;
  std::uint32_t self;
  std::uint32_t salt;
  std::uint32_t reads[kMaxReads];
  std::uint32_t count;
};
extern const Kernel<MixArgs> mix;
/// The same, behind programmatic edges.
extern const Kernel<MixArgs> mix_waiting;
/// The hash's two steps, for tests that compute the same on the host.
constexpr std::uint32_t mix_in(std::uint32_t hash, std::uint32_t value) {
  hash = (hash ^ value) * 0x9e3779b1u;
  return hash ^ (hash >> 15);
}

/// condition = cells[from] % modulo.
struct ChooseArgs {
  Condition condition;
  const std::uint32_t* cells;
  std::uint32_t from;
  std::uint32_t modulo;
};
extern const Kernel<ChooseArgs> choose;

/// Adds one to cells[counter] and sets the condition to whether it is not a multiple of `passes`.
struct PassArgs {
  Condition again;
  std::uint32_t* cells;
  std::uint32_t counter;
  std::uint32_t passes;
};
extern const Kernel<PassArgs> count_pass;

/// Keeps one block for a while.
struct LingerArgs {
  unsigned block;
  const std::uint64_t* nanoseconds;
};
extern const Kernel<LingerArgs> linger;

/// Runs affine and count_down as one persistent kernel.
extern const PersistentProgram affine_and_count_down;
/// The same, a new one each time.
PersistentProgram make_affine_and_count_down();
extern const PersistentProgram affine_and_stop_at_zero;
extern const PersistentProgram linger_and_count_down;

}  // namespace attacca::test
