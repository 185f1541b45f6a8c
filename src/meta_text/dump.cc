#include "dump.h"

#include "cursor.h"
#include "structure.h"

#include <cstring>
#include <fmt/format.h>

namespace penstock::meta_text {
namespace {

using engine::KvMode;
using engine::KvTransaction;
using meta::Keys;

// Whether both kinds of records of entries say the same: the sums of what each says.
class EntryPairs {
 public:
  explicit EntryPairs(engine::Random& random) : hash_(random) {}

  void add_by_cookie(const EntryLine& line) { by_cookie_ += hash(line); }
  void add_by_name(const EntryLine& line) { by_name_ += hash(line); }
  bool agree() const { return by_cookie_ == by_name_; }

 private:
  KeyedHash::Value hash(const EntryLine& line) {
    const uint64_t words[] = {line.directory.value, line.cookie, line.entry.inode.value,
                              static_cast<uint64_t>(line.entry.type)};
    bytes_.assign(reinterpret_cast<const char*>(words), sizeof words);
    bytes_ += line.entry.name;
    return hash_.of(bytes_);
  }

  const KeyedHash hash_;
  KeyedHash::Value by_cookie_ = 0;
  KeyedHash::Value by_name_ = 0;
  std::string bytes_;
};

// One attempt of the transaction.
class Dump {
 public:
  Dump(KvTransaction& transaction, engine::Random& random, TextWriter& writer)
      : transaction_(transaction),
        structure_(random),
        pairs_(random),
        writer_(writer),
        times_(all('T')),
        orphans_(all('O')),
        xattrs_(all('X')),
        entries_(all('C')) {}

  Outcome<Counts> run(bool needs_version);

 private:
  Cursor all(char kind) { return {transaction_, keys_.begin(kind), keys_.end(kind)}; }

  template <class AnyLine>
  Outcome<void> add(std::string_view key, const AnyLine& line);
  Outcome<void> check_version();
  Outcome<void> add_next();
  Outcome<void> add_inodes();
  Outcome<void> add_inode(const Cursor::Record& record);
  Outcome<void> add_xattrs(const meta::Inode& inode);
  Outcome<void> add_entries(const meta::Inode& inode);
  Outcome<void> add_sessions();
  Outcome<void> check_session(const Cursor::Record& record, InodeId id);
  Outcome<void> check_pairs();
  Outcome<const Cursor::Record*> record_of(Cursor& cursor, InodeId inode);
  Outcome<void> expect_end(Cursor& cursor);
  Outcome<std::optional<uint64_t>> number(std::string_view name);

  static Failure corrupt(std::string_view key, std::string_view what) {
    return {Code::corrupt, fmt::format("key {}: {}", meta::printable(key), what)};
  }
  // What the store itself says.
  template <class T>
  static Outcome<T> told(Result<T> result) {
    if (result) return std::move(*result);
    return Failure{result.error(), fmt::format("cannot be read: {}", result.error().name())};
  }

