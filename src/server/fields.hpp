// fields.hpp: reads the fields of a request's JSON, and refuses a wrong one by its name. A null
// counts as absent, as it does for OpenAI.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

namespace attacca::server {

/// The fields of one object. REQUIRES: the object outlives it.
class Fields {
 public:
  /// `path`: where the object is, such as "messages[1]"; empty for the body. Throws RequestError if
  /// the value is no object.
  explicit Fields(const nlohmann::json& object, std::string path = {});

  const nlohmann::json* find(const std::string& key);
  std::optional<double> number(const std::string& key, double least, double most);
  std::optional<std::int64_t> whole(const std::string& key, std::int64_t least, std::int64_t most);
  std::optional<bool> truth(const std::string& key);
  std::optional<std::string> text(const std::string& key);

  /// "messages[1].content"
  std::string place(const std::string& key) const;
  /// Throws RequestError: "'n' is 0; a whole number from 1 to 128 is expected".
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;
  /// Throws RequestError: "'audio' is not supported yet; leave it out".
  [[noreturn]] void refuse_unsupported(const std::string& key) const;
  /// Throws RequestError if the object has a field that nobody asked for.
  void require_all_known() const;

 private:
  const nlohmann::json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

/// The body of a request: a JSON object, parsed once. Cheap to copy.
class RequestBody {
 public:
  /// Throws RequestError if it is none, is nested too deeply or names a field twice.
  explicit RequestBody(std::string text);

  /// The field `model`; empty if there is none. Throws RequestError if it is no text.
  std::string model() const;
  /// All fields; that of the model counts as known. REQUIRES: a copy of the body outlives them.
  Fields fields() const;
  /// One field, with the keys of objects in their order: in schemas it matters. Throws RequestError
  /// if there are too many.
  nlohmann::ordered_json ordered(const std::string& field) const;

 private:
  std::shared_ptr<const std::string> text_;
  std::shared_ptr<const nlohmann::json> parsed_;
};

/// Throws RequestError for a value at a place: "'stop[1]' is 3; a string is expected".
[[noreturn]] void refuse_value(const std::string& place, const nlohmann::json& value,
                               const std::string& expected);

}  // namespace attacca::server
