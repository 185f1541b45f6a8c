#include "where.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/stat.h>
#include <vector>

#include "penstock/wire.h"

namespace penstock::api {
namespace {

bool is_socket(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode);
}

// The kernel writes blanks and backslashes of paths in octal.
std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_inside(const std::string& path, const std::string& directory) {
  if (directory == "/") return true;
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

}  // namespace

std::string store_of_mount(const std::string& path, const std::string& mountinfo) {
  std::string best, source;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    // ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [TAGS...] - TYPE SOURCE SUPEROPTIONS
    std::istringstream words(line);
    std::vector<std::string> word(std::istream_iterator<std::string>{words}, {});
    size_t dash = 6;
    while (dash < word.size() && word[dash] != "-") ++dash;
    if (dash + 2 >= word.size()) continue;
    const std::string point = unescape(word[4]);
    // Later lines are mounted over earlier ones.
    if (!is_inside(path, point) || point.size() < best.size()) continue;
    best = point;
    source = word[dash + 1] == "fuse.penstock" ? unescape(word[dash + 2]) : std::string();
  }
  return source;
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
  std::ifstream file("/proc/self/mountinfo");
  std::stringstream mountinfo;
  mountinfo << file.rdbuf();
  const std::string store = store_of_mount(resolved, mountinfo.str());
  if (store.empty()) {
    return Failure{Code::not_found,
                   fmt::format("connect: {}: no agent serves it: it is no socket, holds no {}, and "
                               "is on no mount (start a node with 'penstock up {}')",
                               where, wire::kSessionSocketName, where)};
  }
  const std::string socket = store + "/" + wire::kSessionSocketName;
  if (is_socket(socket)) return socket;
  return Failure{Code::not_found,
                 fmt::format("connect: {}: it is on a mount of {}, whose agent has no socket there",
                             where, store)};
}

}  // namespace penstock::api
