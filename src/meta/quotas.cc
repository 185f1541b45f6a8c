// Setting quotas, and counting what there is.
#include "namespace.h"
#include "tree_usage.h"

#include "penstock/meta/records/limits.h"

namespace penstock::meta {
namespace {

using Kind = QuotaSubject::Kind;

Status check_subject(View& view, QuotaSubject subject) {
  if (subject.kind == Kind::user) return {};
  TRY_ASSIGN(const Inode directory, view.directory(InodeId(subject.id)));
  return {};
}

QuotaUsage shown(const UsageRecord& usage) {
  return {static_cast<uint64_t>(std::max<int64_t>(usage.bytes, 0)),
          static_cast<uint64_t>(std::max<int64_t>(usage.inodes, 0))};
}

Result<UsageRecord> sum_of_lanes(View& view, QuotaSubject subject) {
  UsageRecord sum;
  TRY(view.scan_usage(subject, [&](uint64_t, const UsageRecord& usage) {
    sum.bytes += usage.bytes;
    sum.inodes += usage.inodes;
  }));
  return sum;
}

}  // namespace

Status Namespace::load_quotas() {
  return transact(engine::KvMode::read, [&](View& view) -> Status {
    std::vector<std::pair<QuotaSubject, QuotaRecord>> found;
    TRY(view.scan_quotas([&](QuotaSubject subject, QuotaRecord& quota) {
      found.emplace_back(subject, std::move(quota));
    }));
    for (const auto& [subject, quota] : found) {
      TRY_ASSIGN(const UsageRecord used, sum_of_lanes(view, subject));
      quotas_.put(subject, quota);
      quotas_.set_used(subject, used);
    }
    return {};
  });
}

Status Namespace::set_quota(QuotaSubject subject, const QuotaLimits& limits,
                            std::string_view path) {
  if (subject.kind == Kind::user && (subject.id == 0 || subject.id > UINT32_MAX)) {
    return Code::invalid_argument;
  }
  if (subject.kind != Kind::user && subject.kind != Kind::directory) return Code::invalid_argument;
  if (path.size() > limits::kPathBytesMax) return Code::name_too_long;
  QuotaRecord record;
  {
    // From when it is let go on everything that changes is counted.
    const std::lock_guard alone(quotas_.gate);
    if (quotas_.find(subject) == nullptr && quotas_.size() >= kQuotasMax) {
      return Code::not_supported;
    }
    const Status done = transact(engine::KvMode::write_durable, [&](View& view) -> Status {
      TRY(check_subject(view, subject));
      TRY_ASSIGN(const std::optional<QuotaRecord> before, view.quota(subject));
      record = before.value_or(QuotaRecord());
      record.limits = limits;
      if (subject.kind == Kind::directory) record.path = path;
      view.put(subject, record);
      return {};
    });
    TRY(done);
    quotas_.put(subject, record);
  }
  if (record.counted) return {};
  const std::lock_guard one_at_a_time(counting_);
  TRY_ASSIGN(const Counted counted, count_all(subject));
  return correct(subject, counted);
}

Status Namespace::delete_quota(QuotaSubject subject) {
  const std::lock_guard alone(quotas_.gate);
  const Status done = transact(engine::KvMode::write_durable, [&](View& view) -> Status {
    TRY_ASSIGN(const std::optional<QuotaRecord> quota, view.quota(subject));
    if (!quota) return Code::not_found;
    std::vector<uint64_t> lanes;
    TRY(view.scan_usage(subject,
                        [&](uint64_t lane, const UsageRecord&) { lanes.push_back(lane); }));
    view.erase(subject);
    for (const uint64_t lane : lanes) view.erase_usage(subject, lane);
    return {};
  });
  TRY(done);
  quotas_.erase(subject);
  return {};
}

Result<std::vector<Quota>> Namespace::quotas(std::optional<QuotaSubject> after, size_t limit) {
  return quotas_.all(after, limit);
}

// In one snapshot: what there is, and what the lanes say.
Result<Namespace::Counted> Namespace::count(View& view, QuotaSubject subject) {
  Counted counted;
  TRY_ASSIGN(counted.before, sum_of_lanes(view, subject));
  if (subject.kind == Kind::user) {
    TRY(view.scan_inodes([&](const Inode& inode) {
      if (inode.attributes.uid != subject.id || inode.attributes.links == 0) return;
      const UsageRecord usage = usage_of(inode.attributes);
      counted.found.bytes += usage.bytes;
      counted.found.inodes += usage.inodes;
    }));
    return counted;
  }
  TRY(check_subject(view, subject));
  TRY_ASSIGN(const std::optional<UsageRecord> found,
             usage_below(view, InodeId(subject.id), SIZE_MAX,
                         [&](const Inode& file, InodeId directory, const std::string& name) {
                           if (counted.unplaced.size() < kAdoptedMax) {
                             counted.unplaced.push_back({file.id(), directory, name});
                           }
                         }));
  ASSERT(found.has_value());
  counted.found = *found;
  return counted;
}

// Files of an older format are counted in a directory from now on, by the way of all changes.
Status Namespace::adopt(const std::vector<Counted::Unplaced>& unplaced) {
  for (size_t first = 0; first < unplaced.size(); first += kEntriesPerTransaction) {
    const size_t end = std::min(unplaced.size(), first + kEntriesPerTransaction);
    const auto body = [&](View& view, Charges& charges) -> Status {
      for (size_t i = first; i < end; ++i) {
        const Counted::Unplaced& one = unplaced[i];
        TRY_ASSIGN(const std::optional<Dentry> dentry, view.find(one.directory, one.name));
        if (!dentry || dentry->inode != one.inode) continue;
        TRY_ASSIGN(Inode inode, view.named_inode(one.inode));
        if (inode.parent != InodeId() || inode.is_directory()) continue;
        TRY(charges.removed(view, inode));
        inode.parent = one.directory;
        if (inode.attributes.links > 1) view.put_names(inode.id(), one.directory, 1);
        TRY(charges.added(view, inode));
        view.put(inode);
      }
      return {};
    };
    TRY(charged(engine::KvMode::write, body, Charges::Gate::shared, true));
  }
  return {};
}

Result<Namespace::Counted> Namespace::count_all(QuotaSubject subject) {
  while (true) {
    TRY_ASSIGN(Counted counted, transact(engine::KvMode::read, [&](View& view) -> Result<Counted> {
                 return count(view, subject);
               }));
    // Ends: what was adopted stays so, and nothing is made that would have to be.
    if (counted.unplaced.empty()) return counted;
    TRY(adopt(counted.unplaced));
  }
}

Status Namespace::correct(QuotaSubject subject, const Counted& counted) {
  const UsageRecord by{counted.found.bytes - counted.before.bytes,
                       counted.found.inodes - counted.before.inodes};
  const Status done = transact(engine::KvMode::write_durable, [&](View& view) -> Status {
    TRY_ASSIGN(std::optional<QuotaRecord> quota, view.quota(subject));
    if (!quota) return Code::not_found;
    TRY_ASSIGN(UsageRecord base, view.usage(subject, 0));
    base.bytes += by.bytes;
    base.inodes += by.inodes;
    view.put(subject, 0, base);
    quota->counted = true;
    view.put(subject, *quota);
    return {};
  });
  TRY(done);
  quotas_.correct(subject, by);
  return {};
}

Result<QuotaCheck> Namespace::check_quota(QuotaSubject subject, bool repair) {
  const std::lock_guard one_at_a_time(counting_);
  const std::shared_ptr<QuotaEntry> entry = quotas_.find(subject);
  if (entry == nullptr) return Code::not_found;
  QuotaCheck check;
  check.quota = quotas_.told(*entry);
  TRY_ASSIGN(const Counted counted, count_all(subject));
  check.quota.used = shown(counted.before);
  check.found = shown(counted.found);
  if (!repair) return check;
  TRY(correct(subject, counted));
  // What is in memory, too, may have missed a commit of which nobody knew.
  const std::lock_guard alone(quotas_.gate);
  const Status done = transact(engine::KvMode::read, [&](View& view) -> Status {
    TRY_ASSIGN(const UsageRecord used, sum_of_lanes(view, subject));
    quotas_.set_used(subject, used);
    return {};
  });
  TRY(done);
  return check;
}

Result<std::optional<Quota>> Namespace::quota_of(InodeId inode) {
  const std::shared_lock shared(quotas_.gate);
  if (!quotas_.any_of_directories()) return std::optional<Quota>();
  TRY_ASSIGN(const QuotaEntries entries,
             transact(engine::KvMode::read, [&](View& view) -> Result<QuotaEntries> {
               TRY_ASSIGN(const Inode found, view.inode(inode));
               return quotas_.above(view, found.is_directory() ? inode : found.parent);
             }));
  const auto left = [](const Quota& quota) {
    const uint64_t limit = quota.limits.bytes;
    if (limit == 0) return UINT64_MAX;
    return limit > quota.used.bytes ? limit - quota.used.bytes : 0;
  };
  std::optional<Quota> least;
  for (const auto& entry : entries) {
    Quota quota = quotas_.told(*entry);
    if (!quota.counted) continue;
    if (!least || left(quota) < left(*least)) least = std::move(quota);
  }
  return least;
}

Result<uint64_t> Namespace::reserve(InodeId inode, uint64_t length) {
  if (length > limits::kFileBytesMax) return Code::too_large;
  const std::shared_lock shared(quotas_.gate);
  if (!quotas_.any()) return length + kUnboundAheadBytes;
  uint64_t recorded = 0;
  bool counts = false;
  TRY_ASSIGN(QuotaEntries entries,
             transact(engine::KvMode::read, [&](View& view) -> Result<QuotaEntries> {
               TRY_ASSIGN(const Inode found, view.inode(inode));
               if (found.attributes.type != FileType::regular) return Code::invalid_argument;
               recorded = found.attributes.length;
               counts = found.attributes.links > 0;
               TRY_ASSIGN(QuotaEntries above, quotas_.above(view, found.parent));
               if (auto user = quotas_.of_user(found.attributes.uid)) {
                 above.push_back(std::move(user));
               }
               return above;
             }));
  if (entries.empty()) return length + kUnboundAheadBytes;
  TRY_ASSIGN(const uint64_t promised, quotas_.reserve(inode, entries, recorded, length, counts));
  // A call that comes late must leave nothing behind that no session ends: whoever ends one takes
  // the mark away first, and then the promise.
  const Result<bool> in_session = is_unsettled(inode);
  if (in_session && *in_session) return promised;
  quotas_.settled(inode, recorded, true);
  if (!in_session) return in_session.error();
  return length;
}

}  // namespace penstock::meta
