// tensor_parallel.cpp: sums, logits and tokens between the kernels of a step.
#include "step/tensor_parallel.hpp"

#include <span>

#include "kernels/join_parts.hpp"
#include "model/shard.hpp"

namespace attacca::step {

using kernels::Highest;
using kernels::RankPattern;
using kernels::RowCount;
using kernels::Sampled;

namespace {

/// Whether a kernel of any rank can read what is symmetric memory of the group.
bool can_fuse(const Group& group) {
  return group.size() <= kernels::AddResidualArgs::kMostParts &&
         (group.backend() == "edges" || group.backend() == "nvshmem");
}

}  // namespace

TensorParallel::TensorParallel(const Device& device, const Group& group,
                               const model::ModelConfig& config, const StepShape& largest,
                               const Ways& ways)
    : group_(group),
      hidden_(config.hidden),
      vocabulary_(config.vocabulary),
      part_(model::most_rows(config.vocabulary, group.size())),
      least_(model::rows_of(config.vocabulary, group.size() - 1, group.size()).count),
      part_elements_(std::size_t{largest.tokens} * config.hidden),
      parts_(ways.fuses_sums && can_fuse(group) && !ways.is_resident
                 ? std::optional(group.symmetric<float>(2 * part_elements_))
                 : std::nullopt),
      partial_(device, parts_ ? 0 : part_elements_),
      logits_part_(device, std::size_t{largest.rows} * part_),
      gathered_(device, std::size_t{largest.rows} * part_ * static_cast<std::size_t>(group.size())),
      highest_(device, largest.rows),
      all_highest_(device, std::size_t{largest.rows} * static_cast<std::size_t>(group.size())),
      linked_(ways.is_resident ? std::make_unique<LinkedRanks>(device, group) : nullptr),
      bytes_(bytes_for(config, largest, group.size(),
                       {.is_resident = ways.is_resident, .fuses_sums = fuses_sums()})) {}

std::size_t TensorParallel::bytes_for(const model::ModelConfig& config, const StepShape& largest,
                                      int ranks, const Ways& ways) {
  const std::size_t sums = std::size_t{largest.tokens} * config.hidden * (ways.fuses_sums ? 2 : 1);
  const std::size_t part = std::size_t{largest.rows} * model::most_rows(config.vocabulary, ranks);
  const std::size_t parts = 1 + static_cast<std::size_t>(ranks);  // its own, and those of all
  return (sums + part * parts) * sizeof(float) + largest.rows * parts * sizeof(Highest) +
         (ways.is_resident ? LinkedRanks::bytes() : 0);
}

template <class T>
void TensorParallel::add_linked(Chain& chain, const std::string& name, RankPattern pattern,
                                const T* from, T* to, const RowCount& rows,
                                std::size_t each) const {
  static_assert(sizeof(T) % sizeof(std::uint32_t) == 0);
  chain.add(Part::exchange, name, kernels::rank_exchange(),
            {.link = linked_->link(),
             .from = reinterpret_cast<const std::uint32_t*>(from),
             .to = reinterpret_cast<std::uint32_t*>(to),
             .rows = rows,
             .each = static_cast<std::uint32_t>(each * sizeof(T) / sizeof(std::uint32_t)),
             .pattern = pattern});
}

void TensorParallel::add_sum(Chain& chain, const std::string& name, const float* part, float* to,
                             const RowCount& tokens) const {
  if (linked_) return add_linked(chain, name, RankPattern::sum, part, to, tokens, hidden_);
  const std::size_t count = std::size_t{tokens.capacity} * hidden_;
  const Reduction order = chain.is_cuda() ? Reduction::sum : Reduction::sum_in_pairs;
  chain.add_exchange(group_.all_reduce<float>(std::span(part, count), std::span(to, count), order)
                         .limited_to(tokens.count, hidden_)
                         .named(name));
}

void TensorParallel::add_to_residual(Chain& chain, const std::string& name, unsigned sum,
                                     kernels::AddResidualArgs args) const {
  args.count = fuses_sums() ? group_.size() : 1;
  if (fuses_sums()) {
    for (int rank = 0; rank < group_.size(); ++rank)
      args.parts[rank] = parts_->of(rank) + sum * part_elements_;
    chain.add_exchange(group_.barrier().named(name + " meeting"));
  } else {
    args.parts[0] = partial(sum);
    add_sum(chain, name + " sum", partial(sum), partial(sum), args.rows);
  }
  chain.add(Part::product, name + " residual", kernels::add_residual(), args);
}

void TensorParallel::gather_logits(Chain& chain, float* logits, const RowCount& rows) const {
  // All parts travel as if they were of the same size.
  const std::size_t count = std::size_t{rows.capacity} * part_;
  const std::span<const float> own(logits_part_.data(), count);
  const auto ranks = static_cast<std::size_t>(group_.size());
  const std::span<float> all(const_cast<float*>(gathered_.data()), count * ranks);
  if (linked_)
    add_linked(chain, "gather logits", RankPattern::gather, own.data(), all.data(), rows, part_);
  else
    chain.add_exchange(
        group_.all_gather<float>(own, all).limited_to(rows.count, part_).named("gather logits"));
  if (is_root())
    chain.add(Part::exchange, "join logits", kernels::join_parts(),
              {.parts = gathered_.data(),
               .rows = rows,
               .part = part_,
               .columns = vocabulary_,
               .y = logits});
}

void TensorParallel::sample_highest(Chain& chain, const kernels::SampleArgs& args) const {
  const model::RowRange own = model::rows_of(vocabulary_, group_.rank(), group_.size());
  const auto ranks = static_cast<std::size_t>(group_.size());
  const std::span<Highest> found(const_cast<Highest*>(highest_.data()), args.rows.capacity);
  const std::span<Highest> all(const_cast<Highest*>(all_highest_.data()),
                               args.rows.capacity * ranks);
  kernels::HighestArgs find{args, own.first, found.data()};
  find.part.logits = logits_part();
  find.part.vocabulary = own.count;
  chain.add(Part::sampling, "highest logits", kernels::highest(find), find);
  chain.add_exchange(group_.all_gather<Highest>(found, all)
                         .limited_to(args.rows.count, 1)
                         .named("gather highest logits"));
  if (!is_root()) return;
  kernels::SampleHighestArgs choose{args, all.data()};
  choose.sample.vocabulary = static_cast<std::uint32_t>(ranks) * Highest::kCount;
  chain.add(Part::sampling, "sample highest", kernels::sample_highest(), choose);
}

void TensorParallel::share_tokens(Chain& chain, Sampled* sampled, const RowCount& rows) const {
  if (linked_)
    return add_linked<Sampled>(chain, "share tokens", RankPattern::share, sampled, sampled, rows,
                               1);
  chain.add_exchange(group_.broadcast(std::span(sampled, rows.capacity), 0)
                         .limited_to(rows.count, 1)
                         .named("share tokens"));
}

}  // namespace attacca::step
