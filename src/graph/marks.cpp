// marks.cpp: the registry of sites, and the pass that adds marks to a graph. Nodes keep their ids,
// so updates of an instance with marks need not know of them.
#include "graph/marks.hpp"

#include <attacca/mark.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "graph/executor.hpp"

namespace attacca::graph {

using device::SiteEvent;
using device::SiteRef;

SiteRef Marks::add(MarkSite site) {
  const std::lock_guard lock(mutex_);
  if (!records_) records_.emplace(device_, capacity_);
  sites_.push_back(std::move(site));
  return {records_->ref(), static_cast<std::uint32_t>(sites_.size() - 1)};
}

SiteRef Marks::set_after(std::uint32_t site, std::vector<std::uint32_t> after) {
  const std::lock_guard lock(mutex_);
  sites_[site].after = std::move(after);
  return {records_->ref(), site};
}

void Marks::bind(std::uint32_t site, const void* handle) {
  const std::lock_guard lock(mutex_);
  sites_[site].handle = reinterpret_cast<std::uintptr_t>(handle);
}

std::vector<MarkSite> Marks::sites() const {
  const std::lock_guard lock(mutex_);
  return sites_;
}

std::vector<device::Record> Marks::read() const {
  const std::lock_guard lock(mutex_);
  return records_ ? records_->read() : std::vector<device::Record>();
}

std::uint64_t Marks::lost() const {
  const std::lock_guard lock(mutex_);
  if (!records_) return 0;
  const std::uint64_t written = records_->written(), kept = records_->ref().mask + 1;
  return written > kept ? written - kept : 0;
}

std::shared_ptr<Marks> marks_of(const Device& device) {
  const std::shared_ptr<Observer> observer = impl_of(device).observer();
  return observer ? observer->marks() : nullptr;
}

namespace {

bool launches(const NodeData& node) {
  const auto* kernel = std::get_if<KernelPart>(&node.part);
  return kernel && kernel->info->traits.launches;
}

const ConditionalPart* conditional_of(const NodeData& node) {
  return std::get_if<ConditionalPart>(&node.part);
}

bool is_loop(const NodeData& node) {
  const ConditionalPart* part = conditional_of(node);
  return part && part->kind == ConditionalKind::while_;
}

/// Adds marks to a copy of a graph.
class Marker {
 public:
  Marker(const GraphData& data, Target target, const std::shared_ptr<Marks>& marks)
      : marked_{data}, target_(target), marks_(*marks), count_(data.nodes.size()) {
    marked_.data.keeps.push_back(marks);
  }

  Marked run() {
    make_pass_words();
    if (target_ == Target::device_launch) {
      const auto first = data().nodes.begin();
      const bool any = std::any_of(first, first + static_cast<std::ptrdiff_t>(count_), launches);
      const SiteRef site = marks_.add(
          {.name = data().name, .graph = data().name, .is_range = true, .launches = any});
      marked_.site = site.number;
      scope_sites_[kRootScope] = site;
    }
    for (NodeId id = 0; id < count_; ++id) add_scope_sites(id);
    for (NodeId id = 0; id < count_; ++id) {
      if (launches(data().nodes[id])) note_launches(id);
      if (is_loop(data().nodes[id])) reset_before(id);
    }
    if (marks_.level() == Marks::Level::nodes) mark_nodes();
    for (const auto& [scope, site] : scope_sites_) enclose(scope, site);
    return std::move(marked_);
  }

 private:
  GraphData& data() { return marked_.data; }

  /// A word for each loop, that counts its passes.
  void make_pass_words() {
    for (NodeId id = 0; id < count_; ++id)
      if (is_loop(data().nodes[id]))
        words_.emplace(conditional_of(data().nodes[id])->bodies[0], words_.size());
    if (words_.empty()) return;
    memory_ = std::make_shared<Buffer<std::uint32_t>>(data().device,
                                                      std::vector<std::uint32_t>(words_.size()));
    data().keeps.push_back(memory_);
  }
  /// The counter of the loop around a scope, if there is one.
  std::uint32_t* word_of(ScopeId scope) {
    const std::optional<ScopeId> body = data().loop_around(scope);
    return body ? memory_->data() + words_.at(*body) : nullptr;
  }

