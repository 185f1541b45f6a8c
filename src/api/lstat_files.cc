// penstock.h: looking at many files at once.
#include "error.h"
#include "handles.h"
#include "to_stat.h"

#include <algorithm>
#include <cerrno>
#include <span>

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace {

constexpr int kNoResult = 1;

// The first files of the list, as many as one request takes; returns how many.
Outcome<size_t> look_at_some(Session& session, std::span<penstock_file_stat> files) {
  wire::LookAtFiles request;
  std::vector<penstock_file_stat*> asked;
  size_t bytes = 0;
  size_t count = 0;
  for (; count < files.size() && asked.size() < wire::kLooksAtOnceMax; ++count) {
    penstock_file_stat& file = files[count];
    file.result = check_path(file.path, "lstat files");
    if (file.result != 0) continue;
    bytes += wire::request_bytes_of(file.path);
    if (bytes > wire::kFilesBytesMax) {
      file.result = kNoResult;
      break;
    }
    request.paths.emplace_back(file.path);
    asked.push_back(&file);
    file.result = kNoResult;
  }
  if (asked.empty()) return count;
  const Session::Answer reply = session.call(request, true);
  if (!reply) return reply.error();
  const auto* seen = std::get_if<wire::FilesSeen>(&*reply);
  if (seen == nullptr || seen->files.size() != asked.size()) {
    return Failure{Code::bad_message, "lstat files: the agent answered something else"};
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    const wire::FileSeen& one = seen->files[i];
    asked[i]->result = -one.status.to_errno();
    if (one.status.ok()) to_stat(one.attributes, &asked[i]->st);
  }
  return count;
}

}  // namespace

ssize_t penstock_lstat_files(penstock_session* session, penstock_file_stat* files, size_t count) {
  const int error = check_session(session, "lstat files");
  if (error != 0) return error;
  if (files == nullptr && count > 0) return fail_with(EINVAL, "lstat files: no list");
  const std::span<penstock_file_stat> all(files, count);
  for (penstock_file_stat& file : all) file.result = kNoResult;
  for (size_t done = 0; done < count;) {
    const Outcome<size_t> some = look_at_some(*from_handle(session), all.subspan(done));
    if (!some) {
      const int failed = fail(some.error());
      for (penstock_file_stat& file : all) {
        if (file.result == kNoResult) file.result = failed;
      }
      return failed;
    }
    done += *some;
  }
  return std::count_if(all.begin(), all.end(), [](const auto& file) { return file.result == 0; });
}
