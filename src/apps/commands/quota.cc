// `penstock quota`: set, get, list, delete, check.
#include "commands.h"
#include "node/admin.h"
#include "node/node_service.h"

#include <cstdio>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

uint64_t quota_count(const Json& from, const char* key) {
  return from.value(key, uint64_t{0});
}

std::string quota_bytes_text(uint64_t bytes) {
  return console::human_bytes(static_cast<double>(bytes));
}

std::string quota_part(uint64_t used, uint64_t limit) {
  if (limit == 0) return "-";
  return std::to_string(
             static_cast<uint64_t>(static_cast<double>(used) * 100 / static_cast<double>(limit))) +
         "%";
}

std::string quota_whose(const Json& quota) {
  if (quota.contains("user")) return "user " + std::to_string(quota_count(quota, "user"));
  const std::string path = quota.value("path", std::string());
  if (quota.value("found", false)) return path;
  return "inode " + std::to_string(quota_count(quota, "inode")) + " (was " + path + ")";
}

std::vector<std::string> quota_row(const Json& quota) {
  const uint64_t capacity = quota_count(quota, "capacity");
  const uint64_t inodes = quota_count(quota, "inodes");
  const uint64_t used_bytes = quota_count(quota, "used_bytes");
  const uint64_t used_inodes = quota_count(quota, "used_inodes");
  const bool counted = quota.value("counted", false);
  return {quota_whose(quota),
          capacity == 0 ? "none" : quota_bytes_text(capacity),
          counted ? quota_bytes_text(used_bytes) : "counting",
          quota_part(used_bytes, capacity),
          inodes == 0 ? "none" : std::to_string(inodes),
          counted ? std::to_string(used_inodes) : "counting",
          quota_part(used_inodes, inodes)};
}

void print_quotas(const Json& quotas) {
  console::Table table({"quota of", "capacity", "used", "use%", "inodes", "used", "use%"},
                       {1, 2, 3, 4, 5, 6});
  for (const Json& quota : quotas) table.add(quota_row(quota));
  std::printf("%s", table.text().c_str());
}

Outcome<Json> ask_quota(const char* command, const QuotaOptions& options) {
  Json request = {{"command", command}};
  if (!options.path.empty()) request["path"] = options.path;
  if (options.user) request["user"] = *options.user;
  if (options.inode) request["inode"] = *options.inode;
  if (options.capacity) request["capacity"] = *options.capacity;
  if (options.inodes) request["inodes"] = *options.inodes;
  if (options.repair) request["repair"] = true;
  return ask_node(absolute_path(options.directory), request);
}

bool names_one_quota(const QuotaOptions& options) {
  return !options.path.empty() || options.user || options.inode;
}

int refuse_quota(const char* command, const char* what) {
  std::fprintf(stderr, "penstock quota %s: %s\n", command, what);
  return kExitUsage;
}

constexpr const char* kWhoseQuota = "whose? (--path /DIRECTORY or --user ID)";

void print_quota_json(const Json& document) {
  std::printf("%s\n", document.dump(2).c_str());
}

}  // namespace

int run_quota_set(const QuotaOptions& options) {
  if (!names_one_quota(options)) return refuse_quota("set", kWhoseQuota);
  if (!options.capacity && !options.inodes) {
    return refuse_quota("set", "what? (--capacity SIZE, --inodes NUMBER; 0: no limit)");
  }
  auto answer = ask_quota("quota set", options);
  if (!answer) return fail("quota set", answer.error());
  if (options.json) {
    print_quota_json(*answer);
  } else {
    print_quotas(Json::array({*answer}));
  }
  return kExitOk;
}

int run_quota_get(const QuotaOptions& options) {
  if (!names_one_quota(options)) return refuse_quota("get", kWhoseQuota);
  return run_quota_list(options);
}

int run_quota_list(const QuotaOptions& options) {
  auto answer = ask_quota("quota list", options);
  if (!answer) return fail(names_one_quota(options) ? "quota get" : "quota list", answer.error());
  const Json& quotas = (*answer)["quotas"];
  if (options.json) {
    print_quota_json(*answer);
  } else if (quotas.empty()) {
    std::printf(
        "there are no quotas ('penstock quota set DIR --path /A --capacity 10G' makes one)\n");
  } else {
    print_quotas(quotas);
  }
  return kExitOk;
}

int run_quota_delete(const QuotaOptions& options) {
  if (!names_one_quota(options)) return refuse_quota("delete", kWhoseQuota);
  auto answer = ask_quota("quota delete", options);
  if (!answer) return fail("quota delete", answer.error());
  if (options.json) {
    print_quota_json(*answer);
  } else {
    std::printf("quota of %s: deleted\n", answer->value("deleted", "").c_str());
  }
  return kExitOk;
}

int run_quota_check(const QuotaOptions& options) {
  if (!names_one_quota(options)) return refuse_quota("check", kWhoseQuota);
  auto answer = ask_quota("quota check", options);
  if (!answer) return fail("quota check", answer.error());
  const bool good = answer->value("good", false);
  const bool repaired = answer->value("repaired", false);
  if (options.json) {
    print_quota_json(*answer);
  } else if (good) {
    std::printf("quota of %s: right, %llu bytes and %llu inodes\n", quota_whose(*answer).c_str(),
                static_cast<unsigned long long>(quota_count(*answer, "found_bytes")),
                static_cast<unsigned long long>(quota_count(*answer, "found_inodes")));
  } else {
    std::printf("quota of %s: counted %llu bytes and %llu inodes, there are %llu and %llu: %s\n",
                quota_whose(*answer).c_str(),
                static_cast<unsigned long long>(quota_count(*answer, "used_bytes")),
                static_cast<unsigned long long>(quota_count(*answer, "used_inodes")),
                static_cast<unsigned long long>(quota_count(*answer, "found_bytes")),
                static_cast<unsigned long long>(quota_count(*answer, "found_inodes")),
                repaired ? "repaired" : "'--repair' corrects it");
  }
  return good || repaired ? kExitOk : kExitDifferent;
}

}  // namespace penstock::apps
