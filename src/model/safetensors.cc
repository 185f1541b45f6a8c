#include <algorithm>
#include <array>
#include <set>

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

// Both bounded well below where a product of two could not be told from a smaller one.
bool multiply(uint64_t* product, uint64_t factor) {
  return !__builtin_mul_overflow(*product, factor, product);
}

Outcome<Tensor> read_tensor(const std::string& name, const Json& entry, uint64_t data_begin) {
  const auto wrong = [&](const char* what) {
    return bad(fmt::format("tensor '{}': {}", name, what));
  };
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    return wrong("needs dtype, shape and data_offsets, and nothing else");
  }
  const Json& dtype = entry["dtype"];
  const Json& shape = entry["shape"];
  const Json& offsets = entry["data_offsets"];
  const auto is_count = [](const Json& value) { return value.is_number_unsigned(); };
  if (!dtype.is_string() || !shape.is_array() || shape.size() > kRankMax ||
      !std::all_of(shape.begin(), shape.end(), is_count) || !offsets.is_array() ||
      offsets.size() != 2 || !std::all_of(offsets.begin(), offsets.end(), is_count)) {
    return wrong("a field is not of its type");
  }
  Tensor tensor{.name = name, .dtype = dtype.get<std::string>()};
  uint64_t bits = bits_of(tensor.dtype);
  if (bits == 0) return wrong("an unknown dtype");
  for (const Json& extent : shape) {
    tensor.shape.push_back(extent.get<uint64_t>());
    if (!multiply(&bits, tensor.shape.back())) return wrong("a shape of more than 2^64 bits");
  }
  const auto begin = offsets[0].get<uint64_t>();
  const auto end = offsets[1].get<uint64_t>();
  if (end < begin || bits % 8 != 0 || end - begin != bits / 8) {
    return wrong("its offsets do not fit its shape");
  }
  if (begin > limits::kFileBytesMax || end > limits::kFileBytesMax) {
    return wrong("an offset beyond the largest file");
  }
  tensor.offset = data_begin + begin;
  tensor.bytes = end - begin;
  return tensor;
}

Outcome<std::map<std::string, std::string>> read_metadata(const Json& entry) {
  std::map<std::string, std::string> metadata;
  if (!entry.is_object()) return bad("__metadata__ is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return bad(fmt::format("__metadata__: '{}' is not a string", key));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

}  // namespace

uint32_t bits_of(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.bits;
  }
  return 0;
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
  // A name that comes twice is two meanings of one file: the parser would keep one of them.
  std::set<std::string> names;
  bool twice = false;
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) {
      twice = !names.insert(parsed.get<std::string>()).second || twice;
    }
    return true;
  };
  const Json document = Json::parse(json.begin(), json.end(), look, false);
  if (!document.is_object()) return bad("its header is not a JSON object");
  if (twice) return bad("a name comes twice");
  if (document.size() > kTensorsMax) return bad("it has more than a million tensors");
  const uint64_t data_begin = kLengthBytes + json.size();
  Safetensors file;
  for (const auto& [name, entry] : document.items()) {
    if (name == "__metadata__") {
      TRY_ASSIGN(file.metadata, read_metadata(entry));
      continue;
    }
    TRY_ASSIGN(Tensor tensor, read_tensor(name, entry, data_begin));
    file.tensors.push_back(std::move(tensor));
  }
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
