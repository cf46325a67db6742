// spelling.hpp: turns automata over code points into automata over the bytes that spell them, as
// plain UTF-8 or as JSON strings.
#pragma once

#include <string>
#include <string_view>

#include "grammar/automaton.hpp"

namespace attacca::grammar {

/// Plain UTF-8, for a regular expression that describes a whole answer.
Dfa utf8_automaton(const Dfa& codes, Budget& budget);

/// JSON strings, quotes included, in which every character has exactly one spelling: itself, or the
/// escape that JSON demands (\", \\, \b, \f, \n, \r, \t, else \u00xx in small letters). Keys and
/// strings with a pattern are written so: equal texts are equal bytes.
Dfa json_automaton(const Dfa& codes, Budget& budget);
std::string json_spelling(std::string_view utf8);

/// Any JSON string, with every escape that JSON allows.
Dfa any_string(Budget& budget);
/// One character inside a JSON string, in any spelling; a surrogate pair is one character.
Dfa any_character(Budget& budget);

/// Every text, and every text but one of `texts`, over code points.
Dfa every_text();
Dfa every_text_but(const std::vector<std::string>& texts, Budget& budget);

}  // namespace attacca::grammar
