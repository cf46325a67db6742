// operators.hpp: applies operators, attributes, indices and slices to values. `and`, `or` and tests
// are in evaluate.cpp.
#pragma once

#include "text/chat/syntax.hpp"
#include "text/chat/value.hpp"

namespace attacca::text::chat {

/// Applies an operator that evaluates both sides: arithmetic, `~` and comparisons. Throws a
/// Problem.
Value apply(Operator op, const Value& left, const Value& right);

/// object.name: a method, a field of a namespace or loop, or the value of a key.
Value attribute_of(const Value& object, const std::string& name);
/// object[index].
Value item_of(const Value& object, const Value& index);
/// The value at a dotted path, as in `map(attribute='a.b')`.
Value path_of(const Value& object, const Value& path);
/// A bound that the slice leaves out is none.
Value slice_of(const Value& object, const Value& begin, const Value& end, const Value& step);

}  // namespace attacca::text::chat
