// gguf.hpp: reads GGUF files, version 3, little endian: metadata and tensors, as views of the
// bytes. Every count, length and offset is checked against the file's bytes before it is used. What
// the metadata means is up to model/ and text/.
#pragma once

#include <bit>
#include <concepts>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/mapped_file.hpp"
#include "formats/tensor.hpp"

namespace attacca::formats {

static_assert(std::endian::native == std::endian::little, "model files are read as they lie");

/// The types of metadata, with their numbers in the file.
enum class GgufType : std::uint32_t {
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  float32,
  boolean,
  string,
  array,
  uint64,
  int64,
  float64,
};
const char* type_name(GgufType type);

/// A value of the metadata, as a view of its bytes.
struct GgufValue {
  GgufType type = GgufType::uint8;  // for an array, of its elements
  bool is_array = false;
  std::uint64_t count = 1;  // of elements
  std::span<const std::byte> bytes =
      {};  // a string's own; an array's strings each after their length

  /// "uint32", "array of string"
  std::string type_text() const;
  /// "42", "true", "'llama'", "49152 elements"
  std::string text() const;
  /// The value as a T: any integer type that holds it, float or double, bool, std::string_view,
  /// std::string, or a std::vector of one of these. None if the value does not fit a T.
  template <class T>
  std::optional<T> as() const;
};

class GgufFile {
 public:
  /// Maps the file and reads its header: all that comes before the tensors' data. Throws
  /// BadArgument with the offset and the field.
  static GgufFile open(const std::filesystem::path& path);
  /// The same for bytes in memory. Messages call them `name`. REQUIRES: the bytes outlive the
  /// result.
  static GgufFile parse(std::span<const std::byte> bytes, std::string name);

  /// In the file's order.
  const std::vector<std::pair<std::string_view, GgufValue>>& metadata() const { return metadata_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::uint64_t alignment() const { return alignment_; }
  const std::string& name() const { return name_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  const GgufValue* value(std::string_view key) const;
  const Tensor* tensor(std::string_view name) const;

  /// None if there is no such key. Throws BadArgument if its value is no T.
  template <class T>
  std::optional<T> find(std::string_view key) const {
    const GgufValue* found = value(key);
    if (!found) return std::nullopt;
    std::optional<T> result = found->as<T>();
    if (!result) refuse_type(key, *found, wanted<T>());
    return result;
  }
  /// As `find`, but also throws if there is no such key.
  template <class T>
  T get(std::string_view key) const {
    std::optional<T> result = find<T>(key);
    if (!result) refuse_missing(key, wanted<T>());
    return *std::move(result);
  }

 private:
  template <class T>
  static std::string wanted();
  [[noreturn]] void refuse_type(std::string_view key, const GgufValue& found,
                                const std::string& wanted) const;
  [[noreturn]] void refuse_missing(std::string_view key, const std::string& wanted) const;
  void read();

  std::string name_;
  MappedFile file_;                   // empty if `parse` got the bytes
  std::span<const std::byte> bytes_;  // keys and values point into these
  std::uint64_t alignment_ = 32;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string_view, std::size_t> value_index_;
  std::map<std::string_view, std::size_t> tensor_index_;
};

// Below: conversions of stored values to the type that is asked for.

namespace gguf_detail {

template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};

template <class T>
inline constexpr bool kIsText = std::same_as<T, std::string> || std::same_as<T, std::string_view>;

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// A number of the file as a T; none if it does not fit. Only a double may lose digits.
template <class T, class Stored>
std::optional<T> fit(const std::byte* from) {
  const Stored stored = load<Stored>(from);
  if constexpr (std::integral<T> && std::integral<Stored>) {
    return std::in_range<T>(stored) ? std::optional<T>(static_cast<T>(stored)) : std::nullopt;
  } else if constexpr (std::floating_point<T> && std::floating_point<Stored>) {
    return static_cast<T>(stored);
  } else {
    return std::nullopt;
  }
}

template <class T>
std::optional<T> scalar(GgufType type, const std::byte* from) {
  if constexpr (std::same_as<T, bool>) {
    return type == GgufType::boolean ? std::optional<bool>(load<std::uint8_t>(from) != 0)
                                     : std::nullopt;
  } else {
    switch (type) {
      case GgufType::uint8:
        return fit<T, std::uint8_t>(from);
      case GgufType::int8:
        return fit<T, std::int8_t>(from);
      case GgufType::uint16:
        return fit<T, std::uint16_t>(from);
      case GgufType::int16:
        return fit<T, std::int16_t>(from);
      case GgufType::uint32:
        return fit<T, std::uint32_t>(from);
      case GgufType::int32:
        return fit<T, std::int32_t>(from);
      case GgufType::uint64:
        return fit<T, std::uint64_t>(from);
      case GgufType::int64:
        return fit<T, std::int64_t>(from);
      case GgufType::float32:
        return fit<T, float>(from);
      case GgufType::float64:
        return fit<T, double>(from);
      default:
        return std::nullopt;
    }
  }
}

/// Bytes of one value; 0 for strings and arrays, whose size varies.
constexpr std::uint64_t size_of(GgufType type) {
  constexpr std::uint8_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[static_cast<std::uint32_t>(type)];
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace gguf_detail

template <class T>
std::optional<T> GgufValue::as() const {
  using namespace gguf_detail;
  if constexpr (is_vector<T>::value) {
    using Element = typename T::value_type;
    if (!is_array || kIsText<Element> != (type == GgufType::string)) return std::nullopt;
    T result;
    result.reserve(count);
    if constexpr (kIsText<Element>) {
      std::span<const std::byte> left = bytes;
      for (std::uint64_t index = 0; index < count; ++index) {
        const auto length = load<std::uint64_t>(left.data());
        result.emplace_back(text_of(left.subspan(sizeof length, length)));
        left = left.subspan(sizeof length + length);
      }
    } else {
      for (std::uint64_t index = 0; index < count; ++index) {
        const std::optional<Element> element =
            scalar<Element>(type, bytes.data() + index * size_of(type));
        if (!element) return std::nullopt;
        result.push_back(*element);
      }
    }
    return result;
  } else if constexpr (kIsText<T>) {
    if (is_array || type != GgufType::string) return std::nullopt;
    return T(text_of(bytes));
  } else {
    if (is_array) return std::nullopt;
    return scalar<T>(type, bytes.data());
  }
}

template <class T>
std::string GgufFile::wanted() {
  if constexpr (gguf_detail::is_vector<T>::value)
    return "array of " + wanted<typename T::value_type>();
  else if constexpr (gguf_detail::kIsText<T>)
    return "string";
  else if constexpr (std::same_as<T, bool>)
    return "boolean";
  else if constexpr (std::floating_point<T>)
    return "float";
  else
    return (std::unsigned_integral<T> ? "uint" : "int") + std::to_string(8 * sizeof(T));
}

}  // namespace attacca::formats
