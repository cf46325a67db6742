// operators.hpp: what operators, attributes, indices and slices give.
#pragma once

#include "text/chat/syntax.hpp"
#include "text/chat/value.hpp"

namespace attacca::text::chat {

/// Of two values that are both evaluated: arithmetic, `~` and comparisons. Throws a Problem.
Value apply(Operator op, const Value& left, const Value& right);

/// object.name: a method, a field of a namespace or loop, or the value of a key.
Value attribute_of(const Value& object, const std::string& name);
/// object[index].
Value item_of(const Value& object, const Value& index);
/// A dotted path, as `map(attribute='a.b')` takes it.
Value path_of(const Value& object, const Value& path);
/// Each bound is none where the slice leaves it out.
Value slice_of(const Value& object, const Value& begin, const Value& end, const Value& step);

}  // namespace attacca::text::chat
