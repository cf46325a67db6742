// products.cpp: groups a model's matrices by the kernel that multiplies them and by the reason for
// that kernel, and words the result.
#include "engine/products.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "kernels/linear/host/integer_tiles.hpp"
#include "kernels/linear/linear.hpp"
#include "kernels/linear/streamed_linear.hpp"
#include "step/plain_step.hpp"
#include "step/streamed_step.hpp"
#include "step/tiled_products.hpp"

namespace attacca::engine {

namespace {

using kernels::Matrix;
using kernels::TensorType;
using kernels::type_name;
using model::LayerWeights;

/// Matrices that one kernel multiplies together. Only the head is in no layer.
struct Group {
  std::vector<std::pair<const char*, Matrix>> matrices;  // with their roles
  std::optional<std::uint32_t> layer;
  bool is_gate = false;
};

std::vector<Group> groups_of(const model::Weights& weights) {
  std::vector<Group> groups;
  for (std::uint32_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& w = weights.layers[i];
    groups.push_back({{{"query", w.query}, {"key", w.key}, {"value", w.value}}, i});
    groups.push_back({{{"output", w.output}}, i});
    groups.push_back({{{"gate", w.gate}, {"up", w.up}}, i, true});
    groups.push_back({{{"down", w.down}}, i});
  }
  groups.push_back({{{"head", weights.head}}, std::nullopt});
  return groups;
}

bool are_of_one_type(const Group& group) {
  return std::all_of(group.matrices.begin(), group.matrices.end(), [&](const auto& entry) {
    return entry.second.type == group.matrices[0].second.type;
  });
}

/// "query is Q4_K, key is Q4_K and value is Q6_K"
std::string types_text(const Group& group) {
  std::vector<std::string> parts;
  for (const auto& [role, matrix] : group.matrices)
    parts.push_back(fmt::format("{} is {}", role, type_name(matrix.type)));
  const std::string last = std::move(parts.back());
  parts.pop_back();
  return fmt::format("{} and {}", fmt::join(parts, ", "), last);
}

/// Why these cannot be streamed; empty if they can.
std::string why_not_streamed(const Group& group) {
  if (!are_of_one_type(group)) return types_text(group) + ", and one type is streamed";
  Matrix all = group.matrices[0].second;
  if (!group.is_gate)
    for (std::size_t i = 1; i < group.matrices.size(); ++i)
      all.rows += group.matrices[i].second.rows;
  if (kernels::can_stream_weights(all)) return {};
  if (!kernels::can_stream_weights({nullptr, all.type, 256, 256}))
    return fmt::format("{} has no streamed kernel", type_name(all.type));
  return fmt::format("{} x {} is not 16n rows of 32n columns", all.rows, all.columns);
}

std::string place_of(const Group& group) {
  return group.layer ? fmt::format("{} of layer {}", group.matrices[0].first, *group.layer)
                     : std::string(group.matrices[0].first);
}

/// Names the kernels on a CUDA device.
class CudaKernels {
 public:
  CudaKernels(const model::Weights& weights, const ProductDevice& device,
              const std::vector<Group>& groups)
      : can_stream_(step::can_stream(weights)), device_(device) {
    if (!can_stream_) {
      why_not_layers_ = "the layers cannot be streamed";
      for (const Group& group : groups)
        if (const std::string why = why_not_streamed(group); group.layer && !why.empty()) {
          why_not_layers_ = fmt::format("layers are streamed all or none, and {} is not: {}",
                                        place_of(group), why);
          break;
        }
    }
    for (const Group& group : groups)
      for (const auto& [role, matrix] : group.matrices)
        if (untiled_.empty() && !step::can_be_tiled(matrix, device.same_bits))
          untiled_ = fmt::format("{} is {} of {} columns", place_of(group), type_name(matrix.type),
                                 matrix.columns);
  }

  /// The kernel, and why there is no faster one.
  std::pair<std::string, std::string> of(const Group& group) const {
    std::string why = why_not_streamed(group);
    const bool is_streamed = can_stream_ && (group.layer || why.empty());
    if (!is_streamed)
      return {group.is_gate ? kernels::gated_linear().info().name : kernels::linear().info().name,
              why.empty() ? why_not_layers_ : why};
    kernels::StreamedLinearArgs args{};
    args.w = group.matrices[0].second;
    const std::string streamed = kernels::streamed_linear(args).info().name;
    if (!device_.has_tiled) return {streamed, {}};
    constexpr const char* tiled = "tiled_linear";
    if (untiled_.empty())
      return {fmt::format("{}, {} for many rows{}", streamed, tiled,
                          kernels::has_tiled_type(args.w.type, false) ? "" : ", expanded to BF16"),
              {}};
    return {streamed, fmt::format("{} for many rows is for {}64n columns in all matrices, and {}",
                                  tiled, device_.same_bits ? "bf16 of " : "", untiled_)};
  }

