// Tests of a chain of kernels: a graph, several graphs and a stream run the same list.
#include "step/chain.hpp"

#include <gmock/gmock.h>

#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using step::Chain;
using step::Part;
using testing::HasSubstr;
using testing::Not;

int after_one_run(int x) { return ((x * 2 + 1) * 3 + 1) * 5 + 1; }

class StepChain : public OnEachDevice {
 protected:
  /// Three kernels that turn x into after_one_run; the second counts as attention.
  Chain chain_of(Buffer<int>& x) const {
    Chain chain(device());
    const auto add = [&](Part part, const char* name, int factor) {
      chain.add(part, name, affine, Grid{},
                {.x = x.data(), .count = 1, .factor = factor, .summand = 1});
    };
    add(Part::product, "first", 2);
    add(Part::attention, "second", 3);
    add(Part::product, "third", 5);
    return chain;
  }
};
ATTACCA_ON_EACH_DEVICE(StepChain);

TEST_P(StepChain, computes_the_same_as_a_graph_on_a_stream_and_in_pieces) {
  Buffer<int> x = buffer<int>({1});
  const Chain chain = chain_of(x);
  Graph whole(device());
  chain.append_to(whole);
  run(whole);
  int expected = after_one_run(1);
  EXPECT_EQ(x.read().front(), expected);

  chain.launch(stream());
  stream().synchronize();
  expected = after_one_run(expected);
  EXPECT_EQ(x.read().front(), expected);

  Graph piece(device());
  chain.append_to(piece, 0, 1);
  run(piece);
  chain.launch(stream(), 1, 3);
  stream().synchronize();
  EXPECT_EQ(x.read().front(), after_one_run(expected));
}

TEST_P(StepChain, is_cut_where_attention_begins_and_ends) {
  Buffer<int> x = buffer<int>({1});
  const Chain chain = chain_of(x);
  EXPECT_EQ(chain.end_of_piece(0), 1u);
  EXPECT_EQ(chain.end_of_piece(1), 2u);
  EXPECT_EQ(chain.end_of_piece(2), 3u);
}

TEST_P(StepChain, keeps_its_own_copy_of_arguments_and_gives_nodes_their_names) {
  Buffer<int> x = buffer<int>({1});
  Chain chain(device());
  {
    AffineArgs args{.x = x.data(), .count = 1, .factor = 7, .summand = 0};
    chain.add(Part::product, "times seven", affine, Grid{}, args);
    args.factor = 1000;
  }
  const Chain copy = chain;
  Graph graph(device());
  copy.append_to(graph);
  EXPECT_THAT(to_json(graph), HasSubstr("\"times seven\""));
  run(graph);
  EXPECT_EQ(x.read().front(), 7);
}

TEST_P(StepChain, costs_the_sum_of_its_kernels) {
  Buffer<int> x = buffer<int>({1});
  const Chain chain = chain_of(x);
  Cost sum;
  for (const step::Link& link : chain.links()) {
    sum.flops += link.cost().flops;
    sum.bytes += link.cost().bytes;
  }
  EXPECT_EQ(chain.cost().flops, sum.flops);
  EXPECT_EQ(chain.cost().bytes, sum.bytes);
  Graph graph(device());
  chain.append_to(graph);
  EXPECT_EQ(graph.cost().flops, sum.flops);
}

TEST_P(StepChain, lets_only_kernels_that_wait_start_early) {
  Buffer<int> x = buffer<int>({1, 0});
  Chain chain(device(), {.elsewhere = true});
  const auto add_affine = [&] {
    chain.add(Part::product, "plain", affine, Grid{},
              {.x = x.data(), .count = 1, .factor = 2, .summand = 0});
  };
  add_affine();
  add_affine();
  Graph plain(device());
  chain.append_to(plain);
  EXPECT_THAT(to_json(plain), Not(HasSubstr("programmatic")));
  chain.add(Part::product, "waits", consume, Grid{}, {.to = x.data() + 1, .from = x.data()});
  Graph early(device());
  chain.append_to(early);
  EXPECT_THAT(to_json(early), HasSubstr("programmatic"));
}

}  // namespace
}  // namespace attacca::test
