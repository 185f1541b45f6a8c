#include "view.h"

#include "permissions.h"

namespace penstock::meta {

Status View::corrupt(std::string_view key, std::string_view what) const {
  log::error("metadata corrupt: key {}: {}", printable(key), what);
  return Code::corrupt;
}

Result<Inode> View::inode(InodeId id) {
  const std::string key = keys_.inode(id);
  TRY_ASSIGN(const auto value, transaction_.get(key));
  if (!value) return Code::not_found;
  std::optional<Inode> inode = decode_inode(id, *value);
  if (!inode) return corrupt(key, "not an inode");
  ASSERT(inode->id() == id);
  if (cache_.kept != nullptr) cache_.kept->keep(*inode, cache_.began);
  return std::move(*inode);
}

Result<Inode> View::named_inode(InodeId id) {
  Result<Inode> found = inode(id);
  if (!found && found.error().code() == Code::not_found) {
    return corrupt(keys_.inode(id), "an entry names this inode, but it is missing");
  }
  return found;
}

Result<std::vector<Attributes>> View::named_attributes(std::span<const InodeId> ids) {
  std::vector<std::string> keys;
  keys.reserve(ids.size());
  for (const InodeId id : ids) keys.push_back(keys_.inode(id));
  TRY_ASSIGN(engine::KvTransaction::Values values, transaction_.get_many(keys));
  ASSERT(values.size() == ids.size());
  std::vector<Attributes> all;
  std::vector<size_t> directories;
  std::vector<std::string> times;
  all.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!values[i]) return corrupt(keys[i], "an entry names this inode, but it is missing");
    std::optional<Inode> inode = decode_inode(ids[i], *values[i]);
    if (!inode) return corrupt(keys[i], "not an inode");
    if (cache_.kept != nullptr) cache_.kept->keep(*inode, cache_.began);
    if (inode->is_directory()) {
      directories.push_back(i);
      times.push_back(keys_.times(ids[i]));
    }
    all.push_back(std::move(inode->attributes));
  }
  if (directories.empty()) return all;
  TRY_ASSIGN(values, transaction_.get_many(times));
  for (size_t i = 0; i < directories.size(); ++i) {
    TRY_ASSIGN(const DirectoryTimes when, times_in(times[i], values[i]));
    all[directories[i]].modified = when.modified;
    all[directories[i]].changed = when.changed;
  }
  return all;
}

Result<Inode> View::directory(InodeId id) {
  TRY_ASSIGN(Inode found, inode(id));
  if (!found.is_directory()) return Code::not_directory;
  if (found.attributes.links == 0) return Code::not_found;
  return found;
}

Result<Attributes> View::attributes(const Inode& inode) {
  Attributes whole = inode.attributes;
  if (inode.is_directory()) {
    TRY_ASSIGN(const DirectoryTimes when, times(inode.id()));
    whole.modified = when.modified;
    whole.changed = when.changed;
  }
  return whole;
}

void View::put(const Inode& inode) {
  if (cache_.changes != nullptr) cache_.changes->of(inode.id());
  put_new(inode);
}

// The cache knows nothing of what is not there, so there is nothing in it to take out.
void View::put_new(const Inode& inode) {
  writing().put(keys_.inode(inode.id()), encode(inode));
}

void View::erase(const Inode& inode) {
  if (cache_.changes != nullptr) cache_.changes->of(inode.id());
  writing().erase(keys_.inode(inode.id()));
  if (inode.is_directory()) writing().erase(keys_.times(inode.id()));
}

Result<DirectoryTimes> View::times(InodeId directory) {
  const std::string key = keys_.times(directory);
  TRY_ASSIGN(const auto value, transaction_.get(key));
  return times_in(key, value);
}

Result<DirectoryTimes> View::times_in(std::string_view key,
                                      const std::optional<std::string>& value) const {
  if (!value) return corrupt(key, "the directory's times are missing");
  const std::optional<DirectoryTimes> times = decode_directory_times(*value);
  if (!times) return corrupt(key, "not the times of a directory");
  return *times;
}

void View::put_times(InodeId directory, const DirectoryTimes& times) {
  ASSERT(directory != InodeId());
  writing().put(keys_.times(directory), encode(times));
}

Result<std::optional<Dentry>> View::find(InodeId parent, std::string_view name) {
  const std::string key = keys_.dentry(parent, name);
  TRY_ASSIGN(const auto value, transaction_.get(key));
  if (!value) return std::optional<Dentry>();
  std::optional<Dentry> dentry = decode_dentry(*value);
  if (!dentry) return corrupt(key, "not a directory entry");
  if (cache_.kept != nullptr) cache_.kept->keep(parent, name, *dentry, cache_.began);
  return dentry;
}

