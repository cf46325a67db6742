// Tests of the three printed forms of a graph. The text is compared with the graph that was built,
// not with the printers' own data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/graph.hpp>
#include <attacca/thread.hpp>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace attacca {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Touch {
  static constexpr const char* name = "touch";
  static constexpr bool waits = true;
  struct Args {
    float* x;
    Condition again;
  };
  static Cost cost(const Args&) { return {.flops = 1000, .bytes = 250}; }
  static void body(Thread& t, const Args&) { t.wait_for_producers(); }
};
struct Start {
  static constexpr const char* name = "start";
  struct Args {
    DeviceGraph graph;
  };
  static Cost cost(const Args&) { return {}; }
  static void body(LaunchingThread& t, const Args& a) { t.launch(a.graph, LaunchMode::tail); }
};
struct Prepare {
  static constexpr const char* name = "prepare";
  struct Args {
    DeviceNode<Touch::Args> next;
  };
  static Cost cost(const Args&) { return {}; }
  static void body(Thread& t, const Args& a) { a.next.set_enabled(t.is_first()); }
};
const Kernel<Touch::Args> touch = make_kernel<Touch>();
const Kernel<Start::Args> start = make_kernel<Start>();
const Kernel<Prepare::Args> prepare = make_kernel<Prepare>();

const Grid kGrid{{4, 2}, {32}, 1024};

Graph new_graph(std::string name = "test") { return Graph(Device::host_serial(), std::move(name)); }

/// A graph of everything it can hold. Two nodes have the same name.
Graph rich_graph() {
  static float memory[64];
  Graph graph = new_graph("rich");
  const auto scratch = graph.allocate<float>("scratch", 256);
  const auto zero = graph.fill(scratch.data(), 7, 1024).named("zero").after(scratch);
  const auto load = graph.copy(scratch.data(), memory, sizeof memory).named("load").after(zero);
  const auto first = graph.kernel(touch, kGrid, {.x = memory, .again = {}}).after(load);
  const auto second = graph.kernel(touch, Grid{}, {.x = scratch.data(), .again = {}})
                          .after_programmatic(first)
                          .priority(3);
  const auto loop =
      graph
          .while_("until done",
                  [&](Graph& body, Condition again) {
                    body.kernel(touch, Grid{}, {.x = memory, .again = again}).named("test");
                  })
          .after(second);
  const auto pick = graph.condition("pick", 1);
  const auto choose =
      graph.kernel(touch, Grid{}, {.x = memory, .again = pick}).named("choose").after(loop);
  const auto branch = graph
                          .switch_("by size", pick,
                                   {[&](Graph& body) { body.fill(memory, 0, 4).named("small"); },
                                    [&](Graph& body) { body.fill(memory, 0, 8).named("large"); }})
                          .after(choose);
  const auto inside =
      graph
          .child("group",
                 [&](Graph& body) { body.kernel(start, Grid{}, {.graph = {}}).enabled(false); })
          .after(branch);
  const auto call = graph.host("report", [] {}).after(inside);
  graph.library("multiply", [](StreamRef) {}).after(call);
  graph.free(scratch).after(second);
  return graph;
}

/// The line of a text that contains `part`.
std::string line_with(const std::string& text, const std::string& part) {
  const std::size_t at = text.find(part);
  if (at == std::string::npos) return "no line with " + part;
  const std::size_t start_of_line = text.rfind('\n', at) + 1;
  return text.substr(start_of_line, text.find('\n', at) - start_of_line);
}

std::size_t indent(const std::string& line) { return line.find_first_not_of(' '); }

// --- text ------------------------------------------------------------------------------------

TEST(GraphText, NamesTheGraphAndItsDeviceThenEndsWithCountAndCost) {
  const std::string text = to_text(rich_graph());
  EXPECT_EQ(text.rfind("rich on host-serial\n", 0), 0u) << text;
  // Four kernels called touch at 1000 FLOP and 250 bytes; start costs nothing.
  EXPECT_THAT(text, testing::EndsWith("16 nodes; each run once: 4.0 kFLOP, 1.0 kB\n"));
}

TEST(GraphText, HasOneLinePerNode) {
  const Graph graph = rich_graph();
  const std::string text = to_text(graph);
  // Title, closing line and the two headings of the switch.
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            graph.node_count() + 4);
}

