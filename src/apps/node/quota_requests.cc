#include "quota_requests.h"

#include <fmt/format.h>

namespace penstock::apps {
namespace {

using Kind = meta::QuotaSubject::Kind;

// Who may ask owns the store, and with it all that is in it.
client::Credentials quota_owner() {
  client::Credentials credentials;
  credentials.enforce = false;
  return credentials;
}

Json quota_error(const std::string& whose, std::string_view why) {
  return {{"error", fmt::format("quota of {}: {}", whose, why)}};
}

std::optional<uint64_t> quota_number(const Json& request, const char* key) {
  const auto found = request.find(key);
  if (found == request.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<uint64_t>();
}

// Whose quota is meant.
struct Whose {
  meta::QuotaSubject subject;
  std::string name;
  std::string path;
};

std::string why_no_quota(Status status) {
  if (status == Code::not_directory) return "it is no directory";
  if (status == Code::not_supported) return "there are too many quotas";
  if (status == Code::not_found) return "there is none";
  if (status == Code::access_denied || status == Code::read_only) {
    return "this node is restricted (say it on one that is not: 'penstock nodes' shows which)";
  }
  return std::string(status.name());
}

Outcome<Whose> whose_quota(client::FileSystem& files, const Json& request) {
  const auto user = quota_number(request, "user");
  if (user) {
    const std::string name = fmt::format("user {}", *user);
    if (*user == 0 || *user > UINT32_MAX) {
      return Failure{Code::invalid_argument,
                     fmt::format("quota of {}: there is none (root has no quota)", name)};
    }
    return Whose{meta::QuotaSubject::of_user(static_cast<uint32_t>(*user)), name, ""};
  }
  const std::string path = text_at(request, "path");
  const auto found = files.resolve(quota_owner(), path, true);
  if (!found) {
    return Failure{found.error(), fmt::format("quota of {}: {}", path, found.error().name())};
  }
  if (found->type != meta::FileType::directory) {
    return Failure{Code::not_directory, fmt::format("quota of {}: it is no directory", path)};
  }
  return Whose{meta::QuotaSubject::of_directory(found->inode), path, path};
}

Json json_of(client::FileSystem& files, const meta::Quota& quota) {
  Json document = {{"capacity", quota.limits.bytes},   {"inodes", quota.limits.inodes},
                   {"used_bytes", quota.used.bytes},   {"used_inodes", quota.used.inodes},
                   {"promised_bytes", quota.promised}, {"counted", quota.counted}};
  if (quota.subject.kind == Kind::user) {
    document["user"] = quota.subject.id;
    return document;
  }
  // It may have another name by now, or be gone.
  const auto found = files.resolve(quota_owner(), quota.path, true);
  document["inode"] = quota.subject.id;
  document["path"] = quota.path;
  document["found"] = found.has_value() && found->inode.value == quota.subject.id;
  return document;
}

// Directories that were removed, or renamed since, are named by their inode.
Outcome<Whose> whose_that_has(client::FileSystem& files, const Json& request) {
  if (const auto inode = quota_number(request, "inode")) {
    return Whose{meta::QuotaSubject::of_directory(InodeId(*inode)), fmt::format("inode {}", *inode),
                 ""};
  }
  return whose_quota(files, request);
}

Result<std::optional<meta::Quota>> quota_there(client::FileSystem& files,
                                               meta::QuotaSubject subject) {
  TRY_ASSIGN(const std::vector<meta::Quota> all, files.quotas());
  for (const meta::Quota& quota : all) {
    if (quota.subject == subject) return std::optional<meta::Quota>(quota);
  }
  return std::optional<meta::Quota>();
}

Json set_one(client::FileSystem& files, const Json& request) {
  const auto target = whose_quota(files, request);
  if (!target) return {{"error", target.error().message}};
  const auto before = quota_there(files, target->subject);
  if (!before) return quota_error(target->name, why_no_quota(before.error()));
  // What is not given stays as it is.
  meta::QuotaLimits limits = *before ? (*before)->limits : meta::QuotaLimits();
  limits.bytes = quota_number(request, "capacity").value_or(limits.bytes);
  limits.inodes = quota_number(request, "inodes").value_or(limits.inodes);
  const Status status = files.set_quota(target->subject, limits, target->path);
  if (status == Code::timed_out || status == Code::may_have_happened) {
    return quota_error(target->name,
                       "the node with the names is still counting what is there; 'penstock quota "
                       "list' says 'counting' until it has");
  }
  if (!status.ok()) return quota_error(target->name, why_no_quota(status));
  log::info("quota of {}: {} bytes, {} inodes (0: no limit)", target->name, limits.bytes,
            limits.inodes);
  const auto now = quota_there(files, target->subject);
  if (!now || !*now) return quota_error(target->name, "it is gone again");
  return json_of(files, **now);
}

Json list_some(client::FileSystem& files, const Json& request) {
  const bool one = request.contains("path") || request.contains("user");
  std::optional<Whose> wanted;
  if (one) {
    auto target = whose_quota(files, request);
    if (!target) return {{"error", target.error().message}};
    wanted = std::move(*target);
  }
  const auto all = files.quotas();
  if (!all) return {{"error", fmt::format("quotas: {}", why_no_quota(all.error()))}};
  Json quotas = Json::array();
  for (const meta::Quota& quota : *all) {
    if (!wanted || quota.subject == wanted->subject) quotas.push_back(json_of(files, quota));
  }
  if (wanted && quotas.empty()) return quota_error(wanted->name, "there is none");
  return {{"quotas", quotas}};
}

Json delete_one(client::FileSystem& files, const Json& request) {
  const auto target = whose_that_has(files, request);
  if (!target) return {{"error", target.error().message}};
  const Status status = files.delete_quota(target->subject);
  if (!status.ok()) return quota_error(target->name, why_no_quota(status));
  log::info("quota of {}: deleted", target->name);
  return {{"deleted", target->name}};
}

Json check_one(client::FileSystem& files, const Json& request) {
  const auto target = whose_that_has(files, request);
  if (!target) return {{"error", target.error().message}};
  const bool repair = request.value("repair", false);
  const auto checked = files.check_quota(target->subject, repair);
  if (!checked) return quota_error(target->name, why_no_quota(checked.error()));
  const bool good = checked->quota.counted && checked->quota.used == checked->found;
  if (!good) {
    log::warning("quota of {}: counted {} bytes, {} inodes; there are {}, {}{}", target->name,
                 checked->quota.used.bytes, checked->quota.used.inodes, checked->found.bytes,
                 checked->found.inodes, repair ? "; repaired" : "");
  }
  Json document = json_of(files, checked->quota);
  document["found_bytes"] = checked->found.bytes;
  document["found_inodes"] = checked->found.inodes;
  document["good"] = good;
  document["repaired"] = repair && !good;
  return document;
}

}  // namespace

std::optional<Json> answer_about_quota(client::FileSystem& files, const Json& request) {
  const std::string command = text_at(request, "command");
  if (command == "quota set") return set_one(files, request);
  if (command == "quota list") return list_some(files, request);
  if (command == "quota delete") return delete_one(files, request);
  if (command == "quota check") return check_one(files, request);
  return std::nullopt;
}

}  // namespace penstock::apps
