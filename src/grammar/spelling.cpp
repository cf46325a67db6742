// spelling.cpp: splits ranges of code points into sequences of ranges of bytes, and writes the
// escapes of JSON strings.
#include "grammar/spelling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "grammar/code_set.hpp"
#include "text/utf8.hpp"

namespace attacca::grammar {
namespace {

/// Adds the bytes of code points to an automaton. Equal ends of sequences are shared.
class ByteWriter {
 public:
  explicit ByteWriter(Nfa& nfa) : nfa_(nfa) {}

  void utf8(Node from, char32_t first, char32_t last, Node to) {
    for (const char32_t most : {0x7Fu, 0x7FFu, 0xFFFFu}) {
      if (first <= most && most < last) {
        utf8(from, first, most, to);
        return utf8(from, most + 1, last, to);
      }
    }
    // In each sequence of ranges, a byte's range is full if a byte before it varies.
    for (int bits = 6; bits <= 18 && last > 0x7F; bits += 6) {
      const char32_t low = (char32_t{1} << bits) - 1;
      if ((first & ~low) == (last & ~low)) continue;
      if ((first & low) != 0) {
        utf8(from, first, first | low, to);
        return utf8(from, (first | low) + 1, last, to);
      }
      if ((last & low) != low) {
        utf8(from, first, (last & ~low) - 1, to);
        return utf8(from, last & ~low, last, to);
      }
    }
    std::string begin, end;
    text::append_utf8(begin, first);
    text::append_utf8(end, last);
    for (std::size_t at = begin.size(); at-- > 1;) to = before(byte(begin[at]), byte(end[at]), to);
    nfa_.edge(from, byte(begin[0]), byte(end[0]), to);
  }

  void bytes(Node from, std::string_view text, Node to) {
    for (std::size_t at = text.size(); at-- > 1;) to = before(byte(text[at]), byte(text[at]), to);
    nfa_.edge(from, byte(text[0]), byte(text[0]), to);
  }

  /// A node that leads to `to` by one byte of the range.
  Node before(Symbol first, Symbol last, Node to) {
    const auto [at, is_new] = shared_.try_emplace({first, last, to}, 0);
    if (is_new) {
      at->second = nfa_.add();
      nfa_.edge(at->second, first, last, to);
    }
    return at->second;
  }

  static Symbol byte(char letter) { return static_cast<unsigned char>(letter); }

 private:
  Nfa& nfa_;
  std::map<std::tuple<Symbol, Symbol, Node>, Node> shared_;
};

bool needs_escape(char32_t code) { return code < 0x20 || code == '"' || code == '\\'; }

std::string escape_of(char32_t code) {
  constexpr std::string_view kLetters = "\"\\\b\f\n\r\t", kNames = "\"\\bfnrt";
  if (const std::size_t at = kLetters.find(static_cast<char>(code)); at != kLetters.npos)
    return {'\\', kNames[at]};
  return fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code));
}

/// The parts of a range that stand for themselves, and each code that needs an escape.
template <class Plain, class Escaped>
void split_for_json(char32_t first, char32_t last, const Plain& plain, const Escaped& escaped) {
  while (first <= last) {
    if (needs_escape(first)) {
      escaped(first++);
      continue;
    }
    char32_t end = first;
    while (end <= last && end <= 0x7F && !needs_escape(end)) ++end;
    if (end > 0x7F || first > 0x7F) end = last + 1;
    plain(first, end - 1);
    first = end;
  }
}

template <class Add>
Dfa spelled(const Dfa& codes, std::string_view quote, Budget& budget, const Add& add) {
  Nfa nfa;
  ByteWriter writer(nfa);
  std::vector<Node> nodes(codes.size());
  for (Node& node : nodes) node = nfa.add();
  if (!nodes.empty()) nfa.jump(nfa.bytes(nfa.start(), quote), nodes[0]);
  for (Node node = 0; node < codes.size(); ++node) {
    for (const Edge& edge : codes.edges[node]) add(writer, nodes[node], edge, nodes[edge.to]);
    if (codes.accepts[node]) nfa.jump(nfa.bytes(nodes[node], quote), nfa.accept());
  }
  return minimized(determinized(nfa, budget), budget);
}

void hex_digits(ByteWriter& writer, Nfa& nfa, Node from, std::string_view allowed, Node to) {
  for (const char letter : allowed) nfa.edge(from, writer.byte(letter), writer.byte(letter), to);
}

