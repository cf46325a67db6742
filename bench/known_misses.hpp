// known_misses.hpp: reads known_misses.json, the gates that are known to be missed, each with its
// reason. gates.hpp decides what follows from an entry.
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
  nlohmann::ordered_json params;  // the row's params must contain these
  std::string reason;
  std::string since;  // the commit of the first result that showed it

  /// Whether the entry is about `other`, a row of this benchmark on this device.
  bool covers(const Row& other) const;
};

/// Throws attacca::Error that names the file, the entry and the wrong field.
std::vector<KnownMiss> read_known_misses(const std::filesystem::path& file);

/// A param as people read it: texts without quotes.
std::string text_of(const nlohmann::ordered_json& value);
/// "decode step, shape llama-8b, batch 64"
std::string label_of(const std::string& row, const nlohmann::ordered_json& params);

}  // namespace bench
