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

// As NVSHMEM has it: a number, perhaps one of k, m, g and t, and whatever the user writes after
// that, as in 1GB.
Outcome<uint64_t> parse_heap_size(const std::string& text) {
  const size_t unit = text.find_first_not_of("0123456789.eE+-");
  const std::string number = text.substr(0, unit);
  const bool has_unit = unit != std::string::npos && !number.empty() &&
                        std::strchr("kKmMgGtT", text[unit]) != nullptr;
  if (has_unit || unit == std::string::npos) {
    char* end = nullptr;
    if (std::strtod(number.c_str(), &end) == 0 && *end == 0) return uint64_t{0};
  }
  return symm::parse_size(has_unit ? text.substr(0, unit + 1) : text);
}

// 0 is as good as not set.
Outcome<uint64_t> heap_size(const char* name) {
  const char* const text = value_of(name);
  if (text == nullptr) return uint64_t{0};
  auto bytes = parse_heap_size(text);
  if (bytes) return bytes;
  return Failure{bytes.error().status, fmt::format("{}: {}", name, bytes.error().message)};
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
  TRY_ASSIGN(const uint64_t bytes, heap_size("NVSHMEM_SYMMETRIC_SIZE"));
  TRY_ASSIGN(const uint64_t most, heap_size("NVSHMEM_MAX_MEMORY_PER_GPU"));
  if (bytes != 0) {
    found.heap_bytes = bytes;
    found.heap_bytes_most = 0;
  }
  if (most != 0) found.heap_bytes_most = most;
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
                          (512m, 1.5g; 1GB is 1g, as what follows the letter does not count). Where it is not
                          set, or 0, a heap begins with 1g and grows
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