void View::put(InodeId parent, std::string_view name, const Dentry& dentry) {
  if (cache_.changes != nullptr) cache_.changes->of(parent, name);
  put_new(parent, name, dentry);
}

void View::put_new(InodeId parent, std::string_view name, const Dentry& dentry) {
  DASSERT(parent != InodeId() && check_name(name).ok() && !is_dots(name));
  writing().put(keys_.dentry(parent, name), encode(dentry));
  writing().put(keys_.cookie(parent, dentry.cookie),
                encode(CookieEntry{std::string(name), dentry.inode, dentry.type}));
}

void View::erase(InodeId parent, std::string_view name, const Dentry& dentry) {
  if (cache_.changes != nullptr) cache_.changes->of(parent, name);
  writing().erase(keys_.dentry(parent, name));
  writing().erase(keys_.cookie(parent, dentry.cookie));
}

Result<bool> View::is_empty(InodeId directory) {
  bool empty = true;
  TRY(transaction_.scan(keys_.begin('C', directory), keys_.end('C', directory),
                        [&](std::string_view, std::string_view) {
                          empty = false;
                          return false;
                        }));
  return empty;
}

Status View::scan_entries(InodeId directory, uint64_t after,
                          const std::function<bool(uint64_t, CookieEntry&)>& visit) {
  Status status;
  TRY(transaction_.scan(keys_.cookie(directory, after + 1), keys_.end('C', directory),
                        [&](std::string_view key, std::string_view value) {
                          std::optional<CookieEntry> entry = decode_cookie_entry(value);
                          const std::optional<uint64_t> cookie = keys_.cookie_of(key);
                          if (!entry || !cookie) {
                            status = corrupt(key, "not a directory entry");
                            return false;
                          }
                          return visit(*cookie, *entry);
                        }));
  return status;
}

Result<std::optional<std::string>> View::xattr(InodeId inode, std::string_view name) {
  return transaction_.get(keys_.xattr(inode, name));
}

void View::put_xattr(InodeId inode, std::string_view name, std::string_view value) {
  writing().put(keys_.xattr(inode, name), value);
}

void View::erase_xattr(InodeId inode, std::string_view name) {
  writing().erase(keys_.xattr(inode, name));
}

Status View::scan_xattrs(InodeId inode, const std::function<void(std::string_view)>& visit) {
  Status status;
  TRY(transaction_.scan(keys_.begin('X', inode), keys_.end('X', inode),
                        [&](std::string_view key, std::string_view) {
                          const std::optional<std::string_view> name = keys_.name_of(key);
                          if (!name) {
                            status = corrupt(key, "not an extended attribute");
                            return false;
                          }
                          visit(*name);
                          return true;
                        }));
  return status;
}

void View::put_mark(const std::string& key, uint64_t number) {
  writing().put(key, encode_number(number));
}

Result<std::optional<uint64_t>> View::mark(const std::string& key) {
  TRY_ASSIGN(const auto value, transaction_.get(key));
  if (!value) return std::optional<uint64_t>();
  const std::optional<uint64_t> number = decode_number(*value);
  if (!number) return corrupt(key, "not a number");
  return number;
}

Status View::scan_ids(char kind, InodeId after, const std::function<bool(InodeId)>& visit) {
  Status status;
  TRY(transaction_.scan(keys_.begin(kind, InodeId(after.value + 1)), keys_.end(kind),
                        [&](std::string_view key, std::string_view) {
                          const std::optional<InodeId> id = keys_.inode_of(key);
                          if (!id) {
                            status = corrupt(key, "no inode id");
                            return false;
                          }
                          return visit(*id);
                        }));
  return status;
}

Result<std::optional<uint64_t>> View::number(std::string_view system_name) {
  return mark(keys_.system(system_name));
}

void View::put_number(std::string_view system_name, uint64_t number) {
  writing().put(keys_.system(system_name), encode_number(number));
}

void View::erase_number(std::string_view system_name) {
  writing().erase(keys_.system(system_name));
}

Result<UsageRecord> View::usage(QuotaSubject subject, uint64_t lane) {
  const std::string key = keys_.usage(subject, lane);
  TRY_ASSIGN(const auto value, transaction_.get(key));
  if (!value) return UsageRecord();
  const std::optional<UsageRecord> usage = decode_usage(*value);
  if (!usage) return corrupt(key, "not what a quota has counted");
  return *usage;
}

