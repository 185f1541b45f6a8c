#include "iovs.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace penstock::usrbio {

namespace {

// How many wrapped iovs one call looks at for links that are gone. It bounds the cost of a call;
// every wrap looks at more than it adds, so nothing stays unseen.
constexpr size_t kStaleChecks = 4;

constexpr size_t kPageBytes = 4096;

}  // namespace

void fill(hf3fs_iov& iov, Iov& record, int numa) {
  iov.base = record.base;
  iov.iovh = &record;
  std::memcpy(iov.id, record.id.data(), sizeof(iov.id));
  std::memset(iov.mount_point, 0, sizeof(iov.mount_point));
  std::memcpy(iov.mount_point, record.mount.data(), record.mount.size());
  iov.size = record.size;
  iov.block_size = record.block_size;
  iov.numa = numa;
}

Uuid id_of(const hf3fs_iov& iov) {
  return uuid_of(iov.id);
}

void release_registrations(std::unique_ptr<Registration> newest) {
  while (newest != nullptr) {
    const int result = newest->session->seen(penstock_region_release(newest->region));
    if (result < 0 && result != -ECONNRESET) log::warning("usrbio: {}", penstock_last_error());
    newest = std::move(newest->earlier);
  }
}

Iov& Iovs::take_record() {
  if (unused_.empty()) {
    unused_.push_back(&records_.emplace_back());
  }
  Iov& record = *unused_.back();
  unused_.pop_back();
  record.fork_generation = fork_generation_;
  return record;
}

std::unique_ptr<Registration> Iovs::retire(Iov& iov) {
  if (iov.kind == Iov::Kind::wrapped) std::erase(wrapped_, &iov);
  iov.current.store(nullptr, std::memory_order_release);
  auto registrations = std::move(iov.registrations);
  iov.kind = Iov::Kind::unused;
  iov.id = {};
  iov.base = nullptr;
  iov.size = 0;
  iov.uses = 0;
  iov.mount.clear();
  iov.link.clear();
  iov.link_to_make.clear();
  iov.memory.fd.reset();
  iov.memory.name.clear();
  iov.pages.reset();
  iov.gpu = -1;
  iov.published = nullptr;
  unused_.push_back(&iov);
  return registrations;
}

int Iovs::register_host(Iov& iov, front::Session& session, Registration& registration) {
  if (!iov.memory.fd && iov.kind != Iov::Kind::created) {
    auto published = open_published(iov.mount, iov.id, iov.size, iov.block_size, true);
    if (!published) return -published.error();
    iov.memory.fd = std::move(published->fd);
    iov.link = std::move(published->link);
    registration.block_size = published->block_size;
  }
  // What was made here has a name, and its lock is held by the mapping: it needs no descriptor. A
  // process may have many iovs, and 1,024 descriptors.
  const bool is_named = iov.kind == Iov::Kind::created && !iov.memory.name.empty();
  const std::string path = is_named ? path_of_memory(iov.memory.name) : "";
  UniqueFd opened;
  if (is_named && !iov.memory.fd) {
    auto again = open_shared_memory(iov.memory.name, iov.size);
    if (!again) return -again.error();
    opened = std::move(*again);
  }
  const int fd = opened ? opened.get() : iov.memory.fd.get();
  const int result =
      session.seen(is_named ? penstock_region_register_named(
                                  session.handle, fd, path.c_str(),
                                  iov.link_to_make.empty() ? nullptr : iov.link_to_make.c_str(),
                                  iov.base, iov.size, &registration.region)
                            : penstock_region_register(session.handle, fd, 0, iov.base, iov.size,
                                                       &registration.region));
  if (is_named && result >= 0) {
    iov.memory.fd.reset();
    iov.link_to_make.clear();
  }
  if (result < 0) log::warning("usrbio: iov {}: {}", hyphenated(iov.id), penstock_last_error());
  return result;
}

int Iovs::attach_locked(Iov& iov, front::Session& session) {
  const Registration* known = iov.current.load(std::memory_order_relaxed);
  if (known != nullptr && known->session == &session) return 0;
  auto registration = std::make_unique<Registration>();
  registration->session = &session;
  registration->block_size = known != nullptr ? known->block_size : iov.block_size;
  const int result = iov.gpu >= 0 ? register_device(iov, session, *registration)
                                  : register_host(iov, session, *registration);
  if (result < 0) return result;
  registration->earlier = std::move(iov.registrations);
  iov.registrations = std::move(registration);
  iov.current.store(iov.registrations.get(), std::memory_order_release);
  return 0;
}

