// chain.hpp: the kernels of a step, one after another, kept as a list first: a graph takes them as
// nodes, a stream runs them one by one. Both see the same arguments and grids.
#pragma once

#include <attacca/graph.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace attacca::step {

/// In a graph kernels that wait by themselves may start while the ones before them still run.
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

  /// REQUIRES: `grid_of(args, is_cuda)` says how the kernel is launched.
  template <class Args>
  void add(const Kernel<Args>& kernel, const std::type_identity_t<Args>& args, std::string name) {
    add(kernel, grid_of(args, is_cuda_), args, std::move(name));
  }
  template <class Args>
  void add(const Kernel<Args>& kernel, const Grid& grid, const std::type_identity_t<Args>& args,
           std::string name) {
    const auto append = [=, name = std::move(name)](Graph& graph,
                                                    const std::optional<Node>& producer,
                                                    bool is_early) -> Node {
      const KernelNode<Args> node = graph.kernel(kernel, grid, args).named(name);
      if (!producer) return node;
      return is_early && kernel.info().traits.waits ? node.after_programmatic(*producer)
                                                    : node.after(*producer);
    };
    const auto launch = [=](StreamRef stream) { stream.kernel(kernel, grid, args); };
    links_.push_back({append, launch});
  }
  /// The same for a kernel of attention: what depends on sequences rather than on tokens.
  template <class Args>
  void add_attention(const Kernel<Args>& kernel, const std::type_identity_t<Args>& args,
                     std::string name) {
    add_attention(kernel, grid_of(args, is_cuda_), args, std::move(name));
  }
  template <class Args>
  void add_attention(const Kernel<Args>& kernel, const Grid& grid,
                     const std::type_identity_t<Args>& args, std::string name) {
    add(kernel, grid, args, std::move(name));
    links_.back().is_attention = true;
  }

  std::size_t size() const { return links_.size(); }
  bool is_attention(std::size_t at) const { return links_[at].is_attention; }
  /// Where the run of kernels that starts at `first`, all of attention or none, ends.
  std::size_t end_of_piece(std::size_t first) const {
    std::size_t end = first;
    while (end < size() && is_attention(end) == is_attention(first)) ++end;
    return end;
  }

  /// Kernels `first` to `end`, not included, as nodes of a graph.
  void append_to(Graph& graph, std::size_t first, std::size_t end) const {
    std::optional<Node> last;
    for (std::size_t at = first; at < end; ++at) {
      const bool is_behind_attention = at != first && is_attention(at - 1);
      last = links_[at].append(graph, last,
                               is_behind_attention ? early_.behind_attention
                               : is_attention(at)  ? early_.of_attention
                                                   : early_.elsewhere);
    }
  }
  void append_to(Graph& graph) const { append_to(graph, 0, size()); }
  /// The same kernels on a stream, one launch each.
  void launch(StreamRef stream, std::size_t first, std::size_t end) const {
    for (std::size_t at = first; at < end; ++at) links_[at].launch(stream);
  }
  void launch(StreamRef stream) const { launch(stream, 0, size()); }

 private:
  struct Link {
    std::function<Node(Graph&, const std::optional<Node>& producer, bool is_early)> append;
    std::function<void(StreamRef)> launch;
    bool is_attention = false;
  };

  bool is_cuda_;
  EarlyStarts early_;
  std::vector<Link> links_;
};

}  // namespace attacca::step
