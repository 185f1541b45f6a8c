#include "files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace penstock::sessions {
namespace {

client::OpenFlags to_flags(uint32_t flags) {
  client::OpenFlags out;
  out.read = (flags & wire::kOpenRead) != 0;
  out.write = (flags & wire::kOpenWrite) != 0;
  out.create = (flags & wire::kOpenCreate) != 0;
  out.exclusive = (flags & wire::kOpenExclusive) != 0;
  out.truncate = (flags & wire::kOpenTruncate) != 0;
  return out;
}

// What a descriptor of a mount says about itself.
struct DescriptorFacts {
  uint64_t device = 0;
  InodeId inode;
  bool regular = false;
  uint32_t access = 0;
};

Result<DescriptorFacts> facts_of(int fd) {
  // AT_STATX_DONT_SYNC answers from what the kernel has: no request goes to the mount's server,
  // which may be us, or a foreign one that hangs.
  struct statx facts {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &facts) != 0) {
    return Status::from_errno(errno);
  }
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return Status::from_errno(errno);
  if ((flags & O_PATH) != 0) return Code::bad_handle;
  DescriptorFacts out;
  out.device = makedev(facts.stx_dev_major, facts.stx_dev_minor);
  out.inode = InodeId(facts.stx_ino);
  out.regular = S_ISREG(facts.stx_mode);
  const int mode = flags & O_ACCMODE;
  if (mode == O_RDONLY || mode == O_RDWR) out.access |= wire::kOpenRead;
  if (mode == O_WRONLY || mode == O_RDWR) out.access |= wire::kOpenWrite;
  return out;
}

}  // namespace

Outcome<void> Files::reserve(uint32_t id, const std::string& what) {
  ASSERT(id < wire::kFilesMax);
  const std::lock_guard lock(mutex_);
  const uint64_t entry_bytes = context_.node.shards.size() * sizeof(serving::ServedFile);
  const Status reached = room_.reach(context_.account, id, entry_bytes);
  if (!reached.ok()) return failure_of(what, reached);
  if (!files_.emplace(id, File{}).second) {
    return Failure{Code::bad_message, "the file's id is in use"};
  }
  return {};
}

Answer Files::open_as(uint32_t id, const std::string& what, uint32_t access, const Open& open) {
  TRY(reserve(id, what));
  Result<resources::Charge> heap = resources::Charge::take(
      context_.account, resources::Resource::heap_bytes, limits::kFileHeapBytes);
  Result<client::FileRef> opened = heap ? open() : Result<client::FileRef>(heap.error());
  if (!opened) {
    const std::lock_guard lock(mutex_);
    files_.erase(id);
    return failure_of(what, opened.error());
  }
  const client::FileRef& ref = *opened;
  ASSERT(ref != nullptr);
  const Shares::Hold hold = shares_.hold();
  shares_.announce([&](serving::Announced& announced) { announced.add_file(id, ref); });
  wire::Opened reply;
  reply.inode = inode_of(*ref).value;
  reply.access = access;
  reply.token = context_.node.tokens.make({inode_of(*ref), access, context_.credentials().uid});
  const std::lock_guard lock(mutex_);
  ASSERT(files_.at(id).ref == nullptr);
  files_[id] = {.ref = ref, .heap = std::move(*heap), .access = access};
  return wire::ReplyBody{std::move(reply)};
}

Answer Files::open_path(const wire::OpenPath& m) {
  const uint32_t access = m.flags & (wire::kOpenRead | wire::kOpenWrite);
  if (access == 0) return Failure{Code::bad_message, "open: neither for reading nor for writing"};
  return open_as(m.file, "open " + m.path, access, [&] {
    return context_.files().open_path(context_.credentials(), m.path, to_flags(m.flags), m.mode,
                                      std::nullopt, nullptr);
  });
}

Answer Files::open_descriptor(const wire::OpenDescriptor& m, int fd) {
  const std::string what = "open descriptor";
  const Result<DescriptorFacts> facts = facts_of(fd);
  if (!facts) return failure_of(what, facts.error());
  if (!context_.node.mounts.holds(facts->device)) {
    return Failure{Code::bad_handle, what + ": the file is on no mount of this file system"};
  }
  if (!facts->regular) {
    return Failure{Code::invalid_argument, what + ": not a regular file"};
  }
  return open_as(m.file, what, facts->access, [&] {
    // The kernel checked the permissions when it made the descriptor.
    return context_.files().open_inode(context_.credentials(), facts->inode,
                                       to_flags(facts->access), false, nullptr);
  });
}

