// group.cpp: exchanges over NVSHMEM's symmetric memory, all in the order of a stream. NVSHMEM gives
// memory that GPUs of all ranks can address; copies and kernels of ours do the rest, so that every
// wait has a deadline. Collectives copy to symmetric memory, meet, read the others' memory in the
// order of ranks, and meet again, so that nobody writes what another still reads.
#include "comm/nvshmem/group.hpp"

#include <fmt/core.h>
#include <attacca/memory.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/compare.hpp"
#include "comm/device_group.hpp"
#include "comm/exchange_kernel.hpp"
#include "comm/library_thread.hpp"
#include "comm/nvshmem/library.hpp"
#include "comm/one_sided_kernel.hpp"
#include "graph/access.hpp"
#include "graph/executor.hpp"

namespace attacca::comm {

namespace {

constexpr std::size_t kScratchBytes = std::size_t{8} << 20;  // of a rank; longer data go in pieces

class NvshmemGroup final : public LibraryGroup {
 public:
  NvshmemGroup(std::shared_ptr<GroupImpl> control, const Device& device)
      : LibraryGroup("nvshmem", control, device),
        thread_(std::move(control), device),
        library_(start()),
        scratch_(allocate_everywhere(kScratchBytes)),
        words_(allocate_everywhere(sizeof(std::uint32_t) * device::RankBarrier::kMostRanks)),
        met_(device, std::vector<std::uint32_t>(1)) {}
  ~NvshmemGroup() override {
    try {
      control()->poll();
      control()->check();
      thread_.run_last(library_.finalize);  // others may still be at work
    } catch (...) {
    }
  }

  std::shared_ptr<GroupImpl> subgroup(const std::vector<int>&) override {
    throw BadArgument(
        "NVSHMEM's group has all ranks and no subgroups; use another transport there");
  }

 private:
  /// Starts NVSHMEM on all ranks.
  const NvshmemLibrary& start() {
    std::string problem;
    const NvshmemLibrary* library = find_nvshmem(problem);
    tell_all(*control(), problem, "");
    struct Start {
      NvshmemId id;
      NvshmemAttributes attributes;
      int error = 0;
    };
    const auto start = std::make_shared<Start>();
    const auto tell = [&](const char* remedy) {
      tell_all(
          *control(),
          start->error == 0 ? "" : fmt::format("NVSHMEM does not start, error {}", start->error),
          remedy);
    };
    if (rank() == 0)
      thread_.run("NVSHMEM's id",
                  [start, library] { start->error = library->get_unique_id(&start->id); });
    tell("");
    Access::group(control()).broadcast(std::span(&start->id, 1), 0).named("NVSHMEM's id").run();
    thread_.run("NVSHMEM's start", [start, library, rank = rank(), size = size()] {
      start->error = library->set_id(rank, size, &start->id, &start->attributes);
      if (start->error == 0) start->error = library->init(kNvshmemInitWithId, &start->attributes);
    });
    tell(
        " (two ranks on one GPU need MPS, with active thread percentages of at most 100 in "
        "all)");
    return *library;
  }

  /// Memory stays until the group ends, because NVSHMEM frees it on all ranks together.
  std::shared_ptr<SymmetricBlock> allocate_everywhere(std::size_t bytes) {
    auto block = std::make_shared<SymmetricBlock>();
    block->bytes = bytes;
    thread_.run("NVSHMEM's allocation", [block, library = &library_, ranks = size()] {
      void* own = library->allocate(std::max<std::size_t>(block->bytes, 1));
      for (int rank = 0; own && rank < ranks; ++rank)
        block->bases.push_back(static_cast<std::byte*>(library->address_of(own, rank)));
    });
    std::string problem;
    if (block->bases.empty()) problem = fmt::format("NVSHMEM has no {} bytes left", bytes);
    const auto unreachable = std::find(block->bases.begin(), block->bases.end(), nullptr);
    if (unreachable != block->bases.end())
      problem = fmt::format("its GPU cannot address the memory of rank {}",
                            unreachable - block->bases.begin());
    tell_all(
        *control(), problem,
        "; raise NVSHMEM_SYMMETRIC_SIZE if there is too little, and use NCCL between machines");
    stream().fill(block->bases[static_cast<std::size_t>(rank())], 0,
                  std::max<std::size_t>(bytes, 1));
    stream().synchronize();
    Access::group(control()).barrier().run();  // all have their zeros
    return block;
  }
  std::shared_ptr<SymmetricBlock> make_block(std::size_t bytes) override {
    ExchangeData allocation;
    allocation.descriptor.operation = Operation::symmetric;
    allocation.descriptor.count = bytes;
    allocation.descriptor.element_bytes = 1;
    compare_on_host(*control(), allocation);
    return allocate_everywhere(bytes);
  }

