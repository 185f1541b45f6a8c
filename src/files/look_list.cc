// Looking at many files at once.
#include <algorithm>
#include <cerrno>
#include <span>

#include "penstock/connection.h"
#include "penstock/files/file_calls.h"
#include "penstock/files/file_list.h"
#include "penstock/files/to_stat.h"

namespace penstock::files {
namespace {

constexpr int kNotLookedAt = 1;

// The first files of the list, as many as one request takes; returns how many.
Outcome<size_t> look_at_some(lanes::Session& session, std::span<ListedLook> files) {
  wire::LookAtFiles request;
  std::vector<ListedLook*> asked;
  size_t bytes = 0;
  size_t count = 0;
  for (; count < files.size() && asked.size() < wire::kLooksAtOnceMax; ++count) {
    ListedLook& file = files[count];
    file.result = check_path(file.path, "lstat files");
    if (file.result != 0) continue;
    bytes += wire::request_bytes_of(file.path);
    if (bytes > wire::kFilesBytesMax) {
      file.result = kNotLookedAt;
      break;
    }
    request.paths.emplace_back(file.path);
    asked.push_back(&file);
    file.result = kNotLookedAt;
  }
  if (asked.empty()) return count;
  const connection::Connection::Answer reply = session.connection().call(request, true);
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

Outcome<void> look_at_files(lanes::Session& session, std::span<ListedLook> files) {
  for (ListedLook& file : files) file.result = kNotLookedAt;
  for (size_t done = 0; done < files.size();) {
    const Outcome<size_t> some = look_at_some(session, files.subspan(done));
    if (!some) {
      for (ListedLook& file : files) {
        if (file.result == kNotLookedAt) file.result = -some.error().status.to_errno();
      }
      return some.error();
    }
    done += *some;
  }
  return {};
}

}  // namespace penstock::files
