// Tests of the resident loop's kernels without an engine, in random workloads: requests and cancels
// arrive as orders at any moment, also while the loop ends; news are read late, and their ring is
// small; the step runs before or after the plan that stands beside it. Every request must get the
// tokens it would get alone, each once and in order.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <map>
#include <string>

#include "resident/loop_kernels.hpp"
#include "schedule/workload.hpp"
#include "support/real_threads.hpp"

namespace attacca::test {
namespace {

using device::Ring;
using device::RingReader;
using device::RingWriter;
using kernels::Sampled;
using kernels::SamplingParams;
using resident::LoopEnd;
using resident::News;
using resident::Order;

class LoopWorld {
 public:
  explicit LoopWorld(std::uint32_t seed)
      : dice_(seed),
        limits_(random_limits(dice_)),
        planned_memory_(plan_bytes(limits_) / sizeof(Line)),
        running_memory_(planned_memory_.size()),
        state_memory_(state_bytes(limits_) / sizeof(Line)),
        orders_(host_, std::bit_ceil(6 * limits_.requests + 16)),
        news_(host_, std::bit_ceil(resident::news_wanted(limits_) << dice_.from(0, 2))),
        tops_(host_, std::bit_ceil(4 * limits_.logit_rows)),
        order_writer_(orders_.writer()),
        news_reader_(news_.reader()),
        letters_(limits_.requests),
        prompts_(std::size_t{limits_.requests} * limits_.max_context),
        stop_(std::size_t{limits_.requests} * SamplingParams::kMaxStopTokens),
        bias_(std::size_t{limits_.requests} * SamplingParams::kMaxBiases),
        loop_stop_(stop_.size()),
        slot_stop_(std::size_t{limits_.slots} * SamplingParams::kMaxStopTokens),
        slot_bias_(std::size_t{limits_.slots} * SamplingParams::kMaxBiases),
        loop_params_(limits_.requests),
        slot_params_(limits_.slots),
        cached_(limits_.requests),
        masks_(limits_.requests),
        sampled_(limits_.logit_rows),
        saved_(limits_.logit_rows),
        cells_(std::size_t{limits_.pages} * limits_.page_size) {
    const Plan planned = bind_plan(limits_, planned_memory_.data());
    loop_.state = bind_state(limits_, planned, state_memory_.data());
    reset(loop_.state);
    loop_.running = bind_plan(limits_, running_memory_.data());
    loop_.sampled = saved_.data();
    loop_.cached_tokens = cached_.data();
    loop_.masks = masks_.data();
    loop_.params = loop_params_.data();
    loop_.stop = loop_stop_.data();
    const resident::Letters letters{letters_.data(), prompts_.data(), stop_.data(), bias_.data(),
                                    nullptr};
    resident::SlotWrites slots;
    slots.params = slot_params_.data();
    slots.stop = slot_stop_.data();
    slots.bias = slot_bias_.data();
    slots.vocabulary = kVocabulary;
    const device::RingRef<Order> orders = orders_.reader();
    const device::RingRef<News> news = news_.writer();
    plan_ = {.loop = &loop_,
             .letters = letters,
             .slots = slots,
             .launch = &at_launch_,
             .orders = orders,
             .news = news,
             .tops = tops_.writer(),
             .board = &board_,
             .records = {},
             .sites = {}};
    const auto cell = [](unsigned& word) {
      return attacca::Condition(reinterpret_cast<std::uint64_t>(&word),
                                attacca::detail::HandleKind::cell);
    };
    turn_ = {.loop = &loop_,
             .planned = planned,
             .running = loop_.running,
             .sampled = sampled_.data(),
             .saved = saved_.data(),
             .letters = letters,
             .slots = slots,
             .orders = orders,
             .news = news,
             .board = &board_,
             .graph = cell(graph_),
             .again = cell(again_)};
    for (std::uint32_t entry = 0; entry < limits_.requests; ++entry) free_.push_back(entry);
    for (auto& base : bases_)
      for (std::uint32_t at = 0; at < limits_.max_context; ++at)
        base.push_back(static_cast<std::int32_t>(dice_.from(1, 2)));
  }

  void run() {
    to_come_ = dice_.from(1, 24);
    while (to_come_ > 0 || !live_.empty() || is_launched_) {
      act();
      if (is_alive_)
        pass();
      else if (!is_launched_ && !live_.empty())
        launch();
    }
    require(board_.running.load(device::relaxed) == 0 &&
                board_.waiting.load(device::relaxed) == 0 &&
                board_.pages_in_use.load(device::relaxed) == 0,
            "the board of an empty loop is empty");
    require(loop_.state.spare_pages() == limits_.pages, "all pages come back");
  }

