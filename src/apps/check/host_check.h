// What of this machine keeps Penstock from working, or makes it slower than it must be.
#pragma once

#include <string>
#include <vector>

#include "penstock/json.h"

namespace penstock::apps {

enum class Verdict { good, note, bad };

// One thing that was looked at. `mend` is the exact command, or what to do where there is none;
// empty when nothing is to be done.
struct Finding {
  std::string area;  // "limits"
  std::string what;  // "open files (nofile)"
  Verdict verdict = Verdict::good;
  std::string found;
  std::string mend;
};

struct HostCheckOptions {
  std::string directory;   // on the disk to look at; must exist
  std::string root = "/";  // where /proc, /sys and /etc are found; for tests
  bool is_root = false;    // whether a node would run as root
  bool ask_gpus = true;    // load the driver's library and look at the GPUs
};

std::vector<Finding> check_host(const HostCheckOptions& options);

// Parts of it.
std::vector<Finding> check_kernel(const HostCheckOptions& options);
std::vector<Finding> check_limits(const HostCheckOptions& options);
std::vector<Finding> check_disk(const HostCheckOptions& options);
std::vector<Finding> check_mounting(const HostCheckOptions& options);
std::vector<Finding> check_gpu_sharing(const HostCheckOptions& options);

bool is_well(const std::vector<Finding>& findings);
std::string text_of(const std::vector<Finding>& findings);
Json json_of(const std::vector<Finding>& findings);

}  // namespace penstock::apps