TEST(GraphText, ShowsShapesBytesAndFlags) {
  const std::string text = to_text(rich_graph());
  EXPECT_THAT(line_with(text, "touch#3"), HasSubstr("4x2 blocks of 32, 1024 bytes shared"));
  EXPECT_THAT(line_with(text, "touch#4"), HasSubstr("1 block of 1"));
  EXPECT_THAT(line_with(text, "touch#4"), HasSubstr("uses scratch"));
  EXPECT_THAT(line_with(text, "touch#4"), HasSubstr("priority 3"));
  EXPECT_THAT(line_with(text, "allocation"), HasSubstr("1024 bytes"));
  EXPECT_THAT(line_with(text, " zero"), HasSubstr("1024 bytes with 7"));
  EXPECT_THAT(line_with(text, "kernel  start"), HasSubstr("launches graphs, disabled"));
  EXPECT_THAT(line_with(text, "kernel  test"), HasSubstr("runs touch"));
}

TEST(GraphText, NamesProducersAndUsesIdsWhereNamesRepeat) {
  const std::string text = to_text(rich_graph());
  EXPECT_THAT(line_with(text, " zero"), HasSubstr("after scratch"));
  EXPECT_THAT(line_with(text, "touch#4"), HasSubstr("after touch#3 (programmatic)"));
  EXPECT_THAT(line_with(text, "until done"), HasSubstr("after touch#4"));
}

TEST(GraphText, IndentsBodiesAndSaysWhoSetsTheirCondition) {
  const std::string text = to_text(rich_graph());
  EXPECT_THAT(line_with(text, "while"), HasSubstr("looks at 'until done', at first 1"));
  EXPECT_THAT(line_with(text, "kernel  test"), HasSubstr("sets 'until done'"));
  EXPECT_EQ(indent(line_with(text, "kernel  test")), indent(line_with(text, "while")) + 2);
  EXPECT_EQ(indent(line_with(text, "case 1:")), indent(line_with(text, "switch")) + 2);
  EXPECT_EQ(indent(line_with(text, "large")), indent(line_with(text, "case 1:")) + 2);
}

TEST(GraphText, ShowsWhichKernelUpdatesWhich) {
  Graph graph = new_graph();
  const auto target = graph.kernel(touch, Grid{}, {}).named("target");
  const auto planner = graph.kernel(prepare, Grid{}, {.next = target.device_updatable()});
  target.after(planner);
  EXPECT_THAT(line_with(to_text(graph), "target"), HasSubstr("device-updatable"));
  EXPECT_THAT(line_with(to_text(graph), "kernel  prepare"), HasSubstr("updates target"));
}

TEST(GraphText, KeepsANameWithLineBreaksOnOneLine) {
  Graph graph = new_graph("a\nb");
  graph.fill(&graph, 0, 1).named("one\ntwo\x01");
  EXPECT_THAT(to_text(graph), HasSubstr("one\\ntwo\\x01"));
  EXPECT_EQ(to_text(graph).find("a\\nb on "), 0u);
}

TEST(GraphText, PrintsAnEmptyGraph) {
  EXPECT_EQ(to_text(new_graph("nothing")),
            "nothing on host-serial\n0 nodes; each run once: 0 FLOP, 0 B\n");
}

// --- JSON ------------------------------------------------------------------------------------

TEST(GraphJson, IsWhatTheFormatDescribes) {
  const json graph = json::parse(to_json(rich_graph()));
  EXPECT_EQ(graph["format"], "attacca-graph");
  EXPECT_EQ(graph["version"], 1);
  EXPECT_EQ(graph["name"], "rich");
  EXPECT_EQ(graph["device"], "host-serial");
  EXPECT_EQ(graph["cost"], (json{{"flops", 4000}, {"bytes", 1000}}));
  EXPECT_EQ(graph["conditions"],
            json::parse(R"([{"id": 0, "name": "until done", "scope": 0, "initial": 1},
                            {"id": 1, "name": "pick", "scope": 0, "initial": 1}])"));
}

