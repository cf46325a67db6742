// functions.cpp: the functions that every template can call, such as `range` and `strftime_now`.
#include <fmt/core.h>

#include <array>
#include <ctime>

#include "text/chat/interpreter.hpp"

namespace attacca::text::chat {
namespace {

constexpr std::int64_t kMostInRange = 100'000;  // as in jinja's sandbox

Value raise(const Arguments& arguments) {
  const Bound bound = arguments.bind("raise_exception", {"message"});
  throw Problem("the template refuses this conversation: " + to_text(bound.required(0)).bytes());
}

Value range(const Arguments& arguments) {
  const Bound bound = arguments.bind("range", {"start", "stop", "step"});
  bound.required(0);
  const std::int64_t start = bound[1] ? bound.integer(0, 0) : 0;
  const std::int64_t stop = bound[1] ? bound.integer(1, 0) : bound.integer(0, 0);
  const std::int64_t step = bound.integer(2, 1);
  if (step == 0) throw Problem("the step of a 'range' is zero");
  Items items;
  for (std::int64_t number = start; step > 0 ? number < stop : number > stop;) {
    if (items.size() == kMostInRange)
      throw Problem(fmt::format("a 'range' of more than {} numbers", kMostInRange));
    items.push_back(Value::integer(number));
    if (__builtin_add_overflow(number, step, &number)) break;
  }
  return Value::list(std::move(items));
}

Value dict(const Arguments& arguments) {
  Entries entries;
  if (!arguments.positional.empty()) {
    const Dict* first = arguments.positional[0].as_dict();
    if (!first || arguments.positional.size() > 1) throw Problem("'dict' takes one mapping");
    entries = first->entries;
  }
  for (const auto& [name, value] : arguments.named) {
    const Value key = Value::text(Text(name));
    std::erase_if(entries, [&](const auto& entry) { return equal(entry.first, key); });
    entries.emplace_back(key, value);
  }
  return Value::dict(std::move(entries));
}

Value formatted_time(std::chrono::system_clock::time_point now, const Text& format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 1024> buffer{};
  // strftime returns 0 both for an empty result and for one that does not fit. A mark at the end of
  // the format tells them apart.
  const std::string marked = format.bytes() + '.';
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), marked.c_str(), &local);
  if (size == 0) throw Problem("the format of 'strftime_now' is too long");
  return Value::text(Text({buffer.data(), size - 1}, format.origin()));
}

}  // namespace

Value Interpreter::make_namespace(const Arguments& arguments) {
  const Value initial = dict(arguments);
  auto space = std::make_unique<Namespace>();
  for (const auto& [key, value] : initial.as_dict()->entries)
    space->fields.emplace_back(to_text(key).bytes(), value);
  namespaces_.push_back(std::move(space));
  return Value::space(namespaces_.back().get());
}

void Interpreter::add_functions() {
  const auto add = [this](const char* name, std::function<Value(const Arguments&)> function) {
    globals_.variables.emplace_back(name, Value::callable(name, std::move(function)));
  };
  add("raise_exception", raise);
  add("range", range);
  add("dict", dict);
  add("namespace", [this](const Arguments& arguments) { return make_namespace(arguments); });
  add("strftime_now", [this](const Arguments& arguments) {
    return formatted_time(now_, arguments.bind("strftime_now", {"format"}).text(0));
  });
}

}  // namespace attacca::text::chat
