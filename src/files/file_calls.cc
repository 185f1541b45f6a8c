#include "penstock/files/file_calls.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "penstock/connection.h"
#include "penstock/files/limits.h"
#include "penstock/files/to_stat.h"

namespace penstock::files {

int check_path(const char* path, const char* what) {
  if (path == nullptr) return connection::fail(EINVAL, fmt::format("{}: no path", what));
  const size_t length = std::strlen(path);
  if (length > limits::kPathBytesMax) {
    return connection::fail(ENAMETOOLONG, fmt::format("{}: the path has {} bytes, {} is the most",
                                                      what, length, limits::kPathBytesMax));
  }
  if (length == 0) return connection::fail(ENOENT, fmt::format("{}: the path is empty", what));
  if (path[0] != '/')
    return connection::fail(EINVAL, fmt::format("{}: {}: not an absolute path", what, path));
  return 0;
}

mode_t current_umask() {
  const UniqueFd fd(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  char text[512];
  const ssize_t length = fd ? ::read(fd.get(), text, sizeof text - 1) : 0;
  if (length <= 0) return 022;
  text[length] = '\0';
  const char* line = std::strstr(text, "\nUmask:");
  return line != nullptr ? static_cast<mode_t>(std::strtoul(line + 7, nullptr, 8)) : 022;
}

uint32_t creation_mode(mode_t mode) {
  return mode & 07777 & ~current_umask();
}

Outcome<int32_t> open_path(lanes::Session& session, const std::string& path, uint32_t flags,
                           uint32_t mode) {
  const auto request = [&](uint32_t id) -> wire::RequestBody {
    return wire::OpenPath{id, path, flags, mode};
  };
  return session.files().open(request, {});
}

Outcome<wire::Attributes> attributes_of(lanes::Session& session, const wire::RequestBody& request) {
  const connection::Connection::Answer answer = session.connection().call(request, true);
  if (!answer) return answer.error();
  const auto* attributes = std::get_if<wire::Attributes>(&*answer);
  if (attributes != nullptr) return *attributes;
  return Failure{Code::bad_message, "stat: the agent's answer is no attributes"};
}

Outcome<struct stat> stat_of(lanes::Session& session, const wire::RequestBody& request) {
  TRY_ASSIGN(const wire::Attributes attributes, attributes_of(session, request));
  struct stat out {};
  to_stat(attributes, &out);
  return out;
}

Outcome<void> ask(lanes::Session& session, const wire::RequestBody& request, bool repeatable) {
  const connection::Connection::Answer answer = session.connection().call(request, repeatable);
  if (!answer) return answer.error();
  return {};
}

}  // namespace penstock::files
