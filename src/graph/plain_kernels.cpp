// plain_kernels.cpp: the part of plain CUDA kernels (attacca/cuda_kernel.hpp) and adopted graphs
// (attacca/adopt.hpp) that needs no driver.
#include <attacca/adopt.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "graph/data.hpp"
#include "graph/executor.hpp"
#include "graph/parameters.hpp"

namespace attacca {

namespace graph {

const KernelInfo& plain_kernel_info(const std::string& name, const void* function,
                                    std::span<const std::uint32_t> sizes,
                                    const CudaKernelTraits& traits, bool is_driver_function) {
  if (!function)
    throw BadArgument(fmt::format(
        "CUDA kernel '{}' is null; give it a __global__ function or a cudaKernel_t", name));
  struct Entry {
    std::string name;
    attacca::detail::ParameterList parameters;
    KernelInfo info;
  };
  using Key = std::tuple<std::string, const void*, std::vector<std::uint32_t>, bool, bool, bool>;
  static std::mutex mutex;
  // Never freed: static graphs hold these until the process ends.
  static auto& entries = *new std::map<Key, std::unique_ptr<Entry>>;

  const std::lock_guard lock(mutex);
  auto& entry = entries[Key(name, function, {sizes.begin(), sizes.end()}, traits.waits,
                            traits.is_cooperative, is_driver_function)];
  if (entry) return entry->info;
  entry = std::make_unique<Entry>();
  entry->name = name;
  std::size_t bytes = 0;
  for (const std::uint32_t size : sizes) {
    entry->parameters.sizes.push_back(size);
    entry->parameters.offsets.push_back(static_cast<std::uint32_t>(bytes));
    bytes += attacca::detail::parameter_slot(size);
  }
  entry->parameters.is_driver_function = is_driver_function;
  KernelTraits kernel_traits;
  kernel_traits.waits = traits.waits;
  kernel_traits.is_cooperative = traits.is_cooperative;
  kernel_traits.blocks_wait = traits.is_cooperative;
  entry->info = {entry->name.c_str(),
                 bytes,
                 kernel_traits,
                 nullptr,
                 function,
                 [](const void*) { return Cost{}; },
                 {},
                 nullptr,
                 &entry->parameters};
  return entry->info;
}

void DeviceImpl::adopt(void*, Graph& into) {
  throw BadArgument(fmt::format("graph '{}' of {} cannot adopt a cudaGraph_t; use a CUDA device",
                                into.name(), name()));
}

}  // namespace graph

namespace detail {

const KernelInfo& cuda_kernel_info(const std::string& name, const void* function,
                                   std::span<const std::uint32_t> sizes,
                                   const CudaKernelTraits& traits) {
  return graph::plain_kernel_info(name, function, sizes, traits, false);
}

graph::GraphData& check_parameters(const Node& node, std::span<const std::uint32_t> sizes) {
  const graph::NodeData& from = graph::Access::node(node);
  const auto* kernel = std::get_if<graph::KernelPart>(&from.part);
  if (!kernel || !kernel->info->parameters)
    throw BadArgument(fmt::format(
        "{} '{}' is no plain CUDA kernel; {}", kind_name(from), from.name,
        kernel ? "keep the handle that graph.kernel(…) returned" : "look at Node::kind first"));
  const std::vector<std::uint32_t>& has = kernel->info->parameters->sizes;
  if (!std::equal(has.begin(), has.end(), sizes.begin(), sizes.end()))
    throw BadArgument(
        fmt::format("kernel '{}' takes parameters of [{}] bytes and the handle was asked for with "
                    "[{}]; name the types of its declaration",
                    from.name, fmt::join(has, ", "), fmt::join(sizes, ", ")));
  return graph::Access::data(node);
}

}  // namespace detail

namespace {

template <class Part, class Handle>
Handle handle_of(const Node& node, const char* what) {
  const graph::NodeData& from = graph::Access::node(node);
  if (!std::holds_alternative<Part>(from.part))
    throw BadArgument(fmt::format("{} '{}' is no {}; look at Node::kind first", kind_name(from),
                                  from.name, what));
  return {graph::Access::data(node), node.id()};
}

}  // namespace

CopyNode copy_node(const Node& node) { return handle_of<graph::CopyPart, CopyNode>(node, "copy"); }
FillNode fill_node(const Node& node) { return handle_of<graph::FillPart, FillNode>(node, "fill"); }

Graph adopt_cuda(const Device& device, void* cuda_graph, std::string name) {
  if (!cuda_graph)
    throw BadArgument(fmt::format("adopt_cuda of '{}': the cudaGraph_t is null", name));
  Graph graph(device, std::move(name));
  graph::impl_of(device).adopt(cuda_graph, graph);
  return graph;
}

}  // namespace attacca
