// validator.hpp: checks values against JSON schemas the plain way: recursively, over parsed JSON,
// with PCRE2 for patterns. It shares no code with src/grammar, whose oracle it is.
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace attacca::test {

/// A regular expression of PCRE2 with UTF, matched anywhere or against the whole text.
class Pcre {
 public:
  Pcre(const std::string& pattern, bool is_whole) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    const std::uint32_t options = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX |
                                  (is_whole ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0);
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                              &error, &offset, nullptr));
    if (!code_) throw std::runtime_error("PCRE2 does not compile " + pattern);
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }

  bool matches(const std::string& text) const {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                       match_.get(), nullptr) >= 0;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

class Validator {
 public:
  using json = nlohmann::json;

  explicit Validator(const json& root) : root_(root) {}

  bool accepts(const json& value) const { return check(root_, value); }

 private:
  bool check(const json& schema, const json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (schema.contains("$ref") && !check(target(schema["$ref"]), value)) return false;
    if (schema.contains("type") && !has_type(schema["type"], value)) return false;
    if (schema.contains("const") && schema["const"] != value) return false;
    if (schema.contains("enum")) {
      bool is_found = false;
      for (const json& one : schema["enum"]) is_found = is_found || one == value;
      if (!is_found) return false;
    }
    for (const json& one : schema.value("allOf", json::array()))
      if (!check(one, value)) return false;
    if (schema.contains("anyOf") && count(schema["anyOf"], value) == 0) return false;
    if (schema.contains("oneOf") && count(schema["oneOf"], value) != 1) return false;
    if (value.is_number()) return check_number(schema, value);
    if (value.is_string()) return check_string(schema, value.get<std::string>());
    if (value.is_array()) return check_array(schema, value);
    if (value.is_object()) return check_object(schema, value);
    return true;
  }

  int count(const json& branches, const json& value) const {
    int holding = 0;
    for (const json& branch : branches) holding += check(branch, value);
    return holding;
  }

  const json& target(const std::string& reference) const {
    std::string pointer = reference.substr(1);
    for (std::size_t at; (at = pointer.find('%')) != pointer.npos;)
      pointer.replace(at, 3, 1,
                      static_cast<char>(std::stoi(pointer.substr(at + 1, 2), nullptr, 16)));
    return root_.at(json::json_pointer(pointer));
  }

  static bool has_type(const json& type, const json& value) {
    if (type.is_array()) {
      for (const json& one : type)
        if (has_type(one, value)) return true;
      return false;
    }
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    if (type == "number") return value.is_number();
    return value.is_number_integer() ||
           (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
  }

  static bool check_number(const json& schema, const json& value) {
    if (schema.contains("minimum") && value < schema["minimum"]) return false;
    if (schema.contains("maximum") && value > schema["maximum"]) return false;
    if (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) return false;
    if (schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"]) return false;
    if (!schema.contains("multipleOf")) return true;
    return std::fmod(value.get<double>(), schema["multipleOf"].get<double>()) == 0;
  }

  static bool check_string(const json& schema, const std::string& text) {
    std::size_t length = 0;
    for (const char byte : text) length += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    if (schema.contains("minLength") && length < schema["minLength"]) return false;
    if (schema.contains("maxLength") && length > schema["maxLength"]) return false;
    if (schema.contains("pattern") && !Pcre(schema["pattern"], false).matches(text)) return false;
    return !schema.contains("format") || has_format(schema["format"], text);
  }

  static bool has_format(const std::string& format, const std::string& text) {
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, read = 0;
    const auto is_date = [&](const char* from) {
      if (std::sscanf(from, "%4d-%2d-%2d%n", &year, &month, &day, &read) != 3 || read != 10)
        return false;
      const bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
      const int days[] = {31, is_leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
      return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1];
    };
    const auto is_time = [&](const std::string& from) {
      if (std::sscanf(from.c_str(), "%2d:%2d:%2d%n", &hour, &minute, &second, &read) != 3 ||
          read != 8 || hour > 23 || minute > 59 || second > 59)
        return false;
      return Pcre(R"((\.\d+)?(Z|[+-]\d\d:\d\d))", true).matches(from.substr(8));
    };
    if (format == "date") return text.size() == 10 && is_date(text.c_str());
    if (format == "time") return is_time(text);
    if (format == "date-time")
      return text.size() > 11 && is_date(text.c_str()) && text[10] == 'T' &&
             is_time(text.substr(11));
    if (format == "uuid")
      return Pcre("[[:xdigit:]]{8}-([[:xdigit:]]{4}-){3}[[:xdigit:]]{12}", true).matches(text);
    if (format == "email") return Pcre("[^@\\s]+@[^@\\s]+\\.[^@\\s]+", true).matches(text);
    if (format == "ipv4") {
      int part[4];
      if (std::sscanf(text.c_str(), "%3d.%3d.%3d.%3d%n", part, part + 1, part + 2, part + 3,
                      &read) != 4)
        return false;
      std::string again;
      for (const int one : part) {
        if (one > 255) return false;
        again += (again.empty() ? "" : ".") + std::to_string(one);
      }
      return again == text;
    }
    if (format == "hostname") return Pcre("[A-Za-z0-9.-]{1,253}", true).matches(text);
    return true;
  }

  bool check_array(const json& schema, const json& value) const {
    if (schema.contains("minItems") && value.size() < schema["minItems"]) return false;
    if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return false;
    const json prefix = schema.value("prefixItems", json::array());
    for (std::size_t at = 0; at < value.size(); ++at) {
      if (at < prefix.size()) {
        if (!check(prefix[at], value[at])) return false;
      } else if (schema.contains("items") && !check(schema["items"], value[at])) {
        return false;
      }
    }
    return true;
  }

  bool check_object(const json& schema, const json& value) const {
    if (schema.contains("minProperties") && value.size() < schema["minProperties"]) return false;
    if (schema.contains("maxProperties") && value.size() > schema["maxProperties"]) return false;
    for (const json& name : schema.value("required", json::array()))
      if (!value.contains(name.get<std::string>())) return false;
    const json properties = schema.value("properties", json::object());
    for (const auto& [key, element] : value.items()) {
      if (properties.contains(key)) {
        if (!check(properties[key], element)) return false;
      } else if (schema.contains("additionalProperties") &&
                 !check(schema["additionalProperties"], element)) {
        return false;
      }
    }
    return true;
  }

  json root_;
};

}  // namespace attacca::test