  KvTransaction& transaction_;
  const Keys keys_{""};
  Structure structure_;
  EntryPairs pairs_;
  TextWriter& writer_;
  Cursor times_;
  Cursor orphans_;
  Cursor xattrs_;
  Cursor entries_;
};

template <class AnyLine>
Outcome<void> Dump::add(std::string_view key, const AnyLine& line) {
  if (Outcome<void> added = structure_.add(line); !added) {
    return corrupt(key, added.error().message);
  }
  return writer_.add(line);
}

Outcome<Counts> Dump::run(bool needs_version) {
  if (needs_version) TRY(check_version());
  TRY(writer_.begin());
  TRY(writer_.add(VersionLine{}));
  TRY(add_next());
  TRY(add_inodes());
  TRY(add_sessions());
  TRY(check_pairs());
  if (Outcome<void> finished = structure_.finish(); !finished) return finished.error();
  TRY(writer_.end(structure_.counts()));
  return structure_.counts();
}

Outcome<std::optional<uint64_t>> Dump::number(std::string_view name) {
  const std::string key = keys_.system(name);
  TRY_ASSIGN(const std::optional<std::string> value, told(transaction_.get(key)));
  if (!value) return std::optional<uint64_t>();
  const std::optional<uint64_t> number = meta::decode_number(*value);
  if (!number) return corrupt(key, "not a number");
  return number;
}

Outcome<void> Dump::check_version() {
  TRY_ASSIGN(const std::optional<uint64_t> version, number(meta::kVersionName));
  if (!version) {
    return Failure{Code::corrupt, "the database holds no namespace, or its version record is lost"};
  }
  if (*version >= meta::kFormatVersionMin && *version <= meta::kFormatVersion) return {};
  return Failure{Code::wrong_version,
                 fmt::format("it has format {}, this program knows {} (use the program that wrote "
                             "it)",
                             *version, meta::kFormatVersion)};
}

Outcome<void> Dump::add_next() {
  TRY_ASSIGN(const std::optional<uint64_t> next, number(meta::kNextIdName));
  const std::string key = keys_.system(meta::kNextIdName);
  if (!next) return corrupt(key, "the next id is missing");
  return add(key, NextLine{*next});
}

// The cursor's record of this inode; null if it has none. Records of inodes before it belong to
// none that there is.
Outcome<const Cursor::Record*> Dump::record_of(Cursor& cursor, InodeId inode) {
  TRY_ASSIGN(const Cursor::Record* const record, told(cursor.peek()));
  if (record == nullptr) return record;
  const std::optional<InodeId> found = keys_.inode_of(record->first);
  if (!found || *found < inode) return corrupt(record->first, "belongs to no inode that has such");
  return *found == inode ? record : nullptr;
}

Outcome<void> Dump::expect_end(Cursor& cursor) {
  TRY_ASSIGN(const Cursor::Record* const record, told(cursor.peek()));
  if (record != nullptr) return corrupt(record->first, "belongs to no inode that has such");
  return {};
}

Outcome<void> Dump::add_inodes() {
  Cursor inodes = all('I');
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, told(inodes.peek()));
    if (record == nullptr) break;
    TRY(add_inode(*record));
    inodes.next();
  }
  TRY(expect_end(times_));
  TRY(expect_end(orphans_));
  TRY(expect_end(xattrs_));
  return expect_end(entries_);
}

Outcome<void> Dump::add_inode(const Cursor::Record& record) {
  const auto& [key, value] = record;
  const std::optional<InodeId> id = keys_.inode_of(key);
  std::optional<meta::Inode> inode;
  if (id && key == keys_.inode(*id)) inode = meta::decode_inode(*id, value);
  if (!inode) return corrupt(key, "not an inode");
  InodeLine line{std::move(*inode)};
  if (line.inode.is_directory()) {
    TRY_ASSIGN(const Cursor::Record* const times, record_of(times_, *id));
    const bool there = times != nullptr && times->first == keys_.times(*id);
    const auto when = there ? meta::decode_directory_times(times->second) : std::nullopt;
    if (!when) return corrupt(keys_.times(*id), "the directory's times are missing, or none");
    line.inode.attributes.modified = when->modified;
    line.inode.attributes.changed = when->changed;
    times_.next();
  }
  if (line.inode.attributes.links == 0) {
    TRY_ASSIGN(const Cursor::Record* const orphan, record_of(orphans_, *id));
    const bool there = orphan != nullptr && orphan->first == keys_.orphan(*id);
    const auto kind = there ? meta::decode_number(orphan->second) : std::nullopt;
    if (!kind || *kind > meta::kOrphanUnnamed) {
      return corrupt(keys_.orphan(*id), "says nothing of an inode that has no links");
    }
    line.nameable = *kind == meta::kOrphanUnnamed;
    orphans_.next();
  }
  TRY(add(key, line));
  TRY(add_xattrs(line.inode));
  return add_entries(line.inode);
}

