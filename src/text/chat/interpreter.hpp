// interpreter.hpp: one run of a parsed template. Variables live in scopes: the body of a loop and
// of a macro has its own, the body of an `if` has none.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/chat/budget.hpp"
#include "text/chat/syntax.hpp"

namespace attacca::text::chat {

struct Scope {
  std::vector<std::pair<std::string, Value>> variables;
  Scope* parent = nullptr;
  bool is_kept = false;  // a macro was made inside, and may be called after the scope has ended
};

class Interpreter {
 public:
  /// `variables` are visible everywhere. Variables that the template sets shadow them.
  Interpreter(std::vector<std::pair<std::string, Value>> variables,
              std::chrono::system_clock::time_point now);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Throws a Problem; then `at` tells the place.
  Text run(const Body& body);
  /// The byte of the source that is executed.
  std::size_t at() const { return at_; }

 private:
  enum class Flow { on, leave, next };
  class ScopeGuard;
  friend struct Evaluate;

  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow run_for(const For& node);
  Flow run_scoped(const Scoped& node);
  /// The output of a body, run in a scope of its own. It may not end the loop around it.
  Text captured(const Body& body);
  Value callable_of(const Macro& macro);
  Value call_macro(const Macro& macro, Scope* around, const Arguments& arguments);
  Value filtered(Value value, const FilterCall& call);
  void assign(const Target& target, Value value);

  Value evaluate(const Expression& expression);
  Arguments evaluate(const CallArguments& arguments);
  Value call(const Call& node, const Value* caller = nullptr);
  Value look_up(const std::string& name) const;
  void set(const std::string& name, Value value);
  void add_functions();
  Value make_namespace(const Arguments& arguments);

  Budget budget_;
  std::chrono::system_clock::time_point now_;
  std::size_t at_ = 0;
  Text* out_ = nullptr;
  Scope globals_;
  Scope* scope_ = &globals_;
  std::vector<std::unique_ptr<Scope>> kept_scopes_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
};

}  // namespace attacca::text::chat
