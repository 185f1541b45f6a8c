#include "penstock/load/save.h"

#include "limits.h"
#include "writer.h"

#include <algorithm>
#include <set>

namespace penstock::load {

namespace {

Failure of_tensor(const std::string& name, const char* why) {
  return {Code::invalid_argument, fmt::format("tensor '{}': {}", name, why)};
}

// Whether the text is UTF-8, without forms that are longer than need be and halves of pairs.
bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t more = lead < 0x80             ? 0
                        : lead >> 5 == 0b110    ? 1
                        : lead >> 4 == 0b1110   ? 2
                        : lead >> 3 == 0b1'1110 ? 3
                                                : SIZE_MAX;
    if (more == SIZE_MAX || text.size() - i <= more) return false;
    uint32_t value = more == 0 ? lead : lead & (0x3fU >> more);
    for (size_t k = 1; k <= more; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      if (next >> 6 != 0b10) return false;
      value = value << 6 | (next & 0x3fU);
    }
    constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x1'0000};
    if (value < kLeast[more] || value > 0x10'ffff || (value >= 0xd800 && value < 0xe000)) {
      return false;
    }
    i += more + 1;
  }
  return true;
}

// What readers take as a name or as metadata.
bool is_text(std::string_view text) {
  return is_utf8(text) && model::has_no_zero(text);
}

Outcome<void> check_names(const SaveRequest& request) {
  std::set<std::string_view> names;
  for (const SavedTensor& one : request.tensors) {
    const std::string& name = one.tensor.name;
    if (name == "__metadata__") return of_tensor(name, "the format keeps this name for itself");
    if (!is_text(name)) return of_tensor("?", "its name is not UTF-8, or has a zero in it");
    if (!names.insert(name).second) return of_tensor(name, "the name comes twice");
  }
  for (const auto& [key, value] : request.metadata) {
    if (is_text(key) && is_text(value)) continue;
    return Failure{Code::invalid_argument, "metadata: a string is not UTF-8, or has a zero in it"};
  }
  if (request.metadata.size() > model::kMetadataMax) {
    return Failure{Code::invalid_argument,
                   fmt::format("{} pairs of metadata; a file holds {}", request.metadata.size(),
                               model::kMetadataMax)};
  }
  if (request.tensors.size() > model::kTensorsMax) {
    return Failure{Code::invalid_argument, fmt::format("{} tensors; a file holds {}",
                                                       request.tensors.size(), model::kTensorsMax)};
  }
  return {};
}

Outcome<void> check_sizes(SaveRequest* request) {
  for (SavedTensor& one : request->tensors) {
    const Outcome<uint64_t> bytes = model::bytes_of(one.tensor);
    if (!bytes) return of_tensor(one.tensor.name, bytes.error().message.c_str());
    one.tensor.bytes = *bytes;
    const uint64_t given = one.device ? one.device->length : one.host.size();
    if (given != one.tensor.bytes) {
      return of_tensor(one.tensor.name, "its memory has not the size that its shape says");
    }
  }
  return {};
}

}  // namespace

Outcome<void> save(NewFile& file, const engine::Clock& clock, SaveRequest request) {
  TRY(check_names(request));
  TRY(check_sizes(&request));
  // So that each tensor begins at a multiple of its elements' size.
  std::stable_sort(request.tensors.begin(), request.tensors.end(),
                   [](const SavedTensor& a, const SavedTensor& b) {
                     return model::bits_of(a.tensor.dtype) > model::bits_of(b.tensor.dtype);
                   });
  std::vector<model::Tensor> tensors;
  for (const SavedTensor& one : request.tensors) tensors.push_back(one.tensor);
  const std::string header = model::make_header(&tensors, request.metadata);
  if (header.size() - model::kLengthBytes > model::kHeaderBytesMax) {
    return Failure{Code::invalid_argument, fmt::format("a header of {} bytes; readers take {}",
                                                       header.size(), model::kHeaderBytesMax)};
  }
  TRY(file.write(0, std::as_bytes(std::span(header))));
  for (size_t i = 0; i < tensors.size(); ++i) request.tensors[i].tensor.offset = tensors[i].offset;
  TRY(write_tensors(file, clock, request));
  return file.commit();
}

}  // namespace penstock::load
