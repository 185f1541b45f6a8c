#include "header_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "penstock/json.h"
#include "penstock/model.h"

namespace penstock::model {

namespace {

struct Dtype {
  std::string_view name;
  uint32_t bits;
};
constexpr std::array<Dtype, 20> kDtypes{
    {{"BOOL", 8},    {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
     {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},
     {"I32", 32},    {"U32", 32}, {"F32", 32}, {"F64", 64},    {"I64", 64},
     {"U64", 64},    {"C64", 64}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}}};

Failure bad(const std::string& why) {
  return {Code::corrupt, "not a safetensors file: " + why};
}

Failure no_tensor(const char* why) {
  return {Code::invalid_argument, why};
}

}  // namespace

uint32_t bits_of(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.bits;
  }
  return 0;
}

Outcome<uint64_t> bytes_of(const Tensor& tensor) {
  uint64_t bits = bits_of(tensor.dtype);
  if (bits == 0) return no_tensor("an unknown dtype");
  if (tensor.shape.size() > kRankMax) return no_tensor("too many dimensions");
  for (const uint64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bits, size, &bits)) {
      return no_tensor("a shape of more than 2^64 bits");
    }
  }
  if (bits % 8 != 0) return no_tensor("its elements do not fill whole bytes");
  if (bits / 8 > limits::kFileBytesMax) return no_tensor("larger than any file");
  return bits / 8;
}

bool has_no_zero(std::string_view text) {
  return text.find('\0') == std::string_view::npos;
}

Outcome<uint64_t> header_bytes(Bytes first, uint64_t file_bytes) {
  if (first.size() < kLengthBytes || file_bytes < kLengthBytes) {
    return bad(fmt::format("it has {} bytes", file_bytes));
  }
  uint64_t length = 0;
  std::memcpy(&length, first.data(), sizeof length);
  if (length > kHeaderBytesMax || length > file_bytes - kLengthBytes) {
    return bad(fmt::format("its header would have {} bytes", length));
  }
  return length;
}

Outcome<Safetensors> parse_header(std::string_view json, uint64_t file_bytes) {
  Safetensors file;
  HeaderReader reader(&file);
  if (!Json::sax_parse(json.begin(), json.end(), &reader)) return bad(reader.wrong());
  const uint64_t data_begin = kLengthBytes + json.size();
  for (Tensor& tensor : file.tensors) tensor.offset += data_begin;
  // Empty tensors come before the one that begins where they are.
  std::sort(file.tensors.begin(), file.tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  uint64_t end = data_begin;
  for (const Tensor& tensor : file.tensors) {
    if (tensor.offset != end)
      return bad(fmt::format("a gap or an overlap before '{}'", tensor.name));
    end += tensor.bytes;
  }
  if (end != file_bytes) {
    return bad(fmt::format("its tensors end at byte {}, the file at {}", end, file_bytes));
  }
  return file;
}

std::string make_header(std::vector<Tensor>* tensors,
                        const std::map<std::string, std::string>& metadata) {
  Json document = Json::object();
  if (!metadata.empty()) document["__metadata__"] = metadata;
  uint64_t end = 0;
  for (Tensor& tensor : *tensors) {
    document[tensor.name] = {{"dtype", tensor.dtype},
                             {"shape", tensor.shape},
                             {"data_offsets", {end, end + tensor.bytes}}};
    tensor.offset = end;
    end += tensor.bytes;
  }
  std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  for (Tensor& tensor : *tensors) tensor.offset += kLengthBytes + text.size();
  const uint64_t length = text.size();
  std::string header(kLengthBytes, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + text;
}

}  // namespace penstock::model
