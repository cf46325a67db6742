// resident_loop.cpp: the graphs of the resident scheduler's loop: how they are built, explained,
// and exchanged for those of other step sizes. What goes to and fro while it runs is in
// resident_scheduler.cpp.
#include <attacca/loop.hpp>

#include <optional>
#include <utility>

#include "engine/coverage.hpp"
#include "engine/resident_mail.hpp"
#include "engine/resident_ranks.hpp"
#include "engine/resident_scheduler.hpp"
#include "graph/marks.hpp"

namespace attacca::engine {

namespace {

constexpr const char* kLoopName = "resident scheduler";

/// The kernels of the loop tell a Tracer more than their nodes would.
resident::LoopSites loop_sites(const Device& device) {
  const std::shared_ptr<graph::Marks> marks = graph::marks_of(device);
  if (!marks) return {};
  const auto site = [&](const char* name) {
    return marks->add({.name = name, .graph = kLoopName, .is_range = true});
  };
  return {site("turn"), site("commit"), site("plan")};
}

}  // namespace

SwitchLoop ResidentScheduler::passes(const ResidentMail& mail, const schedule::Limits& limits,
                                     const formats::Progress& progress) const {
  const Device& device = options_.device;
  const bool is_cuda = device.is_cuda();
  const resident::Letters letters{letters_.data(), prompts_.data(), stop_.data(), bias_.data(),
                                  masks_sent_.data()};
  const resident::PlanArgs plan{.loop = mail.loop_state.data(),
                                .letters = letters,
                                .slots = runner_->slots().writable(),
                                .launch = mail.launch.data(),
                                .orders = mail.loop_orders,
                                .news = mail.loop_news,
                                .tops = mail.loop_tops,
                                .board = mail.board.data(),
                                .records = records_,
                                .sites = loop_sites(device)};
  const resident::TurnArgs turn{.loop = mail.loop_state.data(),
                                .planned = schedule::bind_plan(limits, mail.plan_memory.data()),
                                .running = runner_->device_plan(),
                                .sampled = runner_->sampled().data(),
                                .saved = mail.sampled.data(),
                                .letters = letters,
                                .slots = runner_->slots().writable(),
                                .orders = mail.loop_orders,
                                .news = mail.loop_news,
                                .board = mail.board.data(),
                                .graph = {},
                                .again = {}};
  StepArms arms = step_arms(*runner_, limits, progress);
  std::optional<resident::SendPlanArgs> send;
  if (post_) send = post_->sending(mail.loop_state.data(), turn.planned);
  const auto planning = [plan, is_cuda](bool is_first) -> Graph::Fill {
    resident::PlanArgs args = plan;
    args.is_first = is_first;
    return [args, is_cuda](Graph& graph) {
      graph.kernel(resident::plan(), grid_of(args, is_cuda), args);
    };
  };
  return SwitchLoop(
      device, kLoopName,
      {.lead =
           [turn, send, is_cuda](Graph& pass, Condition again, Condition step) {
             resident::TurnArgs args = turn;
             args.again = again;
             args.graph = step;
             const auto turned = pass.kernel(resident::turn(), grid_of(args, is_cuda), args);
             if (!send) return;
             resident::SendPlanArgs sending = *send;
             sending.again = again;
             sending.graph = step;
             pass.kernel(resident::send_plan(), grid_of(sending, is_cuda), sending).after(turned);
           },
       .arms = std::move(arms.fills),
       .beside = planning(false),
       // With ranks, `send_plan` may end the loop behind a pass with a step.
       .next = send ? nullptr : &turn.planned.counts->graph,
       .before = planning(true),
       .behind = [&mail](Graph& graph) { mail.rehearsal.add_to(graph, mail.loop_state.data()); },
       .arm_names = std::move(arms.names)});
}

std::unique_ptr<SwitchLoopExec> ResidentScheduler::build_loop(
    const ResidentMail& mail, const schedule::Limits& limits,
    const formats::Progress& progress) const {
  return std::make_unique<SwitchLoopExec>(
      passes(mail, limits, progress).instantiate(loop_form(options_.resident_loop)));
}

std::string ResidentScheduler::explain(const schedule::Limits& limits) {
  std::shared_ptr<ResidentMail> mail;
  {
    const std::lock_guard lock(offer_mutex_);
    mail = mail_;
  }
  LoopPlan plan = passes(*mail, limits, {}).plan();
  plan.chosen = loop_form(options_.resident_loop);
  return plan.explain();
}

void ResidentScheduler::offer(const schedule::Limits& limits) {
  require_graphs(limits, options_.graphs);
  Offer offer{.limits = limits, .mail = {}, .loop = {}};
  {
    const std::lock_guard lock(offer_mutex_);
    offer.mail = mail_;
  }
  offer.loop = build_loop(*offer.mail, limits);
  const std::lock_guard lock(offer_mutex_);
  offered_ = std::move(offer);
  has_offer_ = true;
}

/// REQUIRES: the loop has ended. Then no step is planned and none is to be committed, so only the
/// next plan needs the new sizes.
void ResidentScheduler::take_offered_loop() {
  Offer offer;
  {
    const std::lock_guard lock(offer_mutex_);
    offer = std::exchange(offered_, {});
    has_offer_ = false;
  }
  // After a failure the mail is another one, and a loop for the old one is of no use.
  if (offer.mail != mail_) offer.loop = build_loop(*mail_, offer.limits);
  resident::LoopState loop = mail_->loop_state.read().front();
  for (schedule::Limits* limits : {&limits_, &loop.state.limits}) {
    limits->decode_sizes = offer.limits.decode_sizes;
    limits->mixed_sizes = offer.limits.mixed_sizes;
  }
  mail_->loop_state.write({&loop, 1});
  mail_->loop = std::move(offer.loop);
}

ResidentScheduler::GraphBytes ResidentScheduler::graph_bytes() const {
  return {mail_->loop->memory().host_bytes, graph_device_bytes_};
}

}  // namespace attacca::engine
