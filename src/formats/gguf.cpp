// gguf.cpp: reads a GGUF file from front to back. Reader keeps track of its place, so a refusal can
// name the offset, the entry and the field.
#include "formats/gguf.hpp"

#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <numeric>

#include "core/in_quotes.hpp"

namespace attacca::formats {

using gguf_detail::load;
using gguf_detail::size_of;
using kernels::TensorType;

namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint32_t kVersion = 3;
constexpr std::uint32_t kMostDimensions = 4;
constexpr std::uint64_t kMostAlignment = 1u << 20;

/// Tensor types by their numbers in the file.
constexpr std::pair<std::uint32_t, TensorType> kTensorTypes[] = {
    {0, TensorType::f32},   {1, TensorType::f16},   {2, TensorType::q4_0},
    {3, TensorType::q4_1},  {8, TensorType::q8_0},  {12, TensorType::q4_k},
    {13, TensorType::q5_k}, {14, TensorType::q6_k}, {30, TensorType::bf16}};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t left() const { return bytes_.size() - offset_; }

  /// Sets the entry that refusals name from here on: "tensor 3", and its name once it is known.
  void enter(const char* kind, std::uint64_t index) {
    kind_ = kind;
    index_ = index;
    name_ = {};
  }
  void name(std::string_view name) { name_ = name; }

  [[noreturn]] void fail(std::uint64_t offset, const char* field, const std::string& why) const {
    std::string entry;
    if (kind_) entry = fmt::format("{} {}: ", kind_, index_);
    if (!name_.empty()) entry = fmt::format("{} {} {}: ", kind_, index_, in_quotes(name_));
    throw BadArgument(fmt::format("{}: byte {}: {}{}: {}", file_, offset, entry, field, why));
  }

  std::span<const std::byte> take(std::uint64_t count, const char* field) {
    if (count > left())
      fail(offset_, field,
           fmt::format("{} bytes are needed and {} are left; the file is damaged or cut short",
                       count, left()));
    offset_ += count;
    return bytes_.subspan(offset_ - count, count);
  }

  template <class T>
  T number(const char* field) {
    return load<T>(take(sizeof(T), field).data());
  }

  std::string_view text(const char* field) {
    const auto length = number<std::uint64_t>(field);
    return gguf_detail::text_of(take(length, field));
  }

  /// Reads how many entries follow. Each must have at least `smallest` bytes.
  std::uint64_t count(std::uint64_t smallest, const char* field) {
    const std::uint64_t start = offset_;
    const auto count = number<std::uint64_t>(field);
    if (count > left() / smallest)
      fail(start, field,
           fmt::format("{} entries cannot fit in the {} bytes that are left", count, left()));
    return count;
  }

  GgufValue value() {
    const GgufType type = value_type("type");
    if (type == GgufType::array) return array();
    GgufValue value{.type = type};
    value.bytes = type == GgufType::string ? std::as_bytes(std::span<const char>(text("value")))
                                           : take(size_of(type), "value");
    check_booleans(value);
    return value;
  }

 private:
  GgufType value_type(const char* field) {
    const std::uint64_t start = offset_;
    const auto type = number<std::uint32_t>(field);
    if (type > static_cast<std::uint32_t>(GgufType::float64))
      fail(start, field, fmt::format("{} is no type; 0 (uint8) to 12 (float64) are", type));
    return static_cast<GgufType>(type);
  }

  GgufValue array() {
    const std::uint64_t type_offset = offset_;
    GgufValue value{.type = value_type("element type"), .is_array = true};
    if (value.type == GgufType::array)
      fail(type_offset, "element type", "an array of arrays is not supported");
    const bool has_text = value.type == GgufType::string;
    value.count = count(has_text ? sizeof(std::uint64_t) : size_of(value.type), "element count");
    if (has_text) {
      const std::uint64_t start = offset_;
      for (std::uint64_t index = 0; index < value.count; ++index) text("element");
      value.bytes = bytes_.subspan(start, offset_ - start);
    } else {
      value.bytes = take(value.count * size_of(value.type), "elements");
    }
    check_booleans(value);
    return value;
  }

