// The smallest program that uses an installed attacca::llm: it prints how the embedded model goes
// on from a text, and after how many tokens.
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
