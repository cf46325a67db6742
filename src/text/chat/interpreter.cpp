// interpreter.cpp: executes statements and macros. Expressions are in evaluate.cpp.
#include "text/chat/interpreter.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "text/chat/operators.hpp"

namespace attacca::text::chat {

/// Opens a scope for as long as it lives. If a macro was made in the scope, the scope is kept until
/// the end of the run.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& run, Scope* parent)
      : run_(run), scope_(std::make_unique<Scope>()), outer_(run.scope_) {
    scope_->parent = parent;
    run_.scope_ = scope_.get();
  }
  explicit ScopeGuard(Interpreter& run) : ScopeGuard(run, run.scope_) {}
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  ~ScopeGuard() {
    run_.scope_ = outer_;
    if (scope_->is_kept) run_.kept_scopes_.push_back(std::move(scope_));
  }

 private:
  Interpreter& run_;
  std::unique_ptr<Scope> scope_;
  Scope* outer_;
};

Interpreter::Interpreter(std::vector<std::pair<std::string, Value>> variables,
                         std::chrono::system_clock::time_point now)
    : now_(now) {
  globals_.variables = std::move(variables);
  add_functions();
}

Text Interpreter::run(const Body& body) {
  const ScopeGuard guard(*this);
  return captured(body);
}

Text Interpreter::captured(const Body& body) {
  Text text;
  Text* outer = std::exchange(out_, &text);
  try {
    execute(body);
  } catch (...) {
    out_ = outer;
    throw;
  }
  out_ = outer;
  return text;
}

Value Interpreter::look_up(const std::string& name) const {
  for (const Scope* scope = scope_; scope; scope = scope->parent)
    for (const auto& [known, value] : scope->variables)
      if (known == name) return value;
  return Value::undefined(fmt::format("'{}' is not defined", name));
}

void Interpreter::set(const std::string& name, Value value) {
  for (auto& [known, old] : scope_->variables)
    if (known == name) {
      old = std::move(value);
      return;
    }
  scope_->variables.emplace_back(name, std::move(value));
}

void Interpreter::assign(const Target& target, Value value) {
  if (!target.parts.empty()) {
    const Items items = iterate(value);
    if (items.size() != target.parts.size())
      throw Problem(fmt::format("{} values for {} variables", items.size(), target.parts.size()));
    for (std::size_t index = 0; index < items.size(); ++index)
      assign(target.parts[index], items[index]);
    return;
  }
  if (target.field.empty()) return set(target.name, std::move(value));
  Namespace* space = look_up(target.name).as_namespace();
  if (!space)
    throw Problem(fmt::format("'{}' is no namespace, so '{}' of it cannot be set", target.name,
                              target.field));
  for (auto& [field, old] : space->fields)
    if (field == target.field) {
      old = std::move(value);
      return;
    }
  space->fields.emplace_back(target.field, std::move(value));
}

