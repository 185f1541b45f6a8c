#include "headers.h"

#include "limits.h"

#include <algorithm>

namespace penstock::load {

namespace {

Failure of_file(const std::string& path, Failure failure) {
  return {failure.status, path + ": " + failure.message};
}

Outcome<model::Safetensors> read_header(Files& files, uint32_t number, uint64_t file_bytes) {
  std::byte first[model::kLengthBytes];
  const MutableBytes begin(first, std::min<uint64_t>(file_bytes, sizeof first));
  TRY(files.read(number, 0, begin));
  TRY_ASSIGN(const uint64_t length, model::header_bytes(begin, file_bytes));
  std::string json(length, '\0');
  for (uint64_t at = 0; at < length; at += limits::kHostStepBytes) {
    const uint64_t step = std::min(length - at, limits::kHostStepBytes);
    const auto to = MutableBytes(reinterpret_cast<std::byte*>(json.data()) + at, step);
    TRY(files.read(number, model::kLengthBytes + at, to));
  }
  return model::parse_header(json, file_bytes);
}

}  // namespace

Outcome<std::vector<model::Safetensors>> read_headers(Files& files,
                                                      const std::vector<std::string>& paths) {
  std::vector<model::Safetensors> headers;
  for (const std::string& path : paths) {
    TRY_ASSIGN(const uint64_t bytes, files.open(path));
    Outcome<model::Safetensors> header =
        read_header(files, static_cast<uint32_t>(headers.size()), bytes);
    if (!header) return of_file(path, std::move(header).error());
    headers.push_back(std::move(*header));
  }
  return headers;
}

}  // namespace penstock::load
