// relocate.hpp: finds the words of a node that may be addresses, and writes real addresses and
// handles over the stand-ins among them: when a graph is copied into another, and when it is
// instantiated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "graph/data.hpp"

namespace attacca::graph {

/// Calls `look(word, offset)` for each aligned word of a kernel's arguments. Unless the arguments
/// are const, `look` may change `word`.
template <class AnyArguments, class Look>
void each_argument(AnyArguments& args, Look look) {
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= args.size();
       at += alignof(std::uintptr_t)) {
    std::uintptr_t word;
    std::memcpy(&word, args.data() + at, sizeof word);
    look(word, at);
    if constexpr (!std::is_const_v<AnyArguments>) std::memcpy(args.data() + at, &word, sizeof word);
  }
}

/// Does the same for each word of a part that may be an address: a kernel's arguments, or the
/// pointers of a copy or fill, for which `offset` is a number.
template <class AnyPart, class Look>
void each_word(AnyPart& part, Look look) {
  const auto look_at = [&](auto& pointer, std::size_t number) {
    auto word = reinterpret_cast<std::uintptr_t>(pointer);
    look(word, number);
    if constexpr (!std::is_const_v<AnyPart>)
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(word);
  };
  if (auto* kernel = std::get_if<KernelPart>(&part)) {
    each_argument(kernel->args, look);
  } else if (auto* copy = std::get_if<CopyPart>(&part)) {
    look_at(copy->to, 0);
    look_at(copy->from, 1);
  } else if (auto* fill = std::get_if<FillPart>(&part)) {
    look_at(fill->to, 0);
  }
}

/// The real word behind a stand-in: `resolve(symbol)` gives the value of the symbol's first
/// address. Words that are no stand-ins stay as they are.
template <class Resolve>
std::uintptr_t relocated(const GraphData& data, std::uintptr_t word, const Resolve& resolve) {
  const Symbol* symbol = data.symbols.find(word);
  return symbol ? resolve(data.symbols.id_of(*symbol)) + (word - symbol->address) : word;
}

/// Relocates a kernel's arguments. The field behind the word of a condition or node says how to
/// read it; that becomes `kind`.
template <class Resolve>
void relocate_arguments(const GraphData& data, Arguments& args, attacca::detail::HandleKind kind,
                        const Resolve& resolve) {
  each_argument(args, [&](std::uintptr_t& word, std::size_t at) {
    const Symbol* symbol = data.symbols.find(word);
    if (!symbol) return;
    word = relocated(data, word, resolve);
    const std::size_t behind = at + sizeof word;
    if (symbol->kind != SymbolKind::allocation && behind + sizeof kind <= args.size())
      std::memcpy(args.data() + behind, &kind, sizeof kind);
  });
}

/// Relocates everything in a part that can be a stand-in.
template <class Resolve>
void relocate(const GraphData& data, Part& part, attacca::detail::HandleKind kind,
              const Resolve& resolve) {
  if (data.symbols.empty()) return;
  if (auto* kernel = std::get_if<KernelPart>(&part)) {
    relocate_arguments(data, kernel->args, kind, resolve);
  } else if (auto* free = std::get_if<FreePart>(&part)) {
    const auto address = reinterpret_cast<std::uintptr_t>(free->address);
    free->address = reinterpret_cast<void*>(relocated(data, address, resolve));
  } else if (auto* conditional = std::get_if<ConditionalPart>(&part)) {
    conditional->condition = relocated(data, conditional->condition, resolve);
  } else {
    each_word(part,
              [&](std::uintptr_t& word, std::size_t) { word = relocated(data, word, resolve); });
  }
}

}  // namespace attacca::graph
