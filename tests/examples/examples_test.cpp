// Every example on every device. An example checks its own result against plain C++ and throws.
#include "examples/example.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

namespace attacca::examples {
namespace {

struct Named {
  const char* test_name;
  const char* device;
};
constexpr Named kDevices[] = {
    {"host_serial", "host-serial"},
    {"host_threads", "host"},
#if ATTACCA_WITH_CUDA
    {"cuda", "cuda:0"},
#endif
};

class Examples : public testing::TestWithParam<std::tuple<Named, Example>> {
 protected:
  void SetUp() override {
    const Named& named = std::get<0>(GetParam());
    if (std::string(named.test_name) == "cuda" && Device::cuda_count() == 0)
      GTEST_SKIP() << "no GPU";
    // Examples may leave files in the temporary folder: give each test one of its own.
    std::string pattern = (std::filesystem::temp_directory_path() / "attacca-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    const char* before = std::getenv("TMPDIR");
    previous_ = before ? before : "/tmp";
    ::setenv("TMPDIR", pattern.c_str(), 1);
  }
  void TearDown() override {
    if (folder_.empty()) return;
    ::setenv("TMPDIR", previous_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  Device device() const { return Device::from_name(std::get<0>(GetParam()).device); }
  const Example& example() const { return std::get<1>(GetParam()); }

 private:
  std::filesystem::path folder_;
  std::string previous_;
};

TEST_P(Examples, RunsAndSaysWhatHappened) {
  std::ostringstream out;
  ASSERT_NO_THROW(example().run(device(), out)) << out.str();
  EXPECT_FALSE(out.str().empty());
  EXPECT_EQ(out.str().back(), '\n');
}

TEST_P(Examples, RunsASecondTime) {
  std::ostringstream out;
  example().run(device(), out);
  EXPECT_NO_THROW(example().run(device(), out));
}

TEST_P(Examples, HasAGraphToPrint) {
  const Graph graph = example().graph(device());
  EXPECT_GT(graph.node_count(), 0u);
  for (const GraphError& problem : graph.problems()) ADD_FAILURE() << problem.what();
  EXPECT_NE(to_text(graph).find(graph.name()), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, Examples,
                         testing::Combine(testing::ValuesIn(kDevices),
                                          testing::ValuesIn(all_examples())),
                         [](const testing::TestParamInfo<Examples::ParamType>& instance) {
                           return std::string(std::get<0>(instance.param).test_name) + "_" +
                                  std::get<1>(instance.param).name;
                         });

TEST(ExampleList, HasNineWithDifferentNamesAndASummaryEach) {
  std::set<std::string> names;
  for (const Example& example : all_examples()) {
    names.insert(example.name);
    EXPECT_FALSE(std::string(example.summary).empty()) << example.name;
  }
  EXPECT_EQ(names.size(), 9u);
}

}  // namespace
}  // namespace attacca::examples
