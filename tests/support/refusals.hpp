// refusals.hpp: checks a graph's refusal: the rule, the node, and a message that names the node and
// the remedy.
#pragma once

#include <gtest/gtest.h>
#include <attacca/exec.hpp>

#include <string>

namespace attacca::test {

/// The expected refusal of a graph. The message must contain `remedy`.
struct Expected {
  Rule rule;
  std::string node;
  std::string remedy;
};

inline void expect_error(const GraphError& error, const Expected& expected) {
  EXPECT_EQ(error.rule(), expected.rule) << rule_name(error.rule()) << ": " << error.what();
  EXPECT_EQ(error.node(), expected.node);
  const std::string message = error.what();
  EXPECT_NE(message.find("'" + expected.node + "'"), std::string::npos) << message;
  EXPECT_NE(message.find(expected.remedy), std::string::npos) << message;
}

/// Expects `make` to throw a GraphError.
template <class Make>
void expect_throws(Make make, const Expected& expected) {
  try {
    make();
    FAIL() << "not refused: " << rule_name(expected.rule);
  } catch (const GraphError& error) {
    expect_error(error, expected);
  }
}

/// Expects `make` to throw a BadArgument that says `words`.
template <class Make>
void expect_bad(Make make, const std::string& words) {
  try {
    make();
    FAIL() << "not refused: " << words;
  } catch (const BadArgument& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

inline void expect_refused(const Graph& graph, const Expected& expected) {
  expect_throws([&] { (void)graph.instantiate(); }, expected);
  ASSERT_FALSE(graph.problems().empty());
  EXPECT_EQ(graph.problems().front().rule(), expected.rule);
}
inline void expect_refused_for_device(const Graph& graph, const Expected& expected) {
  expect_throws([&] { (void)graph.instantiate_for_device(); }, expected);
  ASSERT_FALSE(graph.device_problems().empty());
  EXPECT_EQ(graph.device_problems().front().rule(), expected.rule);
}

}  // namespace attacca::test
