// A slab: its memory, and its number with the host that registers it.
#pragma once

#include "memory.h"

#include <memory>

#include "penstock/arena/segment.h"

namespace penstock::arena {

class Slab {
 public:
  // `host` may be null; else it outlives the slab.
  static Result<std::unique_ptr<Slab>> make(uint64_t bytes, SlabHost* host) {
    TRY_ASSIGN(SealedMemory memory, SealedMemory::make("penstock-slab", bytes));
    TRY(memory.populate(0, bytes));
    return std::unique_ptr<Slab>(new Slab(std::move(memory), host));
  }
  ~Slab() {
    if (host_ != nullptr) host_->slab_gone(number_, memory_.bytes());
  }

  int fd() const { return memory_.fd(); }
  MutableBytes bytes() const { return memory_.bytes(); }
  uint32_t number() const { return number_; }

 private:
  Slab(SealedMemory memory, SlabHost* host)
      : memory_(std::move(memory)),
        host_(host),
        number_(host != nullptr ? host->slab_made(memory_.bytes()) : 0) {}

  SealedMemory memory_;
  SlabHost* host_;
  uint32_t number_;
};

}  // namespace penstock::arena
