// disjoint.hpp: proves that no value satisfies two branches of a oneOf.
#pragma once

#include "grammar/schema_reader.hpp"

namespace attacca::grammar {

/// Throws BadArgument if two shapes of different branches are not proved to exclude each other.
void check_one_of(const std::vector<Shape>& shapes, SchemaReader& reader, Budget& budget);

}  // namespace attacca::grammar
