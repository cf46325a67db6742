// gguf_writer.hpp: writes GGUF version 3 files: metadata, then tensors aligned to 32 bytes.
#pragma once

#include <bit>
#include <concepts>
#include <filesystem>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.hpp"
#include "formats/tensor.hpp"

namespace attacca::formats {

/// Keys and tensors are written in the order in which they are given. Tensors' bytes are borrowed
/// until the file is written.
class GgufWriter {
 public:
  /// A number, a bool, a text, or a vector of numbers or of strings.
  template <class T>
  void set(std::string_view key, const T& value);
  /// Copies a value of another file.
  void set(std::string_view key, const GgufValue& value);

  /// The shape is outermost first. Throws if it does not agree with the bytes.
  void add(std::string name, kernels::TensorType type, std::vector<std::uint64_t> shape,
           std::span<const std::byte> data);
  void add(std::string name, std::vector<std::uint64_t> shape, std::span<const float> data);

  /// Adds a tensor whose bytes the caller will write at the offset that `layout` gives.
  void declare(std::string name, kernels::TensorType type, std::vector<std::uint64_t> shape);

  /// A file without its tensors' bytes.
  struct Layout {
    std::string header;
    std::vector<std::uint64_t> offsets;  // in the file, of each tensor's bytes
    std::uint64_t bytes;                 // of the whole file; gaps between tensors are zeros
  };
  Layout layout() const;
  const std::vector<Tensor>& tensors() const { return tensors_; }

  /// REQUIRES: every tensor was added with its bytes.
  void write(std::ostream& out) const;
  /// Overwrites the file. Throws if it cannot be written; the old contents are lost then too.
  void write(const std::filesystem::path& path) const;

 private:
  template <class T>
  static constexpr GgufType type_of();
  static void put_text(std::string& to, std::string_view text);
  template <class T>
  static void put(std::string& to, T number) {
    to.append(reinterpret_cast<const char*>(&number), sizeof number);
  }

  std::string metadata_;  // encoded
  std::uint64_t metadata_count_ = 0;
  std::vector<Tensor> tensors_;
};

template <class T>
constexpr GgufType GgufWriter::type_of() {
  if constexpr (std::same_as<T, bool>) {
    return GgufType::boolean;
  } else if constexpr (std::floating_point<T>) {
    return sizeof(T) == sizeof(float) ? GgufType::float32 : GgufType::float64;
  } else {
    constexpr GgufType kSigned[] = {GgufType::int8, GgufType::int16, GgufType::int32,
                                    GgufType::int64};
    constexpr GgufType kUnsigned[] = {GgufType::uint8, GgufType::uint16, GgufType::uint32,
                                      GgufType::uint64};
    constexpr int kSize = std::bit_width(sizeof(T)) - 1;
    return std::signed_integral<T> ? kSigned[kSize] : kUnsigned[kSize];
  }
}

template <class T>
void GgufWriter::set(std::string_view key, const T& value) {
  put_text(metadata_, key);
  ++metadata_count_;
  if constexpr (std::convertible_to<T, std::string_view>) {
    put(metadata_, GgufType::string);
    put_text(metadata_, value);
  } else if constexpr (gguf_detail::is_vector<T>::value) {
    using Element = typename T::value_type;
    constexpr bool kHasText = std::convertible_to<Element, std::string_view>;
    put(metadata_, GgufType::array);
    if constexpr (kHasText)
      put(metadata_, GgufType::string);
    else
      put(metadata_, type_of<Element>());
    put(metadata_, std::uint64_t{value.size()});
    for (const auto& element : value) {
      if constexpr (kHasText)
        put_text(metadata_, element);
      else
        put<Element>(metadata_, element);
    }
  } else {
    put(metadata_, type_of<T>());
    put(metadata_, value);
  }
}

}  // namespace attacca::formats