  void check_booleans(const GgufValue& value) const {
    if (value.type != GgufType::boolean) return;
    for (const std::byte& byte : value.bytes)
      if (byte > std::byte{1})
        fail(static_cast<std::uint64_t>(&byte - bytes_.data()), "value",
             fmt::format("{} is no boolean; 0 and 1 are", std::to_integer<unsigned>(byte)));
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::uint64_t offset_ = 0;
  const char* kind_ = nullptr;
  std::uint64_t index_ = 0;
  std::string_view name_;
};

void read_magic(Reader& reader) {
  if (const auto magic = reader.number<std::uint32_t>("magic"); magic != kMagic)
    reader.fail(0, "magic", fmt::format("{:#010x} is not \"GGUF\"; this is no GGUF file", magic));
  const auto version = reader.number<std::uint32_t>("version");
  if (version == __builtin_bswap32(kVersion))
    reader.fail(4, "version", "this is a big-endian file; little-endian ones are read");
  if (version != kVersion)
    reader.fail(4, "version",
                fmt::format("{} is not supported; convert the file to version 3", version));
}

TensorType read_tensor_type(Reader& reader) {
  const std::uint64_t start = reader.offset();
  const auto number = reader.number<std::uint32_t>("type");
  std::string known;
  for (const auto& [key, type] : kTensorTypes) {
    if (key == number) return type;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", key, kernels::type_name(type));
  }
  reader.fail(start, "type", fmt::format("{} is not supported; {} are", number, known));
}

/// Where the header says that a tensor's data is.
struct Entry {
  std::string_view name;
  std::uint64_t offset_place;  // the place in the file of `offset`
  std::uint64_t offset;        // of the tensor's data, from the start of all data
};

Entry read_tensor(Reader& reader, Tensor& tensor) {
  Entry entry{};
  entry.name = reader.text("name");
  reader.name(entry.name);
  tensor.name = entry.name;
  const std::uint64_t dimensions_place = reader.offset();
  const auto dimensions = reader.number<std::uint32_t>("dimension count");
  if (dimensions == 0 || dimensions > kMostDimensions)
    reader.fail(dimensions_place, "dimension count",
                fmt::format("{} is not between 1 and {}", dimensions, kMostDimensions));
  tensor.shape.resize(dimensions);
  for (std::uint64_t& size : tensor.shape) {
    size = reader.number<std::uint64_t>("dimensions");
    if (size == 0) reader.fail(reader.offset() - sizeof size, "dimensions", "one is 0");
  }
  std::reverse(tensor.shape.begin(), tensor.shape.end());  // the file has the innermost first
  tensor.type = read_tensor_type(reader);
  const std::optional<std::uint64_t> bytes = tensor_bytes(tensor.type, tensor.shape);
  if (!bytes)
    reader.fail(dimensions_place, "dimensions",
                fmt::format("{} of {}: too large, or rows that are not whole blocks of {}",
                            shape_text(tensor.shape), kernels::type_name(tensor.type),
                            kernels::block_shape(tensor.type).elements));
  tensor.bytes = *bytes;
  entry.offset_place = reader.offset();
  entry.offset = reader.number<std::uint64_t>("offset");
  return entry;
}

std::uint64_t read_alignment(const GgufFile& file) {
  const auto alignment = file.find<std::uint32_t>("general.alignment").value_or(32);
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > kMostAlignment)
    throw BadArgument(fmt::format("{}: general.alignment {} is not a power of two from 8 to {}",
                                  file.name(), alignment, kMostAlignment));
  return alignment;
}

}  // namespace

const char* type_name(GgufType type) {
  constexpr const char* kNames[] = {"uint8",  "int8",    "uint16",  "int16",  "uint32",
                                    "int32",  "float32", "boolean", "string", "array",
                                    "uint64", "int64",   "float64"};
  return kNames[static_cast<std::uint32_t>(type)];
}

std::string GgufValue::type_text() const {
  return is_array ? fmt::format("array of {}", type_name(type)) : type_name(type);
}

std::string GgufValue::text() const {
  if (is_array) return fmt::format("{} elements", count);
  if (const auto text = as<std::string_view>()) return in_quotes(*text);
  if (const auto truth = as<bool>()) return *truth ? "true" : "false";
  if (const auto number = as<std::uint64_t>()) return fmt::to_string(*number);
  if (const auto number = as<std::int64_t>()) return fmt::to_string(*number);
  if (type == GgufType::float32) return fmt::to_string(as<float>().value_or(0));
  return fmt::to_string(as<double>().value_or(0));
}

