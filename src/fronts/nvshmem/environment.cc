#include "environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <strings.h>
#include <unistd.h>

#include "penstock/symm.h"

namespace penstock::nvshmem {
namespace {

constexpr std::array kHonoured = {"NVSHMEM_SYMMETRIC_SIZE",
                                  "NVSHMEM_MAX_MEMORY_PER_GPU",
                                  "NVSHMEM_VERSION",
                                  "NVSHMEM_INFO",
                                  "NVSHMEM_DEBUG",
                                  "NVSHMEM_DEBUG_FILE",
                                  "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME",
                                  "NVSHMEM_HOME"};

const char* value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : nullptr;
}

// Those that say no are as good as not set.
bool is_on(const char* name) {
  const char* const value = value_of(name);
  if (value == nullptr) return false;
  constexpr std::array kNo = {"0", "n", "no", "f", "false", "off"};
  return std::none_of(kNo.begin(), kNo.end(),
                      [&](const char* no) { return ::strcasecmp(value, no) == 0; });
}

Outcome<log::Level> level_of(const char* text) {
  struct Named {
    const char* name;
    log::Level level;
  };
  for (const Named& one :
       {Named{"NONE", log::Level::warning}, Named{"VERSION", log::Level::warning},
        Named{"WARN", log::Level::warning}, Named{"INFO", log::Level::info},
        Named{"ABORT", log::Level::info}, Named{"TRACE", log::Level::debug}}) {
    if (::strcasecmp(text, one.name) == 0) return one.level;
  }
  return Failure{Code::invalid_argument,
                 fmt::format("NVSHMEM_DEBUG: '{}' is none of NONE, VERSION, WARN, INFO, ABORT and "
                             "TRACE",
                             text)};
}

// %h is the host's name, %p the process's number.
std::string with_names(const char* path) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::string named;
  for (const char* at = path; *at != 0; ++at) {
    if (at[0] == '%' && at[1] == 'h') {
      named += host;
      ++at;
    } else if (at[0] == '%' && at[1] == 'p') {
      named += std::to_string(::getpid());
      ++at;
    } else {
      named += *at;
    }
  }
  return named;
}

std::string ignored_variables() {
  std::string text;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string name(*one, std::strcspn(*one, "="));
    if (name.rfind("NVSHMEM_", 0) != 0 ||
        std::find(kHonoured.begin(), kHonoured.end(), name) != kHonoured.end())
      continue;
    text += fmt::format("  {}\n", *one);
  }
  return text.empty() ? text : "Set, and without a meaning here:\n" + text;
}

}  // namespace

Outcome<Environment> read_environment() {
  Environment found;
  found.wants_version = is_on("NVSHMEM_VERSION");
  found.wants_info = is_on("NVSHMEM_INFO");
  if (const char* const size = value_of("NVSHMEM_SYMMETRIC_SIZE")) {
    auto bytes = symm::parse_size(size);
    if (!bytes)
      return Failure{bytes.error().status, "NVSHMEM_SYMMETRIC_SIZE: " + bytes.error().message};
    found.heap_bytes = *bytes;
    found.heap_bytes_most = 0;
  }
  if (const char* const most = value_of("NVSHMEM_MAX_MEMORY_PER_GPU")) {
    auto bytes = symm::parse_size(most);
    if (!bytes)
      return Failure{bytes.error().status, "NVSHMEM_MAX_MEMORY_PER_GPU: " + bytes.error().message};
    found.heap_bytes_most = *bytes;
  }
  found.spans_nodes =
      value_of("PENSTOCK_GPUS_OF_NODES") == nullptr || is_on("PENSTOCK_GPUS_OF_NODES");
  if (const char* const level = value_of("NVSHMEM_DEBUG")) {
    TRY_ASSIGN(found.told, level_of(level));
    found.wants_version = found.wants_version || ::strcasecmp(level, "NONE") != 0;
  }
  if (const char* const path = value_of("NVSHMEM_DEBUG_FILE")) found.told_to = with_names(path);
  if (const char* const names = value_of("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME"))
    found.interface = names;
  return found;
}

std::string info_text() {
  return R"(Environment variables of NVSHMEM programs:
  NVSHMEM_SYMMETRIC_SIZE  size of each PE's symmetric heap in its GPU: a number, and k, m, g or t after it
                          (512m, 1.5g). Where it is not set a heap begins with 1g and grows
  NVSHMEM_MAX_MEMORY_PER_GPU
                          what a heap grows to. Default: 128g, and no more than NVSHMEM_SYMMETRIC_SIZE where that
                          is set
  NVSHMEM_VERSION         set to anything: PE 0 prints the library's version at the start
  NVSHMEM_INFO            set to anything: PE 0 prints this text at the start
  NVSHMEM_DEBUG           VERSION, WARN, INFO or TRACE: how much is told on standard error
  NVSHMEM_DEBUG_FILE      where it is told instead; %h in it is the host, %p the process
  NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME
                          by which network interfaces PEs meet that join by a unique id or a communicator: how
                          their names begin, with commas between; =eth0: whole names; ^docker,lo: all but these.
                          Default: all that are up
  NVSHMEM_HOME            where programs find the library that are linked with -lnvshmem
)" + ignored_variables();
}

}  // namespace penstock::nvshmem
