// plan.cpp: plans both lists together. A decode step above the decode sizes may run in a mixed
// graph, so each possible largest decode size is tried with the mixed sizes that are best for it.
#include "planner/plan.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <iterator>
#include <span>

#include "planner/list_plan.hpp"

namespace attacca::planner {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kTie = 1e-12;  // costs that differ by less, relatively, are equal

/// The smallest size that fits; 0 if none does.
std::uint32_t fitting(const std::vector<std::uint32_t>& sizes, std::uint32_t tokens) {
  const auto found = std::lower_bound(sizes.begin(), sizes.end(), tokens);
  return found == sizes.end() ? 0 : *found;
}

Entry entry_of(const Costs& costs, Kind kind, Kind graph, std::uint32_t tokens,
               std::uint64_t steps) {
  const auto count = static_cast<double>(steps);
  const double work = costs.work(graph, tokens);
  return {.tokens = tokens,
          .count = count,
          .size_cost = costs.padding() * work,
          .own_cost = count * (1 - costs.padding()) * work,
          .miss_cost = count * costs.without_graph(kind, tokens)};
}

/// The steps of a kind, if they run in graphs of a kind.
std::vector<Entry> entries_of(const Traffic& traffic, const Costs& costs, Kind kind, Kind graph) {
  std::vector<Entry> entries;
  for (const auto& [tokens, steps] : traffic.of(kind).counts)
    entries.push_back(entry_of(costs, kind, graph, tokens, steps));
  return entries;
}

/// Two ascending lists as one.
std::vector<Entry> merged(std::span<const Entry> some, std::span<const Entry> others) {
  std::vector<Entry> entries;
  entries.reserve(some.size() + others.size() + 1);
  std::merge(some.begin(), some.end(), others.begin(), others.end(), std::back_inserter(entries),
             [](const Entry& a, const Entry& b) { return a.tokens < b.tokens; });
  std::size_t kept = 0;
  for (std::size_t at = 1; at < entries.size(); ++at) {
    Entry& last = entries[kept];
    if (entries[at].tokens == last.tokens) {
      last.count += entries[at].count;
      last.own_cost += entries[at].own_cost;
      last.miss_cost += entries[at].miss_cost;
    } else {
      entries[++kept] = entries[at];
    }
  }
  if (!entries.empty()) entries.resize(kept + 1);
  return entries;
}

/// How many sizes each list gets.
struct Split {
  std::size_t decode = 0;
  std::size_t mixed = 0;
  double cost = kInfinite;

  bool is_better_than(const Split& other) const {
    if (cost == kInfinite || cost > other.cost * (1 + kTie)) return false;
    return cost < other.cost * (1 - kTie) || decode + mixed < other.decode + other.mixed;
  }
};

class Planner {
 public:
  Planner(const Traffic& traffic, const Costs& costs, const Rules& rules, const GraphCosts& graphs,
          const Budget& budget, const Limits* cover)
      : costs_(costs),
        rules_(rules),
        graphs_(graphs),
        budget_(budget),
        cover_(cover),
        most_(std::min(rules.most_per_list, budget.graphs)),
        least_{covers_decode() || !traffic.decode.counts.empty() ? 1u : 0u,
               cover || !traffic.mixed.counts.empty() ? 1u : 0u},
        decode_(entries_of(traffic, costs, Kind::decode, Kind::decode)),
        decode_in_mixed_(entries_of(traffic, costs, Kind::decode, Kind::mixed)),
        mixed_(entries_of(traffic, costs, Kind::mixed, Kind::mixed)) {}

  Sizes run() const {
    if (!fits(least_.decode, least_.mixed))
      throw BadArgument(fmt::format(
          "the budget is {} graphs{}, and a plan needs at least {} of {:g} MiB together; allow "
          "more",
          budget_.graphs,
          budget_.mebibytes < kInfinite ? fmt::format(" and {:g} MiB", budget_.mebibytes) : "",
          least_.decode + least_.mixed, graphs_.mebibytes(least_.decode, least_.mixed)));
    const ListPlan decode = list_plan(decode_, Kind::decode, covers_decode());
    return rules_.decodes_may_use_mixed && !decode_.empty() ? run_joint(decode) : run_apart(decode);
  }

 private:
  bool covers_decode() const { return cover_ && !rules_.decodes_may_use_mixed; }

  bool fits(std::size_t decode, std::size_t mixed) const {
    return decode + mixed <= budget_.graphs && decode <= rules_.most_per_list &&
           mixed <= rules_.most_per_list && graphs_.mebibytes(decode, mixed) <= budget_.mebibytes;
  }

  /// If it `covers` all that the scheduler can form, the largest size is there without steps too.
  ListPlan list_plan(std::vector<Entry> entries, Kind kind, bool covers) const {
    if (covers) {
      const std::uint32_t most =
          kind == Kind::decode ? cover_->decode : std::max(cover_->mixed, cover_->decode);
      if (entries.empty() || entries.back().tokens < most)
        entries.push_back(entry_of(costs_, kind, kind, most, 0));
    }
    return ListPlan(std::move(entries), most_, covers);
  }

  /// For the mixed steps, and the decode steps from an entry on.
  ListPlan mixed_plan(std::size_t first_decode) const {
    const auto above = std::span(decode_in_mixed_).subspan(first_decode);
    return list_plan(merged(above, mixed_), Kind::mixed, cover_ != nullptr);
  }

