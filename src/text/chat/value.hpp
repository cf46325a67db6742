// value.hpp: the values of a template: Python's None, bool, int, float, str, list, tuple and dict,
// and jinja's undefined, namespaces, loops and callables. Values never change once made, except
// namespaces and loops, which belong to their run. So no value can contain itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/chat/text.hpp"

namespace attacca::text::chat {

class Value;
struct Arguments;
struct Loop;
using Items = std::vector<Value>;
using Entries = std::vector<std::pair<Value, Value>>;

inline constexpr unsigned kMaxValueDepth = 100;          // bounds the stack to walk a value
inline constexpr std::size_t kMaxValueWeight = 1 << 20;  // bounds the time to walk a value
inline constexpr std::size_t kMaxItems = 1 << 18;

/// How deeply a value nests, and how many values it has. Shared values count every time.
struct Extent {
  unsigned depth = 0;
  std::size_t weight = 1;
};

struct Undefined {
  std::shared_ptr<const std::string> why;  // "'tools' is not defined"
};
struct None {};
struct List {
  Items items;
  bool is_tuple = false;
  Extent extent;
};
struct Dict {
  Entries entries;  // in the order they were made
  Extent extent;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};
/// The result of `namespace()`, the one kind of value that `set` changes.
struct Namespace {
  std::vector<std::pair<std::string, Value>> fields;
};
struct Callable {
  std::string name;
  std::function<Value(const Arguments&)> call;
  Extent extent;
};

class Value {
 public:
  using Data =
      std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>,
                   std::shared_ptr<const List>, std::shared_ptr<const Dict>, Namespace*,
                   std::shared_ptr<const Loop>, std::shared_ptr<const Callable>>;

  Value();  // undefined
  // Defined in value.cpp: compiled in every file, the variant's copies took a fifth of its time.
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();
  static Value undefined(std::string why);
  static Value none(Origin origin = Origin::author) { return {None{}, origin}; }
  static Value boolean(bool is_true, Origin origin = Origin::author) { return {is_true, origin}; }
  static Value integer(std::int64_t number, Origin origin = Origin::author) {
    return {number, origin};
  }
  static Value real(double number, Origin origin = Origin::author) { return {number, origin}; }
  static Value text(Text text);
  /// These throw a Problem if the value would nest too deeply or hold too many values.
  static Value list(Items items, Origin origin = Origin::author) {
    return sequence(std::move(items), false, origin);
  }
  static Value tuple(Items items, Origin origin = Origin::author) {
    return sequence(std::move(items), true, origin);
  }
  static Value dict(Entries entries, Origin origin = Origin::author);
  static Value space(Namespace* space) { return {space, Origin::author}; }
  static Value loop(std::shared_ptr<const Loop> loop) { return {std::move(loop), Origin::author}; }
  /// `held`: a value that the function keeps, such as the object of a method.
  static Value callable(std::string name, std::function<Value(const Arguments&)> call,
                        const Value* held = nullptr);
  /// Throws a Problem if it nests too deeply.
  static Value from_json(const nlohmann::ordered_json& json, Origin origin);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  const bool* as_boolean() const { return std::get_if<bool>(&data_); }
  const std::int64_t* as_integer() const { return std::get_if<std::int64_t>(&data_); }
  const double* as_real() const { return std::get_if<double>(&data_); }
  const Text* as_text() const { return pointee<const Text>(); }
  const List* as_list() const { return pointee<const List>(); }  // a tuple, too
  const Dict* as_dict() const { return pointee<const Dict>(); }
  const Loop* as_loop() const { return pointee<const Loop>(); }
  const Callable* as_callable() const { return pointee<const Callable>(); }
  Namespace* as_namespace() const {
    const auto* space = std::get_if<Namespace*>(&data_);
    return space ? *space : nullptr;
  }

  /// Who wrote a number or a constant, or shaped a container. A Text knows it byte by byte.
  Origin origin() const;
  Extent extent() const;
  /// "a string", for messages.
  std::string kind() const;
  /// Why an undefined value is undefined.
  std::string why() const;
  /// About how many bytes of memory the value took.
  std::size_t cost() const;

 private:
  Value(Data data, Origin origin) : data_(std::move(data)), origin_(origin) {}
  static Value sequence(Items items, bool is_tuple, Origin origin);

  template <class T>
  const T* pointee() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&data_);
    return pointer ? pointer->get() : nullptr;
  }

  Data data_;
  Origin origin_ = Origin::author;
};

/// A running `for`, as the variable `loop` shows it.
struct Loop {
  Items items;
  std::size_t index = 0;
  Extent extent;
};

/// The extent of a container of these items. Throws a Problem if it is too deep or too large.
Extent extent_around(const Items& items);

void add_item(Items& items, Value item);

bool is_true(const Value& value);
bool equal(const Value& a, const Value& b);
/// Throws a Problem if Python has no order between the two.
bool is_less(const Value& a, const Value& b);
/// `what in where`.
bool contains(const Value& where, const Value& what);

/// The items that a loop goes through. Throws a Problem if the value is no container.
Items iterate(const Value& value);

/// Prints as Python's str() and repr() do; undefined prints as nothing.
Text to_text(const Value& value);
Text to_repr(const Value& value);
std::string format_real(double number);

}  // namespace attacca::text::chat
