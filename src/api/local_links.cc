#include "local_links.h"

#include <algorithm>
#include <sys/mman.h>

namespace penstock::api {

namespace {

// The links with one number of threads.
struct Setting {
  engine::DeviceMemory* devices = nullptr;
  uint32_t threads = 0;
  std::vector<std::unique_ptr<LocalLink>> links;
};

struct Settings {
  std::mutex mutex;
  std::vector<Setting> all;
};

// Never destroyed: at the end of the process the driver may be gone before its last users are.
Settings& settings() {
  static auto* const made = new Settings;
  return *made;
}

}  // namespace

Outcome<std::unique_ptr<LocalLink>> LocalLink::start(engine::DeviceMemory& devices,
                                                     uint32_t threads) {
  std::unique_ptr<LocalLink> made(new LocalLink);
  void* const memory = ::mmap(nullptr, limits::kTransferSlotsBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    return Failure{Status::from_errno(errno), "map memory for transfers: out of memory"};
  }
  made->slots_ = {static_cast<std::byte*>(memory), limits::kTransferSlotsBytes};
  // What is read once is as fast by threads as pinned, and needs nothing that lasts.
  const auto make_source = [&](engine::Loop& loop) {
    auto source = std::make_unique<route::LocalSource>(
        loop, devices, route::LocalOptions{.threads = threads, .pinned_bytes_max = 0});
    made->source_ = source.get();
    return source;
  };
  // Nobody knows checksums of these files, and one that a processor takes on the way would slow
  // down the links and find nothing that their own checks do not.
  TRY_ASSIGN(made->transfers_, route::Transfers::start(devices, make_source,
                                                       {.slots = made->slots_, .verify = false}));
  return made;
}

LocalLink::~LocalLink() {
  transfers_.reset();
  if (!slots_.empty()) ::munmap(slots_.data(), slots_.size());
}

Outcome<std::vector<LocalLink*>> local_links(engine::DeviceMemory& devices, uint32_t threads,
                                             size_t links) {
  Settings& known = settings();
  const std::lock_guard lock(known.mutex);
  auto found = std::find_if(known.all.begin(), known.all.end(), [&](const Setting& one) {
    return one.devices == &devices && one.threads == threads;
  });
  if (found == known.all.end()) {
    if (known.all.size() == limits::kLocalSettingsMax) {
      return Failure{Code::busy, fmt::format("this process has used {} different numbers of "
                                             "threads, and each keeps its memory: use one of them",
                                             limits::kLocalSettingsMax)};
    }
    known.all.push_back({&devices, threads, {}});
    found = known.all.end() - 1;
  }
  const size_t own = std::min<size_t>(links, limits::kLinkTransfersMax);
  while (found->links.size() < own) {
    TRY_ASSIGN(std::unique_ptr<LocalLink> link, LocalLink::start(devices, threads));
    found->links.push_back(std::move(link));
  }
  std::vector<LocalLink*> out;
  for (size_t i = 0; i < links; ++i) out.push_back(found->links[i % own].get());
  return out;
}

void forget_local_links() {
  const std::lock_guard lock(settings().mutex);
  settings().all.clear();
}

}  // namespace penstock::api
