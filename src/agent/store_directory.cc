#include "store_directory.h"

#include "limits.h"
#include "store_contents.h"
#include "store_lock.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace penstock::agent {
namespace {

std::string random_uuid() {
  std::array<uint64_t, 2> bits{engine::system_seed(), engine::system_seed()};
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

std::string to_text(const Superblock& superblock) {
  return fmt::format("penstock-store {}\nuuid {}\nshards {}\nchunk_bytes {}\ncapacity_bytes {}\n",
                     kStoreVersion, superblock.uuid, superblock.shards, superblock.chunk_bytes,
                     superblock.capacity_bytes);
}

}  // namespace

Failure StoreDirectory::failure(Status status, const std::string& why) const {
  return {status, path_ + ": " + why};
}

Outcome<std::unique_ptr<StoreDirectory>> StoreDirectory::open(const AgentConfig& config,
                                                              bool needs_meta) {
  std::unique_ptr<StoreDirectory> store(new StoreDirectory);
  store->needs_meta_ = needs_meta;
  store->path_ = config.directory;
  while (store->path_.size() > 1 && store->path_.ends_with('/')) store->path_.pop_back();
  Outcome<void> inspected = store->inspect(config);
  if (inspected) return store;
  store->undo_making();
  if (store->made_directory_) ::rmdir(store->path_.c_str());
  return inspected.error();
}

Outcome<void> StoreDirectory::inspect(const AgentConfig& config) {
  if (path_.empty()) return failure(Code::invalid_argument, "no store directory was given");
  if (config.create && ::mkdir(path_.c_str(), 0755) == 0) {
    made_directory_ = true;
  } else if (config.create && errno != EEXIST) {
    const int error = errno;
    return failure(Status::from_errno(error),
                   fmt::format("cannot make the store directory: {}", std::strerror(error)));
  }
  char resolved[PATH_MAX];
  if (::realpath(path_.c_str(), resolved) == nullptr) {
    return failure(Status::from_errno(errno), "the store directory cannot be found");
  }
  path_ = resolved;
  Result<std::set<std::string>> names = names_in(path_);
  if (!names) {
    return failure(names.error(), names.error() == Code::not_directory
                                      ? "is not a directory (give the path of a directory)"
                                      : "the store directory cannot be read");
  }
  const bool is_store = names->contains(kSuperblockName);
  if (!is_store) TRY(refuse_what_is_no_store(config, *names));
  struct statvfs space {};
  if (::statvfs(path_.c_str(), &space) != 0) {
    return failure(Status::from_errno(errno), "the file system cannot be asked for its space");
  }
  if ((space.f_flag & ST_RDONLY) != 0 || ::access(path_.c_str(), W_OK) != 0) {
    return failure(Code::read_only,
                   "cannot be written by this user (a store needs write access, also for reading)");
  }
  if (is_store) TRY(read_superblock());
  const uint64_t needed = is_store ? limits::kFreeBytesToOpen : limits::kFreeBytesToCreate;
  const uint64_t free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
  if (free_bytes < needed) {
    return failure(Code::no_space,
                   fmt::format("the file system is full: {} KiB are free, {} KiB are needed to {} "
                               "the store (free some space there)",
                               free_bytes / kKiB, needed / kKiB, is_store ? "open" : "make"));
  }
  TRY(lock());
  // Another process may have made the store before the lock was ours.
  names = names_in(path_);
  if (!names || names->contains(kSuperblockName) != is_store) {
    return failure(Code::busy, "the directory changed while it was looked at (try again)");
  }
  if (is_store) return take_over(*names);
  TRY(refuse_what_is_no_store(config, *names));
  const Status removed = remove_made(path_);
  if (!removed.ok()) {
    return failure(removed, fmt::format("what an interrupted making left cannot be removed: {}",
                                        removed.name()));
  }
  return begin_making(config);
}

// Prepares a store that is there for this process.
Outcome<void> StoreDirectory::take_over(const std::set<std::string>& names) {
  TRY(read_secret());
  remove_unused_meta_copy(path_);
  Status status = close_to_others(path_, lock_.get());
  // Its maker was killed after the last step but one. The sign must not be found when one day the
  // superblock is missing: that would be a store to restore, not one to make anew.
  if (status.ok() && names.contains(kMakingName)) {
    if (::unlink((path_ + "/" + kMakingName).c_str()) != 0) status = Status::from_errno(errno);
    if (status.ok()) status = sync_directory(path_);
  }
  if (status.ok()) return {};
  return failure(status, fmt::format("what others may read in it cannot be closed to them: {} (is "
                                     "it another user's store?)",
                                     status.name()));
}

// Whether a store may be made in a directory that holds `names`.
Outcome<void> StoreDirectory::refuse_what_is_no_store(const AgentConfig& config,
                                                      const std::set<std::string>& names) const {
  if (!config.create) return failure(Code::not_found, "is not a store");
  const std::string name = name_in_the_way(names);
  if (name.empty()) return {};
  return failure(Code::not_empty,
                 fmt::format("is not a store, and not empty: there is '{}' (give an empty or a new "
                             "directory)",
                             name));
}

Outcome<void> StoreDirectory::lock() {
  const std::string path = path_ + "/" + kLockName;
  LockOutcome locked = lock_store(path);
  if (locked.status.code() == Code::in_use) {
    return failure(Code::in_use, fmt::format("the store is in use by {} (use that one through its "
                                             "socket, or stop it first)",
                                             locked.holder));
  }
  if (!locked.fd) {
    return failure(locked.status, fmt::format("cannot be locked: {}", locked.status.name()));
  }
  lock_ = std::move(locked.fd);
  // For people only; the lock itself is the kernel's and ends with the process.
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(lock_.get(), 0) != 0 ||
      ::pwrite(lock_.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    log::warning("{}: cannot be written", path);
  }
  return {};
}

Outcome<void> StoreDirectory::read_superblock() {
  const std::string path = path_ + "/" + kSuperblockName;
  const Result<std::string> text = read_kept_file(path);
  if (!text) return failure(text.error(), fmt::format("{} cannot be read", kSuperblockName));
  auto words = words_of(*text);
  uint64_t version = 0, shards = 0;
  if (!parse_number(words["penstock-store"], &version)) {
    return failure(Code::corrupt,
                   fmt::format("{} is damaged: it does not begin as a store's does (restore the "
                               "file from a backup)",
                               kSuperblockName));
  }
  if (version != kStoreVersion) {
    return failure(Status(Code::wrong_version, static_cast<uint32_t>(version)),
                   fmt::format("the store has format {}, this program reads format {} (use the "
                               "version of penstock that made it)",
                               version, kStoreVersion));
  }
  superblock_.uuid = words["uuid"];
  const bool good = superblock_.uuid.size() == 32 && parse_number(words["shards"], &shards) &&
                    shards <= 1024 &&
                    parse_number(words["chunk_bytes"], &superblock_.chunk_bytes) &&
                    is_power_of_two(superblock_.chunk_bytes) &&
                    superblock_.chunk_bytes >= limits::kChunkBytesMin &&
                    superblock_.chunk_bytes <= limits::kChunkBytesMax &&
                    parse_number(words["capacity_bytes"], &superblock_.capacity_bytes);
  if (!good) {
    return failure(Code::corrupt,
                   fmt::format("{} is damaged (restore the file from a backup)", kSuperblockName));
  }
  superblock_.shards = static_cast<uint32_t>(shards);
  // The databases are never made anew in a store that exists.
  const auto missing = [](const std::string& part) {
    struct stat facts {};
    return ::stat(part.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode);
  };
  if (needs_meta_ && missing(meta_path())) {
    return failure(Code::corrupt,
                   "the directory 'meta' is missing: the names are lost (restore it from a backup, "
                   "or load a dump with 'penstock metadata load')");
  }
  for (uint32_t i = 0; i < superblock_.shards; ++i) {
    if (missing(kv_path(i)) || missing(data_path(i))) {
      return failure(Code::corrupt, fmt::format("the directory 'targets/{}' is incomplete", i));
    }
  }
  return {};
}

Outcome<void> StoreDirectory::read_secret() {
  const Result<std::string> secret = read_kept_file(path_ + "/" + kSecretName);
  if (!secret || secret->size() != sizeof secret_) {
    return failure(Code::corrupt, fmt::format("the file '{}' is missing or damaged (restore it "
                                              "from a backup)",
                                              kSecretName));
  }
  std::memcpy(secret_.data(), secret->data(), sizeof secret_);
  return {};
}

Outcome<void> StoreDirectory::begin_making(const AgentConfig& config) {
  if (config.shards > 64 || !is_power_of_two(config.chunk_bytes) ||
      config.chunk_bytes < limits::kChunkBytesMin || config.chunk_bytes > limits::kChunkBytesMax) {
    return failure(
        Code::invalid_argument,
        "a store has at most 64 shards, and chunks of a power of two from 64 KiB to 64 MiB");
  }
  fresh_ = true;
  superblock_ = {random_uuid(), config.shards, config.chunk_bytes, config.capacity_bytes};
  secret_ = {engine::system_seed(), engine::system_seed()};
  const std::string_view secret(reinterpret_cast<const char*>(secret_.data()), sizeof secret_);
  Status status = keep_file(path_ + "/" + kMakingName, to_text(superblock_), 0644);
  if (status.ok()) status = keep_file(path_ + "/" + kSecretName, secret, 0600);
  // The databases and chunks are for the process that serves them alone.
  const auto make = [&status](const std::string& path) {
    if (status.ok() && ::mkdir(path.c_str(), 0700) != 0) status = Status::from_errno(errno);
  };
  make(meta_path());
  make(path_ + "/targets");
  for (uint32_t i = 0; i < config.shards; ++i) {
    make(target_path(i));
    make(data_path(i));
    make(kv_path(i));
  }
  if (status.ok()) return {};
  return failure(status, fmt::format("cannot make the store: {}", status.name()));
}

Outcome<void> StoreDirectory::finish_making() {
  if (!fresh_) return {};
  ASSERT(lock_);
  Status status = sync_directory(path_ + "/targets");
  for (uint32_t i = 0; i < superblock_.shards && status.ok(); ++i) {
    status = sync_directory(target_path(i));
  }
  if (status.ok()) status = keep_file(path_ + "/" + kSuperblockName, to_text(superblock_), 0644);
  if (status.ok() && ::unlink((path_ + "/" + kMakingName).c_str()) != 0) {
    status = Status::from_errno(errno);
  }
  if (status.ok()) status = sync_directory(path_);
  if (!status.ok()) {
    return failure(status, fmt::format("cannot finish making the store: {}", status.name()));
  }
  fresh_ = false;
  return {};
}

void StoreDirectory::undo_making() {
  if (!fresh_) return;
  ASSERT(lock_);
  (void)remove_made(path_);
  ::unlink((path_ + "/" + kLockName).c_str());
  if (made_directory_) ::rmdir(path_.c_str());
  fresh_ = false;
}

}  // namespace penstock::agent
