// target.hpp: the server under load: what it serves, how its tokenizer counts, and the requests it
// is sent.
#pragma once

#include <cstdint>
#include <string>

#include "serve/load.hpp"
#include "serve/prompts.hpp"
#include "serve/transport.hpp"
#include "serve/url.hpp"

namespace bench::serve {

enum class Endpoint { chat, completions };

struct Target {
  Url url;
  Endpoint endpoint = Endpoint::chat;
  std::string model = {};
  bool ignores_eos = false;
};

/// The name of the first model in /v1/models. Throws attacca::Error that says what to do.
std::string ask_model(Transport& transport, const Url& url);

/// Measures how many tokens words are, where the server has /tokenize; else one each. Throws
/// attacca::Error if the server cannot be reached.
struct Measured {
  TokensOfWords tokens = {};
  bool is_measured = false;
};
Measured measure_words(Transport& transport, const Target& target, std::uint64_t seed);

/// A streamed completion with the usage at its end.
HttpCall completion_call(const Target& target, const std::string& prompt, unsigned output_tokens);

}  // namespace bench::serve
