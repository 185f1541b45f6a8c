// penstock.h: many files at once.
#include "handles.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace {

// The structs pass this border as they are.
#define SAME(ours, theirs, member)                                    \
  static_assert(offsetof(ours, member) == offsetof(theirs, member) && \
                sizeof(ours::member) == sizeof(theirs::member))
static_assert(sizeof(ListedRead) == sizeof(penstock_file_read));
SAME(ListedRead, penstock_file_read, path);
SAME(ListedRead, penstock_file_read, region);
SAME(ListedRead, penstock_file_read, region_offset);
SAME(ListedRead, penstock_file_read, buffer);
SAME(ListedRead, penstock_file_read, length);
SAME(ListedRead, penstock_file_read, size);
SAME(ListedRead, penstock_file_read, result);
static_assert(sizeof(ListedNewFile) == sizeof(penstock_new_file));
SAME(ListedNewFile, penstock_new_file, path);
SAME(ListedNewFile, penstock_new_file, region);
SAME(ListedNewFile, penstock_new_file, region_offset);
SAME(ListedNewFile, penstock_new_file, length);
SAME(ListedNewFile, penstock_new_file, mode);
SAME(ListedNewFile, penstock_new_file, uid);
SAME(ListedNewFile, penstock_new_file, gid);
SAME(ListedNewFile, penstock_new_file, flags);
SAME(ListedNewFile, penstock_new_file, times);
SAME(ListedNewFile, penstock_new_file, result);
static_assert(kReplace == PENSTOCK_REPLACE);
static_assert(sizeof(ListedLook) == sizeof(penstock_file_stat));
SAME(ListedLook, penstock_file_stat, path);
SAME(ListedLook, penstock_file_stat, st);
SAME(ListedLook, penstock_file_stat, result);
#undef SAME

template <class Listed, class Given>
int check_list(penstock_session* session, Given* files, size_t count, const char* what,
               std::span<Listed>* list) {
  const int error = check_session(session, what);
  if (error != 0) return error;
  if (files == nullptr && count > 0) return fail(EINVAL, fmt::format("{}: no list", what));
  *list = {reinterpret_cast<Listed*>(files), count};
  return 0;
}

ssize_t count_read(std::span<const ListedRead> files) {
  return std::count_if(files.begin(), files.end(),
                       [](const auto& file) { return file.result >= 0; });
}

template <class Listed>
ssize_t count_done(std::span<const Listed> files) {
  return std::count_if(files.begin(), files.end(),
                       [](const auto& file) { return file.result == 0; });
}

}  // namespace

ssize_t penstock_read_files(penstock_session* session, penstock_file_read* files, size_t count) {
  std::span<ListedRead> all;
  const int error = check_list(session, files, count, "read files", &all);
  if (error != 0) return error;
  const Outcome<void> read = read_files(session_of(session), from_handle(session)->staging, all);
  return read ? count_read(all) : fail(read.error());
}

ssize_t penstock_read_files_packed(penstock_session* session, penstock_file_read* files,
                                   size_t count, penstock_region* region, uint64_t region_offset,
                                   uint64_t length, uint64_t alignment) {
  std::span<ListedRead> all;
  const int error = check_list(session, files, count, "read files", &all);
  if (error != 0) return error;
  if (!is_of_session(session, region) ||
      !range_within(region_offset, length, from_handle(region)->size)) {
    return fail_with(EINVAL, "read files: the place is in no region of this session, or leaves it");
  }
  if (alignment > length) return fail_with(EINVAL, "read files: the alignment is above the room");
  const Outcome<void> read =
      read_files_packed(session_of(session), from_handle(session)->staging, all,
                        {from_handle(region), region_offset, length, alignment});
  return read ? count_read(all) : fail(read.error());
}

ssize_t penstock_create_files(penstock_session* session, penstock_new_file* files, size_t count) {
  std::span<ListedNewFile> all;
  const int error = check_list(session, files, count, "create files", &all);
  if (error != 0) return error;
  const Outcome<void> created = create_files(session_of(session), all);
  return created ? count_done<ListedNewFile>(all) : fail(created.error());
}

ssize_t penstock_lstat_files(penstock_session* session, penstock_file_stat* files, size_t count) {
  std::span<ListedLook> all;
  const int error = check_list(session, files, count, "lstat files", &all);
  if (error != 0) return error;
  const Outcome<void> seen = look_at_files(session_of(session), all);
  return seen ? count_done<ListedLook>(all) : fail(seen.error());
}