  void check_kind(const ExchangeData& exchange) const override {
    const Operation operation = exchange.descriptor.operation;
    if (operation == Operation::send || operation == Operation::receive)
      throw BadArgument(
          fmt::format("NVSHMEM has no {}; use put_signal and wait", name_of(operation)));
  }

  void call(const ExchangeData& e, StreamRef stream, bool) override {
    if (!is_one_sided(e.descriptor.operation)) compare_on_host(*control(), e);
    graph::impl_of(device()).run_here([&] {
      if (is_one_sided(e.descriptor.operation))
        one_sided(e, stream);
      else
        collective(e, stream);
    });
  }

  void one_sided(const ExchangeData& e, StreamRef stream) {
    if (e.descriptor.operation != Operation::wait) return enqueue_one_sided(e, stream);
    stream.kernel(wait_kernel(), Grid{},
                  {reinterpret_cast<std::uint64_t*>(e.signal.of(rank())), e.value,
                   static_cast<std::uint32_t>(e.peer), patience()});
  }

  std::uint64_t patience() const { return static_cast<std::uint64_t>(deadline().count()); }
  void meet(StreamRef stream) {
    device::RankBarrier barrier{};
    barrier.rank = rank();
    barrier.ranks = size();
    for (int other = 0; other < size(); ++other)
      barrier.words[other] = reinterpret_cast<device::RankBarrier::Word*>(
          words_->bases[static_cast<std::size_t>(other)]);
    stream.kernel(meet_kernel(), Grid{}, {barrier, met_.data(), patience()});
  }

  /// `parts`: what each rank reads in turn is this many times as long as what it writes.
  void collective(const ExchangeData& e, StreamRef stream) {
    const Descriptor& d = e.descriptor;
    const bool scatters = d.operation == Operation::reduce_scatter;
    const std::size_t parts = scatters ? static_cast<std::size_t>(size()) : 1;
    const std::size_t all = d.operation == Operation::barrier ? 0 : d.part_bytes();
    const std::size_t most = kScratchBytes / parts / 256 * 256;
    if (all == 0) return meet(stream);
    std::byte* const own = scratch_->bases[static_cast<std::size_t>(rank())];
    for (std::size_t first = 0; first < all; first += most) {
      const std::size_t bytes = std::min(most, all - first);
      for (std::size_t part = 0; part < parts && e.from; ++part)
        copy(stream, own + part * bytes, e.from + part * all + first, bytes);
      meet(stream);
      read_others(e, stream, first, bytes);
      meet(stream);
    }
  }
  void read_others(const ExchangeData& e, StreamRef stream, std::size_t first, std::size_t bytes) {
    const Descriptor& d = e.descriptor;
    if (d.operation == Operation::broadcast) {
      if (rank() != d.root) copy(stream, e.to + first, base_of(d.root), bytes);
      return;
    }
    if (d.operation == Operation::all_gather) {
      for (int source = 0; source < size(); ++source)
        copy(stream, e.to + static_cast<std::size_t>(source) * d.part_bytes() + first,
             base_of(source), bytes);
      return;
    }
    const bool scatters = d.operation == Operation::reduce_scatter;
    std::vector<const std::byte*> parts;
    for (int source = 0; source < size(); ++source)
      parts.push_back(base_of(source) + (scatters ? static_cast<std::size_t>(rank()) * bytes : 0));
    const ExchangeArgs args = sum_of(d, parts, e.to + first, bytes / d.element_bytes);
    stream.kernel(exchange_kernel(args), grid_of(args, device().is_cuda()), args);
  }
  std::byte* base_of(int rank) const { return scratch_->bases[static_cast<std::size_t>(rank)]; }
  static void copy(StreamRef stream, void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) stream.copy(to, from, bytes);
  }

  LibraryThread thread_;  // for all calls of the library
  const NvshmemLibrary& library_;
  std::shared_ptr<SymmetricBlock> scratch_;
  std::shared_ptr<SymmetricBlock> words_;  // of meetings: by rank, the last one that it came to
  Buffer<std::uint32_t> met_;
};

}  // namespace

std::shared_ptr<GroupImpl> join_nvshmem(std::shared_ptr<GroupImpl> control, const Device& device) {
  if (control->size() > kMostSharing)
    throw BadArgument(fmt::format("{} ranks through NVSHMEM; use at most {}, or NCCL",
                                  control->size(), kMostSharing));
  return std::make_shared<NvshmemGroup>(std::move(control), device);
}

}  // namespace attacca::comm
