// prompts.cpp: draws words that most tokenizers have as one token each.
#include "serve/prompts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "serve/load.hpp"

namespace bench::serve {

namespace {

constexpr auto kWords = std::to_array<std::string_view>(
    {"the",  "little", "girl",  "boy",  "dog",  "cat",  "tree", "house", "ball",  "big",  "happy",
     "day",  "park",   "play",  "with", "and",  "was",  "very", "went",  "saw",   "said", "mom",
     "dad",  "friend", "water", "sun",  "bird", "fish", "red",  "blue",  "green", "box",  "toy",
     "car",  "good",   "new",   "old",  "time", "name", "home", "food",  "eat",   "run",  "walk",
     "look", "find",   "make",  "help", "want", "like", "love", "see",   "take",  "give", "tell",
     "long", "story",  "night", "bed",  "book", "hand", "eyes", "smile", "door"});

/// Seeds of neighbouring requests must have nothing in common.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t bits = seed + 0x9E3779B97F4A7C15 * (index + 1);  // splitmix64
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

constexpr std::uint64_t kShared = ~std::uint64_t{0} - 1;  // the index of the shared beginning

}  // namespace

TokensOfWords TokensOfWords::through(std::size_t words, std::size_t tokens, std::size_t more_words,
                                     std::size_t more_tokens) {
  if (more_words <= words || more_tokens <= tokens) return {};
  TokensOfWords measured;
  measured.per_word =
      static_cast<double>(more_tokens - tokens) / static_cast<double>(more_words - words);
  measured.around = static_cast<double>(tokens) - measured.per_word * static_cast<double>(words);
  return measured;
}

std::size_t TokensOfWords::words_of(unsigned tokens) const {
  return static_cast<std::size_t>(std::max(1.0, std::round((tokens - around) / per_word)));
}

std::string random_words(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::string text;
  for (std::size_t at = 0; at < count; ++at) {
    if (at > 0) text += ' ';
    text += kWords[random.below(kWords.size())];
  }
  return text;
}

Prompts::Prompts(std::uint64_t seed, unsigned shared_tokens, TokensOfWords measured)
    : seed_(seed),
      measured_(measured),
      shared_words_(shared_tokens == 0 ? 0 : measured.words_of(shared_tokens)),
      shared_(random_words(mixed(seed, kShared), shared_words_)) {}

std::string Prompts::make(std::size_t index, unsigned tokens) const {
  const std::size_t words = measured_.words_of(tokens);
  if (words <= shared_words_) return random_words(mixed(seed_, kShared), words);
  const std::string own = random_words(mixed(seed_, index), words - shared_words_);
  return shared_.empty() ? own : shared_ + ' ' + own;
}

}  // namespace bench::serve
