// Opening, closing and counting.
#include "namespace.h"

#include "penstock/meta/records/limits.h"

namespace penstock::meta {

Result<uint64_t> Counters::new_id() {
  const std::lock_guard lock(mutex_);
  if (next_ == end_) {
    uint64_t first = 0;
    TRY(kv_.run(engine::KvMode::write_durable, [&](engine::KvTransaction& transaction) -> Status {
      View view(transaction, keys_);
      TRY_ASSIGN(const std::optional<uint64_t> next, view.number(kNextIdName));
      if (!next || *next < kFirstId || *next > kIdMax - kIdsPerBatch) {
        log::error("metadata corrupt: the next inode id is missing or impossible");
        return Code::corrupt;
      }
      first = *next;
      view.put_number(kNextIdName, first + kIdsPerBatch);
      return {};
    }));
    next_ = first;
    end_ = first + kIdsPerBatch;
  }
  ASSERT(next_ >= kFirstId && next_ < end_);
  return next_++;
}

uint64_t Counters::newest_id() const {
  const std::lock_guard lock(mutex_);
  return next_ - 1;
}

void Counters::set_next(uint64_t next) {
  const std::lock_guard lock(mutex_);
  ASSERT(next_ == end_);  // no number of this life was given yet
  next_ = end_ = next;
}

void Counters::set_inodes(uint64_t count) {
  const std::lock_guard lock(mutex_);
  inodes_ = count;
}

void Counters::add_inodes(int64_t change) {
  const std::lock_guard lock(mutex_);
  inodes_ += static_cast<uint64_t>(change);
}

uint64_t Counters::inodes() const {
  const std::lock_guard lock(mutex_);
  return inodes_;
}

Outcome<std::unique_ptr<Meta>> Meta::open(engine::Kv& kv, const engine::Clock& clock,
                                          MetaOptions options) {
  if (!layout_is_good(options.default_layout)) {
    return Failure{
        Code::invalid_argument,
        fmt::format("file system: the layout of new files is out of range (chunk size 2^{}, {} "
                    "chains, {} copies)",
                    options.default_layout.chunk_bytes_log2, options.default_layout.chain_count,
                    options.default_layout.copies)};
  }
  ASSERT(options.key_prefix.size() <= kKeyPrefixBytesMax);
  auto opened = std::make_unique<Namespace>(kv, clock, std::move(options));
  TRY(opened->start());
  return std::unique_ptr<Meta>(std::move(opened));
}

Namespace::Namespace(engine::Kv& kv, const engine::Clock& clock, MetaOptions options)
    : kv_(kv),
      clock_(clock),
      options_(std::move(options)),
      keys_(options_.key_prefix),
      cache_(options_.cached_records == 0 ? nullptr
                                          : std::make_unique<RecordCache>(options_.cached_records)),
      counters_(kv, keys_) {}

Outcome<bool> Namespace::start() {
  std::optional<uint64_t> clean_count, next;
  std::string problem;
  const Status status =
      kv_.run(engine::KvMode::write_durable, [&](engine::KvTransaction& transaction) -> Status {
        View view(transaction, keys_);
        problem.clear();
        TRY_ASSIGN(const std::optional<uint64_t> version, view.number(kVersionName));
        if (version) {
          if (*version < kFormatVersionMin || *version > kFormatVersion) {
            problem = fmt::format(
                "it has format {}, this program knows {} (use the program that "
                "wrote it)",
                *version, kFormatVersion);
            return Code::wrong_version;
          }
          TRY_ASSIGN(clean_count, view.number(kInodesName));
          TRY_ASSIGN(next, view.number(kNextIdName));
          view.erase_number(kInodesName);
          // From here on programs of that version must not touch it; records are rewritten as they
          // change.
          if (*version < kFormatWithoutTrash) view.put_number(kVersionName, kFormatWithoutTrash);
          return {};
        }
        bool empty = true;
        TRY(transaction.scan(keys_.begin(), keys_.end(), [&](std::string_view, std::string_view) {
          empty = false;
          return false;
        }));
        if (!empty) {
          problem = "the database holds something else, or its version record is lost";
          return Code::corrupt;
        }
        Inode root;
        Attributes& attributes = root.attributes;
        attributes.inode = kRootInode;
        attributes.type = FileType::directory;
        attributes.mode = options_.root_mode & 07777;
        attributes.uid = options_.root_uid;
        attributes.gid = options_.root_gid;
        attributes.links = 2;
        attributes.accessed = attributes.created = clock_.wall();
        attributes.layout = options_.default_layout;
        attributes.generation = 1;
        root.parent = kRootInode;
        view.put(root);
        view.touch(kRootInode, attributes.created);
        view.put_number(kVersionName, kFormatWithoutTrash);
        view.put_number(kNextIdName, kFirstId);
        next = kFirstId;
        clean_count = 1;
        return {};
      });
  if (!status.ok()) {
    if (problem.empty()) problem = status.name();
    return Failure{status, fmt::format("file system: cannot open the namespace: {}", problem)};
  }
  // That it is missing is for new_id() to say: what there is can be read.
  if (next) counters_.set_next(*next);
  if (const Status loaded = load_quotas(); !loaded.ok()) {
    return Failure{loaded, fmt::format("file system: cannot read the quotas: {}", loaded.name())};
  }
  if (const Status loaded = load_trash(); !loaded.ok()) {
    return Failure{loaded, fmt::format("file system: cannot read what is kept of what is removed: "
                                       "{}",
                                       loaded.name())};
  }
  if (!clean_count) return count_inodes();
  counters_.set_inodes(*clean_count);
  return true;
}

// After a death without close(). In steps, each a transaction, since nothing changes meanwhile.
Outcome<bool> Namespace::count_inodes() {
  uint64_t count = 0;
  InodeId last;
  size_t found = 0;
  do {
    const InodeId after = last;
    const Status status = transact(engine::KvMode::read, [&](View& view) -> Status {
      found = 0;
      return view.scan_ids('I', after, [&](InodeId inode) {
        last = inode;
        return ++found < kEntriesPerTransaction;
      });
    });
    if (!status.ok()) {
      return Failure{status,
                     fmt::format("file system: cannot count the inodes: {}", status.name())};
    }
    ASSERT(found <= kEntriesPerTransaction);
    count += found;
  } while (found == kEntriesPerTransaction);
  counters_.set_inodes(count);
  return true;
}

Status Namespace::close() {
  const uint64_t inodes = counters_.inodes();
  return transact(engine::KvMode::write_durable, [&](View& view) -> Status {
    view.put_number(kInodesName, inodes);
    return {};
  });
}

Status Namespace::sync() {
  return kv_.sync();
}

Result<FileSystemCounts> Namespace::counts() {
  FileSystemCounts counts;
  counts.inodes = counters_.inodes();
  if (options_.capacity) counts.capacity = options_.capacity();
  return counts;
}

}  // namespace penstock::meta
