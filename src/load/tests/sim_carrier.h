// A carrier in one simulated loop, with a mover for each link.
#pragma once

#include "sim_files.h"

#include <memory>
#include <sys/mman.h>
#include <vector>

#include "penstock/load.h"

namespace penstock::load {

class SimCarrier final : public Carrier {
 public:
  SimCarrier(sim::SimLoop& loop, sim::SimDeviceMemory& devices, engine::Random& random)
      : loop_(loop), devices_(devices), random_(random) {}
  ~SimCarrier() override {
    for (const auto& link : links_) {
      loop_.remove(*link->mover);
      loop_.remove(*link->gatherer);
      loop_.remove(*link->files);
      link->gatherer.reset();
      link->mover.reset();
      devices_.unpin(link->slots);
      ::munmap(link->slots.data(), link->slots.size());
    }
  }

  SimFiles& add_link() {
    Link& link = *links_.emplace_back(std::make_unique<Link>());
    void* const mapped =
        ::mmap(nullptr, kSlotsBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT(mapped != MAP_FAILED);
    link.slots = {static_cast<std::byte*>(mapped), kSlotsBytes};
    ASSERT(devices_.pin(link.slots, false));
    link.files = std::make_unique<SimFiles>(loop_, random_);
    link.mover = std::make_unique<route::Mover>(loop_, devices_, *link.files,
                                                route::MoverConfig{.slots = link.slots});
    link.gatherer = std::make_unique<route::Gatherer>(loop_, *link.mover, *link.files,
                                                      link.mover->lanes(), true);
    loop_.add(*link.files);
    loop_.add(*link.gatherer);
    loop_.add(*link.mover);
    return *link.files;
  }

  void start(Fetch& fetch) override {
    Link& link = *links_[fetch.link];
    ++fetches;
    if (fetch.is_list) {
      prepare(fetch, fetch.list);
      link.gatherer->submit(fetch.list);
    } else {
      prepare(fetch, fetch.range);
      link.mover->submit(fetch.range);
    }
  }
  void start(Forward& forward) override {
    route::PeerTransfer& copy = forward.copy;
    copy.owner = &forward;
    copy.completion = [](engine::Op& op) {
      auto& ended = op.owner_as<Forward>();
      static_cast<SimCarrier*>(ended.fetch->carrier)->spread->forwarded(ended);
    };
    copy.device = copy.to.device;
    copy.direction = engine::CopyDirection::device_to_device;
    copy.piece = {.source = copy.from.data, .destination = copy.to.data, .length = copy.to.length};
    copy.pieces = {&copy.piece, 1};
    copy.allocation = copy.to.allocation;
    links_[forward.destination]->mover->lanes().submit(copy);
  }
  void cancel(Fetch& fetch) override {
    if (fetch.is_list) {
      links_[fetch.link]->gatherer->cancel(fetch.list);
    } else {
      links_[fetch.link]->mover->cancel(fetch.range);
    }
  }

  Spread* spread = nullptr;
  uint64_t fetches = 0;

 private:
  static constexpr uint64_t kSlotsBytes = 4 * kMiB;

  struct Link {
    MutableBytes slots;
    std::unique_ptr<SimFiles> files;
    std::unique_ptr<route::Mover> mover;
    std::unique_ptr<route::Gatherer> gatherer;
  };

  template <class AnyTransfer>
  static void prepare(Fetch& fetch, AnyTransfer& transfer) {
    transfer.file = fetch.file;
    transfer.owner = &fetch;
    transfer.completion = [](engine::Op& op) {
      auto& ended = op.owner_as<Fetch>();
      static_cast<SimCarrier*>(ended.carrier)->spread->fetched(ended);
    };
  }

  sim::SimLoop& loop_;
  sim::SimDeviceMemory& devices_;
  engine::Random& random_;
  std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace penstock::load
