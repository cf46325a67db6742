// Tests of chat templates against jinja2, which made fixtures/chat/cases.json (see
// make_chat_cases.py): published templates with whole conversations, and small templates for each
// feature of the language.
#include <gtest/gtest.h>
#include <attacca/error.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "text/chat/chat_options.hpp"
#include "text/chat/chat_template.hpp"

namespace attacca::text {
namespace {

using nlohmann::ordered_json;

const std::filesystem::path kFolder = "tests/text/fixtures/chat";
const std::filesystem::path kQwen = "../shared/fixtures/tokenizers/qwen2.5/tokenizer_config.json";

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << "cannot read " << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

const ordered_json& cases() {
  static const ordered_json all = ordered_json::parse(read(kFolder / "cases.json"));
  return all;
}

ChatOptions options_of(const ordered_json& recorded) {
  ChatOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.add_generation_prompt = recorded.value("add_generation_prompt", false);
  options.now = std::chrono::system_clock::from_time_t(1'721'995'200);  // 26 July 2024, noon UTC
  const std::string conversation = recorded.value("conversation", "");
  if (conversation == "tools" || conversation == "tool calls") options.tools = cases()["tools"];
  return options;
}

/// The output in the fixture's form: null if rendering was refused.
ordered_json rendered(const ChatTemplate& source, const ordered_json& messages,
                      const ordered_json& recorded) {
  try {
    return source.render(messages, options_of(recorded)).text;
  } catch (const BadArgument&) {
    return nullptr;
  }
}

void compare_published(const std::string& name, const ChatTemplate& source) {
  int compared = 0;
  for (const ordered_json& one : cases()["published"]) {
    if (one["template"] != name) continue;
    const std::string conversation = one["conversation"];
    EXPECT_EQ(rendered(source, cases()["conversations"][conversation], one), one["text"])
        << name << ", conversation '" << conversation << "'";
    ++compared;
  }
  EXPECT_GT(compared, 0) << name;
}

TEST(ChatTemplate, published_templates_render_as_with_jinja2) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".jinja") names.insert(entry.path().filename());
  EXPECT_GE(names.size(), 8u);
  for (const std::string& name : names)
    compare_published(name, ChatTemplate(read(kFolder / name), name));
}

TEST(ChatTemplate, the_qwen_template_renders_as_with_jinja2) {
  if (!std::filesystem::exists(kQwen)) GTEST_SKIP() << kQwen << " is not here";
  compare_published("qwen2.5", ChatTemplate(ordered_json::parse(read(kQwen))["chat_template"]));
}

TEST(ChatTemplate, the_language_means_what_it_means_to_jinja2) {
  for (const ordered_json& one : cases()["language"]) {
    ordered_json text = nullptr;
    std::string why;
    ChatOptions options = options_of(one);
    options.variables = cases()["variables"];
    try {
      text = ChatTemplate(one["template"]).render(ordered_json::array(), options).text;
    } catch (const BadArgument& error) {
      why = error.what();
    }
    EXPECT_EQ(text, one["text"]) << one["template"] << '\n' << why;
  }
}

TEST(ChatTemplate, a_template_can_be_copied_and_rendered_again) {
  const ChatTemplate first("{{ messages[0].content }}{{ bos_token }}");
  const ChatTemplate copy = first;  // NOLINT: the copy is what is tested
  const ordered_json messages = ordered_json::parse(R"([{"role": "user", "content": "hi"}])");
  ChatOptions options;
  options.bos_token = "<s>";
  EXPECT_EQ(copy.render(messages, options).text, "hi<s>");
  EXPECT_EQ(first.render(messages, options).text, "hi<s>");
  EXPECT_EQ(first.source(), "{{ messages[0].content }}{{ bos_token }}");
}

TEST(ChatTemplate, further_variables_reach_the_template) {
  ChatOptions options;
  options.variables = ordered_json::parse(R"({"enable_thinking": false, "documents": ["a"]})");
  EXPECT_EQ(ChatTemplate("{{ enable_thinking }} {{ documents }}")
                .render(ordered_json::array(), options)
                .text,
            "False ['a']");
  options.variables = ordered_json::parse(R"({"messages": 1})");
  EXPECT_THROW(ChatTemplate("").render(ordered_json::array(), options), BadArgument);
  options.variables = ordered_json::array();
  EXPECT_THROW(ChatTemplate("").render(ordered_json::array(), options), BadArgument);
}

}  // namespace
}  // namespace attacca::text
