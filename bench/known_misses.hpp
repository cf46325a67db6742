// known_misses.hpp: the gates that are known to be missed, each with its reason. They stand in
// known_misses.json; what is done about one is in gates.hpp.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness.hpp"

namespace bench {

struct KnownMiss {
  std::string bench;
  std::string device;  // as results name it: "NVIDIA H200"
  std::string row;
  nlohmann::ordered_json params;  // what the row's params must hold; they may hold more
  std::string reason;
  std::string since;  // the commit of the first result that showed it

  /// Whether `other`, a row of this benchmark on this device, is meant.
  bool covers(const Row& other) const;
};

/// Throws attacca::Error with the file, the entry and the field that is wrong.
std::vector<KnownMiss> read_known_misses(const std::filesystem::path& file);

/// A param as people read it: texts without quotes.
std::string text_of(const nlohmann::ordered_json& value);
/// "decode step, shape llama-8b, batch 64"
std::string label_of(const std::string& row, const nlohmann::ordered_json& params);

}  // namespace bench