void View::put(QuotaSubject subject, uint64_t lane, const UsageRecord& usage) {
  writing().put(keys_.usage(subject, lane), encode(usage));
}

void View::put(QuotaSubject subject, const QuotaRecord& quota) {
  writing().put(keys_.quota(subject), encode(quota));
}

Result<std::optional<QuotaRecord>> View::quota(QuotaSubject subject) {
  const std::string key = keys_.quota(subject);
  TRY_ASSIGN(const auto value, transaction_.get(key));
  if (!value) return std::optional<QuotaRecord>();
  std::optional<QuotaRecord> quota = decode_quota(*value);
  if (!quota) return corrupt(key, "not a quota");
  return quota;
}

Status View::scan_quotas(const std::function<void(QuotaSubject, QuotaRecord&)>& visit) {
  Status status;
  TRY(transaction_.scan(keys_.begin('Q'), keys_.end('Q'),
                        [&](std::string_view key, std::string_view value) {
                          const std::optional<QuotaSubject> subject = keys_.subject_of(key);
                          std::optional<QuotaRecord> quota = decode_quota(value);
                          if (!subject || !quota) {
                            status = corrupt(key, "not a quota");
                            return false;
                          }
                          visit(*subject, *quota);
                          return true;
                        }));
  return status;
}

Status View::scan_usage(QuotaSubject subject,
                        const std::function<void(uint64_t lane, const UsageRecord&)>& visit) {
  Status status;
  // Lanes are counted up from 0.
  const std::string begin = keys_.usage(subject, 0);
  TRY(transaction_.scan(begin, keys_.usage(subject, UINT64_MAX),
                        [&](std::string_view key, std::string_view value) {
                          const std::optional<UsageRecord> usage = decode_usage(value);
                          if (!usage || key.size() != begin.size()) {
                            status = corrupt(key, "not what a quota has counted");
                            return false;
                          }
                          uint64_t lane = 0;
                          for (const char byte : key.substr(key.size() - sizeof lane)) {
                            lane = lane << 8 | static_cast<uint8_t>(byte);
                          }
                          visit(lane, *usage);
                          return true;
                        }));
  return status;
}

void View::put_trash(InodeId directory, const TrashRecord& record) {
  writing().put(keys_.trash_days(directory), encode(record));
}

Status View::scan_trash(const std::function<void(InodeId, TrashRecord&)>& visit) {
  Status status;
  TRY(transaction_.scan(keys_.begin('K'), keys_.end('K'),
                        [&](std::string_view key, std::string_view value) {
                          const std::optional<InodeId> directory = keys_.inode_of(key);
                          std::optional<TrashRecord> record = decode_trash(value);
                          if (!directory || !record) {
                            status = corrupt(key, "not for how long the trash is kept");
                            return false;
                          }
                          visit(*directory, *record);
                          return true;
                        }));
  return status;
}

Result<uint64_t> View::names_in(InodeId inode, InodeId directory) {
  TRY_ASSIGN(const std::optional<uint64_t> count, mark(keys_.names(inode, directory)));
  return count.value_or(0);
}

void View::put_names(InodeId inode, InodeId directory, uint64_t count) {
  const std::string key = keys_.names(inode, directory);
  if (count == 0) {
    writing().erase(key);
  } else {
    put_mark(key, count);
  }
}

Result<std::vector<InodeId>> View::directories_of(InodeId inode) {
  std::vector<InodeId> found;
  Status status;
  TRY(transaction_.scan(keys_.begin('L', inode), keys_.end('L', inode),
                        [&](std::string_view key, std::string_view) {
                          const std::optional<uint64_t> directory = keys_.cookie_of(key);
                          if (!directory || *directory == 0) {
                            status = corrupt(key, "not the names of a file");
                            return false;
                          }
                          found.emplace_back(*directory);
                          return true;
                        }));
  TRY(status);
  return found;
}

Status View::scan_inodes(const std::function<void(const Inode&)>& visit) {
  Status status;
  TRY(transaction_.scan(
      keys_.begin('I'), keys_.end('I'), [&](std::string_view key, std::string_view value) {
        const std::optional<InodeId> id = keys_.inode_of(key);
        const std::optional<Inode> inode = id ? decode_inode(*id, value) : std::nullopt;
        if (!inode) {
          status = corrupt(key, "not an inode");
          return false;
        }
        visit(*inode);
        return true;
      }));
  return status;
}

}  // namespace penstock::meta
