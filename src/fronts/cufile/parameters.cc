#include "parameters.h"

#include <climits>
#include <strings.h>

#include "penstock/base.h"

namespace penstock::cufile {

namespace {

struct Size {
  uint64_t value = 0;
  Parameters::Limits limits;
};

// In the order of the numbers. Sizes are in KiB. The limits are those of NVIDIA's library, but for
// the two that it cannot set without its kernel driver. What has no meaning here is kept and given
// back: there is no GPU memory of ours for unaligned ends, and large operations are always cut.
constexpr Size kSizeTable[Parameters::kSizes] = {
    {0, {0, 3}},                        // statistics level
    {128, {1, 256}},                    // queue depth
    {8, {1, 32}},                       // threads
    {8192, {4, UINT_MAX}},              // parallel from so many KiB on
    {4, {0, 8}},                        // parts of one operation
    {16384, {64, 16384}},               // one direct operation
    {131072, {64, UINT_MAX}},           // GPU memory for unaligned ends
    {1024, {64, 16384}},                // of each buffer
    {33554432, {64, UINT_MAX}},         // registered memory of a GPU
    {128, {1, 256}},                    // operations of a batch
    {4, {4, (uint64_t{1} << 54) - 4}},  // polls for the end up to so many KiB
    {5, {1, 1000}},                     // milliseconds of a batch
};

constexpr bool kBoolTable[Parameters::kBools] = {
    false,  // polling
    true,   // compatibility mode may be used
    false,  // ... must be used
    false,  // checks of file systems
    true,   // parallel operations
    false,  // profiling marks
    true,   // host memory
    false,  // PCI peer to peer
    false,  // io_uring
    false,  // O_DIRECT
    false,  // without a look at the topology
    false,  // streams without memory operations
};

void set_log(const std::string& level, const std::string& file) {
  using log::Level;
  static constexpr struct {
    const char* name;
    Level level;
  } kLevels[] = {{"TRACE", Level::debug},  {"DEBUG", Level::debug},    {"INFO", Level::info},
                 {"WARN", Level::warning}, {"NOTICE", Level::warning}, {"ERROR", Level::error},
                 {"FATAL", Level::error}};
  for (const auto& one : kLevels) {
    if (::strcasecmp(level.c_str(), one.name) == 0) log::set_level(one.level);
  }
  if (!file.empty() && !log::set_file(file)) log::warning("cufile: {}: cannot be written", file);
}

}  // namespace

Parameters::Limits Parameters::limits(CUFileSizeTConfigParameter_t which) {
  return kSizeTable[which].limits;
}

Parameters::Parameters() {
  reset();
}

void Parameters::reset() {
  for (size_t i = 0; i < kSizes; ++i) sizes_[i] = kSizeTable[i].value;
  for (size_t i = 0; i < kBools; ++i) bools_[i] = kBoolTable[i];
  strings_ = {};
  strings_[CUFILE_PARAM_LOGGING_LEVEL] = "ERROR";
}

void Parameters::stage(CUFileSizeTConfigParameter_t which, uint64_t value) {
  staged_sizes_[which] = value;
}

void Parameters::stage(CUFileBoolConfigParameter_t which, bool value) {
  staged_bools_[which] = value;
}

void Parameters::stage(CUFileStringConfigParameter_t which, const char* value) {
  staged_strings_[which] = value;
}

void Parameters::start() {
  reset();
  bool logs = false;
  for (size_t i = 0; i < kSizes; ++i) {
    const auto which = static_cast<CUFileSizeTConfigParameter_t>(i);
    if (staged_sizes_[i] && !set(which, *staged_sizes_[i])) {
      log::warning("cufile: parameter {}: {} is outside its limits; it stays {}", i,
                   *staged_sizes_[i], sizes_[i]);
    }
  }
  for (size_t i = 0; i < kBools; ++i) bools_[i] = staged_bools_[i].value_or(bools_[i]);
  for (size_t i = 0; i < kStrings; ++i) {
    logs |= staged_strings_[i].has_value();
    strings_[i] = staged_strings_[i].value_or(strings_[i]);
  }
  if (logs) set_log(strings_[CUFILE_PARAM_LOGGING_LEVEL], strings_[CUFILE_PARAM_ENV_LOGFILE_PATH]);
}

void Parameters::clear_staged() {
  staged_sizes_ = {};
  staged_bools_ = {};
  staged_strings_ = {};
}

bool Parameters::set(CUFileSizeTConfigParameter_t which, uint64_t value) {
  const Limits range = limits(which);
  if (value < range.least || value > range.most) return false;
  sizes_[which] = value;
  return true;
}

uint64_t Parameters::get(CUFileSizeTConfigParameter_t which) const {
  return staged_sizes_[which].value_or(sizes_[which]);
}

bool Parameters::get(CUFileBoolConfigParameter_t which) const {
  return staged_bools_[which].value_or(bools_[which]);
}

const std::string& Parameters::get(CUFileStringConfigParameter_t which) const {
  return staged_strings_[which] ? *staged_strings_[which] : strings_[which];
}

}  // namespace penstock::cufile