TEST(GraphJson, KernelsCarryShapeCostAndRelations) {
  const json nodes = json::parse(to_json(rich_graph()))["nodes"];
  EXPECT_EQ(nodes[4], json::parse(R"({
    "id": 4, "kind": "kernel", "name": "touch", "scope": 0,
    "after": [{"node": 3, "kind": "programmatic"}],
    "enabled": true, "priority": 3, "kernel": "touch",
    "blocks": [1, 1, 1], "threads": [1, 1, 1], "shared_bytes": 0,
    "launches_graphs": false, "spawns_kernels": false, "device_updatable": false,
    "cost": {"flops": 1000, "bytes": 250}, "sets": [], "updates": [], "uses": [0]})"));
  EXPECT_EQ(nodes[3]["blocks"], (json{4, 2, 1}));
  EXPECT_EQ(nodes[3]["shared_bytes"], 1024);
}

TEST(GraphJson, EveryKindHasItsFields) {
  const json graph = json::parse(to_json(rich_graph()));
  const auto find = [&](const std::string& name) {
    for (const json& node : graph["nodes"])
      if (node["name"] == name) return node;
    return json();
  };
  EXPECT_EQ(find("scratch")["kind"], "allocation");
  EXPECT_EQ(find("scratch")["bytes"], 1024);
  EXPECT_EQ(find("zero")["kind"], "fill");
  EXPECT_EQ(find("zero")["value"], 7);
  EXPECT_EQ(find("load")["kind"], "copy");
  EXPECT_EQ(find("load")["bytes"], 256);
  EXPECT_EQ(find("load")["uses"], json::array({0}));
  EXPECT_EQ(find("until done")["kind"], "while");
  EXPECT_EQ(find("until done")["condition"], 0);
  EXPECT_EQ(find("test")["sets"], json::array({0}));
  EXPECT_EQ(find("by size")["kind"], "switch");
  EXPECT_EQ(find("by size")["bodies"].size(), 2u);
  EXPECT_EQ(find("group")["kind"], "child");
  EXPECT_EQ(find("start")["scope"], find("group")["inside"]);
  EXPECT_EQ(find("start")["enabled"], false);
  EXPECT_EQ(find("start")["launches_graphs"], true);
  EXPECT_EQ(find("report")["kind"], "host");
  EXPECT_EQ(find("multiply")["kind"], "library");
  EXPECT_EQ(find("free scratch")["kind"], "free");
  EXPECT_EQ(find("free scratch")["allocation"], 0);
}

TEST(GraphJson, ScopesAndNodesPointAtEachOther) {
  const json graph = json::parse(to_json(rich_graph()));
  std::size_t listed = 0;
  for (const json& scope : graph["scopes"]) {
    for (const json& id : scope["nodes"])
      EXPECT_EQ(graph["nodes"][id.get<int>()]["scope"], scope["id"]);
    listed += scope["nodes"].size();
    if (scope["id"] == 0) {
      EXPECT_EQ(scope["kind"], "root");
      EXPECT_TRUE(scope["parent"].is_null());
      continue;
    }
    const json& parent = graph["nodes"][scope["parent"].get<int>()];
    if (scope["kind"] == "body")
      EXPECT_THAT(parent["bodies"].get<std::vector<int>>(),
                  testing::Contains(scope["id"].get<int>()));
    else
      EXPECT_EQ(parent["inside"], scope["id"]);
  }
  EXPECT_EQ(listed, graph["nodes"].size());
}

TEST(GraphJson, AnIfWithTwoBodiesIsAnIfWithThenAndElse) {
  Graph graph = new_graph();
  const Condition yes = graph.condition("yes");
  const auto body = [](Graph& inside) { inside.fill(&inside, 0, 1); };
  graph.if_("choice", yes, body, body);
  const json printed = json::parse(to_json(graph));
  EXPECT_EQ(printed["nodes"][0]["kind"], "if");
  EXPECT_EQ(printed["scopes"][1]["label"], "then");
  EXPECT_EQ(printed["scopes"][2]["label"], "else");
}