 private:
  bool can_stream_;
  ProductDevice device_;
  std::string why_not_layers_;  // why the layers are not streamed
  std::string untiled_;         // the first matrix that cannot be tiled
};

std::pair<std::string, std::string> host_kernel(const Group& group) {
  std::vector<Matrix> matrices;
  for (const auto& entry : group.matrices) matrices.push_back(entry.second);
  if (step::row_format_for(matrices, false) == kernels::RowFormat::i16)
    return {fmt::format("integer tiles ({})", kernels::host::best_path().name), {}};
  const bool is_any_quantized =
      std::any_of(matrices.begin(), matrices.end(),
                  [](const Matrix& matrix) { return kernels::is_quantized(matrix.type); });
  return {"float tiles", is_any_quantized
                             ? types_text(group) + ", so quantized ones are unpacked to floats"
                             : std::string()};
}

/// "BF16", "Q8_0 (Q6_K in the file)"
std::string type_text(TensorType held, TensorType in_file) {
  if (held == in_file) return type_name(held);
  return fmt::format("{} ({} in the file)", type_name(held), type_name(in_file));
}

/// "3", "0..2, 5"
std::string ranges_text(const std::vector<std::uint32_t>& layers) {
  std::vector<std::string> parts;
  for (std::size_t first = 0, end = 0; first < layers.size(); first = end) {
    for (end = first + 1; end < layers.size() && layers[end] == layers[end - 1] + 1;) ++end;
    parts.push_back(end - first == 1 ? fmt::format("{}", layers[first])
                                     : fmt::format("{}..{}", layers[first], layers[end - 1]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// One llm::Product in the making: a kernel, a reason, and the matrices that share both.
class Line {
 public:
  Line(std::string kernel, std::string reason)
      : kernel_(std::move(kernel)), reason_(std::move(reason)) {}

  bool is(const std::pair<std::string, std::string>& answer) const {
    return kernel_ == answer.first && reason_ == answer.second;
  }
  void add(const char* role, const std::string& type, std::optional<std::uint32_t> layer) {
    const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.role == role && entry.type == type;
    });
    Entry& entry = same != entries_.end() ? *same : entries_.emplace_back(Entry{role, type, {}});
    if (layer) entry.layers.push_back(*layer);
  }
  llm::Product product(std::size_t layers) const {
    std::vector<std::string> parts;
    for (std::size_t first = 0, end = 0; first < entries_.size(); first = end) {
      std::vector<std::string> roles;
      const Entry& entry = entries_[first];
      for (end = first; end < entries_.size() && entries_[end].is_beside(entry); ++end)
        roles.push_back(entries_[end].role);
      std::string text = fmt::format("{} in {}", fmt::join(roles, ", "), entry.type);
      if (!entry.layers.empty() && entry.layers.size() != layers)
        text += " of layers " + ranges_text(entry.layers);
      parts.push_back(std::move(text));
    }
    return {fmt::format("{}", fmt::join(parts, "; ")), kernel_, reason_};
  }

 private:
  struct Entry {
    std::string role;
    std::string type;
    std::vector<std::uint32_t> layers;  // empty for the head
    bool is_beside(const Entry& other) const {
      return type == other.type && layers == other.layers;
    }
  };
  std::string kernel_, reason_;
  std::vector<Entry> entries_;
};

}  // namespace

std::vector<llm::Product> products_of(const model::Weights& weights, const ProductDevice& device) {
  const std::vector<Group> groups = groups_of(weights);
  const CudaKernels cuda(weights, device, groups);
  std::vector<Line> lines;
  for (const Group& group : groups) {
    const auto answer = device.is_cuda ? cuda.of(group) : host_kernel(group);
    auto line =
        std::find_if(lines.begin(), lines.end(), [&](const Line& one) { return one.is(answer); });
    if (line == lines.end()) line = lines.insert(line, Line(answer.first, answer.second));
    for (const auto& [role, matrix] : group.matrices)
      line->add(role, type_text(matrix.type, weights.type_in_file(matrix)), group.layer);
  }
  std::vector<llm::Product> products;
  for (const Line& line : lines) products.push_back(line.product(weights.layers.size()));
  return products;
}

std::vector<llm::Product> products_of(const model::Weights& weights, const Device& device,
                                      bool same_bits) {
  const bool is_cuda = device.is_cuda();
  return products_of(weights, {is_cuda, is_cuda && kernels::has_tiled_linear(device), same_bits});
}

}  // namespace attacca::engine

namespace attacca::llm {

std::string describe(const Product& product) {
  return fmt::format("{}: {}{}", product.matrices, product.kernel,
                     product.reason.empty() ? "" : fmt::format(" ({})", product.reason));
}

}  // namespace attacca::llm
