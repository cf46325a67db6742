// tensor_parallel.cpp: sums, logits and tokens between the kernels of a step.
#include "step/tensor_parallel.hpp"

#include <algorithm>
#include <span>

#include "model/shard.hpp"

namespace attacca::step {

using kernels::RowCount;
using kernels::Sampled;

namespace {

/// The rows that a step really has.
std::size_t count_of(const RowCount& rows) { return std::min(*rows.count, rows.capacity); }

}  // namespace

TensorParallel::TensorParallel(const Device& device, const Group& group,
                               const model::ModelConfig& config, const StepShape& largest)
    : group_(group),
      hidden_(config.hidden),
      vocabulary_(config.vocabulary),
      part_(model::most_rows(config.vocabulary, group.size())),
      partial_(device, std::size_t{largest.tokens} * config.hidden),
      logits_part_(device, std::size_t{largest.rows} * part_),
      gathered_(device,
                std::size_t{largest.rows} * part_ * static_cast<std::size_t>(group.size())) {}

void TensorParallel::add_sum(Chain& chain, const std::string& name, float* hidden,
                             const RowCount& tokens) const {
  chain.add_call(Part::exchange, name, [this, name, hidden, tokens] {
    const std::span<float> sum(partial_.data(), count_of(tokens) * hidden_);
    group_.all_reduce(sum).named(name).run();
    for (std::size_t at = 0; at < sum.size(); ++at) hidden[at] += sum[at];
  });
}

void TensorParallel::gather_logits(Chain& chain, float* logits, const RowCount& rows) const {
  chain.add_call(Part::exchange, "gather logits", [this, logits, rows] {
    // All parts travel as if they were of the same size.
    const std::size_t count = count_of(rows);
    const std::span<const float> own(logits_part_.data(), count * part_);
    const auto ranks = static_cast<std::size_t>(group_.size());
    const std::span<float> all(gathered_.data(), own.size() * ranks);
    group_.all_gather(own, all).named("gather logits").run();
    if (!is_root()) return;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const model::RowRange range =
          model::rows_of(vocabulary_, static_cast<int>(rank), group_.size());
      for (std::size_t row = 0; row < count; ++row)
        std::copy_n(all.data() + rank * own.size() + row * range.count, range.count,
                    logits + row * vocabulary_ + range.first);
    }
  });
}

void TensorParallel::share_tokens(Chain& chain, Sampled* sampled, const RowCount& rows) const {
  chain.add_call(Part::exchange, "share tokens", [this, sampled, rows] {
    group_.broadcast(std::span(sampled, count_of(rows)), 0).named("share tokens").run();
  });
}

}  // namespace attacca::step
