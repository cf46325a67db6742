// openai_tools.hpp: reads the tools of a chat request, which of them the reply must call, and the
// calls in its messages. tool_calls.hpp finds calls in replies.
#pragma once

#include <attacca/llm.hpp>
#include <string>
#include <vector>

#include "server/fields.hpp"
#include "server/openai_requests.hpp"
#include "server/request_error.hpp"

namespace attacca::server {

/// Whether a request has `tools`, and not an empty list of them.
bool has_tools(Fields& fields);

/// Reads `tools` and `tool_choice`. The model decides whether it calls one, unless the choice says
/// otherwise: then the reply's grammar is a call. All throw RequestError.
void read_tools(Fields& fields, const RequestBody& body, const RequestRules& rules,
                GenerationRequest& result, llm::Request& request);

/// The engine's refusal of a request's grammar. That of a call speaks of the tool that it is about.
RequestError grammar_refusal(const GenerationRequest& request, std::string message);

/// The calls of an assistant's message.
std::vector<llm::ToolCall> tool_calls_of(Fields& message);

}  // namespace attacca::server
