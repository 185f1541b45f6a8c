// Iovs that are GPU memory. They have no file and no link: the native interface allocates or finds
// the memory, and the agent passes it on to others.
#include "iovs.h"

#include <cerrno>
#include <sys/stat.h>

namespace penstock::usrbio {

namespace {

// 0, or why there can be no memory of this GPU.
int check_gpu(int gpu) {
  const int count = penstock_gpu_count();
  if (count < 0) {
    log::warning("usrbio: GPU memory: {}", penstock_last_error());
    return -EOPNOTSUPP;
  }
  return gpu >= 0 && gpu < count ? 0 : -ENODEV;
}

int warn(int result) {
  if (result < 0) log::warning("usrbio: GPU memory: {}", penstock_last_error());
  return result;
}

void release(penstock_region* region) {
  warn(penstock_region_release(region));
}

}  // namespace

int Iovs::make_in_mount(const std::string& mount, const MakeRegion& make,
                        Registration& registration) {
  // The second try is for an agent that came back since the session was last used.
  int result = 0;
  for (int tries = 0; tries < 2; ++tries) {
    auto session = sessions_.of_mount(mount);
    if (!session) return -session.error();
    registration.session = *session;
    result = (*session)->seen(make(**session, &registration.region));
    if (result != -ECONNRESET) break;
  }
  return result;
}

Iov& Iovs::keep_device(const Iov& facts, std::unique_ptr<Registration> registration) {
  const std::lock_guard lock(mutex_);
  Iov& record = take_record();
  record.kind = facts.kind;
  record.id = facts.id;
  record.base = static_cast<uint8_t*>(penstock_region_base(registration->region));
  record.size = facts.size;
  record.block_size = 0;
  record.mount = facts.mount;
  record.gpu = facts.gpu;
  record.published = facts.published;
  record.uses = 1;
  record.registrations = std::move(registration);
  record.current.store(record.registrations.get(), std::memory_order_release);
  if (record.kind == Iov::Kind::wrapped) wrapped_.push_back(&record);
  return record;
}

int Iovs::create_device(hf3fs_iov& iov, const std::string& mount, size_t size, int gpu) {
  if (const int error = check_gpu(gpu); error != 0) return error;
  Iov facts;
  facts.kind = Iov::Kind::created;
  facts.id = random_uuid();
  facts.size = size;
  facts.mount = mount;
  facts.gpu = gpu;
  auto registration = std::make_unique<Registration>();
  const auto make = [&](front::Session& session, penstock_region** region) {
    int result = warn(penstock_region_create_device(session.handle, gpu, size, region));
    if (result < 0) return result;
    result = warn(penstock_region_publish(*region, facts.id.data()));
    if (result < 0) release(*region);
    return result;
  };
  const int result = make_in_mount(mount, make, *registration);
  if (result < 0) return result;
  facts.published = registration->region;
  fill(iov, keep_device(facts, std::move(registration)), gpu);
  return 0;
}

int Iovs::open_device(hf3fs_iov& iov, const Uuid& id, const std::string& mount, size_t size,
                      int gpu) {
  if (const int error = check_gpu(gpu); error != 0) return error;
  Iov facts;
  facts.kind = Iov::Kind::opened;
  facts.id = id;
  facts.size = size;
  facts.mount = mount;
  facts.gpu = gpu;
  auto registration = std::make_unique<Registration>();
  const auto make = [&](front::Session& session, penstock_region** region) {
    const int result = penstock_region_open(session.handle, id.data(), region);
    if (result < 0) return result == -ENODEV ? -EINVAL : result;
    if (penstock_region_size(*region) >= size && penstock_region_gpu(*region) == gpu) return 0;
    release(*region);
    return -EINVAL;
  };
  const int result = make_in_mount(mount, make, *registration);
  if (result < 0) return result;
  fill(iov, keep_device(facts, std::move(registration)), gpu);
  return 0;
}

// The iov of wrapped memory that is this memory under this id; null when there is none.
Iov* Iovs::find_same_wrapped(const Iov& wanted) {
  for (Iov* known : wrapped_) {
    if (known->id == wanted.id && known->base == wanted.base && known->size == wanted.size &&
        known->mount == wanted.mount && known->gpu == wanted.gpu) {
      return known;
    }
  }
  return nullptr;
}

int Iovs::wrap_device(hf3fs_iov& iov, void* base, const Uuid& id, const std::string& mount,
                      size_t size, int gpu) {
  if (const int error = check_gpu(gpu); error != 0) return error;
  Iov facts;
  facts.kind = Iov::Kind::wrapped;
  facts.id = id;
  facts.base = static_cast<uint8_t*>(base);
  facts.size = size;
  facts.mount = mount;
  facts.gpu = gpu;
  if (use_same_wrapped(iov, facts)) return 0;
  struct Claim {
    ~Claim() {
      const std::lock_guard lock(iovs.mutex_);
      iovs.being_wrapped_.erase(id);
      iovs.was_wrapped_.notify_all();
    }
    Iovs& iovs;
    const Uuid& id;
  } const claim{*this, id};
  return wrap_new(iov, facts);
}

// Shares the iov if there is one already; else the id is the caller's to wrap the memory under.
bool Iovs::use_same_wrapped(hf3fs_iov& iov, const Iov& wanted) {
  std::unique_lock lock(mutex_);
  was_wrapped_.wait(lock, [&] { return !being_wrapped_.contains(wanted.id); });
  Iov* const known = find_same_wrapped(wanted);
  if (known == nullptr) {
    being_wrapped_.insert(wanted.id);
    return false;
  }
  ++known->uses;
  fill(iov, *known, wanted.gpu);
  return true;
}

int Iovs::wrap_new(hf3fs_iov& iov, Iov& facts) {
  auto registration = std::make_unique<Registration>();
  const auto make = [&](front::Session& session, penstock_region** region) {
    int result =
        warn(penstock_region_register_device(session.handle, facts.base, facts.size, region));
    if (result < 0) return result;
    result = penstock_region_gpu(*region) != facts.gpu
                 ? -EINVAL
                 : warn(penstock_region_publish(*region, facts.id.data()));
    facts.published = result == 0 ? *region : nullptr;
    // Memory that cannot be shared is of use here all the same.
    if (result == -EOPNOTSUPP) return 0;
    if (result < 0) release(*region);
    return result;
  };
  const int result = make_in_mount(facts.mount, make, *registration);
  if (result < 0) return result;
  fill(iov, keep_device(facts, std::move(registration)), facts.gpu);
  return 0;
}

// Another session than the one that it was made with: of another mount, or of the iov's own mount
// after its agent has gone for good, which also shows the memory to others then. Such a mount may
// have another device number than before, so that the old session was not asked yet whether it is
// dead.
int Iovs::register_device(Iov& iov, front::Session& session, Registration& registration) {
  const int result = session.seen(warn(
      penstock_region_register_device(session.handle, iov.base, iov.size, &registration.region)));
  if (result < 0 || iov.published == nullptr) return result;
  const Registration* shows = iov.registrations.get();
  while (shows != nullptr && shows->region != iov.published) shows = shows->earlier.get();
  struct stat mount {};
  const bool succeeds = shows != nullptr && shows->session != &session &&
                        ::stat(iov.mount.c_str(), &mount) == 0 && mount.st_dev == session.device;
  if (!succeeds) return result;
  if (warn(penstock_region_publish(registration.region, iov.id.data())) == 0) {
    iov.published = registration.region;
  }
  return result;
}

Iov* Iovs::find_record(const hf3fs_iov& iov) {
  const Uuid id = id_of(iov);
  Iov* record = static_cast<Iov*>(iov.iovh);
  if (record == nullptr) record = find_wrapped(id, iov.base, iov.size);
  const bool live = record != nullptr && record->kind != Iov::Kind::unused && record->id == id;
  return live ? record : nullptr;
}

int Iovs::gpu_of(const hf3fs_iov& iov) {
  const std::lock_guard lock(mutex_);
  const Iov* record = find_record(iov);
  return record != nullptr ? record->gpu : -1;
}

int Iovs::sync(const hf3fs_iov& iov, int direction) {
  if (direction != 0 && direction != 1) return -EINVAL;
  const Registration* known = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const Iov* record = find_record(iov);
    if (record == nullptr) return -EINVAL;
    // A read that has completed is complete on the GPU.
    if (record->gpu < 0 || direction == 1) return 0;
    known = record->current.load(std::memory_order_relaxed);
  }
  // A forked child has inherited it, and CUDA does not work there.
  if (known == nullptr) return -EOPNOTSUPP;
  return warn(penstock_region_settle(known->region));
}

}  // namespace penstock::usrbio