  const Statistics& statistics() const { return loop_.state.statistics; }
  std::uint64_t pauses() const { return board_.pauses.load(device::relaxed); }
  std::uint64_t launches_ = 0;
  std::uint64_t late_ = 0;  // requests that came when the loop had ended and nobody knew

 private:
  struct Expected {
    Tracked tracked;
    bool is_removed = false;
  };

  // --- the host ----------------------------------------------------------------------------

  /// Something or nothing, at any moment.
  void act() {
    while (to_come_ > 0 && !free_.empty() && dice_.one_in(2)) submit();
    if (dice_.one_in(60)) cancel_one();
    if (!dice_.one_in(stalls_ ? 40 : 3)) return;
    stalls_ = dice_.one_in(3);
    read();
  }

  void submit() {
    const auto& base = bases_[dice_.from(0, 1)];
    std::vector<std::int32_t> prompt(base.begin(),
                                     base.begin() + dice_.from(0, limits_.max_context / 2));
    while (prompt.empty() || dice_.one_in(2))
      prompt.push_back(static_cast<std::int32_t>(dice_.from(1, 2)));
    const Request request{++last_id_, static_cast<std::uint32_t>(prompt.size()),
                          dice_.from(1, limits_.max_context), dice_.one_in(6)};
    --to_come_;
    if (judge(limits_, request) != Admission::done) return;  // the host refuses it
    late_ += is_launched_ && !is_alive_;
    const std::uint32_t entry = free_.back();
    free_.pop_back();
    letters_[entry] = {.request = request, .params = {}};
    std::copy(prompt.begin(), prompt.end(), prompts_.begin() + entry * limits_.max_context);
    order({.kind = Order::Kind::admit, .entry = entry, .id = last_id_, .prompt = request.prompt});
    Expected expected{alone(request, prompt)};
    expected.tracked.entry = entry;
    live_.emplace(last_id_, std::move(expected));
  }

  void cancel_one() {
    for (auto& [id, expected] : live_) {
      if (expected.is_removed || dice_.one_in(2)) continue;
      expected.is_removed = true;
      return order({.kind = Order::Kind::cancel, .entry = expected.tracked.entry, .id = id});
    }
  }

  void order(const Order& order) {
    require(order_writer_.try_push(order), "there is room for every order");
  }

  void read() {
    for (News news; news_reader_.try_pop(news);) {
      if (news.kind == News::Kind::row) take_in_row(news);
      if (news.kind == News::Kind::cancelled && live_.contains(news.id)) release(news.id);
      if (news.kind != News::Kind::ended) continue;
      require(news.end != LoopEnd::stuck, "who has requests plans a step");
      require(!is_alive_, "a loop that says so has ended");
      is_launched_ = false;
    }
  }

  void take_in_row(const News& news) {
    const auto found = live_.find(news.id);
    require(found != live_.end(), "a row belongs to a request that has not ended");
    Tracked& t = found->second.tracked;
    require(news.entry == t.entry && news.row.position == t.next_event, "rows come in order");
    require(news.row.token == t.tokens.at(news.row.position), "tokens are those it gets alone");
    const bool is_last = ++t.next_event == t.tokens.size();
    require(news.row.ending == (!is_last  ? Ending::none
                                : t.stops ? Ending::stop_token
                                          : Ending::length),
            "a request ends as alone");
    if (is_last) release(news.id);
  }

  void release(std::uint64_t id) {
    free_.push_back(live_.at(id).tracked.entry);
    live_.erase(id);
  }

  // --- the device --------------------------------------------------------------------------

  void launch() {
    ++launches_;
    is_launched_ = is_alive_ = true;
    at_launch_.orders = order_writer_.place().own;
    plan(true);
    act();
    turn();
  }

  void pass() {
    const bool is_first = dice_.one_in(2);  // the step
    if (is_first) step();
    act();
    plan(false);
    act();
    if (!is_first) step();
    act();
    // A loop that relaunches itself has launched this graph by now, if a step ran.
    const std::uint32_t early = turn_.planned.counts->graph;
    const bool had_step = loop_.running.counts->tokens > 0;
    turn();
    require(!had_step || (again_ != 0 && graph_ == early), "a step's plan names the next graph");
  }

  void plan(bool is_first) {
    plan_.is_first = is_first;
    const std::uint64_t written = order_writer_.place().own;
    run_kernel(resident::plan(), plan_);
    if (loop_.orders.own != written) return;  // there was no room for all answers
    for (const auto& [id, expected] : live_)
      require(!expected.is_removed || !is_live(loop_.state, expected.tracked.entry, id),
              "the next plan carries a cancel out");
  }

  void turn() {
    run_kernel(resident::turn(), turn_);
    is_alive_ = again_ != 0;
    require(is_alive_ || loop_.running.counts->tokens == 0, "a loop ends without a step");
    if (!is_alive_ && dice_.one_in(2)) plan(false);  // as in a WHILE node, and without effect
  }

