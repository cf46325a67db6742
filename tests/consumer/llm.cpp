// The smallest program that uses an installed attacca::llm. It prints the embedded model's
// continuation of a text, and the number of its tokens.
#include <attacca/llm.hpp>
#include <cstdio>

int main() {
  const attacca::llm::Model model("");
  attacca::llm::Engine engine(model);
  const attacca::llm::Reply reply =
      engine.generate({.prompt = "Once upon a time", .max_tokens = 8});
  std::printf("%zu tokens:%s\n", reply.tokens.size(), reply.text.c_str());
  return 0;
}
