#include "watched_node.h"

#include <cstdlib>
#include <dirent.h>
#include <fmt/format.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "penstock/json.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

// What each descriptor of the process leads to, with how many there are. Not the files of the
// store: the databases open and close those as they see fit.
std::map<std::string, uint64_t> descriptors_of(pid_t pid, const std::string& store) {
  std::map<std::string, uint64_t> out;
  const std::string path = fmt::format("/proc/{}/fd", pid);
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) return out;
  while (const dirent* entry = ::readdir(directory)) {
    char target[4096];
    const ssize_t length = ::readlink((path + "/" + entry->d_name).c_str(), target, sizeof target);
    if (length <= 0) continue;
    std::string kind(target, static_cast<size_t>(length));
    if (kind.starts_with(store + "/")) continue;
    // "socket:[12345]": the number says which one, not what.
    kind = kind.substr(0, kind.find(":["));
    ++out[kind];
  }
  ::closedir(directory);
  return out;
}

}  // namespace

std::string to_text(const Holdings& holdings) {
  std::string text =
      fmt::format("sessions {}, open files {}", holdings.sessions, holdings.open_files);
  for (const auto& [kind, count] : holdings.descriptors) {
    text += fmt::format(", {} of {}", count, kind);
  }
  for (const auto& [name, held] : holdings.shares) text += fmt::format(", {} {}", name, held);
  return text;
}

Holdings WatchedNode::holdings() const {
  Holdings out;
  const Json status = parse_json(penstock({"status", store(), "--json"}).out);
  if (!status.is_object()) return out;
  out.sessions = status.value("sessions", Json::array()).size();
  out.open_files = status.value("open_files", uint64_t{0});
  for (const Json& user : status.value("users", Json::array())) {
    for (const auto& [name, share] : user.items()) {
      const uint64_t held = share.is_object() ? share.value("held", uint64_t{0}) : 0;
      if (held > 0) out.shares[fmt::format("user {}: {}", user.value("uid", 0U), name)] = held;
    }
  }
  out.descriptors = descriptors_of(pid(), store());
  out.valid = true;
  return out;
}

uint64_t WatchedNode::anonymous_bytes() const {
  std::istringstream lines(read_file(fmt::format("/proc/{}/status", pid())));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("RssAnon:")) return std::strtoull(line.c_str() + 8, nullptr, 10) * 1024;
  }
  return 0;
}

uint64_t WatchedNode::cpu_ms() const {
  const std::string text = read_file(fmt::format("/proc/{}/stat", pid()));
  // Behind the name, which may hold anything: state, then ten fields, then the two times.
  const size_t at = text.rfind(')');
  if (at == std::string::npos) return 0;
  std::istringstream fields(text.substr(at + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  uint64_t user = 0, system = 0;
  fields >> user >> system;
  return (user + system) * 1000 / static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
}

UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(fd.get(), where, sizeof address) != 0) fd.reset();
  return fd;
}

}  // namespace penstock::test
