#include "penstock/connection/where.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <sys/stat.h>

#include "penstock/wire.h"

namespace penstock::connection {
namespace {

// A mount may have been made to look like one of 3FS, for programs that look for those.
bool is_mount_type(const std::string& type) {
  return type == kMountType || type == "fuse.hf3fs";
}

bool is_socket(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode);
}

}  // namespace

std::string store_of_mount(const std::string& path, const std::vector<MountEntry>& mounts) {
  const MountEntry* const mount = mount_of_path(mounts, path);
  return mount != nullptr && is_mount_type(mount->type) ? mount->source : std::string();
}

Outcome<std::string> find_socket(const std::string& where) {
  if (is_socket(where)) return where;
  const std::string beside = where + "/" + wire::kSessionSocketName;
  if (is_socket(beside)) return beside;
  char resolved[PATH_MAX];
  if (::realpath(where.c_str(), resolved) == nullptr) {
    const int error = errno;
    return Failure{Status::from_errno(error),
                   fmt::format("connect: {}: {}", where, std::strerror(error))};
  }
  const std::string store = store_of_mount(resolved, read_mounts());
  if (store.empty()) {
    return Failure{Code::not_found,
                   fmt::format("connect: {}: no agent serves it: it is no socket, holds no {}, and "
                               "is on no mount (start a node with 'penstock up {}')",
                               where, wire::kSessionSocketName, where)};
  }
  const std::string socket = store + "/" + wire::kSessionSocketName;
  if (is_socket(socket)) return socket;
  return Failure{Code::not_found,
                 fmt::format("connect: {}: it is on a mount of {}, whose agent has no socket there "
                             "(start it with 'penstock up {}'; a container needs that directory, "
                             "too, under the same name)",
                             where, store, store)};
}

}  // namespace penstock::connection
