// Whether a namespace is consistent, told problem by problem.
#include "cursor.h"
#include "keyed_hash.h"
#include "limits.h"
#include "reachable.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "penstock/meta_records.h"
#include "penstock/meta_text.h"

namespace penstock::meta_text {
namespace {

using engine::KvMode;
using engine::KvTransaction;
using meta::FileType;
using meta::Keys;

// An entry as it is listed.
struct Listed {
  InodeId directory;
  uint64_t cookie = 0;
  meta::CookieEntry entry;
};

// One attempt of the transaction. Statuses are what the store says; what is wrong goes to problems.
class Check {
 public:
  Check(KvTransaction& transaction, engine::Random& random, Problems& problems)
      : transaction_(transaction),
        problems_(problems),
        low_(random.next()),
        high_(random.next()),
        times_(all('T')),
        orphans_(all('O')),
        xattrs_(all('X')),
        entries_(all('C')),
        sums_(kCheckBuckets) {}

  Status run();
  const CheckCounts& counts() const { return counts_; }

 private:
  Cursor all(char kind) { return {transaction_, keys_.begin(kind), keys_.end(kind)}; }

  Status add_inodes();
  Status add_inode(const Cursor::Record& record);
  void add_facts(const meta::Inode& inode);
  Status add_times(const meta::Inode& inode);
  Status add_orphan(const meta::Inode& inode);
  Status add_xattrs(const meta::Inode& inode);
  Status add_entries(const meta::Inode& inode);
  Status look_at_listed();
  void judge(const Listed& listed, const std::optional<std::string>& by_name,
             const std::optional<std::string>& target);
  Status add_names();
  Status look_at_names(std::vector<std::string>& by_cookie, std::vector<std::string>& names);
  Status add_sessions();
  Status add_numbers();
  Status find_suspects();
  Status count_names_of(std::map<uint64_t, uint64_t>& found);
  // The cursor's record of this inode, null if it has none; those of inodes before it are told.
  Result<const Cursor::Record*> record_of(Cursor& cursor, InodeId inode);
  Status expect_end(Cursor& cursor);

  template <class... Arguments>
  void wrong(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    ++counts_.problems;
    problems_.add(fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  // What names are to add up to, and do.
  uint64_t& sum_of(uint64_t inode) { return sums_[hash(inode, low_) % sums_.size()]; }
  uint64_t weight(uint64_t inode) const { return hash(inode, high_) | 1; }
  static uint64_t hash(uint64_t number, uint64_t key) {
    const uint64_t words[] = {number};
    return static_cast<uint64_t>(
        KeyedHash(key, ~key).of({reinterpret_cast<const char*>(words), sizeof words}));
  }
  // How many names an inode is to have.
  static uint64_t names_wanted(const meta::Inode& inode) {
    if (!inode.is_directory()) return inode.attributes.links;
    return inode.attributes.links > 0 && inode.id() != meta::kRootInode ? 1 : 0;
  }

  KvTransaction& transaction_;
  Problems& problems_;
  const Keys keys_{""};
  const uint64_t low_;
  const uint64_t high_;
  Cursor times_;
  Cursor orphans_;
  Cursor xattrs_;
  Cursor entries_;
  CheckCounts counts_;
  std::vector<uint64_t> sums_;
  std::vector<Listed> listed_;
  std::optional<uint64_t> next_;
  uint64_t directories_ = 0;  // that have links
  bool has_root_ = false;
};

Status Check::run() {
  const std::string key = keys_.system(meta::kNextIdName);
  TRY_ASSIGN(const std::optional<std::string> next, transaction_.get(key));
  if (next) next_ = meta::decode_number(*next);
  if (!next_) wrong("key {}: the next number is missing, or none", meta::printable(key));
  TRY(add_inodes());
  TRY(look_at_listed());
  ASSERT(listed_.empty() && directories_ <= counts_.directories);
  if (!has_root_) wrong("inode 1: there is no root directory");
  TRY(add_names());
  TRY(add_sessions());
  TRY(add_numbers());
  TRY(find_suspects());
  // The walk down relies on what was looked at above.
  if (counts_.problems > 0 || directories_ == 0) return {};
  if (const auto reached = check_reachable(transaction_, directories_); !reached) {
    if (reached.error().status.code() != Code::corrupt) return reached.error().status;
    wrong("{}", reached.error().message);
  }
  return {};
}

Result<const Cursor::Record*> Check::record_of(Cursor& cursor, InodeId inode) {
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, cursor.peek());
    if (record == nullptr) return record;
    const std::optional<InodeId> found = keys_.inode_of(record->first);
    if (found && *found >= inode) return *found == inode ? record : nullptr;
    wrong("key {}: belongs to no inode that has such", meta::printable(record->first));
    cursor.next();
  }
}

Status Check::expect_end(Cursor& cursor) {
  TRY_ASSIGN(const Cursor::Record* const record, record_of(cursor, InodeId(UINT64_MAX)));
  if (record != nullptr) {
    wrong("key {}: belongs to no inode that has such", meta::printable(record->first));
  }
  return {};
}

Status Check::add_inodes() {
  Cursor inodes = all('I');
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, inodes.peek());
    if (record == nullptr) break;
    TRY(add_inode(*record));
    inodes.next();
  }
  for (Cursor* const cursor : {&times_, &orphans_, &xattrs_, &entries_}) TRY(expect_end(*cursor));
  return {};
}