Value Interpreter::filtered(Value value, const FilterCall& call) {
  const Arguments arguments = evaluate(call.arguments);
  at_ = call.at;
  budget_.spend_steps(value.cost() / 64);
  return budget_.spend_for(call.filter->apply(budget_, value, arguments));
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const Statement& statement : body) {
    const Flow flow = execute(statement);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  const Budget::Level level(budget_);
  budget_.spend_steps(1);
  at_ = statement.at;
  if (const auto* data = std::get_if<Data>(&statement.node)) {
    budget_.spend_steps(data->text.size() / 64);
    out_->append(data->text);
  } else if (const auto* output = std::get_if<Output>(&statement.node)) {
    const Value value = evaluate(*output->value);
    at_ = statement.at;
    budget_.spend_steps(value.extent().weight + value.cost() / 64);
    out_->append(to_text(value));
  } else if (const auto* branches = std::get_if<If>(&statement.node)) {
    for (const auto& [condition, body] : branches->branches)
      if (is_true(evaluate(*condition))) return execute(body);
    return execute(branches->otherwise);
  } else if (const auto* loop = std::get_if<For>(&statement.node)) {
    return run_for(*loop);
  } else if (const auto* setting = std::get_if<Set>(&statement.node)) {
    Value value = evaluate(*setting->value);
    at_ = statement.at;
    assign(setting->target, std::move(value));
  } else if (const auto* block = std::get_if<Captured>(&statement.node)) {
    Value value;
    {
      const ScopeGuard guard(*this);
      value = budget_.spend_for(Value::text(captured(block->body)));
    }
    for (const FilterCall& call : block->filters) value = filtered(std::move(value), call);
    at_ = statement.at;
    if (block->target)
      assign(*block->target, std::move(value));
    else
      out_->append(to_text(value));
  } else if (const auto* macro = std::get_if<Macro>(&statement.node)) {
    set(macro->name, callable_of(*macro));
  } else if (const auto* block_call = std::get_if<CallBlock>(&statement.node)) {
    const Value caller = callable_of(block_call->body);
    out_->append(to_text(call(std::get<Call>(block_call->call->node), &caller)));
  } else if (const auto* scoped = std::get_if<Scoped>(&statement.node)) {
    return run_scoped(*scoped);
  } else {
    return std::get<Jump>(statement.node) == Jump::leave ? Flow::leave : Flow::next;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run_scoped(const Scoped& node) {
  std::vector<Value> values;  // evaluated outside the scope, so that no variable sees another
  for (const auto& variable : node.variables) values.push_back(evaluate(*variable.second));
  const ScopeGuard guard(*this);
  for (std::size_t index = 0; index < values.size(); ++index)
    assign(node.variables[index].first, std::move(values[index]));
  return execute(node.body);
}

Interpreter::Flow Interpreter::run_for(const For& node) {
  const std::size_t at = at_;
  const Value iterable = evaluate(*node.iterable);
  at_ = at;
  const auto loop = std::make_shared<Loop>();
  loop->items = iterate(iterable);
  budget_.spend_steps(loop->items.size());
  if (node.condition)
    std::erase_if(loop->items, [&](const Value& item) {
      const ScopeGuard guard(*this);
      assign(node.target, item);
      return !is_true(evaluate(*node.condition));
    });
  loop->extent = extent_around(loop->items);
  for (; loop->index < loop->items.size(); ++loop->index) {
    const ScopeGuard guard(*this);
    at_ = at;
    assign(node.target, loop->items[loop->index]);
    set("loop", Value::loop(loop));
    if (execute(node.body) == Flow::leave) break;
  }
  if (!loop->items.empty()) return Flow::on;
  const ScopeGuard guard(*this);
  return execute(node.otherwise);
}

Value Interpreter::callable_of(const Macro& macro) {
  Scope* around = scope_;
  for (Scope* scope = around; scope; scope = scope->parent) scope->is_kept = true;
  return Value::callable(macro.name, [this, &macro, around](const Arguments& arguments) {
    return call_macro(macro, around, arguments);
  });
}

Value Interpreter::call_macro(const Macro& macro, Scope* around, const Arguments& arguments) {
  const std::size_t count = macro.parameters.size();
  if (arguments.positional.size() > count)
    throw Problem(fmt::format("the macro '{}' takes at most {} arguments, not {}", macro.name,
                              count, arguments.positional.size()));
  const ScopeGuard guard(*this, around);
  for (std::size_t index = 0; index < arguments.positional.size(); ++index)
    set(macro.parameters[index].first, arguments.positional[index]);
  for (const auto& argument : arguments.named) {
    const bool is_known =
        argument.first == "caller" ||
        std::any_of(macro.parameters.begin(), macro.parameters.end(),
                    [&](const auto& parameter) { return parameter.first == argument.first; });
    if (!is_known)
      throw Problem(
          fmt::format("the macro '{}' has no parameter '{}'", macro.name, argument.first));
    set(argument.first, argument.second);
  }
  for (std::size_t index = arguments.positional.size(); index < count; ++index) {
    const auto& [name, otherwise] = macro.parameters[index];
    if (arguments.find(name)) continue;
    set(name, otherwise ? evaluate(*otherwise)
                        : Value::undefined(
                              fmt::format("the macro's parameter '{}' was not given", name)));
  }
  return Value::text(captured(macro.body));
}

}  // namespace attacca::text::chat
