// gguf_writer.cpp: builds the header in memory and writes the tensors' bytes straight to the file.
#include "formats/gguf_writer.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <fstream>

#include "core/in_quotes.hpp"

namespace attacca::formats {

namespace {

constexpr std::uint64_t kAlignment = 32;
constexpr char kPadding[kAlignment] = {};

std::uint64_t padding_after(std::uint64_t bytes) {
  return (kAlignment - bytes % kAlignment) % kAlignment;
}

std::uint32_t number_of(kernels::TensorType type) {
  constexpr std::uint32_t kNumbers[kernels::kTensorTypes] = {0, 1, 30, 8, 2, 3, 12, 13, 14};
  return kNumbers[static_cast<std::uint32_t>(type)];
}

}  // namespace

void GgufWriter::put_text(std::string& to, std::string_view text) {
  put(to, std::uint64_t{text.size()});
  to += text;
}

void GgufWriter::add(std::string name, kernels::TensorType type, std::vector<std::uint64_t> shape,
                     std::span<const std::byte> data) {
  if (tensor_bytes(type, shape) != data.size())
    throw BadArgument(fmt::format("tensor {}: {} bytes are not {} of {}", in_quotes(name),
                                  data.size(), shape_text(shape), kernels::type_name(type)));
  tensors_.push_back({std::move(name), type, std::move(shape), data.data(), data.size()});
}

void GgufWriter::add(std::string name, std::vector<std::uint64_t> shape,
                     std::span<const float> data) {
  add(std::move(name), kernels::TensorType::f32, std::move(shape), std::as_bytes(data));
}

void GgufWriter::set(std::string_view key, const GgufValue& value) {
  put_text(metadata_, key);
  ++metadata_count_;
  if (value.is_array) put(metadata_, GgufType::array);
  put(metadata_, value.type);
  if (value.is_array)
    put(metadata_, value.count);
  else if (value.type == GgufType::string)
    put(metadata_, std::uint64_t{value.bytes.size()});
  metadata_ += gguf_detail::text_of(value.bytes);
}

void GgufWriter::declare(std::string name, kernels::TensorType type,
                         std::vector<std::uint64_t> shape) {
  const std::optional<std::uint64_t> bytes = tensor_bytes(type, shape);
  if (!bytes)
    throw BadArgument(fmt::format("tensor {}: a row of {} is no whole number of {} blocks",
                                  in_quotes(name), shape_text(shape), kernels::type_name(type)));
  tensors_.push_back({std::move(name), type, std::move(shape), nullptr, *bytes});
}

GgufWriter::Layout GgufWriter::layout() const {
  Layout layout;
  std::string& header = layout.header;
  header = "GGUF";
  put(header, std::uint32_t{3});
  put(header, std::uint64_t{tensors_.size()});
  put(header, metadata_count_);
  header += metadata_;
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put_text(header, tensor.name);
    put(header, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) put(header, *size);
    put(header, number_of(tensor.type));
    put(header, offset);
    layout.offsets.push_back(offset);
    offset += tensor.bytes + padding_after(tensor.bytes);
  }
  header.append(padding_after(header.size()), '\0');
  for (std::uint64_t& at : layout.offsets) at += header.size();
  layout.bytes = header.size() + offset;
  return layout;
}

void GgufWriter::write(std::ostream& out) const {
  const std::string header = layout().header;
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const Tensor& tensor : tensors_) {
    out.write(reinterpret_cast<const char*>(tensor.data),
              static_cast<std::streamsize>(tensor.bytes));
    out.write(kPadding, static_cast<std::streamsize>(padding_after(tensor.bytes)));
  }
}

void GgufWriter::write(const std::filesystem::path& path) const {
  std::ofstream file(path, std::ios::binary);
  write(file);
  if (!file.flush()) throw Error(fmt::format("cannot write '{}'", path.string()));
}

}  // namespace attacca::formats