Outcome<void> Dump::add_xattrs(const meta::Inode& inode) {
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, record_of(xattrs_, inode.id()));
    if (record == nullptr) break;
    const std::optional<std::string_view> name = keys_.name_of(record->first);
    if (!name || name->size() > meta::kXattrNameBytesMax ||
        record->second.size() > meta::kXattrValueBytesMax) {
      return corrupt(record->first, "not an extended attribute");
    }
    TRY(add(record->first, XattrLine{inode.id(), std::string(*name), record->second}));
    xattrs_.next();
  }
  if (structure_.xattr_bytes() == inode.xattr_bytes) return {};
  return corrupt(keys_.inode(inode.id()), "does not say what extended attributes it has");
}

Outcome<void> Dump::add_entries(const meta::Inode& inode) {
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, record_of(entries_, inode.id()));
    if (record == nullptr) return {};
    const std::optional<uint64_t> cookie = keys_.cookie_of(record->first);
    std::optional<meta::CookieEntry> entry = meta::decode_cookie_entry(record->second);
    if (!cookie || !entry) return corrupt(record->first, "not a directory entry");
    const EntryLine line{inode.id(), *cookie, std::move(*entry)};
    TRY(add(record->first, line));
    pairs_.add_by_cookie(line);
    entries_.next();
  }
}

Outcome<void> Dump::add_sessions() {
  Cursor sessions = all('W');
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, told(sessions.peek()));
    if (record == nullptr) return {};
    const auto& [key, value] = *record;
    const std::optional<InodeId> id = keys_.inode_of(key);
    const std::optional<uint64_t> token = meta::decode_number(value);
    if (!id || key != keys_.write_session(*id) || !token) return corrupt(key, "not a session");
    TRY(check_session(*record, *id));
    TRY(add(key, SessionLine{*id, *token}));
    sessions.next();
  }
}

Outcome<void> Dump::check_session(const Cursor::Record& record, InodeId id) {
  TRY_ASSIGN(const std::optional<std::string> value, told(transaction_.get(keys_.inode(id))));
  const auto inode = value ? meta::decode_inode(id, *value) : std::nullopt;
  if (inode && inode->attributes.type == meta::FileType::regular) return {};
  return corrupt(record.first, "a session of what is no file");
}

Outcome<void> Dump::check_pairs() {
  Cursor by_name = all('D');
  EntryLine line;
  while (true) {
    TRY_ASSIGN(const Cursor::Record* const record, told(by_name.peek()));
    if (record == nullptr) break;
    const std::optional<InodeId> directory = keys_.inode_of(record->first);
    const std::optional<std::string_view> name = keys_.name_of(record->first);
    const std::optional<meta::Dentry> dentry = meta::decode_dentry(record->second);
    if (!directory || !name || !dentry) return corrupt(record->first, "not a directory entry");
    line.directory = *directory;
    line.cookie = dentry->cookie;
    line.entry.inode = dentry->inode;
    line.entry.type = dentry->type;
    line.entry.name = *name;
    pairs_.add_by_name(line);
    by_name.next();
  }
  if (pairs_.agree()) return {};
  return Failure{Code::corrupt, "entries by name and entries by cookie do not agree"};
}

}  // namespace

Outcome<Dumped> dump_records(engine::Kv& kv, engine::Random& random, Sink& sink,
                             bool needs_version) {
  TextWriter writer(sink);
  Outcome<Counts> counts = Failure{Code::io_error, ""};
  const Status status = kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    counts = Dump(transaction, random, writer).run(needs_version);
    return counts ? Status() : counts.error().status;
  });
  if (!status.ok() && counts) {
    return Failure{status, fmt::format("cannot be read: {}", status.name())};
  }
  if (!counts) return counts.error();
  ASSERT(status.ok());
  return Dumped{*counts, writer.checksum()};
}

Outcome<Counts> dump(engine::Kv& kv, engine::Random& random, Sink& sink) {
  TRY_ASSIGN(const Dumped dumped, dump_records(kv, random, sink, true));
  return dumped.counts;
}

}  // namespace penstock::meta_text