  void add_scope_sites(NodeId id) {
    const ConditionalPart* part = conditional_of(data().nodes[id]);
    if (!part) return;
    for (const ScopeId body : part->bodies) {
      const std::string& name = data().nodes[id].name;
      scope_sites_[body] =
          marks_.add({.name = is_loop(data().nodes[id])
                                  ? name
                                  : fmt::format("{}, {}", name, data().scopes[body].label),
                      .graph = data().name,
                      .is_range = true,
                      .inside = marked_.site});
    }
  }

  void note_launches(NodeId id) {
    data().launch_sites[id] =
        marks_.add({.name = data().nodes[id].name, .graph = data().name, .inside = marked_.site});
  }

  NodeId add_mark(ScopeId scope, const std::string& name, const SiteRef& site, SiteEvent event,
                  MarkArgs::Pass counts) {
    const MarkArgs args{.records = site.records,
                        .what = SiteRef::what(site.number, event),
                        .value = 0,
                        .pass = word_of(scope),
                        .counts = counts};
    return append_mark(scope, name, args);
  }
  NodeId append_mark(ScopeId scope, const std::string& name, const MarkArgs& args) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&args);
    const auto id = static_cast<NodeId>(data().nodes.size());
    NodeData& node = data().nodes.emplace_back();
    node.name = name;
    node.scope = scope;
    node.place = static_cast<std::uint32_t>(data().scopes[scope].nodes.size());
    node.origin = data().id;
    node.part = KernelPart{&mark().info(), Grid{}, {bytes, bytes + sizeof args}, false};
    data().scopes[scope].nodes.push_back(id);
    return id;
  }
  void add_edge(NodeId to, NodeId from) { data().nodes[to].deps.push_back({from, EdgeKind::full}); }

  /// The counter of a loop is zero when it begins. The mark writes no record.
  void reset_before(NodeId id) {
    const ScopeId body = conditional_of(data().nodes[id])->bodies[0];
    const NodeId reset = append_mark(data().nodes[id].scope, "passes from 1",
                                     {.records = {},
                                      .what = 0,
                                      .value = 0,
                                      .pass = memory_->data() + words_.at(body),
                                      .counts = MarkArgs::Pass::none});
    data().nodes[reset].deps = data().nodes[id].deps;
    data().nodes[id].deps = {};
    add_edge(id, reset);
  }

