// penstock.h: many files at once.
#include "error.h"
#include "handles.h"
#include "read_files.h"

#include <algorithm>
#include <cerrno>

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace {

int check_list(penstock_session* session, const penstock_file_read* files, size_t count) {
  const int error = check_session(session, "read files");
  if (error != 0) return error;
  if (files == nullptr && count > 0) return fail_with(EINVAL, "read files: no list");
  return 0;
}

ssize_t count_good(std::span<const penstock_file_read> files) {
  return std::count_if(files.begin(), files.end(),
                       [](const auto& file) { return file.result >= 0; });
}

}  // namespace

ssize_t penstock_read_files(penstock_session* session, penstock_file_read* files, size_t count) {
  const int error = check_list(session, files, count);
  if (error != 0) return error;
  const std::span<penstock_file_read> all(files, count);
  const Outcome<void> read = FileList(*from_handle(session), all).read();
  if (!read) return fail(read.error());
  return count_good(all);
}

ssize_t penstock_read_files_packed(penstock_session* session, penstock_file_read* files,
                                   size_t count, penstock_region* region, uint64_t region_offset,
                                   uint64_t length, uint64_t alignment) {
  const int error = check_list(session, files, count);
  if (error != 0) return error;
  if (region == nullptr || from_handle(region)->session != from_handle(session) ||
      !range_within(region_offset, length, from_handle(region)->size)) {
    return fail_with(EINVAL, "read files: the place is in no region of this session, or leaves it");
  }
  if (alignment > length) return fail_with(EINVAL, "read files: the alignment is above the room");
  const std::span<penstock_file_read> all(files, count);
  for (penstock_file_read& file : all) {
    file.region = nullptr;
    file.buffer = nullptr;
    file.region_offset = file.length = 0;
  }
  const Outcome<void> looked = FileList(*from_handle(session), all).read();
  if (!looked) return fail(looked.error());

  const uint64_t step = std::max<uint64_t>(alignment, 1);
  uint64_t used = 0;
  std::vector<penstock_file_read> placed;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < count; ++i) {
    penstock_file_read& file = all[i];
    if (file.result < 0) continue;
    const uint64_t begin = used + (step - used % step) % step;
    if (!range_within(begin, file.size, length)) {
      file.result = -ENOSPC;
      continue;
    }
    file.region = region;
    file.region_offset = region_offset + begin;
    file.length = file.size;
    used = begin + file.size;
    placed.push_back(file);
    numbers.push_back(i);
  }
  const Outcome<void> read = FileList(*from_handle(session), placed).read();
  for (size_t i = 0; i < placed.size(); ++i) all[numbers[i]] = placed[i];
  if (!read) return fail(read.error());
  return count_good(all);
}
