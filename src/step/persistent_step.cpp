// persistent_step.cpp: finds the run of a chain that one kernel can compute, checks it, and copies
// its kernels' arguments into phases.
#include "step/persistent_step.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <string_view>

namespace attacca::step {

namespace {

using kernels::DecodeAttentionArgs;
using kernels::EmbedResidualArgs;
using kernels::KvType;
using kernels::Phase;
using kernels::PhaseKind;
using kernels::StreamedLinearArgs;
using kernels::TensorType;

constexpr std::uint32_t kMostHeadSize = 128;

/// Steps by their rows, by the bytes of all weights that they read, and by the longest context that
/// a row may have.
struct Sizes {
  std::uint32_t least_rows, most_rows;
  double least_bytes, most_bytes;
  std::uint32_t most_context;
};
/// Where one kernel is faster; the figures are in docs/trials.md, "A decode step as one kernel": of
/// an H200, and shapes of 0.27, 2.5 and 15 GB. Its few warps attend slowly to long contexts.
constexpr Sizes kFaster[] = {{4, 16, 1.5e9, 4e9, 512}};

/// The kernels of a chain are known by name and by the size of their arguments.
template <class Args>
const Args* arguments_of(const Link& link, std::string_view kernel) {
  if (!link.kernel || kernel != link.kernel->name || link.kernel->args_size != sizeof(Args))
    return nullptr;
  return static_cast<const Args*>(link.arguments.data());
}
const EmbedResidualArgs* embed_of(const Link& link) {
  return arguments_of<EmbedResidualArgs>(link, "embed_residual");
}
const StreamedLinearArgs* product_of(const Link& link) {
  return arguments_of<StreamedLinearArgs>(link, "streamed_linear");
}
const DecodeAttentionArgs* attention_of(const Link& link) {
  return arguments_of<DecodeAttentionArgs>(link, "decode_attention");
}

std::string why_not(const Link& link) {
  const auto rows_text = [&](std::uint32_t rows) {
    return rows <= kernels::kMostPersistentRows
               ? std::string()
               : fmt::format("the step may have {} rows, and one kernel has {} at most", rows,
                             kernels::kMostPersistentRows);
  };
  if (const auto* a = embed_of(link)) return rows_text(a->rows.capacity);
  if (const auto* a = product_of(link)) {
    if (a->w.type != TensorType::bf16)
      return fmt::format("'{}' has weights in {}, not BF16", link.name, type_name(a->w.type));
    if (a->in_order) return "rows are added up in the order of many rows (same bits)";
    return rows_text(a->rows.capacity);
  }
  if (const auto* a = attention_of(link)) {
    if (a->kv.type != KvType::bf16) return "keys and values are not in bf16";
    if (a->kv.has_fixed_splits()) return "rows attend in the order of prompts (same bits)";
    if (a->kv.head_size > kMostHeadSize)
      return fmt::format("heads have {} elements, and one kernel has {} at most", a->kv.head_size,
                         kMostHeadSize);
    return rows_text(a->rows.capacity);
  }
  return fmt::format(
      "'{}' is {}", link.name,
      link.kernel ? fmt::format("computed by {}", link.kernel->name) : "an exchange between ranks");
}

}  // namespace

LinkRange persistent_range(const Chain& chain) {
  const std::vector<Link>& links = chain.links();
  const auto begin = std::find_if(links.begin(), links.end(),
                                  [](const Link& link) { return embed_of(link) != nullptr; });
  const auto end =
      std::find_if(begin, links.end(), [](const Link& l) { return l.part == Part::sampling; });
  return {static_cast<std::size_t>(begin - links.begin()),
          static_cast<std::size_t>(end - links.begin())};
}

std::string why_not_persistent(const Chain& chain) {
  const LinkRange range = persistent_range(chain);
  if (range.first == range.end) return "the products of its layers are not streamed";
  bool has_attention = false;
  for (std::size_t at = range.first; at < range.end; ++at) {
    const Link& link = chain.links()[at];
    if (std::string why = why_not(link); !why.empty()) return why;
    has_attention = has_attention || attention_of(link);
  }
  if (!has_attention || !product_of(chain.links()[range.end - 1]))
    return "it does not end with logits";
  return {};
}

bool is_faster_persistent(std::uint32_t rows, double weight_bytes, std::uint32_t context) {
  return std::any_of(std::begin(kFaster), std::end(kFaster), [&](const Sizes& sizes) {
    return sizes.least_rows <= rows && rows <= sizes.most_rows &&
           sizes.least_bytes <= weight_bytes && weight_bytes <= sizes.most_bytes &&
           context <= sizes.most_context;
  });
}

bool is_faster_persistent(const Chain& chain) {
  const LinkRange range = persistent_range(chain);
  const std::uint32_t rows = embed_of(chain.links()[range.first])->rows.capacity;
  double bytes = 0;
  std::uint32_t context = 0;
  for (std::size_t at = range.first; at < range.end; ++at) {
    const Link& link = chain.links()[at];
    if (const auto* a = product_of(link)) {
      bytes += static_cast<double>(a->w.bytes());
      if (a->epilogue == kernels::Epilogue::gate) bytes += static_cast<double>(a->up.bytes());
    }
    if (const auto* a = attention_of(link))
      context = std::max(context, a->kv.table_stride * a->kv.page_size);
  }
  return is_faster_persistent(rows, bytes, context);
}

std::vector<Phase> phases_of(const Chain& chain, const LinkRange& range) {
  std::vector<Phase> phases;
  std::uint32_t blocks = 0;
  for (std::size_t at = range.first; at < range.end; ++at) {
    const Link& link = chain.links()[at];
    Phase& phase = phases.emplace_back();
    if (const auto* embed = embed_of(link)) {
      phase.kind = PhaseKind::embed;
      phase.set(*embed);
    } else if (const auto* product = product_of(link)) {
      phase.kind = PhaseKind::product;
      phase.set(*product);
      phase.is_for_logits = at + 1 == range.end;
      blocks = link.grid.blocks.x;
    } else if (const auto* attention = attention_of(link)) {
      phase.kind = PhaseKind::attention;
      phase.set(*attention);
    } else {
      throw Error(fmt::format("'{}' has no place in a persistent step; this is a bug", link.name));
    }
  }
  link_phases(phases, blocks);
  return phases;
}

PersistentSteps::PersistentSteps(const Device& device)
    : device_(device), counter_(device, std::vector<std::byte>(sizeof(kernels::PhaseCounter<>))) {}

void PersistentSteps::join(Chain& chain) const {
  const LinkRange range = persistent_range(chain);
  const std::vector<Phase> phases = phases_of(chain, range);
  Cost cost;
  for (std::size_t at = range.first; at < range.end; ++at) {
    cost.flops += chain.links()[at].cost().flops;
    cost.bytes += chain.links()[at].cost().bytes;
  }
  const auto first = [&](PhaseKind kind) {
    return static_cast<std::uint32_t>(
        std::find_if(phases.begin(), phases.end(), [&](const Phase& p) { return p.kind == kind; }) -
        phases.begin());
  };
  const std::uint32_t attention = first(PhaseKind::attention);
  const EmbedResidualArgs& embed = phases.front().embed();
  const kernels::PersistentStepArgs args{.phases = keep(phases),
                                         .count = static_cast<std::uint32_t>(phases.size()),
                                         .first_product = first(PhaseKind::product),
                                         .first_attention = attention,
                                         .capacity = embed.rows.capacity,
                                         .head_size = phases.at(attention).attention().kv.head_size,
                                         .token_count = embed.rows.count,
                                         .row_count = phases.back().product().rows.count,
                                         .counter = reinterpret_cast<kernels::PhaseCounter<>*>(
                                             const_cast<std::byte*>(counter_.data())),
                                         .flops = cost.flops,
                                         .bytes = cost.bytes};
  const unsigned blocks = chain.links()[range.end - 1].grid.blocks.x;
  chain.replace(range.first, range.end, Part::product, "step", kernels::persistent_step(args),
                kernels::persistent_grid(args, chain.is_cuda(), blocks), args);
}

const Phase* PersistentSteps::keep(const std::vector<Phase>& phases) const {
  const std::lock_guard lock(mutex_);
  const std::pair key(phases.front().embed().rows.capacity, phases.back().product().rows.capacity);
  return phases_.try_emplace(key, device_, phases).first->second.data();
}

std::size_t PersistentSteps::bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = counter_.bytes();
  for (const auto& [key, phases] : phases_) bytes += phases.bytes();
  return bytes;
}

}  // namespace attacca::step