int Iovs::attach(const hf3fs_iov& iov, front::Session& session, Iov*& record,
                 const Registration*& known) {
  const std::lock_guard lock(mutex_);
  const Uuid id = id_of(iov);
  if (record == nullptr) record = find_wrapped(id, iov.base, iov.size);
  if (record == nullptr || record->kind == Iov::Kind::unused || record->id != id) return -EINVAL;
  const int result = attach_locked(*record, session);
  if (result < 0) return result;
  known = record->current.load(std::memory_order_relaxed);
  return 0;
}

// Registers a new iov with its own mount, so that what is wrong comes out now. 0 or a negative
// errno.
int Iovs::register_in_mount(Iov& iov) {
  // The second try is for an agent that came back since the session was last used.
  int result = 0;
  for (int tries = 0; tries < 2; ++tries) {
    auto session = sessions_.of_mount(iov.mount);
    if (!session) return -session.error();
    const std::lock_guard lock(mutex_);
    result = attach_locked(iov, **session);
    if (result != -ECONNRESET) break;
  }
  return result;
}

int Iovs::create(hf3fs_iov& iov, const std::string& mount, size_t size, size_t block_size,
                 int numa) {
  const Uuid id = random_uuid();
  std::call_once(cleaned_, [&] {
    const size_t removed = remove_abandoned_memory(link_directory(mount));
    if (removed > 0) log::info("usrbio: removed the memory of {} ended programs", removed);
  });
  auto memory = create_shared_memory(std::string(kMemoryPrefix) + hyphenated(id), size, numa);
  if (!memory) {
    log::warning("usrbio: {} bytes of shared memory in /dev/shm: {}", size,
                 std::string_view(std::strerror(memory.error())));
    return -memory.error();
  }
  const std::string link = link_path(mount, id, block_size);
  Iov* record = nullptr;
  {
    const std::lock_guard lock(mutex_);
    record = &take_record();
    record->kind = Iov::Kind::created;
    record->id = id;
    record->base = memory->mapping.base();
    record->size = size;
    record->block_size = block_size;
    record->mount = mount;
    record->link_to_make = link.substr(link.rfind('/') + 1);
    record->pages = std::make_unique<PagesMade>(record->base, align_up(size, kPageBytes));
    record->memory = std::move(*memory);
  }
  const int result = register_in_mount(*record);
  if (result == 0) record->link = link;
  fill(iov, *record, numa);
  if (result < 0) {
    destroy(iov);
    iov.base = nullptr;
  }
  return result;
}

int Iovs::open(hf3fs_iov& iov, const Uuid& id, const std::string& mount, size_t size,
               size_t block_size, int numa) {
  if (size == 0) return -EINVAL;
  auto published = open_published(mount, id, size, block_size, false);
  if (!published) return -published.error();
  auto mapping = map_shared_memory(published->fd.get(), size);
  if (!mapping) return -mapping.error();
  Iov* record = nullptr;
  {
    const std::lock_guard lock(mutex_);
    record = &take_record();
    record->kind = Iov::Kind::opened;
    record->id = id;
    record->base = mapping->base();
    record->size = size;
    record->block_size = block_size;
    record->mount = mount;
    record->link = std::move(published->link);
    record->memory.name.clear();
    record->memory.fd = std::move(published->fd);
    record->memory.mapping = std::move(*mapping);
  }
  const int result = register_in_mount(*record);
  fill(iov, *record, numa);
  if (result < 0) {
    destroy(iov);
    iov.base = nullptr;
  }
  return result;
}

Iov* Iovs::find_wrapped(const Uuid& id, const uint8_t* base, size_t size) {
  for (Iov* iov : wrapped_) {
    if (iov->id == id && iov->base <= base && inside(iov->base, iov->size, base, size)) return iov;
  }
  return nullptr;
}