Status Check::add_inode(const Cursor::Record& record) {
  const auto& [key, value] = record;
  ++counts_.inodes;
  const std::optional<InodeId> id = keys_.inode_of(key);
  std::optional<meta::Inode> inode;
  if (id && key == keys_.inode(*id)) inode = meta::decode_inode(*id, value);
  if (!inode) {
    wrong("key {}: not an inode", meta::printable(key));
    return {};
  }
  ASSERT(inode->id() == *id);
  add_facts(*inode);
  TRY(add_times(*inode));
  TRY(add_orphan(*inode));
  TRY(add_xattrs(*inode));
  return add_entries(*inode);
}

void Check::add_facts(const meta::Inode& inode) {
  const uint64_t id = inode.id().value;
  const bool is_root = inode.id() == meta::kRootInode;
  if (is_root) {
    has_root_ = inode.is_directory() && inode.attributes.links > 0;
    if (inode.parent != meta::kRootInode) wrong("inode 1: the root has another parent");
  } else if (id < meta::kFirstId) {
    wrong("inode {}: a number that is reserved", id);
  }
  if (next_ && id >= *next_) wrong("inode {}: beyond the next number, {}", id, *next_);
  if (inode.is_directory()) {
    ++counts_.directories;
    directories_ += inode.attributes.links > 0 ? 1 : 0;
  }
  sum_of(id) += weight(id) * names_wanted(inode);
}

Status Check::add_times(const meta::Inode& inode) {
  TRY_ASSIGN(const Cursor::Record* const record, record_of(times_, inode.id()));
  const bool is_there = record != nullptr;
  if (is_there && !inode.is_directory()) {
    wrong("inode {}: times of what is no directory", inode.id().value);
  } else if (!is_there && inode.is_directory()) {
    wrong("inode {}: a directory without times", inode.id().value);
  } else if (is_there && !meta::decode_directory_times(record->second)) {
    wrong("inode {}: the directory's times are none", inode.id().value);
  }
  if (is_there) times_.next();
  return {};
}

Status Check::add_orphan(const meta::Inode& inode) {
  TRY_ASSIGN(const Cursor::Record* const record, record_of(orphans_, inode.id()));
  const bool is_orphan = inode.attributes.links == 0;
  if (record == nullptr && is_orphan) {
    wrong("inode {}: no links, and no mark of what is to be collected", inode.id().value);
  } else if (record != nullptr && !is_orphan) {
    wrong("inode {}: has links, and a mark of what is to be collected", inode.id().value);
  } else if (is_orphan) {
    ++counts_.orphans;
    const auto kind = meta::decode_number(record->second);
    if (!kind || *kind > meta::kOrphanUnnamed)
      wrong("inode {}: a mark that is none", inode.id().value);
  }
  if (record != nullptr) orphans_.next();
  return {};
}

Status Check::add_xattrs(const meta::Inode& inode) {
  uint64_t bytes = 0;
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, record_of(xattrs_, inode.id()));
    if (record == nullptr) break;
    const std::optional<std::string_view> name = keys_.name_of(record->first);
    if (!name || name->size() > meta::kXattrNameBytesMax ||
        record->second.size() > meta::kXattrValueBytesMax) {
      wrong("key {}: not an extended attribute", meta::printable(record->first));
    } else {
      bytes += name->size() + 1;
    }
    ++counts_.xattrs;
    xattrs_.next();
  }
  if (bytes != inode.xattr_bytes) {
    wrong("inode {}: says {} bytes of names of extended attributes, and has {}", inode.id().value,
          inode.xattr_bytes, bytes);
  }
  return {};
}

