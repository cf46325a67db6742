// conditional.cpp: decisions made inside a graph by IF, WHILE and SWITCH nodes, against a host that
// waits for the device, reads the condition and launches what follows.
#include <attacca/exec.hpp>
#include <attacca/graph.hpp>
#include <attacca/loop.hpp>
#include <optional>

#include "claims/launch.hpp"
#include "overhead/kernels.hpp"

namespace bench {

namespace {

using namespace claims;
using attacca::Condition;
using attacca::Exec;
using attacca::Graph;

constexpr unsigned kDecisions = 20;  // of a sample; a multiple of kChoices and 2
constexpr unsigned kChoices = 4;
constexpr double kClearlyLess = 0.95;
const char* const kBlog =
    "NVIDIA, Dynamic Control Flow in CUDA Graphs with Conditional Nodes (2024), "
    "developer.nvidia.com/blog/dynamic-control-flow-in-cuda-graphs-with-conditional-nodes";

/// The state that all ways to decide share. One launch at a time.
class Field {
 public:
  Field(const attacca::Device& on, unsigned kernels)
      : device(on),
        stream(on),
        kernels_(kernels),
        cells_(on, std::vector<unsigned>(3, 0)),
        flags_(on, std::vector<unsigned>(2, 0), attacca::Visibility::shared) {}

  /// The work that depends on a decision: a line of kernels. Returns its last one.
  attacca::Node add_work(Graph& graph) const {
    auto last = graph.kernel(bench::kernels::touch, kOneWarp, {cells_.data(), 1});
    for (unsigned at = 1; at < kernels_; ++at)
      last = graph.kernel(bench::kernels::touch, kOneWarp, {cells_.data(), 1}).after(last);
    return last;
  }
  auto add_decision(Graph& graph, Condition choice, unsigned choices) const {
    return graph.kernel(decide, kOneWarp, {choice, cells_.data() + 1, choices});
  }
  /// Decides whether there is another pass of a loop.
  auto add_count(Graph& graph, Condition again) const {
    return graph.kernel(bench::kernels::count, kOneWarp, {again, cells_.data() + 2, kDecisions});
  }
  std::vector<Graph::Fill> bodies() const {
    return std::vector<Graph::Fill>(kChoices, [this](Graph& body) { add_work(body); });
  }

  /// A condition that the host can read, for kernels outside of conditionals.
  Condition flag(unsigned number) const {
    return Condition(reinterpret_cast<std::uint64_t>(flags_.data() + number),
                     attacca::detail::HandleKind::cell);
  }
  /// Waits for the device and reads the condition.
  unsigned look(unsigned number) const {
    stream.synchronize();
    return *static_cast<volatile unsigned*>(flags_.data() + number);
  }

  /// Throws unless the work was done `times` times since the last call.
  void expect_work(unsigned times) {
    const unsigned seen = cells_.read().front();
    if (seen != times * kernels_)
      throw attacca::Error(
          fmt::format("decided work ran {} kernels instead of {}", seen, times * kernels_));
    cells_.write(std::vector<unsigned>(cells_.size(), 0));
  }

  const attacca::Device device;
  const attacca::Stream stream;