void Iovs::wrap(hf3fs_iov& iov, void* base, const Uuid& id, const std::string& mount, size_t size,
                size_t block_size, int numa) {
  std::vector<std::unique_ptr<Registration>> ended;
  Iov* record = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (Iov* known : wrapped_) {
      if (known->id == id && known->base == base && known->size == size && known->mount == mount) {
        record = known;
      }
    }
    if (record == nullptr) {
      collect_stale(ended);
      record = &take_record();
      record->kind = Iov::Kind::wrapped;
      record->id = id;
      record->base = static_cast<uint8_t*>(base);
      record->size = size;
      record->block_size = block_size;
      record->mount = mount;
      wrapped_.push_back(record);
    }
    ++record->uses;
    fill(iov, *record, numa);
    iov.block_size = block_size;  // other callers may have stated another
  }
  for (auto& registration : ended) release_registrations(std::move(registration));
  // Many callers remove the name of the memory right after this call, so what can be attached is
  // attached now. What cannot is tried again by the first operation, which reports why.
  if (record->current.load(std::memory_order_acquire) == nullptr) {
    auto published = open_published(mount, id, size, block_size, true);
    if (published) register_in_mount(*record);
  }
}

// Wrapped iovs need not be destroyed: removing their link ends them.
void Iovs::collect_stale(std::vector<std::unique_ptr<Registration>>& ended) {
  for (size_t i = 0; i < kStaleChecks && !wrapped_.empty(); ++i) {
    stale_cursor_ = (stale_cursor_ + 1) % wrapped_.size();
    Iov& iov = *wrapped_[stale_cursor_];
    char link_target[1];
    if (iov.link.empty() || ::readlink(iov.link.c_str(), link_target, sizeof(link_target)) >= 0 ||
        errno != ENOENT) {
      continue;
    }
    ended.push_back(retire(iov));
  }
}

// What an agent's successor, or another session, is given from now on is kept open. With mutex_
// held.
void Iovs::remove_name(Iov& iov) {
  if (iov.memory.name.empty()) return;
  for (Registration* known = iov.registrations.get(); known != nullptr;
       known = known->earlier.get()) {
    if (penstock_region_keep(known->region) < 0) {
      log::warning("usrbio: {}", penstock_last_error());
    }
  }
  auto opened = open_shared_memory(iov.memory.name, iov.size);
  if (opened) iov.memory.fd = std::move(*opened);
  unlink_shared_memory(iov.memory.name);
  iov.memory.name.clear();
}

void Iovs::unlink(const hf3fs_iov& iov) {
  penstock_region* published = nullptr;
  {
    const std::lock_guard lock(mutex_);
    Iov* record = static_cast<Iov*>(iov.iovh);
    if (record == nullptr || record->id != id_of(iov)) return;
    if (record->fork_generation != fork_generation_) return;
    published = std::exchange(record->published, nullptr);
    if (record->kind == Iov::Kind::created && record->gpu < 0) {
      remove_name(*record);
    }
  }
  if (published != nullptr && penstock_region_unpublish(published) < 0) {
    log::warning("usrbio: {}", penstock_last_error());
  }
}

void Iovs::destroy(hf3fs_iov& iov) {
  Iov* record = static_cast<Iov*>(iov.iovh);
  iov.iovh = nullptr;
  if (record == nullptr) return;
  std::unique_ptr<Registration> registrations;
  SharedMemory memory;
  std::string link;
  bool owner = false;
  {
    const std::lock_guard lock(mutex_);
    if (record->kind == Iov::Kind::unused || record->id != id_of(iov)) return;
    if (record->kind == Iov::Kind::wrapped && --record->uses > 0) return;
    owner = record->kind == Iov::Kind::created && record->gpu < 0 &&
            record->fork_generation == fork_generation_;
    link = record->link;
    memory = std::move(record->memory);
    registrations = retire(*record);
  }
  // Removed before the wait, so that no process opens it meanwhile.
  if (owner) {
    if (!link.empty()) ::unlink(link.c_str());
    if (!memory.name.empty()) unlink_shared_memory(memory.name);
  }
  release_registrations(std::move(registrations));
  memory.mapping.unmap();
}

void Iovs::inherit() {
  ++fork_generation_;
  // Those were being wrapped by threads that the child does not have.
  being_wrapped_.clear();
  for (Iov& iov : records_) {
    iov.current.store(nullptr, std::memory_order_relaxed);
    iov.published = nullptr;
    // The handles are the parent's; using or releasing them would talk over its sockets.
    (void)iov.registrations.release();
  }
}

}  // namespace penstock::usrbio
