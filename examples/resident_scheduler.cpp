// resident_scheduler: the device gives itself work, and the host only starts it.
//
// Four schedulers share a counter of items. Each is a graph that takes the next item, launches its
// worker graph as a tail and then itself again, until there are no more. The host makes a single
// launch, however many items there are and however long each of them takes.
#include <attacca/attacca.hpp>

#include "collatz.hpp"
#include "example.hpp"

namespace attacca::examples {
namespace {

using namespace collatz;

constexpr unsigned kSchedulers = 4;

struct Take {
  static constexpr const char* name = "take";
  struct Args {
    unsigned* next_item;  // shared by all schedulers
    unsigned* item;       // for this scheduler's worker
    DeviceGraph worker;
  };
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 12}; }
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    *a.item = fetch_add(*a.next_item, 1);
    if (*a.item >= kItems) return;
    t.launch(a.worker, LaunchMode::tail);
    t.relaunch_self();
  }
};
struct Begin {
  static constexpr const char* name = "begin";
  struct Args {
    DeviceGraph schedulers[kSchedulers];
  };
  static Cost cost(const Args&) { return {.flops = 0, .bytes = sizeof(Args)}; }
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    for (const DeviceGraph scheduler : a.schedulers)
      t.launch(scheduler, LaunchMode::fire_and_forget);
  }
};
const Kernel<Take::Args> take = make_kernel<Take>();
const Kernel<Walk::Args> walk = make_kernel<Walk>();
const Kernel<Record::Args> record = make_kernel<Record>();
const Kernel<Begin::Args> begin = make_kernel<Begin>();

Graph build_worker(const Device& device, const Record::Args& args, unsigned* most) {
  Graph graph(device, "worker");
  const auto clear = graph.fill(most, 0, sizeof *most).named("clear");
  const auto walked =
      graph.kernel(walk, Grid{{1}, {kNumbers}}, {.item = args.item, .most = most}).after(clear);
  graph.kernel(record, Grid{}, args).after(walked);
  return graph;
}

void run(const Device& device, std::ostream& out) {
  const Buffer<unsigned> next_item(device, std::vector<unsigned>{0});
  const Buffer<unsigned> item(device, kSchedulers), most(device, kSchedulers);
  const Buffer<unsigned> answers(device, kItems);
  const Buffer<unsigned> times_done(device, std::vector<unsigned>(kItems, 0));

  std::vector<DeviceExec> device_graphs;  // worker, scheduler, worker, scheduler, …
  Begin::Args schedulers{};
  for (unsigned i = 0; i < kSchedulers; ++i) {
    unsigned* const my_item = item.data() + i;
    unsigned* const my_most = most.data() + i;
    const Graph worker =
        build_worker(device, {my_item, my_most, answers.data(), times_done.data()}, my_most);
    device_graphs.push_back(worker.instantiate_for_device());
    Graph scheduler(device, "scheduler");
    scheduler.kernel(take, Grid{}, {next_item.data(), my_item, device_graphs.back().handle()});
    device_graphs.push_back(scheduler.instantiate_for_device());
    schedulers.schedulers[i] = device_graphs.back().handle();
  }
  Graph start(device, "start");
  start.kernel(begin, Grid{}, schedulers);
  Exec exec = start.instantiate();
  const Stream stream(device);
  exec.launch(stream);
  stream.synchronize();

  std::uint64_t host_launches = exec.counters().launches;
  for (const DeviceExec& graph : device_graphs) host_launches += graph.counters().launches;
  expect(host_launches == 1, "the host launched more than once");
  expect(times_done.read() == std::vector<unsigned>(kItems, 1), "an item was lost or done twice");
  expect(answers.read() == expected_answers(), "the longest walks");
  out << kItems << " items, each done exactly once, by " << kSchedulers << " schedulers\n"
      << "launches by the host: " << host_launches
      << ", by the device: " << kSchedulers + 2 * kItems << '\n';
}

Graph graph(const Device& device) {
  const Buffer<unsigned> item(device, 2);
  return build_worker(device, {item.data(), item.data() + 1, nullptr, nullptr}, item.data() + 1);
}

}  // namespace

const Example resident_scheduler{"resident_scheduler",
                                 "graphs on the device that give themselves work from a counter",
                                 graph, run};

}  // namespace attacca::examples
