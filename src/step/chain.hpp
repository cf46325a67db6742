// chain.hpp: the kernels of a step as data, one after another, and exchanges between ranks. A
// graph takes them as nodes, a stream launches them one by one, and both see the same arguments and
// grids; costs are added up and names printed from the same list.
#pragma once

#include <attacca/graph.hpp>
#include <attacca/ranks.hpp>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace attacca::step {

/// The part that a kernel plays in a step.
enum class Part { tokens, norm, expansion, product, attention, sampling, exchange };
const char* name_of(Part part);

/// A kernel's argument struct, as bytes.
class Arguments {
 public:
  template <class Args>
  explicit Arguments(const Args& args)
      : chunks_((sizeof(Args) + sizeof(Chunk) - 1) / sizeof(Chunk)) {
    static_assert(std::is_trivially_copyable_v<Args> && alignof(Args) <= alignof(Chunk));
    std::memcpy(chunks_.data(), &args, sizeof(Args));
  }
  const void* data() const { return chunks_.data(); }

 private:
  struct alignas(16) Chunk {
    std::byte bytes[16];
  };
  std::vector<Chunk> chunks_;
};

/// One launch of a kernel, or an exchange with other ranks.
struct Link {
  const KernelInfo* kernel;  // null: an exchange
  Grid grid;
  Arguments arguments;
  std::string name;  // "layer 3 gate and up"
  Part part;
  std::optional<Exchange> exchange = {};

  Cost cost() const { return kernel ? kernel->cost(arguments.data()) : Cost{}; }
};

/// Which kernels of a graph may start before their producer has ended: those that wait for it
/// themselves (programmatic dependent launch).
struct EarlyStarts {
  bool of_attention = false;
  bool behind_attention = false;
  bool elsewhere = false;
};

class Chain {
 public:
  explicit Chain(const Device& device, const EarlyStarts& early = {})
      : is_cuda_(device.is_cuda()), early_(early) {}

  bool is_cuda() const { return is_cuda_; }

  template <class Args>
  void add(Part part, std::string name, const Kernel<Args>& kernel, const Grid& grid,
           const std::type_identity_t<Args>& args) {
    links_.push_back({&kernel.info(), grid, Arguments(args), std::move(name), part, {}});
  }
  /// Adds a kernel in front of all others.
  template <class Args>
  void add_first(Part part, std::string name, const Kernel<Args>& kernel, const Grid& grid,
                 const std::type_identity_t<Args>& args) {
    links_.insert(links_.begin(),
                  {&kernel.info(), grid, Arguments(args), std::move(name), part, {}});
  }
  /// REQUIRES: `grid_of(args, is_cuda)` gives the kernel's grid.
  template <class Args>
  void add(Part part, std::string name, const Kernel<Args>& kernel,
           const std::type_identity_t<Args>& args) {
    add(part, std::move(name), kernel, grid_of(args, is_cuda_), args);
  }

  /// Puts one kernel in the place of links `first` to `end`, `end` excluded.
  template <class Args>
  void replace(std::size_t first, std::size_t end, Part part, std::string name,
               const Kernel<Args>& kernel, const Grid& grid,
               const std::type_identity_t<Args>& args) {
    const auto at = links_.begin() + static_cast<std::ptrdiff_t>(first);
    links_.insert(links_.erase(at, links_.begin() + static_cast<std::ptrdiff_t>(end)),
                  {&kernel.info(), grid, Arguments(args), std::move(name), part, {}});
  }

  void add_exchange(Exchange exchange) {
    std::string name = exchange.name();
    links_.push_back(
        {nullptr, Grid{}, Arguments(0), std::move(name), Part::exchange, std::move(exchange)});
  }

  const std::vector<Link>& links() const { return links_; }
  std::size_t size() const { return links_.size(); }
  /// The sum of its kernels' declared costs.
  Cost cost() const;

  bool is_attention(std::size_t at) const { return links_[at].part == Part::attention; }
  /// Where the run of kernels that starts at `first` ends; all of them are attention, or none is.
  std::size_t end_of_piece(std::size_t first) const;

  /// Adds kernels `first` to `end`, `end` excluded, to a graph, each behind the one before it.
  void append_to(Graph& graph, std::size_t first, std::size_t end) const;
  void append_to(Graph& graph) const { append_to(graph, 0, size()); }
  /// Launches the same kernels on a stream, one by one.
  void launch(StreamRef stream, std::size_t first, std::size_t end) const;
  void launch(StreamRef stream) const { launch(stream, 0, size()); }

 private:
  bool starts_early(std::size_t at, std::size_t first) const;

  bool is_cuda_;
  EarlyStarts early_;
  std::vector<Link> links_;
};

}  // namespace attacca::step