Status Check::add_entries(const meta::Inode& inode) {
  uint64_t subdirectories = 0;
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, record_of(entries_, inode.id()));
    if (record == nullptr) break;
    ++counts_.entries;
    const std::optional<uint64_t> cookie = keys_.cookie_of(record->first);
    std::optional<meta::CookieEntry> entry = meta::decode_cookie_entry(record->second);
    if (!cookie || !entry) {
      wrong("key {}: not a directory entry", meta::printable(record->first));
    } else {
      if (!inode.is_directory() || inode.attributes.links == 0) {
        wrong("inode {}: has an entry, and is no directory, or a removed one", inode.id().value);
      }
      subdirectories += entry->type == FileType::directory ? 1 : 0;
      sum_of(entry->inode.value) -= weight(entry->inode.value);
      listed_.push_back({inode.id(), *cookie, std::move(*entry)});
    }
    entries_.next();
    if (listed_.size() == kScanRecords) TRY(look_at_listed());
  }
  if (!inode.is_directory() || inode.attributes.links == 0) return {};
  // Those of the trash do not count them.
  if (inode.trash != meta::TrashPart::none) subdirectories = 0;
  if (inode.attributes.links != 2 + subdirectories) {
    wrong("inode {}: the directory says {} links, and has {} subdirectories", inode.id().value,
          inode.attributes.links, subdirectories);
  }
  return {};
}

// What the entries name, and whether they are there by name, too.
Status Check::look_at_listed() {
  std::vector<std::string> keys;
  for (const Listed& listed : listed_) {
    keys.push_back(keys_.dentry(listed.directory, listed.entry.name));
    keys.push_back(keys_.inode(listed.entry.inode));
  }
  ASSERT(keys.size() == 2 * listed_.size());
  if (!keys.empty()) {
    TRY_ASSIGN(const KvTransaction::Values values, transaction_.get_many(keys));
    ASSERT(values.size() == 2 * listed_.size());
    for (size_t i = 0; i < listed_.size(); ++i) {
      judge(listed_[i], values[2 * i], values[2 * i + 1]);
    }
  }
  listed_.clear();
  return {};
}

void Check::judge(const Listed& listed, const std::optional<std::string>& by_name,
                  const std::optional<std::string>& target) {
  const std::string where = fmt::format("entry {} of directory {}",
                                        meta::printable(listed.entry.name), listed.directory.value);
  const auto dentry = by_name ? meta::decode_dentry(*by_name) : std::nullopt;
  const meta::CookieEntry& entry = listed.entry;
  if (!dentry) {
    wrong("{}: is listed, and not found by its name", where);
  } else if (dentry->inode != entry.inode || dentry->type != entry.type ||
             dentry->cookie != listed.cookie) {
    wrong(
        "{}: by its name it is inode {}, and inode {} as it is listed, or of another type or "
        "place",
        where, dentry->inode.value, entry.inode.value);
  }
  if (next_ && listed.cookie >= *next_) {
    wrong("{}: its cookie {} is beyond the next number, {}", where, listed.cookie, *next_);
  }
  const auto inode = target ? meta::decode_inode(entry.inode, *target) : std::nullopt;
  if (!target) {
    wrong("{}: names inode {}, which there is not", where, entry.inode.value);
  } else if (inode && inode->attributes.type != entry.type) {
    wrong("{}: inode {} is of another type", where, entry.inode.value);
  } else if (entry.inode == meta::kRootInode) {
    wrong("{}: names the root", where);
  } else if (inode && inode->is_directory() && inode->parent != listed.directory) {
    wrong("{}: inode {} says that it is in directory {}", where, entry.inode.value,
          inode->parent.value);
  }
}

// Entries by name that are not listed. That the others agree was looked at from there.
Status Check::add_names() {
  Cursor by_name = all('D');
  std::vector<std::string> by_cookie, names;
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, by_name.peek());
    if (record == nullptr) break;
    const std::optional<InodeId> directory = keys_.inode_of(record->first);
    const std::optional<meta::Dentry> dentry = meta::decode_dentry(record->second);
    if (!directory || !keys_.name_of(record->first) || !dentry) {
      wrong("key {}: not a directory entry", meta::printable(record->first));
    } else {
      by_cookie.push_back(keys_.cookie(*directory, dentry->cookie));
      names.push_back(record->first);
    }
    by_name.next();
    if (names.size() == kScanRecords) TRY(look_at_names(by_cookie, names));
  }
  return look_at_names(by_cookie, names);
}

Status Check::look_at_names(std::vector<std::string>& by_cookie, std::vector<std::string>& names) {
  if (names.empty()) return {};
  ASSERT(by_cookie.size() == names.size());
  TRY_ASSIGN(const KvTransaction::Values values, transaction_.get_many(by_cookie));
  ASSERT(values.size() == names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const auto entry = values[i] ? meta::decode_cookie_entry(*values[i]) : std::nullopt;
    const std::string_view name = *keys_.name_of(names[i]);
    if (entry && entry->name == name) continue;
    wrong("entry {} of directory {}: is found by its name, and not listed", meta::printable(name),
          keys_.inode_of(names[i])->value);
  }
  by_cookie.clear();
  names.clear();
  return {};
}

