// engine.cpp: llm::Engine, the public face of EngineCore.
#include <attacca/llm.hpp>

#include "driver/step_turns.hpp"
#include "engine/engine_core.hpp"
#include "engine/ranked.hpp"

namespace attacca::llm {

std::shared_ptr<StepTurns> make_step_turns() { return std::make_shared<StepTurns>(); }

Engine::Engine(const Model& model, const EngineOptions& options, const Progress& progress)
    : core_(std::make_unique<detail::EngineCore>(model.data_, options, progress)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Ticket Engine::submit(Request request) { return Ticket(core_->submit(request)); }
Reply Engine::generate(const Request& request) { return core_->generate(request); }
std::vector<Reply> Engine::generate(std::span<const Request> requests) {
  return core_->generate(requests);
}
std::vector<TokenLogprob> Engine::score(std::span<const std::int32_t> tokens) {
  return core_->score(tokens);
}
void Engine::wait_until_idle() const { core_->wait_until_idle(); }
const EngineOptions& Engine::options() const { return core_->options(); }
EngineMemory Engine::memory() const { return core_->memory(); }
EngineStats Engine::stats() const { return core_->stats(); }
std::size_t Engine::longest_sequence() const { return core_->longest_sequence(); }
std::vector<GraphCoverage> Engine::coverage() const { return core_->coverage(); }
std::string Engine::explain_loop() const { return core_->explain_loop(); }
std::string Engine::explain_steps() const { return core_->explain_steps(); }
StepSizes Engine::sizes() const { return core_->sizes(); }
void Engine::change_sizes(const StepSizes& sizes) { core_->change_sizes(sizes); }
std::vector<Product> Engine::products() const { return core_->products(); }
std::vector<StepRecord> Engine::records(std::size_t most) const { return core_->records(most); }
std::vector<device::Record> Engine::device_records() const { return core_->device_records(); }

void follow(const Model& model, const EngineOptions& options, const Progress& progress) {
  engine::follow(*model.data_, options, progress);
}

}  // namespace attacca::llm
