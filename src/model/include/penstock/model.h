// Files of model weights: what is in a safetensors file, and where its tensors go in GPU memory.
//
// Format of safetensors (https://github.com/huggingface/safetensors, "Format"): 8 bytes, the length
// N of the header, little-endian; N bytes of JSON, an object from each tensor's name to its
// "dtype", "shape" and "data_offsets" (two offsets in the data, begin and end), and perhaps
// "__metadata__", from strings to strings; then the data, in which the tensors lie without gaps.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock::model {

inline constexpr uint64_t kLengthBytes = 8;
// As the format's own library has it.
inline constexpr uint64_t kHeaderBytesMax = 100'000'000;
inline constexpr size_t kTensorsMax = 1'000'000;
inline constexpr size_t kMetadataMax = 1'000'000;  // pairs
inline constexpr size_t kRankMax = 64;

struct Tensor {
  std::string name = {};
  std::string dtype = {};  // "BF16"; see bits_of()
  std::vector<uint64_t> shape = {};
  uint64_t offset = 0;  // in the file, bytes
  uint64_t bytes = 0;
};

struct Safetensors {
  std::vector<Tensor> tensors;  // in the order of their bytes in the file
  std::map<std::string, std::string> metadata;
};

// Bits of an element of that type; 0: it is none of the format's.
uint32_t bits_of(std::string_view dtype);
// Bytes that a tensor of this type and shape has; invalid_argument, with the reason alone, when
// there is no such tensor.
Outcome<uint64_t> bytes_of(const Tensor& tensor);
// Whether a string can be a name, or of the metadata: C programs see a zero as its end, and two
// names as one.
bool has_no_zero(std::string_view text);

// The header's length from the first eight bytes of a file of `file_bytes`. Foreign input: corrupt,
// with the reason.
Outcome<uint64_t> header_bytes(Bytes first, uint64_t file_bytes);
// What the header says. Foreign input: corrupt with the reason, unless every tensor is of a known
// type, has the size that its shape says, and together they are the whole data, each byte once.
// Takes no more memory than a few times the text.
Outcome<Safetensors> parse_header(std::string_view json, uint64_t file_bytes);
// The header of a file with these tensors, one behind the other in this order, with its length
// before it; their offsets are filled in. Padded so that the data begins at a multiple of 8.
std::string make_header(std::vector<Tensor>* tensors,
                        const std::map<std::string, std::string>& metadata);

// Bytes of a file that go to memory as they lie in the file, in one piece.
struct Run {
  uint32_t file = 0;
  uint64_t offset = 0;  // in the file
  uint64_t length = 0;
  uint64_t memory_offset = 0;  // in the memory of the whole load
};

// Where in memory the tensors of several files go.
struct Packing {
  std::vector<Run> runs;
  // offsets[file][tensor], bytes from the start of the memory; multiples of the alignment.
  std::vector<std::vector<uint64_t>> offsets;
  uint64_t bytes = 0;
};

// With as few runs as the alignment (a power of two) allows: tensors that lie aligned to one
// another in the file stay together.
Packing pack(std::span<const Safetensors> files, uint64_t alignment);

}  // namespace penstock::model
