// safetensors.cpp: reads safetensors files (a length, a JSON header, then the tensors' bytes) and
// the index of a model in several files.
#include "formats/safetensors.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "core/in_quotes.hpp"
#include "formats/json.hpp"

namespace attacca::formats {

using kernels::TensorType;
using nlohmann::json;

namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
constexpr int kHeaderNesting = 3;  // { tensor: { shape: [ ] } }

/// Checks one entry of the header against the file's bytes.
class EntryReader {
 public:
  EntryReader(const std::string& file, const std::string& name, const json& entry)
      : place_(fmt::format("{}: tensor {}", file, in_quotes(name))), entry_(entry) {
    if (!entry.is_object()) fail("entry", entry, "an object is expected");
  }

  [[noreturn]] void fail(const char* field, const json& value, const std::string& why) const {
    throw BadArgument(fmt::format("{}: {} {}: {}", place_, field, json_text(value), why));
  }

  const json& field(const char* name) const {
    const auto found = entry_.find(name);
    if (found == entry_.end()) throw BadArgument(fmt::format("{}: {} is missing", place_, name));
    return *found;
  }

  std::vector<std::uint64_t> numbers(const char* name) const {
    const json& list = field(name);
    const bool is_right = list.is_array() &&
                          std::all_of(list.begin(), list.end(),
                                      [](const json& value) { return value.is_number_unsigned(); });
    if (!is_right) fail(name, list, "a list of whole numbers is expected");
    return list.get<std::vector<std::uint64_t>>();
  }

  TensorType type() const {
    const json& type = field("dtype");
    if (type == "F32") return TensorType::f32;
    if (type == "F16") return TensorType::f16;
    if (type == "BF16") return TensorType::bf16;
    fail("dtype", type, "F32, F16 and BF16 are supported; convert the model to one of them");
  }

 private:
  std::string place_;
  const json& entry_;
};

Tensor read_entry(const EntryReader& entry, const std::string& name,
                  std::span<const std::byte> data, std::uint64_t data_start) {
  Tensor tensor;
  tensor.name = name;
  tensor.type = entry.type();
  tensor.shape = entry.numbers("shape");
  const std::optional<std::uint64_t> bytes = tensor_bytes(tensor.type, tensor.shape);
  if (!bytes) entry.fail("shape", tensor.shape, "too large");
  if (*bytes == 0) entry.fail("shape", tensor.shape, "the tensor is empty");
  tensor.bytes = *bytes;

  const std::vector<std::uint64_t> range = entry.numbers("data_offsets");
  if (range.size() != 2 || range[0] > range[1] || range[1] > data.size())
    entry.fail("data_offsets", range,
               fmt::format("[begin, end] within the {} bytes of data is expected; the file may be "
                           "cut short",
                           data.size()));
  if (range[1] - range[0] != tensor.bytes)
    entry.fail(
        "data_offsets", range,
        fmt::format("{} bytes, but {} of {} takes {}", range[1] - range[0],
                    shape_text(tensor.shape), kernels::type_name(tensor.type), tensor.bytes));
  const std::uint64_t element = kernels::block_shape(tensor.type).bytes;
  if ((data_start + range[0]) % element != 0)
    entry.fail("data_offsets", range,
               fmt::format("byte {} of the file is not a multiple of {}; save the file again with "
                           "safetensors 0.3 or later, which aligns",
                           data_start + range[0], element));
  tensor.data = data.data() + range[0];
  return tensor;
}

void refuse_overlaps(const std::vector<Tensor>& tensors, const std::string& file) {
  std::vector<const Tensor*> order;
  for (const Tensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const Tensor* a, const Tensor* b) { return a->data < b->data; });
  for (std::size_t at = 1; at < order.size(); ++at)
    if (order[at - 1]->data + order[at - 1]->bytes > order[at]->data)
      throw BadArgument(fmt::format("{}: tensor {}: data_offsets: its bytes are also those of {}",
                                    file, in_quotes(order[at]->name),
                                    in_quotes(order[at - 1]->name)));
}

}  // namespace