Status Check::add_sessions() {
  Cursor sessions = all('W');
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, sessions.peek());
    if (record == nullptr) return {};
    const auto& [key, value] = *record;
    const std::optional<InodeId> id = keys_.inode_of(key);
    const std::optional<uint64_t> token = meta::decode_number(value);
    ++counts_.sessions;
    if (!id || key != keys_.write_session(*id) || !token) {
      wrong("key {}: not a session", meta::printable(key));
    } else {
      TRY_ASSIGN(const std::optional<std::string> file, transaction_.get(keys_.inode(*id)));
      const auto inode = file ? meta::decode_inode(*id, *file) : std::nullopt;
      if (!inode || inode->attributes.type != FileType::regular) {
        wrong("inode {}: is open for writing, and is no file", id->value);
      }
      if (next_ && *token >= *next_) {
        wrong("inode {}: its session has a number beyond the next, {}", id->value, *next_);
      }
    }
    sessions.next();
  }
}

Status Check::add_numbers() {
  TRY_ASSIGN(const std::optional<std::string> kept,
             transaction_.get(keys_.system(meta::kInodesName)));
  if (!kept) return {};
  const std::optional<uint64_t> inodes = meta::decode_number(*kept);
  if (!inodes || *inodes != counts_.inodes) {
    wrong("the count of inodes says {}, and there are {}", inodes.value_or(0), counts_.inodes);
  }
  return {};
}

// Names and links of what is in sums that do not fit, one by one.
Status Check::find_suspects() {
  if (std::all_of(sums_.begin(), sums_.end(), [](uint64_t sum) { return sum == 0; })) return {};
  const uint64_t before = counts_.problems;
  std::map<uint64_t, uint64_t> found;
  TRY(count_names_of(found));
  Cursor inodes = all('I');
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, inodes.peek());
    if (record == nullptr) break;
    const std::optional<InodeId> id = keys_.inode_of(record->first);
    const auto inode = id ? meta::decode_inode(*id, record->second) : std::nullopt;
    if (inode && sum_of(id->value) != 0) {
      const auto names = found.find(id->value);
      const uint64_t there = names == found.end() ? 0 : names->second;
      // A bounded table that is full knows nothing of those that it has not.
      const bool is_known = names != found.end() || found.size() < kCheckSuspectsMax;
      if (is_known && there != names_wanted(*inode)) {
        wrong("inode {}: has {} names, and is to have {}", id->value, there, names_wanted(*inode));
      }
    }
    inodes.next();
  }
  if (counts_.problems == before) wrong("names and links do not add up");
  return {};
}

Status Check::count_names_of(std::map<uint64_t, uint64_t>& found) {
  Cursor entries = all('C');
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, entries.peek());
    if (record == nullptr) return {};
    const auto entry = meta::decode_cookie_entry(record->second);
    if (entry && sum_of(entry->inode.value) != 0) {
      const auto known = found.find(entry->inode.value);
      if (known != found.end()) {
        ++known->second;
      } else if (found.size() < kCheckSuspectsMax) {
        found.emplace(entry->inode.value, 1);
      }
    }
    entries.next();
  }
}

Outcome<void> check_version(engine::Kv& kv) {
  std::optional<uint64_t> version;
  const std::string key = Keys("").system(meta::kVersionName);
  const Status status = kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    TRY_ASSIGN(const std::optional<std::string> value, transaction.get(key));
    if (value) version = meta::decode_number(*value);
    return {};
  });
  if (!status.ok()) return Failure{status, fmt::format("cannot be read: {}", status.name())};
  if (!version) {
    return Failure{Code::corrupt, "the database holds no namespace, or its version record is lost"};
  }
  if (*version >= meta::kFormatVersionMin && *version <= meta::kFormatVersion) return {};
  return Failure{Code::wrong_version,
                 fmt::format("it has format {}, this program knows {} (use the program that wrote "
                             "it)",
                             *version, meta::kFormatVersion)};
}

}  // namespace

Outcome<CheckCounts> check(engine::Kv& kv, engine::Random& random, Problems& problems) {
  TRY(check_version(kv));
  CheckCounts counts;
  const Status status = kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    problems.begin();
    Check attempt(transaction, random, problems);
    const Status ended = attempt.run();
    counts = attempt.counts();
    return ended;
  });
  if (status.ok()) return counts;
  return Failure{status, fmt::format("cannot be read: {}", status.name())};
}

}  // namespace penstock::meta_text