GgufFile GgufFile::open(const std::filesystem::path& path) {
  GgufFile file;
  file.name_ = path.string();
  file.file_ = MappedFile(path);
  file.bytes_ = file.file_.bytes();
  file.read();
  return file;
}

GgufFile GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  GgufFile file;
  file.name_ = std::move(name);
  file.bytes_ = bytes;
  file.read();
  return file;
}

void GgufFile::read() {
  constexpr std::uint64_t kSmallestTensor = 8 + 4 + 8 + 4 + 8;
  constexpr std::uint64_t kSmallestValue = 8 + 4 + 1;
  Reader reader(bytes_, name_);
  read_magic(reader);
  const std::uint64_t tensor_count = reader.count(kSmallestTensor, "tensor count");
  const std::uint64_t value_count = reader.count(kSmallestValue, "metadata count");

  metadata_.reserve(value_count);
  for (std::uint64_t index = 0; index < value_count; ++index) {
    reader.enter("metadata", index);
    const std::uint64_t start = reader.offset();
    const std::string_view key = reader.text("key");
    reader.name(key);
    if (!value_index_.emplace(key, index).second)
      reader.fail(start, "key", "an earlier entry has the same");
    metadata_.emplace_back(key, reader.value());
  }
  alignment_ = read_alignment(*this);

  std::vector<Entry> entries;
  entries.reserve(tensor_count);
  tensors_.resize(tensor_count);
  for (std::uint64_t index = 0; index < tensor_count; ++index) {
    reader.enter("tensor", index);
    const std::uint64_t start = reader.offset();
    entries.push_back(read_tensor(reader, tensors_[index]));
    if (!tensor_index_.emplace(entries[index].name, index).second)
      reader.fail(start, "name", "an earlier tensor has the same");
  }

  const std::uint64_t data_start = (reader.offset() + alignment_ - 1) / alignment_ * alignment_;
  const std::uint64_t data_bytes =
      bytes_.size() - std::min<std::uint64_t>(data_start, bytes_.size());
  const auto fail = [&](std::size_t index, const std::string& why) {
    reader.enter("tensor", index);
    reader.name(entries[index].name);
    reader.fail(entries[index].offset_place, "offset", why);
  };
  for (std::size_t index = 0; index < entries.size(); ++index) {
    const std::uint64_t offset = entries[index].offset;
    const std::uint64_t bytes = tensors_[index].bytes;
    if (offset % alignment_ != 0)
      fail(index, fmt::format("{} is not a multiple of the alignment {}", offset, alignment_));
    if (bytes > data_bytes || offset > data_bytes - bytes)
      fail(index, fmt::format("{} bytes from {} are outside the {} bytes of data; the file is "
                              "damaged or cut short",
                              bytes, offset, data_bytes));
    tensors_[index].data = bytes_.data() + data_start + offset;
  }

  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return entries[a].offset < entries[b].offset; });
  for (std::size_t at = 1; at < order.size(); ++at) {
    const Tensor& before = tensors_[order[at - 1]];
    if (before.data + before.bytes > tensors_[order[at]].data)
      fail(order[at],
           fmt::format("{} is inside tensor {}, {} bytes from {}", entries[order[at]].offset,
                       in_quotes(before.name), before.bytes, entries[order[at - 1]].offset));
  }
}

const GgufValue* GgufFile::value(std::string_view key) const {
  const auto found = value_index_.find(key);
  return found == value_index_.end() ? nullptr : &metadata_[found->second].second;
}

const Tensor* GgufFile::tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

void GgufFile::refuse_type(std::string_view key, const GgufValue& found,
                           const std::string& wanted) const {
  throw BadArgument(fmt::format("{}: metadata {} is {}, {}; {} is expected", name_, in_quotes(key),
                                found.type_text(), found.text(), wanted));
}

void GgufFile::refuse_missing(std::string_view key, const std::string& wanted) const {
  throw BadArgument(fmt::format("{}: metadata {} ({}) is missing", name_, in_quotes(key), wanted));
}

}  // namespace attacca::formats
