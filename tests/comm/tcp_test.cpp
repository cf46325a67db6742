// Tests of processes that TCP joins: how they find each other, and messages in a stream of bytes.
// The ranks are threads here, each with sockets of its own.
#include <gmock/gmock.h>
#include <attacca/launch.hpp>

#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "comm/conformance.hpp"
#include "comm/process/wire.hpp"
#include "comm/tcp/inbox.hpp"
#include "comm/tcp/launch.hpp"
#include "comm/tcp/socket.hpp"

namespace attacca::test::tcp_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::optional<Launch> launch_of(const std::map<std::string, std::string>& variables) {
  return comm::find_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(FindLaunch, reads_the_variables_of_torchrun) {
  std::map<std::string, std::string> variables = {
      {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
  std::optional<Launch> launch = launch_of(variables);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 8);
  EXPECT_EQ(launch->local_rank, 0);
  EXPECT_EQ(launch->address, "node1");
  EXPECT_EQ(launch->port, 29500);
  variables["LOCAL_RANK"] = "2";
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  launch = launch_of(variables);
  EXPECT_EQ(launch->local_rank, 2);
  EXPECT_EQ(launch->port, 29501) << "torchrun's agent has the other one";
  variables["ATTACCA_PORT"] = "4000";
  EXPECT_EQ(launch_of(variables)->port, 4000);
  variables.erase("MASTER_PORT");
  EXPECT_FALSE(launch_of(variables)) << "others use some of these names too";
}

TEST(FindLaunch, reads_the_variables_of_srun) {
  const std::map<std::string, std::string> variables = {
      {"SLURM_PROCID", "5"},  {"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_STEP_NODELIST", "gpu[07-09]"},
      {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "1000"},      {"SLURM_STEP_ID", "2"}};
  const std::optional<Launch> launch = launch_of(variables);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->size, 6);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_EQ(launch->address, "gpu07");
  EXPECT_EQ(launch->port, 12000 + 31002 % 20000);
}

TEST(FindLaunch, names_a_value_that_makes_no_sense) {
  std::map<std::string, std::string> variables = {
      {"RANK", "8"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
  EXPECT_THAT([&] { launch_of(variables); },
              ThrowsMessage<BadArgument>(
                  HasSubstr("the variable RANK is '8'; it must be a number from 0 to 7")));
  variables["RANK"] = "1";
  variables["MASTER_PORT"] = "70000";
  EXPECT_THAT([&] { launch_of(variables); },
              ThrowsMessage<BadArgument>(HasSubstr("MASTER_PORT is '70000'")));
}

TEST(FindLaunch, finds_the_first_machine_of_a_list) {
  EXPECT_EQ(comm::first_host("node3"), "node3");
  EXPECT_EQ(comm::first_host("node3,node4"), "node3");
  EXPECT_EQ(comm::first_host("node[03-07,12],other"), "node03");
  EXPECT_EQ(comm::first_host("rack[2,5]node[1-8].x"), "rack2node1.x");
  for (const char* bad : {"", ",a", "node[1-2"})
    EXPECT_THROW(comm::first_host(bad), BadArgument) << bad;
}

/// A port that was free a moment ago.
std::uint16_t free_port() { return comm::Socket::listening("127.0.0.1", 0).port(); }

/// Runs each launch on a thread, and returns what it was told.
std::vector<std::string> told(const std::vector<Launch>& launches,
                              const std::function<void(const Group&)>& body,
                              std::chrono::milliseconds deadline) {
  std::vector<std::string> messages(launches.size());
  std::vector<std::thread> threads;
  for (std::size_t at = 0; at < launches.size(); ++at)
    threads.emplace_back([&, at] {
      try {
        body(join_tcp(launches[at], {.deadline = deadline}));
      } catch (const Error& error) {
        messages[at] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return messages;
}

TEST(Tcp, ranks_that_know_the_first_ones_address_find_each_other) {
  for (const int ranks : {1, 2, 5}) {
    std::vector<Launch> launches;
    const std::uint16_t port = free_port();
    for (int rank = 0; rank < ranks; ++rank)
      launches.push_back({.rank = rank, .size = ranks, .address = "127.0.0.1", .port = port});
    const auto all = told(
        launches,
        [](const Group& group) {
          EXPECT_EQ(group.backend(), "tcp");
          for (const ConformanceCase& conformance : kCollectives) conformance.run(group);
        },
        std::chrono::seconds(30));
    EXPECT_EQ(all, std::vector<std::string>(launches.size()));
  }
}

TEST(Tcp, a_process_that_does_not_come_is_named_to_those_that_did) {
  const std::uint16_t port = free_port();
  const auto all = told(
      {{.rank = 0, .size = 3, .address = "127.0.0.1", .port = port},
       {.rank = 2, .size = 3, .address = "127.0.0.1", .port = port}},
      [](const Group&) {}, std::chrono::seconds(2));
  EXPECT_THAT(all[0], AllOf(HasSubstr("rank 1 did not come to 127.0.0.1:"), HasSubstr(" 2 s")));
  EXPECT_EQ(all[1], all[0]);
}

TEST(Tcp, a_first_rank_that_does_not_come_is_named) {
  const auto all = told(
      {{.rank = 1, .size = 2, .address = "127.0.0.1", .port = free_port()}}, [](const Group&) {},
      std::chrono::milliseconds(100));
  EXPECT_THAT(all[0], HasSubstr("rank 0 did not answer at 127.0.0.1:"));
}

TEST(Tcp, processes_that_disagree_about_their_numbers_are_told_so) {
  std::uint16_t port = free_port();
  auto all = told(
      {{.rank = 0, .size = 2, .address = "127.0.0.1", .port = port},
       {.rank = 1, .size = 3, .address = "127.0.0.1", .port = port}},
      [](const Group&) {}, std::chrono::seconds(5));
  EXPECT_THAT(all[0], HasSubstr("rank 1 was started as one of 3 processes and rank 0 as one of 2"));
  port = free_port();
  all = told(
      {{.rank = 0, .size = 3, .address = "127.0.0.1", .port = port},
       {.rank = 1, .size = 3, .address = "127.0.0.1", .port = port},
       {.rank = 1, .size = 3, .address = "127.0.0.1", .port = port}},
      [](const Group&) {}, std::chrono::seconds(5));
  EXPECT_THAT(all[0], HasSubstr("two processes say that they are rank 1"));
}

TEST(Tcp, an_address_that_has_no_meaning_is_named) {
  EXPECT_THAT([] { join_tcp({.rank = 1, .size = 2, .address = "no such machine", .port = 1}); },
              ThrowsMessage<BadArgument>(HasSubstr("the address 'no such machine' of rank 0")));
}

/// Messages of several tags, in pieces of any size, to slots that are posted at any time.
TEST(Inbox, gives_messages_to_slots_in_the_order_of_each_tag) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    constexpr int kMessages = 20;
    std::vector<std::byte> stream;
    std::vector<std::vector<std::byte>> sent;
    for (int at = 0; at < kMessages; ++at) {
      sent.emplace_back(random() % 200, static_cast<std::byte>(at));
      comm::FrameHeader header;
      header.tag = at % 3;
      header.bytes = sent.back().size();
      const auto* bytes = reinterpret_cast<const std::byte*>(&header);
      stream.insert(stream.end(), bytes, bytes + sizeof header);
      stream.insert(stream.end(), sent.back().begin(), sent.back().end());
    }
    comm::Inbox inbox;
    std::vector<std::vector<std::byte>> received(kMessages, std::vector<std::byte>(200));
    std::vector<comm::Inbox::Slot> slots(kMessages);
    std::size_t posted = 0, fed = 0;
    while (posted < kMessages || fed < stream.size()) {
      if (posted < kMessages && random() % 8 == 0) {
        slots[posted] = {static_cast<int>(posted % 3), received[posted].data(), 200, false};
        inbox.post(slots[posted]);
        ++posted;
      }
      const std::span<std::byte> room = inbox.room();
      const std::size_t count =
          std::min({room.size(), stream.size() - fed, std::size_t{random() % 90}});
      std::memcpy(room.data(), stream.data() + fed, count);
      if (count > 0) inbox.take(count);
      fed += count;
    }
    for (std::size_t at = 0; at < kMessages; ++at) {
      EXPECT_TRUE(slots[at].is_done);
      received[at].resize(sent[at].size());
      EXPECT_EQ(received[at], sent[at]);
    }
  }
}

TEST(Inbox, refuses_what_is_no_message_and_what_does_not_fit) {
  const auto feed = [](comm::Inbox& inbox, const comm::FrameHeader& header) {
    std::memcpy(inbox.room().data(), &header, sizeof header);
    inbox.take(sizeof header);
  };
  comm::Inbox stranger, full;
  EXPECT_THAT([&] { feed(stranger, {.magic = 0x20544547}); },
              ThrowsMessage<comm::WireError>(HasSubstr("no message of attacca")));
  std::byte place[4];
  comm::Inbox::Slot slot{1, place, sizeof place, false};
  full.post(slot);
  EXPECT_THAT([&] { feed(full, {.tag = 1, .bytes = 5}); },
              ThrowsMessage<comm::WireError>(HasSubstr("5 bytes came where at most 4 fit")));
}

}  // namespace
}  // namespace attacca::test::tcp_test