  /// Marks the end of each kernel, copy and fill; what follows waits for the mark. Behind a
  /// programmatic edge a mark would undo the overlap, so kernels joined by such edges are one slice
  /// with a mark behind the last.
  void mark_nodes() {
    std::vector<bool> is_overlapped(count_);
    for (NodeId id = 0; id < count_; ++id)
      for (const Edge& edge : data().nodes[id].deps)
        if (edge.kind == EdgeKind::programmatic) is_overlapped[edge.from] = true;
    std::map<NodeId, std::uint32_t> sites;
    for (NodeId id = 0; id < count_; ++id)
      if (is_work(id) && !is_overlapped[id] && enclosing(data().nodes[id].scope))
        sites[id] = marks_.add(site_of(id)).number;
    std::map<NodeId, SiteRef> marked;
    for (const auto& [id, site] : sites) marked[id] = marks_.set_after(site, leaving(id, sites));
    for (const auto& [id, site] : marked) {
      const NodeId end = add_mark(data().nodes[id].scope, "end of " + data().nodes[id].name, site,
                                  SiteEvent::ends, MarkArgs::Pass::same);
      for (NodeData& follower : data().nodes)
        for (Edge& edge : follower.deps)
          if (edge.from == id) edge.from = end;
      add_edge(end, id);
    }
  }
  bool is_work(NodeId id) {
    const Part& part = data().nodes[id].part;
    return std::holds_alternative<KernelPart>(part) || std::holds_alternative<CopyPart>(part) ||
           std::holds_alternative<FillPart>(part);
  }
  MarkSite site_of(NodeId id) {
    const NodeData& node = data().nodes[id];
    MarkSite site{.name = node.name, .graph = data().name, .inside = marked_.site};
    const NodeId first = add_work(id, site);
    if (first != id) site.name = fmt::format("{} to {}", data().nodes[first].name, node.name);
    return site;
  }
  /// Adds a node and those that it overlaps to a site, and returns the first of them.
  NodeId add_work(NodeId id, MarkSite& site) {
    const NodeData& node = data().nodes[id];
    site.nodes.push_back(node.name);
    if (const auto* kernel = std::get_if<KernelPart>(&node.part)) {
      const Cost own = kernel->info->cost(kernel->args.data());
      if (own.flops > site.cost.flops) site.cost.arithmetic = own.arithmetic;
      site.cost.flops += own.flops;
      site.cost.bytes += own.bytes;
    }
    NodeId first = id;
    for (const Edge& edge : node.deps)
      if (edge.kind == EdgeKind::programmatic) first = add_work(edge.from, site);
    return first;
  }
  /// The site of the innermost body or graph around a scope; null: it has no marks.
  const SiteRef* enclosing(ScopeId scope) {
    for (;;) {
      if (const auto found = scope_sites_.find(scope); found != scope_sites_.end())
        return &found->second;
      if (data().scopes[scope].parent == kNone) return nullptr;
      scope = data().nodes[data().scopes[scope].parent].scope;
    }
  }
  /// What a node begins after: the nodes that it depends on, with those inside a conditional or a
  /// child and those before a node that is no work, or the begin of what is around it.
  std::vector<std::uint32_t> leaving(NodeId id, const std::map<NodeId, std::uint32_t>& sites) {
    std::vector<std::uint32_t> after;
    for (const Edge& edge : data().nodes[id].deps) {
      if (const auto found = sites.find(edge.from); found != sites.end()) {
        after.push_back(found->second);
        continue;
      }
      for (const ScopeId inside : insides_of(data().nodes[edge.from]))
        for (const NodeId last : data().scopes[inside].nodes)
          if (const auto found = sites.find(last); found != sites.end())
            after.push_back(found->second);
      const std::vector<std::uint32_t> further = leaving(edge.from, sites);
      after.insert(after.end(), further.begin(), further.end());
    }
    if (data().nodes[id].deps.empty()) {
      const ScopeId scope = data().nodes[id].scope;
      const NodeId parent = data().scopes[scope].parent;
      const bool is_child = scope_sites_.find(scope) == scope_sites_.end() && parent != kNone;
      if (is_child) return leaving(parent, sites);
      if (const SiteRef* around = enclosing(scope)) after.push_back(around->number);
    }
    return after;
  }

  /// Marks the begin and the end of a scope.
  void enclose(ScopeId scope, const SiteRef& site) {
    const std::vector<NodeId> inside = data().scopes[scope].nodes;
    const std::vector<NodeId> last = last_nodes(data(), scope);
    const bool is_pass = words_.find(scope) != words_.end();
    const NodeId begin = add_mark(scope, "begins", site, SiteEvent::begins,
                                  is_pass ? MarkArgs::Pass::next : MarkArgs::Pass::same);
    for (const NodeId id : inside)
      if (data().nodes[id].deps.empty()) add_edge(id, begin);
    const NodeId end = add_mark(scope, "ends", site, SiteEvent::ends, MarkArgs::Pass::same);
    for (const NodeId id : last) add_edge(end, id);
    if (last.empty()) add_edge(end, begin);
  }

  Marked marked_;
  Target target_;
  Marks& marks_;
  std::size_t count_;  // of nodes before marks were added
  std::map<ScopeId, SiteRef> scope_sites_;
  std::map<ScopeId, std::size_t> words_;  // by the body of a loop, its place in `memory_`
  std::shared_ptr<Buffer<std::uint32_t>> memory_;
};

}  // namespace

std::optional<Marked> with_marks(const GraphData& data, Target target,
                                 const std::shared_ptr<Marks>& marks) {
  const bool has_something =
      target == Target::device_launch ||
      std::any_of(data.nodes.begin(), data.nodes.end(),
                  [](const NodeData& node) { return conditional_of(node) || launches(node); });
  if (!has_something) return std::nullopt;
  return Marker(data, target, marks).run();
}

}  // namespace attacca::graph
