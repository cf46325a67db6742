// torch_peer.cpp: runs scripts/torch_decode.py and parses its lines of JSON.
#include "llm/torch_peer.hpp"

#include <fmt/core.h>

#include <sstream>

namespace bench {

using json = nlohmann::ordered_json;

namespace {

constexpr int kSamples = 11;
constexpr int kMostSeconds = 300;

json sizes_of(const attacca::model::ModelConfig& c) {
  return {{"name", c.name},
          {"vocabulary", c.vocabulary},
          {"hidden", c.hidden},
          {"layers", c.layers},
          {"heads", c.heads},
          {"kv_heads", c.kv_heads},
          {"head_size", c.head_size},
          {"feed_forward", c.feed_forward},
          {"norm_epsilon", c.norm_epsilon},
          {"rope_theta", c.rope_theta},
          {"is_tied", c.is_tied.value_or(false)},
          {"has_qk_norm", c.architecture->has_qk_norm}};
}

/// The argument of scripts/torch_decode.py.
std::string torch_request(const std::string& device, int samples, bool wants_matrix_rate,
                          const std::vector<PeerCase>& cases) {
  json request{{"device", device},
               {"samples", samples},
               {"wants_matrix_rate", wants_matrix_rate},
               {"cases", json::array()}};
  for (const PeerCase& each : cases)
    request["cases"].push_back({{"sizes", sizes_of(each.config)},
                                {"batch", each.batch},
                                {"context", each.context},
                                {"tokens", each.tokens}});
  return request.dump();
}

/// Parses the output of the script; what it could not do goes to `notes`.
PeerAnswer read_torch_answer(const std::string& lines, std::vector<std::string>& notes) {
  PeerAnswer answer;
  std::istringstream stream(lines);
  for (std::string text; std::getline(stream, text);) {
    const json line = json::parse(text, nullptr, false);
    if (!line.is_object()) continue;  // a line that a library printed
    if (line.contains("missing"))
      notes.push_back("without a peer: " + line["missing"].get<std::string>());
    if (line.contains("torch")) answer.version = "PyTorch " + line["torch"].get<std::string>();
    if (line.contains("matrix_rate")) answer.matrix_rate = line["matrix_rate"].get<double>();
    if (!line.contains("case")) continue;
    const auto at = line["case"].get<std::size_t>();
    const auto peer = line["peer"].get<std::string>();
    if (line.contains("median"))
      answer.figures.push_back({at, peer, line["median"].get<double>()});
    else
      notes.push_back(fmt::format("{}, case {}: {}", peer, at, line.value("error", "no figure")));
  }
  return answer;
}

}  // namespace

PeerAnswer ask_torch(Run& run, const std::vector<PeerCase>& cases, bool wants_matrix_rate) {
  if (!run.engine.has_peer || !run.device.is_cuda() || (cases.empty() && !wants_matrix_rate))
    return {};
  const std::string script = (source_folder() / "scripts" / "torch_decode.py").string();
  const std::string request =
      torch_request(run.device.name(), run.is_quick() ? 3 : kSamples, wants_matrix_rate, cases);
  const auto lines =
      output_of(fmt::format("timeout {} python3 '{}' '{}'", kMostSeconds, script, request));
  if (!lines) {
    run.note("without a peer: scripts/torch_decode.py failed");
    return {};
  }
  std::vector<std::string> notes;
  PeerAnswer answer = read_torch_answer(*lines, notes);
  for (std::string& note : notes) run.note(std::move(note));
  if (!answer.version.empty()) run.note("the peer: " + answer.version + ", bf16, a static cache");
  return answer;
}

}  // namespace bench