TEST(GraphJson, NamesComeBackAsTheyWere) {
  const std::string names[] = {"\"quoted\" \\ back", "line\nbreak\ttab\r", "Größe → 大きさ 🎵",
                               std::string("nul\0inside", 10), "\x7f\x1f"};
  for (const std::string& name : names) {
    Graph graph = new_graph(name);
    graph.fill(&graph, 0, 1).named(name);
    const json printed = json::parse(to_json(graph));
    EXPECT_EQ(printed["name"], name);
    EXPECT_EQ(printed["nodes"][0]["name"], name);
  }
}

TEST(GraphJson, ReplacesBytesThatAreNoUtf8) {
  const std::pair<std::string, std::string> cases[] = {
      {"a\xff"
       "b",
       "a\uFFFDb"},                                     // never a lead byte
      {"\xc3", "\uFFFD"},                               // cut short
      {"\xc0\xaf", "\uFFFD\uFFFD"},                     // overlong
      {"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},           // a surrogate
      {"\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"}  // past the last code point
  };
  for (const auto& [name, expected] : cases) {
    Graph graph = new_graph();
    graph.fill(&graph, 0, 1).named(name);
    EXPECT_EQ(json::parse(to_json(graph))["nodes"][0]["name"], expected);
  }
}

TEST(GraphJson, PrintsAnEmptyGraph) {
  const json graph = json::parse(to_json(new_graph()));
  EXPECT_EQ(graph["nodes"], json::array());
  EXPECT_EQ(graph["conditions"], json::array());
  EXPECT_EQ(graph["scopes"].size(), 1u);
}

// --- DOT -------------------------------------------------------------------------------------

TEST(GraphDot, DrawsEveryNodeButChildrenWhichAreBoxes) {
  const std::string dot = to_dot(rich_graph());
  // A node is a line that starts with n and its number; edges have an arrow instead of a label.
  long count = 0;
  std::istringstream lines(dot);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find_first_not_of(' ');
    if (first == std::string::npos || line[first] != 'n') continue;
    const auto end = line.find_first_not_of("0123456789", first + 1);
    if (end > first + 1 && line.compare(end, 8, " [label=") == 0) ++count;
  }
  EXPECT_EQ(count, 15);
  EXPECT_THAT(dot, HasSubstr("label=\"group\" style=\"rounded,filled\""));
  EXPECT_THAT(dot, HasSubstr("label=\"case 1\" style=\"rounded,filled\""));
}

TEST(GraphDot, DashesProgrammaticEdgesAndDisabledNodes) {
  const std::string dot = to_dot(rich_graph());
  EXPECT_THAT(dot, HasSubstr("n3 -> n4 [style=dashed label=\"programmatic\"];"));
  EXPECT_THAT(line_with(dot, "start"), HasSubstr("dashed"));
  EXPECT_THAT(line_with(dot, "n0 ["), Not(HasSubstr("dashed")));
}

TEST(GraphDot, SendsArrowsOfAChildToItsBox) {
  Graph graph = new_graph();
  const auto before = graph.fill(&graph, 0, 1);
  const auto child = graph
                         .child("group",
                                [](Graph& body) {
                                  const auto a = body.fill(&body, 0, 1);
                                  body.fill(&body, 0, 2).after(a);
                                })
                         .after(before);
  graph.fill(&graph, 0, 3).after(child);
  const std::string dot = to_dot(graph);
  EXPECT_THAT(dot, HasSubstr("n0 -> n2 [lhead=cluster_1];"));
  EXPECT_THAT(dot, HasSubstr("n3 -> n4 [ltail=cluster_1];"));
}

TEST(GraphDot, EscapesLabels) {
  Graph graph = new_graph("\"a\" \\ b");
  graph.fill(&graph, 0, 1).named("say \"x &lt; y\"\nthen \\l");
  const std::string dot = to_dot(graph);
  EXPECT_THAT(dot, HasSubstr("digraph \"\\\"a\\\" \\\\ b\" {"));
  EXPECT_THAT(dot, HasSubstr("label=\"say \\\"x &amp;lt; y\\\"\\nthen \\\\l\\n1 bytes with 0\""));
}

TEST(GraphDot, DrawsAnEmptyChild) {
  Graph graph = new_graph();
  const auto child = graph.child("hollow", [](Graph&) {});
  graph.fill(&graph, 0, 1).after(child);
  EXPECT_THAT(to_dot(graph), HasSubstr("n0 -> n1;"));
}

}  // namespace
}  // namespace attacca