 private:
  unsigned kernels_;
  attacca::Buffer<unsigned> cells_;  // touched, turn of the decisions, passes
  attacca::Buffer<unsigned> flags_;
};

/// Both ways to make kDecisions decisions of one kind.
struct Kind {
  const char* name;
  unsigned decisions;
  unsigned runs_of_work;  // in a sample
  std::function<void()> in_graph, by_host;
};

/// Returns a function that owns an exec and runs it.
template <class ExecType>
std::function<void()> launching(const Field& field, ExecType exec) {
  return [&field, shared = std::make_shared<ExecType>(std::move(exec))] {
    shared->launch(field.stream);
  };
}
template <class Fill>
std::shared_ptr<Exec> exec_of(const Field& field, const char* name, Fill fill) {
  Graph graph(field.device, name);
  fill(graph);
  return std::make_shared<Exec>(graph.instantiate());
}
/// A graph of one kernel whose decision the host can read.
std::shared_ptr<Exec> asking(const Field& field, unsigned choices) {
  return exec_of(field, "ask",
                 [&](Graph& graph) { field.add_decision(graph, field.flag(0), choices); });
}

/// Decisions one after another in one graph; `add` adds the conditional.
template <class Add>
Exec chain_of(const Field& field, const char* name, unsigned choices, Add add) {
  Graph graph(field.device, name);
  std::optional<attacca::PlainNode> last;
  for (unsigned at = 0; at < kDecisions; ++at) {
    const Condition choice = graph.condition(fmt::format("choice {}", at));
    const auto decision = field.add_decision(graph, choice, choices);
    if (last) decision.after(*last);
    last = add(graph, choice).after(decision);
  }
  return graph.instantiate();
}

Kind if_kind(const Field& field) {
  Exec chain = chain_of(field, "ifs", 2, [&](Graph& graph, Condition choice) {
    return graph.if_("if", choice, [&](Graph& body) { field.add_work(body); });
  });
  const auto work = exec_of(field, "then", [&](Graph& graph) { field.add_work(graph); });
  return {"IF", kDecisions, kDecisions / 2, launching(field, std::move(chain)),
          [&field, ask = asking(field, 2), work] {
            for (unsigned at = 0; at < kDecisions; ++at) {
              ask->launch(field.stream);
              if (field.look(0)) work->launch(field.stream);
            }
          }};
}

/// One graph for each body.
std::vector<std::shared_ptr<Exec>> body_execs(const Field& field, bool counts) {
  std::vector<std::shared_ptr<Exec>> execs;
  for (unsigned at = 0; at < kChoices; ++at)
    execs.push_back(exec_of(field, "case", [&](Graph& graph) {
      const attacca::Node last = field.add_work(graph);
      if (counts) field.add_count(graph, field.flag(1)).after(last);
    }));
  return execs;
}

Kind switch_kind(const Field& field) {
  Exec chain = chain_of(field, "switches", kChoices, [&](Graph& graph, Condition choice) {
    return graph.switch_("switch", choice, field.bodies());
  });
  return {"SWITCH", kDecisions, kDecisions, launching(field, std::move(chain)),
          [&field, ask = asking(field, kChoices), bodies = body_execs(field, false)] {
            for (unsigned at = 0; at < kDecisions; ++at) {
              ask->launch(field.stream);
              bodies.at(field.look(0))->launch(field.stream);
            }
          }};
}

Kind while_kind(const Field& field) {
  const attacca::Loop loop(field.device, "while", [&field](Graph& body, Condition again) {
    field.add_count(body, again).after(field.add_work(body));
  });
  return {"WHILE", kDecisions, kDecisions,
          launching(field, loop.instantiate(attacca::LoopForm::while_node)),
          launching(field, loop.instantiate(attacca::LoopForm::host_loop))};
}

Kind nested_kind(const Field& field) {
  Graph graph(field.device, "nested");
  graph.while_("while", [&](Graph& body, Condition again) {
    const Condition choice = body.condition("choice");
    const auto decision = field.add_decision(body, choice, kChoices);
    const auto chosen = body.switch_("switch", choice, field.bodies()).after(decision);
    field.add_count(body, again).after(chosen);
  });
  return {"SWITCH in WHILE", 2 * kDecisions, kDecisions, launching(field, graph.instantiate()),
          [&field, ask = asking(field, kChoices), bodies = body_execs(field, true)] {
            do {
              ask->launch(field.stream);
              bodies.at(field.look(0))->launch(field.stream);
            } while (field.look(1));
          }};
}

/// Adds the kinds' rows and returns them.
std::vector<Row> measure(Run& run, unsigned kernels) {
  Field field(run.device, kernels);
  std::vector<Row> rows;
  for (const Kind& kind :
       {if_kind(field), while_kind(field), switch_kind(field), nested_kind(field)}) {
    unsigned samples = 0;
    const auto per_decision = [&](const std::function<void()>& decide_all) {
      return [&field, &samples, &kind, &decide_all] {
        ++samples;
        return microseconds([&] {
                 decide_all();
                 field.stream.synchronize();
               }) /
               kind.decisions;
      };
    };
    const auto times = run.interleave(fmt::format("{}, {} kernels", kind.name, kernels), 51,
                                      {per_decision(kind.in_graph), per_decision(kind.by_host)});
    field.expect_work(samples * kind.runs_of_work);
    rows.push_back(compared(kind.name, {{"kernels", kernels}}, times[0], times[1]));
    run.add(rows.back());
  }
  return rows;
}

/// Takes the rows of one body size after another, the kinds in the same order in each.
void judge(Run& run, const std::vector<unsigned>& sizes, const std::vector<Row>& rows) {
  std::size_t less = 0;
  std::string figures;
  const std::size_t kinds = rows.size() / sizes.size();
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    std::vector<double> in_graph, by_host;
    for (std::size_t at = kind; at < rows.size(); at += kinds) {
      less += *rows[at].ratio() <= kClearlyLess;
      in_graph.push_back(rows[at].value.median);
      by_host.push_back(*rows[at].baseline);
    }
    figures += fmt::format("; {} {} µs instead of {}", rows[kind].name, in_words(in_graph),
                           in_words(by_host));
  }
  run.add(
      {"Returning control to the CPU for each decision adds the overhead of a launch; a "
       "conditional node decides and repeats on the device without it.",
       kBlog,
       fmt::format("A decision and {} kernels{}.",
                   in_words(std::vector<double>(sizes.begin(), sizes.end()), 0), figures),
       verdict_of(less, rows.size())});
}

void conditional(Run& run) {
  const std::vector<unsigned> sizes =
      run.is_quick() ? std::vector<unsigned>{1, 10} : std::vector<unsigned>{1, 10, 100};
  std::vector<Row> rows;
  for (const unsigned kernels : sizes)
    for (Row& row : measure(run, kernels)) rows.push_back(std::move(row));
  if (run.device.is_cuda())
    judge(run, sizes, rows);
  else
    note_host(run);
  run.note(fmt::format(
      "Time of one decision and the line of kernels it starts (an IF starts it every other time), "
      "from {} in a row, launch and end included. The baseline is a host that launches a graph "
      "which decides, waits, looks at a word in pinned memory and launches what was chosen.",
      kDecisions));
  run.add(Plot{.title = "A decision on the device against one on the host",
               .x = "kernels",
               .x_label = "kernels that a decision starts",
               .y_label = "time, of the host's",
               .value = Plot::Value::ratio});
}

const Registered registered{{"conditional",
                             "what does a decision cost inside a graph, and what when the host "
                             "makes it?",
                             Needs::either, conditional}};

}  // namespace

}  // namespace bench