std::vector<Tensor> parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kLengthBytes)
    throw BadArgument(fmt::format("{}: byte 0: header length: 8 bytes are needed and {} are there",
                                  name, bytes.size()));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const std::uint64_t most = std::min(bytes.size() - kLengthBytes, kMostHeaderBytes);
  if (length > most)
    throw BadArgument(
        fmt::format("{}: byte 0: header length {}: at most {} is possible here; the file is "
                    "damaged, cut short or no safetensors file",
                    name, length, most));
  const std::span<const std::byte> header = bytes.subspan(kLengthBytes, length);
  const json entries = parse_json({reinterpret_cast<const char*>(header.data()), header.size()},
                                  name, kHeaderNesting, kLengthBytes);
  if (!entries.is_object())
    throw BadArgument(fmt::format("{}: byte 8: header: a JSON object is expected", name));

  const std::uint64_t data_start = kLengthBytes + length;
  std::vector<Tensor> tensors;
  for (const auto& [key, entry] : entries.items())
    if (key != "__metadata__")
      tensors.push_back(read_entry({name, key, entry}, key, bytes.subspan(data_start), data_start));
  refuse_overlaps(tensors, name);
  return tensors;
}

Safetensors Safetensors::open(const std::filesystem::path& path, const Progress& progress) {
  Safetensors result;
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(path)) {
    file = path / "model.safetensors";
    const std::filesystem::path index = path / "model.safetensors.index.json";
    if (!std::filesystem::exists(file)) {
      if (!std::filesystem::exists(index))
        throw BadArgument(fmt::format(
            "'{}' has neither model.safetensors nor model.safetensors.index.json", path.string()));
      result.add_shards(index, progress);
      return result;
    }
  }
  result.add(file);
  if (progress) {
    const std::uint64_t bytes = result.files_.front().bytes().size();
    progress(file.filename().string(), bytes, bytes);
  }
  return result;
}

void Safetensors::add(const std::filesystem::path& path) {
  const MappedFile& file = files_.emplace_back(path);
  for (Tensor& tensor : parse_safetensors(file.bytes(), path.string())) {
    if (!index_.emplace(tensor.name, tensors_.size()).second)
      throw BadArgument(fmt::format("{}: tensor {} is in an earlier shard too", path.string(),
                                    in_quotes(tensor.name)));
    tensors_.push_back(std::move(tensor));
  }
}

void Safetensors::add_shards(const std::filesystem::path& index, const Progress& progress) {
  const std::string name = index.string();
  const MappedFile file(index);
  const json content = parse_json(file.text(), name, 3);
  const JsonFields fields(content, name);
  const json* map = fields.find("weight_map");
  if (!map || !map->is_object()) fields.refuse("weight_map", "an object is expected");
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    const bool is_plain_name = shard.is_string() && !shard.get_ref<const std::string&>().empty() &&
                               shard.get_ref<const std::string&>().find('/') == std::string::npos;
    if (!is_plain_name)
      throw BadArgument(fmt::format("{}: weight_map: {} is in {}; a file name is expected", name,
                                    in_quotes(tensor), json_text(shard)));
    shards.insert(shard.get<std::string>());
  }

  std::uint64_t total = 0;
  for (const std::string& shard : shards) {
    std::error_code missing;
    const std::uint64_t bytes = std::filesystem::file_size(index.parent_path() / shard, missing);
    if (missing)
      throw BadArgument(fmt::format("{}: weight_map: shard {}: {}; is the download complete?", name,
                                    in_quotes(shard), missing.message()));
    total += bytes;
  }
  std::uint64_t done = 0;
  for (const std::string& shard : shards) {
    add(index.parent_path() / shard);
    done += files_.back().bytes().size();
    if (progress) progress(shard, done, total);
  }
  for (const auto& [tensor, shard] : map->items())
    if (!index_.contains(tensor))
      throw BadArgument(fmt::format("{}: weight_map: {} is not in {}", name, in_quotes(tensor),
                                    json_text(shard)));
}

const Tensor* Safetensors::tensor(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace attacca::formats