  template <class Args>
  void run_kernel(const Kernel<Args>& kernel, const Args& args) {
    stream_.kernel(kernel, Grid{}, args);
    stream_.synchronize();
  }

  std::uint64_t& cell(std::int32_t slot, std::int32_t position) {
    const auto at = static_cast<std::uint32_t>(position);
    const std::int32_t page =
        loop_.running.tables[static_cast<std::uint32_t>(slot) * limits_.table_stride() +
                             at / limits_.page_size];
    return cells_.at(static_cast<std::uint32_t>(page) * limits_.page_size + at % limits_.page_size);
  }

  /// The kernels of a step: keys and values are hashes of the prefix, and so is the next token.
  void step() {
    const Plan& p = loop_.running;
    const Counts counts = *p.counts;
    for (std::uint32_t at = 0; at < counts.tokens; ++at)
      if (p.token_from[at] >= 0)
        p.tokens[at] = sampled_.at(static_cast<std::uint32_t>(p.token_from[at])).token;
    for (std::uint32_t at = 0; at < counts.tokens; ++at)
      cell(p.slots[at], p.positions[at]) =
          extend(p.positions[at] == 0 ? 0 : cell(p.slots[at], p.positions[at] - 1), p.tokens[at]);
    for (std::uint32_t row = 0; row < counts.rows; ++row) {
      const std::int32_t at = p.gather[row];
      Sampled& sampled = sampled_.at(row);
      sampled = {};
      sampled.mask = SamplingParams::kAllTokens;
      sampled.token = p.row_forced[row] >= 0 ? p.row_forced[row]
                                             : next_token(cell(p.slots[at], p.positions[at]));
      if (p.row_forced[row] < 0 && sampled.token == kStopToken) sampled.ending = Ending::stop_token;
    }
  }

  const Device host_ = Device::host_serial();
  Stream stream_{host_};
  Dice dice_;
  Limits limits_;
  std::vector<Line> planned_memory_, running_memory_, state_memory_;
  Ring<Order> orders_;
  Ring<News> news_;
  Ring<Sampled> tops_;
  RingWriter<Order> order_writer_;
  RingReader<News> news_reader_;
  std::vector<resident::Letters::Letter> letters_;
  std::vector<std::int32_t> prompts_, stop_;
  std::vector<kernels::TokenBias> bias_;
  std::vector<std::int32_t> loop_stop_, slot_stop_;
  std::vector<kernels::TokenBias> slot_bias_;
  std::vector<SamplingParams> loop_params_, slot_params_;
  std::vector<std::uint32_t> cached_, masks_;
  std::vector<Sampled> sampled_, saved_;  // of the newest step, and of the one before
  std::vector<std::uint64_t> cells_;      // for each position of each page, the prefix it holds
  resident::LoopState loop_;
  resident::Board board_{};
  resident::Launch at_launch_;
  resident::PlanArgs plan_{};
  resident::TurnArgs turn_{};
  unsigned graph_ = 0, again_ = 0;
  std::vector<std::int32_t> bases_[2];
  std::vector<std::uint32_t> free_;         // entries
  std::map<std::uint64_t, Expected> live_;  // by id
  std::uint64_t last_id_ = 0;
  std::uint32_t to_come_ = 0;
  bool is_launched_ = false;  // as far as the host has read the news
  bool is_alive_ = false;
  bool stalls_ = false;  // the host reads little
};

/// More on demand: ATTACCA_SIMULATIONS=100000 tests/resident_tests
TEST(ResidentSimulation, random_workloads_end_as_if_each_request_were_alone) {
  const char* const wish = std::getenv("ATTACCA_SIMULATIONS");
  const std::uint32_t count =
      wish ? static_cast<std::uint32_t>(std::atoi(wish)) : 30000 / kSlowdown;
  Statistics sum;
  std::uint64_t pauses = 0, launches = 0, late = 0;
  for (std::uint32_t seed = 0; seed < count; ++seed) {
    try {
      LoopWorld world(seed);
      world.run();
      sum.steps += world.statistics().steps;
      sum.ahead += world.statistics().ahead;
      sum.shared += world.statistics().shared;
      sum.preemptions += world.statistics().preemptions;
      sum.finished += world.statistics().finished;
      sum.cancelled += world.statistics().cancelled;
      pauses += world.pauses();
      launches += world.launches_;
      late += world.late_;
    } catch (const std::exception& error) {
      FAIL() << "seed " << seed << ": not so: " << error.what();
    }
  }
  // The workloads are only worth something if every event happens in them often.
  for (const std::uint64_t many : {sum.ahead, sum.shared, sum.preemptions, sum.finished,
                                   sum.cancelled, pauses, launches, late})
    EXPECT_GT(many, count / 10);
}

}  // namespace
}  // namespace attacca::test
