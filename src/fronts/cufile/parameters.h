// What programs may set: kept while the driver is closed, in force while it is open.
#pragma once

#include "cufile.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace penstock::cufile {

// Not thread safe.
class Parameters {
 public:
  static constexpr size_t kSizes = CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS + 1;
  static constexpr size_t kBools = CUFILE_PARAM_STREAM_MEMOPS_BYPASS + 1;
  static constexpr size_t kStrings = CUFILE_PARAM_LOG_DIR + 1;
  struct Limits {
    uint64_t least = 0;
    uint64_t most = 0;
  };

  // Whether there is such a parameter at all: callers may pass anything.
  static bool is_size(int which) { return which >= 0 && static_cast<size_t>(which) < kSizes; }
  static bool is_bool(int which) { return which >= 0 && static_cast<size_t>(which) < kBools; }
  static bool is_string(int which) { return which >= 0 && static_cast<size_t>(which) < kStrings; }
  static Limits limits(CUFileSizeTConfigParameter_t which);

  Parameters();

  // For the next start(), until clear_staged().
  void stage(CUFileSizeTConfigParameter_t which, uint64_t value);
  void stage(CUFileBoolConfigParameter_t which, bool value);
  void stage(CUFileStringConfigParameter_t which, const char* value);
  // The driver opens: what was staged is in force now, but for values outside their limits, and the
  // defaults for the rest.
  void start();
  // It has opened.
  void clear_staged();
  // At once. False outside the limits.
  bool set(CUFileSizeTConfigParameter_t which, uint64_t value);
  void set(CUFileBoolConfigParameter_t which, bool value) { bools_[which] = value; }

  // In force, or staged if something is.
  uint64_t get(CUFileSizeTConfigParameter_t which) const;
  bool get(CUFileBoolConfigParameter_t which) const;
  const std::string& get(CUFileStringConfigParameter_t which) const;

 private:
  void reset();

  std::array<uint64_t, kSizes> sizes_{};
  std::array<bool, kBools> bools_{};
  std::array<std::string, kStrings> strings_;
  std::array<std::optional<uint64_t>, kSizes> staged_sizes_;
  std::array<std::optional<bool>, kBools> staged_bools_;
  std::array<std::optional<std::string>, kStrings> staged_strings_;
};

}  // namespace penstock::cufile
