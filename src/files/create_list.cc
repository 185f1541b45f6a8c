// Making many files at once.
#include <algorithm>
#include <cerrno>
#include <ctime>
#include <span>
#include <sys/stat.h>

#include "penstock/connection.h"
#include "penstock/files/file_calls.h"
#include "penstock/files/file_list.h"
#include "penstock/files/limits.h"

namespace penstock::files {
namespace {

constexpr int kNotMade = 1;

std::optional<wire::Time> time_of(const timespec& time, wire::Time now) {
  if (time.tv_nsec == UTIME_OMIT) return std::nullopt;
  if (time.tv_nsec == UTIME_NOW) return now;
  return wire::Time{time.tv_sec, static_cast<uint32_t>(time.tv_nsec)};
}

// Nothing when the file has its result already.
std::optional<wire::NewFile> request_of(lanes::Session& session, ListedNewFile& file, mode_t mask,
                                        wire::Time now) {
  const connection::Region* const region = file.region;
  file.result = check_path(file.path, "create files");
  if (file.result != 0) return std::nullopt;
  if ((file.flags & ~kReplace) != 0) {
    file.result = connection::fail_with(EINVAL, "create files: a flag that there is not");
    return std::nullopt;
  }
  const bool fits =
      file.length == 0 || (region != nullptr && region->table == &session.regions() &&
                           !region->device && file.length <= limits::kIoBytesMax &&
                           range_within(file.region_offset, file.length, region->size));
  if (!fits) {
    file.result =
        connection::fail_with(EINVAL,
                              "create files: the content of a file is in no region of host "
                              "memory, leaves it, or is over 64 MiB");
    return std::nullopt;
  }
  wire::NewFile out;
  out.path = file.path;
  out.mode = file.mode & 07777 & ~mask;
  out.length = file.length;
  if (file.length > 0) {
    out.region = region->id;
    out.region_offset = file.region_offset;
  }
  if (file.uid != static_cast<uid_t>(-1)) out.uid = file.uid;
  if (file.gid != static_cast<gid_t>(-1)) out.gid = file.gid;
  out.accessed = time_of(file.times[0], now);
  out.modified = time_of(file.times[1], now);
  out.replace = (file.flags & kReplace) != 0;
  file.result = kNotMade;
  return out;
}

// The first files of the list, as many as one request takes; returns how many.
Outcome<size_t> create_some(lanes::Session& session, std::span<ListedNewFile> files, mode_t mask,
                            wire::Time now) {
  wire::CreateFiles request;
  std::vector<ListedNewFile*> asked;
  size_t bytes = 0;
  size_t count = 0;
  for (; count < files.size() && request.files.size() < wire::kFilesAtOnceMax; ++count) {
    std::optional<wire::NewFile> file = request_of(session, files[count], mask, now);
    if (!file) continue;
    bytes += wire::request_bytes_of(*file);
    if (bytes > wire::kFilesBytesMax) break;
    request.files.push_back(std::move(*file));
    asked.push_back(&files[count]);
  }
  if (asked.empty()) return count;
  const connection::Connection::Answer reply = session.connection().call(request, false);
  if (!reply) return reply.error();
  const auto* made = std::get_if<wire::FilesCreated>(&*reply);
  if (made == nullptr || made->files.size() != asked.size()) {
    return Failure{Code::bad_message, "create files: the agent answered something else"};
  }
  for (size_t i = 0; i < asked.size(); ++i) asked[i]->result = -made->files[i].to_errno();
  return count;
}

}  // namespace

Outcome<void> create_files(lanes::Session& session, std::span<ListedNewFile> files) {
  for (ListedNewFile& file : files) file.result = kNotMade;
  const mode_t mask = current_umask();
  timespec wall{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  const wire::Time now{wall.tv_sec, static_cast<uint32_t>(wall.tv_nsec)};
  for (size_t done = 0; done < files.size();) {
    const Outcome<size_t> some = create_some(session, files.subspan(done), mask, now);
    if (!some) {
      for (ListedNewFile& file : files) {
        if (file.result == kNotMade) file.result = -some.error().status.to_errno();
      }
      return some.error();
    }
    done += *some;
  }
  return {};
}

}  // namespace penstock::files
