// story.cpp: a model in ten lines. Give a .gguf file or a model folder, or nothing for the embedded
// model.
#include <attacca/llm.hpp>
#include <cstdio>

int main(int argc, char** argv) {
  const attacca::llm::Model model(argc > 1 ? argv[1] : "");
  attacca::llm::Engine engine(model);
  const attacca::llm::Reply reply = engine.generate(
      {.messages = {{"user", "Tell me a story about a fox and a lantern."}}, .max_tokens = 200});
  std::puts(reply.text.c_str());
}