Answer Files::reopen(const wire::Reopen& m) {
  const Result<TokenClaim> claim = context_.node.tokens.verify(m.token, context_.credentials().uid);
  if (!claim) return failure_of("reopen: the token", claim.error());
  return open_as(m.file, "reopen", claim->access, [&] {
    return context_.files().open_inode(context_.credentials(), claim->inode,
                                       to_flags(claim->access), false, nullptr);
  });
}

Answer Files::close(const wire::CloseFile& m) {
  client::FileRef ref;
  {
    const Shares::Hold hold = shares_.hold();
    std::unique_lock lock(mutex_);
    const auto found = files_.find(m.file);
    if (found == files_.end() || found->second.ref == nullptr) {
      return Failure{Code::bad_handle, "close: there is no file of this id"};
    }
    ref = std::move(found->second.ref);
    found->second.ref = nullptr;
    lock.unlock();
    shares_.take(
        [&](serving::ShardShare& share) { return share.announced().take_file(m.file) != nullptr; },
        [&](serving::ShardShare& share, engine::Op& done) { share.remove_file(m.file, done); });
  }
  {
    // Requests that were sent before end first: the close takes from the file what they work on.
    std::unique_lock lock(mutex_);
    const File& closing = files_.at(m.file);
    unused_.wait(lock, [&] { return closing.users == 0; });
  }
  const Status status = context_.files().close_file(std::move(ref));
  {
    const std::lock_guard lock(mutex_);
    ASSERT(files_.at(m.file).users == 0 && files_.at(m.file).ref == nullptr);
    files_.erase(m.file);
  }
  if (!status.ok()) return failure_of("close", status);
  return wire::ReplyBody{};
}

std::unique_ptr<Files::Use> Files::use(uint32_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.ref == nullptr) return nullptr;
  return std::make_unique<Use>(*this, id, found->second);
}

void Files::end_use(uint32_t id) {
  const std::lock_guard lock(mutex_);
  File& file = files_.at(id);
  ASSERT(file.users > 0);
  if (--file.users == 0) unused_.notify_all();
}

Answer Files::attributes(const wire::FileAttributes& m) {
  const std::unique_ptr<Use> open = use(m.file);
  if (open == nullptr) return failure_of("fstat", Code::bad_handle);
  const auto attributes = context_.files().attributes(inode_of(*open->ref()));
  if (!attributes) return failure_of("fstat", attributes.error());
  return wire::ReplyBody{to_wire(*attributes)};
}

Answer Files::truncate(const wire::TruncateFile& m) {
  const std::unique_ptr<Use> open = use(m.file);
  if (open == nullptr) return failure_of("truncate", Code::bad_handle);
  if ((open->access() & wire::kOpenWrite) == 0) {
    return Failure{Code::invalid_argument, "truncate: the file is not open for writing"};
  }
  client::Credentials credentials = context_.credentials();
  credentials.enforce = false;  // the open file is the right
  meta::SetAttributes changes;
  changes.length = m.length;
  const auto changed =
      context_.files().set_attributes(credentials, inode_of(*open->ref()), changes, nullptr);
  if (!changed) return failure_of("truncate", changed.error());
  return wire::ReplyBody{};
}

Answer Files::sync(const wire::SyncFile& m) {
  const std::unique_ptr<Use> open = use(m.file);
  if (open == nullptr) return failure_of("fsync", Code::bad_handle);
  const Status status = context_.files().sync_file(open->ref());
  if (!status.ok()) return failure_of("fsync", status);
  return wire::ReplyBody{};
}

void Files::announce_all(serving::Announced& announced) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, file] : files_) {
    if (file.ref != nullptr) announced.add_file(id, file.ref);
  }
}

void Files::add_to(SessionStatus* status) const {
  const std::lock_guard lock(mutex_);
  status->open_files = static_cast<uint32_t>(files_.size());
}

void Files::end() {
  std::map<uint32_t, File> files;
  {
    const std::lock_guard lock(mutex_);
    files = std::move(files_);
    files_.clear();
  }
  for (auto& [id, file] : files) {
    ASSERT(file.users == 0);
    if (file.ref == nullptr) continue;
    const Status status = context_.files().close_file(std::move(file.ref));
    if (!status.ok()) {
      context_.node.log.warning(
          "a session's file",
          fmt::format("session {}: closing file {} failed: {}", context_.id, id, status.name()));
    }
  }
}

}  // namespace penstock::sessions
