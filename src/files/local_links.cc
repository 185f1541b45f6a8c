#include "penstock/files/local_links.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>

namespace penstock::files {

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

  // With the mutex held, as long as nothing else is called. One that is new has no links yet.
  Outcome<Setting*> find(engine::DeviceMemory& devices, uint32_t threads);
  // A setting without links has no memory, and counts for nothing.
  void forget_unused();
};

Outcome<Setting*> Settings::find(engine::DeviceMemory& devices, uint32_t threads) {
  for (Setting& one : all) {
    if (one.devices == &devices && one.threads == threads) return &one;
  }
  if (all.size() == limits::kLocalSettingsMax) {
    return Failure{Code::busy, fmt::format("this process has used {} different numbers of threads, "
                                           "and each keeps its memory: use one of them",
                                           limits::kLocalSettingsMax)};
  }
  all.push_back({&devices, threads, {}});
  return &all.back();
}

void Settings::forget_unused() {
  std::erase_if(all, [](const Setting& one) { return one.links.empty(); });
}

// Never destroyed: at the end of the process the driver may be gone before its last users are.
Settings& settings() {
  static auto* const made = new Settings;
  return *made;
}

}  // namespace

Outcome<std::unique_ptr<LocalLink>> LocalLink::start(engine::DeviceMemory& devices,
                                                     uint32_t threads) {
  std::unique_ptr<LocalLink> made(new LocalLink);
  void* const memory = ::mmap(nullptr, lanes::limits::kTransferSlotsBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    return Failure{Status::from_errno(errno), "map memory for transfers: out of memory"};
  }
  made->slots_ = {static_cast<std::byte*>(memory), lanes::limits::kTransferSlotsBytes};
  // Files that are read once come as fast through threads as from pinned pages, and nothing stays
  // pinned.
  const auto make_source = [&](engine::Loop& loop) {
    auto source = std::make_unique<local::LocalSource>(
        loop, devices, local::LocalOptions{.threads = threads, .pinned_bytes_max = 0});
    made->source_ = source.get();
    return source;
  };
  // There are no checksums of these files, and one that a processor takes on the way would slow
  // down the links and find nothing that the links' own checks do not.
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
  TRY_ASSIGN(Setting* const found, known.find(devices, threads));
  const size_t own = std::min<size_t>(links, lanes::limits::kLinkTransfersMax);
  while (found->links.size() < own) {
    Outcome<std::unique_ptr<LocalLink>> link = LocalLink::start(devices, threads);
    if (!link) {
      known.forget_unused();
      return link.error();
    }
    found->links.push_back(std::move(*link));
  }
  std::vector<LocalLink*> out;
  for (size_t i = 0; i < links; ++i) out.push_back(found->links[i % own].get());
  return out;
}

void forget_local_links() {
  const std::lock_guard lock(settings().mutex);
  settings().all.clear();
}

}  // namespace penstock::files
