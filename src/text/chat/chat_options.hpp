// chat_options.hpp: what a chat template can see besides the messages. A header of its own, because
// nlohmann's full header compiles slowly.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace attacca::text {

struct ChatOptions {
  std::string bos_token;
  std::string eos_token;
  /// Ends the text with the opening of the assistant's answer.
  bool add_generation_prompt = true;
  nlohmann::ordered_json tools;  // null: there are none
  nlohmann::ordered_json
      variables;  // an object of more variables, such as enable_thinking; or null
  /// For templates that print the date; the system's clock if not given.
  std::optional<std::chrono::system_clock::time_point> now;
};

}  // namespace attacca::text
