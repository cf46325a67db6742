// print.cpp: safe names, shapes and sizes in words, and the symbols a node uses.
#include "graph/print.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "graph/uses.hpp"

namespace attacca::graph {

namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0u) == 0x80u; }

/// Bytes of the UTF-8 character at the front of `text`; 0 where there is none. Overlong forms,
/// surrogates and values past U+10FFFF are no characters.
std::size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = lead < 0x80                   ? 1
                            : lead >= 0xc2 && lead < 0xe0 ? 2
                            : lead >= 0xe0 && lead < 0xf0 ? 3
                            : lead >= 0xf0 && lead < 0xf5 ? 4
                                                          : 0;
  if (bytes < 2) return bytes;
  if (text.size() < bytes) return 0;
  if (!std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(bytes),
                   is_continuation))
    return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool is_wrong = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) ||
                        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second >= 0x90);
  return is_wrong ? 0 : bytes;
}

std::string dimensions(const Dim3& dim) {
  if (dim.z != 1) return fmt::format("{}x{}x{}", dim.x, dim.y, dim.z);
  if (dim.y != 1) return fmt::format("{}x{}", dim.x, dim.y);
  return fmt::format("{}", dim.x);
}

template <class T>
void add_once(std::vector<T>& list, T value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

}  // namespace

std::string escaped(std::string_view text, bool (*escape)(std::string& out, char character)) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0)
      out += "\uFFFD";
    else if (bytes > 1 || !escape(out, text[0]))
      out += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

std::string shape_text(const Grid& grid) {
  std::string text = fmt::format("{} block{} of {}", dimensions(grid.blocks),
                                 grid.blocks.count() == 1 ? "" : "s", dimensions(grid.threads));
  if (grid.shared_bytes != 0) text += fmt::format(", {} bytes shared", grid.shared_bytes);
  return text;
}

const char* access_name(L2Access access) {
  switch (access) {
    case L2Access::streaming:
      return "streaming";
    case L2Access::persisting:
      return "persisting";
    case L2Access::normal:
      break;
  }
  return "normal";
}

std::string quantity_text(double value, const char* unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t power = 0;
  while (value >= 999.95 && power + 1 < std::size(kPrefixes)) {
    value /= 1000;
    ++power;
  }
  return power == 0 ? fmt::format("{:.0f} {}", value, unit)
                    : fmt::format("{:.1f} {}{}", value, kPrefixes[power], unit);
}

Relations relations_of(const GraphData& data, const NodeData& node) {
  Relations relations;
  for (const Use& use : uses_of(data, node)) {
    const Symbol& symbol = data.symbols[use.symbol];
    if (symbol.kind == SymbolKind::condition)
      add_once(relations.sets, use.symbol);
    else
      add_once(symbol.kind == SymbolKind::node ? relations.updates : relations.uses, symbol.owner);
  }
  return relations;
}

const Symbol* condition_of(const GraphData& data, const ConditionalPart& part) {
  return data.symbols.find(static_cast<std::uintptr_t>(part.condition));
}

}  // namespace attacca::graph