/// Adds every spelling of one character between two nodes.
void add_any_character(Nfa& nfa, Node from, Node to) {
  constexpr std::string_view kHex = "0123456789abcdefABCDEF";
  ByteWriter writer(nfa);
  for (const CodeSet::Range& range : CodeSet::all().ranges()) {
    split_for_json(
        range.first, range.last,
        [&](char32_t first, char32_t last) { writer.utf8(from, first, last, to); },
        [](char32_t) {});
  }
  const Node escape = nfa.add();
  nfa.edge(from, '\\', '\\', escape);
  hex_digits(writer, nfa, escape, "\"\\/bfnrt", to);
  // \uXXXX: four digits that are no surrogate, or a high and a low surrogate.
  std::array<Node, 4> digit{}, low{};
  for (Node& node : digit) node = nfa.add();
  for (Node& node : low) node = nfa.add();
  const Node after_d = nfa.add(), high_third = nfa.add(), high_fourth = nfa.add(),
             low_u = nfa.add(), low_backslash = nfa.add();
  nfa.edge(escape, 'u', 'u', digit[0]);
  hex_digits(writer, nfa, digit[0], "0123456789abcefABCEF", digit[1]);
  hex_digits(writer, nfa, digit[0], "dD", after_d);
  hex_digits(writer, nfa, digit[1], kHex, digit[2]);
  hex_digits(writer, nfa, after_d, "01234567", digit[2]);
  hex_digits(writer, nfa, digit[2], kHex, digit[3]);
  hex_digits(writer, nfa, digit[3], kHex, to);
  hex_digits(writer, nfa, after_d, "89abAB", high_third);
  hex_digits(writer, nfa, high_third, kHex, high_fourth);
  hex_digits(writer, nfa, high_fourth, kHex, low_backslash);
  nfa.edge(low_backslash, '\\', '\\', low_u);
  nfa.edge(low_u, 'u', 'u', low[0]);
  hex_digits(writer, nfa, low[0], "dD", low[1]);
  hex_digits(writer, nfa, low[1], "cdefCDEF", low[2]);
  hex_digits(writer, nfa, low[2], kHex, low[3]);
  hex_digits(writer, nfa, low[3], kHex, to);
}

}  // namespace

Dfa utf8_automaton(const Dfa& codes, Budget& budget) {
  return spelled(codes, "", budget, [](ByteWriter& writer, Node from, const Edge& edge, Node to) {
    writer.utf8(from, edge.first, edge.last, to);
  });
}

Dfa json_automaton(const Dfa& codes, Budget& budget) {
  return spelled(codes, "\"", budget, [](ByteWriter& writer, Node from, const Edge& edge, Node to) {
    split_for_json(
        edge.first, edge.last,
        [&](char32_t first, char32_t last) { writer.utf8(from, first, last, to); },
        [&](char32_t code) { writer.bytes(from, escape_of(code), to); });
  });
}

std::string json_spelling(std::string_view utf8) {
  std::string result = "\"";
  for (const char letter : utf8) {
    const auto code = static_cast<unsigned char>(letter);
    if (needs_escape(code))
      result += escape_of(code);
    else
      result += letter;
  }
  return result += '"';
}

Dfa any_string(Budget& budget) {
  Nfa nfa;
  const Node inside = nfa.bytes(nfa.start(), "\"");
  add_any_character(nfa, inside, inside);
  nfa.edge(inside, '"', '"', nfa.accept());
  return minimized(determinized(nfa, budget), budget);
}

Dfa any_character(Budget& budget) {
  Nfa nfa;
  add_any_character(nfa, nfa.start(), nfa.accept());
  return minimized(determinized(nfa, budget), budget);
}

Dfa every_text() {
  Dfa dfa;
  dfa.accepts = {true};
  dfa.edges.emplace_back();
  for (const CodeSet::Range& range : CodeSet::all().ranges())
    dfa.edges[0].push_back({range.first, range.last, 0});
  return dfa;
}

Dfa every_text_but(const std::vector<std::string>& texts, Budget& budget) {
  Nfa nfa;
  for (const std::string& text : texts) {
    Node node = nfa.start();
    for (std::string_view rest = text; !rest.empty();) {
      std::size_t length = 0;
      const char32_t code = text::first_code(rest, &length);
      const Node to = nfa.add();
      nfa.edge(node, code, code, to);
      node = to;
      rest.remove_prefix(length);
    }
    nfa.jump(node, nfa.accept());
  }
  return difference(every_text(), determinized(nfa, budget), budget);
}

}  // namespace attacca::grammar