  /// The least costs of a list by its number of sizes. More sizes than there are steps to fit cost
  /// no less.
  std::vector<double> least_costs(const ListPlan& list) const {
    std::vector<double> costs;
    for (std::size_t count = 0; count <= most_; ++count)
      costs.push_back(count <= list.most_sizes() ? list.best(count).cost : costs.back());
    return costs;
  }

  /// `decode_cost(n)`: the least cost of the decode sizes' steps with n of them.
  template <class DecodeCost>
  Split best_split(std::size_t most_decode, const DecodeCost& decode_cost,
                   const std::vector<double>& mixed_costs) const {
    Split best;
    for (std::size_t of_decode = least_.decode; of_decode <= most_decode; ++of_decode)
      for (std::size_t of_mixed = least_.mixed; of_mixed < mixed_costs.size(); ++of_mixed) {
        const Split split{of_decode, of_mixed, decode_cost(of_decode) + mixed_costs[of_mixed]};
        if (fits(of_decode, of_mixed) && split.is_better_than(best)) best = split;
      }
    return best;
  }

  Sizes sizes_of(const Split& split, const ListPlan& decode, std::size_t last_decode,
                 const ListPlan& mixed) const {
    return {decode.sizes(split.decode, last_decode),
            mixed.sizes(split.mixed, mixed.best(split.mixed).last)};
  }

  Sizes run_apart(const ListPlan& decode) const {
    const ListPlan mixed = mixed_plan(decode_.size());
    const auto cost = [&](std::size_t count) { return decode.best(count).cost; };
    const Split best = best_split(decode.most_sizes(), cost, least_costs(mixed));
    return sizes_of(best, decode, decode.best(best.decode).last, mixed);
  }

  /// Tries each largest decode size. A decode step that moves to the mixed list adds at least what
  /// it costs alone, so most mixed lists need not be planned to know that they cost too much.
  Sizes run_joint(const ListPlan& decode) const {
    Split best;
    std::size_t best_last = 0;
    // By the number of mixed sizes: of the last list planned, plus the least that later steps add.
    std::vector<double> mixed_costs;
    for (std::size_t last = decode_.size(); last-- > 0;) {
      const auto cost = [&](std::size_t count) { return decode.cost_up_to(count, last); };
      const auto split = [&] { return best_split(decode.most_sizes(), cost, mixed_costs); };
      if (!mixed_costs.empty()) {
        const Entry& moved = decode_in_mixed_[last + 1];
        const double alone = moved.own_cost + moved.count * moved.size_cost;
        for (double& least : mixed_costs) least += std::min(alone, moved.miss_cost);
        if (split().cost > best.cost * (1 + kTie)) continue;
      }
      mixed_costs = least_costs(mixed_plan(last + 1));
      if (const Split found = split(); found.is_better_than(best)) {
        best = found;
        best_last = last;
      }
    }
    return sizes_of(best, decode, best_last, mixed_plan(best_last + 1));
  }

  const Costs& costs_;
  const Rules& rules_;
  const GraphCosts& graphs_;
  const Budget& budget_;
  const Limits* cover_;
  std::size_t most_;
  Split least_;
  std::vector<Entry> decode_, decode_in_mixed_, mixed_;
};

}  // namespace

Figures judge(const Traffic& traffic, const Sizes& sizes, const Costs& costs, const Rules& rules) {
  Figures figures;
  for (const Kind kind : {Kind::decode, Kind::mixed})
    for (const auto& [tokens, steps] : traffic.of(kind).counts) {
      const auto count = static_cast<double>(steps);
      Kind graph = kind;
      std::uint32_t size = fitting(kind == Kind::decode ? sizes.decode : sizes.mixed, tokens);
      if (size == 0 && kind == Kind::decode && rules.decodes_may_use_mixed) {
        graph = Kind::mixed;
        size = fitting(sizes.mixed, tokens);
      }
      figures.steps += count;
      if (size == 0) {
        figures.cost += count * costs.without_graph(kind, tokens);
        continue;
      }
      figures.hits += count;
      figures.tokens += count * tokens;
      figures.padding += count * (size - tokens);
      figures.cost += count * costs.in_graph(graph, tokens, size);
    }
  return figures;
}

Sizes plan(const Traffic& traffic, const Costs& costs, const Rules& rules, const GraphCosts& graphs,
           const Budget& budget, const Limits* cover) {
  return Planner(traffic, costs, rules, graphs, budget, cover).run();
}

std::vector<std::string> gaps(const Sizes& sizes, const Rules& rules, const Limits& limits) {
  std::vector<std::string> found;
  const auto last = [](const std::vector<std::uint32_t>& list) {
    return list.empty() ? 0 : list.back();
  };
  const auto check = [&](const char* kind, std::uint32_t largest, std::uint32_t most) {
    if (largest < most)
      found.push_back(
          fmt::format("the scheduler can form {} steps of {} to {} tokens, and none has a graph",
                      kind, largest + 1, most));
  };
  const std::uint32_t mixed = last(sizes.mixed);
  check("decode", std::max(last(sizes.decode), rules.decodes_may_use_mixed ? mixed : 0),
        limits.decode);
  check("mixed", mixed, limits.mixed);
  return found;
}

}  // namespace attacca::planner
