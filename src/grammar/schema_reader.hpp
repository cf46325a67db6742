// schema_reader.hpp: reads the keywords of JSON schemas into shapes. Keywords that change which
// values are valid, and that attacca cannot follow, are refused; annotations are ignored.
#pragma once

#include <vector>

#include "grammar/shape.hpp"

namespace attacca::grammar {

class SchemaReader {
 public:
  SchemaReader(const SchemaDocument& document, Budget& budget)
      : document_(document), budget_(budget) {}

  /// A value satisfies all schemas of the conjunction if it satisfies one of the shapes. Branches
  /// of a oneOf are marked, not checked.
  std::vector<Shape> shapes_of(const Conjunction& all);

 private:
  using Shapes = std::vector<Shape>;

  Shapes apply(const Place& place, Shapes shapes);
  Shapes apply_branches(const Place& place, std::string_view keyword, const Shapes& shapes);
  Shapes apply_all_of(const Place& place, Shapes shapes);

  const SchemaDocument& document_;
  Budget& budget_;
  std::vector<Place> open_;  // the schemas being applied, each inside the one before it
};

}  // namespace attacca::grammar
