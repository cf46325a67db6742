// limits.hpp: how large schemas, regular expressions and their automata may be. No schema may take
// minutes or gigabytes, so what passes a limit is refused with a message that names it.
#pragma once

#include <attacca/error.hpp>
#include <cstddef>
#include <cstdint>

namespace attacca::grammar {

inline constexpr std::size_t kMostSchemaBytes = std::size_t{1} << 18;
inline constexpr int kMostSchemaNesting = 64;
inline constexpr std::size_t kMostKeys = 2048;  // of one object of a schema
/// $ref, allOf, anyOf and oneOf inside each other, before any text is written.
inline constexpr int kMostApplications = 64;
inline constexpr std::size_t kMostAlternatives = 256;  // after anyOf and oneOf are multiplied out
inline constexpr std::size_t kMostEnumValues = 4096;   // of one enum
inline constexpr std::size_t kMostRules = 8192;        // different subschemas
inline constexpr std::uint32_t kMostLength = 16384;    // minLength, maxLength, minItems, ...
inline constexpr std::uint32_t kMostDivisor = 1000;    // multipleOf
inline constexpr std::size_t kMostRegexBytes = 8192;
inline constexpr int kMostRegexNesting = 64;
inline constexpr std::uint32_t kMostRepeats = 1000;  // m and n of {m,n}
inline constexpr std::size_t kMostNfaStates = 200'000;
inline constexpr std::size_t kMostDfaStates = 50'000;
inline constexpr std::size_t kMostDfaEdges = 1'000'000;
inline constexpr std::size_t kMostGrammarStates = 200'000;
inline constexpr std::uint64_t kMostWork = 20'000'000;  // of one grammar; about a second

/// Thrown past a limit. The compiler of schemas adds the place.
class TooLarge : public BadArgument {
 public:
  using BadArgument::BadArgument;
};

/// Counts what compiling one grammar costs, in visits of edges and states.
class Budget {
 public:
  explicit Budget(std::uint64_t most = kMostWork) : left_(most) {}

  void spend(std::uint64_t work) {
    if (work > left_) throw TooLarge("its automaton takes too much work to build; simplify it");
    left_ -= work;
  }

 private:
  std::uint64_t left_;
};

}  // namespace attacca::grammar
