// config_cases.hpp: configurations of small models with one thing changed, for tests of what is
// read and what is refused.
#pragma once

#include <gmock/gmock.h>
#include <attacca/error.hpp>

#include "model/config.hpp"
#include "tests/model/small_folder.hpp"

namespace attacca::test {

using model::ModelConfig;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

inline json small_json(const char* architecture = "llama") {
  return config_json_of(SmallModel(architecture, false, false));
}

inline ModelConfig from_json(const json& config, const json& generation = nullptr) {
  return model::config_from_json(config.dump(), generation.is_null() ? "" : generation.dump(),
                                 "folder");
}

template <class... Parts>
void expect_refused(const char* key, const json& value, Parts... parts) {
  json config = small_json();
  config[key] = value;
  EXPECT_THAT([&] { from_json(config); },
              ThrowsMessage<BadArgument>(
                  AllOf(HasSubstr("folder/config.json"), HasSubstr(key), HasSubstr(parts)...)))
      << key << " " << value;
}

/// A GGUF file of a small model with one more value.
struct SmallGguf {
  std::string text;
  formats::GgufFile file;
  template <class T>
  SmallGguf(const SmallModel& small, const char* key, const T& value)
      : text(text_with(small, key, value)),
        file(formats::GgufFile::parse(bytes_of(text), "test.gguf")) {}
  template <class T>
  static std::string text_with(const SmallModel& small, const char* key, const T& value) {
    formats::GgufWriter writer = small.writer();
    writer.set(key, value);
    return text_of(writer);
  }
};

template <class T, class... Parts>
void expect_gguf_refused(const char* key, const T& value, Parts... parts) {
  EXPECT_THAT(
      [&] {
        model::config_from_gguf(SmallGguf(SmallModel("qwen2", true, false), key, value).file);
      },
      ThrowsMessage<BadArgument>(AllOf(HasSubstr("test.gguf"), HasSubstr(parts)...)))
      << key;
}

}  // namespace attacca::test
