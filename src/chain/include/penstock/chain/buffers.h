// Memory for bytes on their way between disks and the network.
//
// Buffers are aligned as disks want them, so that these read into them and write from them without
// a copy; and they are kept for the next that wants as much, as making pages takes longer than
// reading a disk into them, and telling a network card of them as long.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "penstock/base.h"

namespace penstock::chain {

// One thread's. Lives as long as its last buffer.
class Buffers : public std::enable_shared_from_this<Buffers> {
 public:
  using Buffer = std::shared_ptr<std::byte[]>;
  using Told = std::function<void(MutableBytes)>;

  // Keeps so much for the next, beside what is in use; 0: a good number.
  static std::shared_ptr<Buffers> make(uint64_t idle_bytes_max = 0);
  ~Buffers();

  // Of memory that buffers lie in: when it is there, and before it goes. For network cards.
  void tell(Told made, Told gone);
  void tell_nobody();

  // Aligned to blocks; its bytes may be anything. Null for length 0. A buffer takes up to twice its
  // length.
  Buffer take(size_t length);

  uint64_t mapped_bytes() const { return mapped_; }
  uint64_t idle_bytes() const { return idle_; }

 private:
  // Memory that is mapped at once, in buffers of one size.
  struct Slab {
    MutableBytes memory;
    size_t size = 0;  // of a buffer
    std::vector<std::byte*> free;
    uint64_t last_use = 0;
    size_t count() const { return memory.size() / size; }
    bool is_idle() const { return free.size() == count(); }
  };
  using Slabs = std::map<const std::byte*, Slab>;  // by address

  explicit Buffers(uint64_t idle_bytes_max) : idle_max_(idle_bytes_max) {}
  Slab& make_slab(size_t size);
  void give_back(std::byte* buffer);
  bool unmap_longest_idle();
  void unmap(Slabs::iterator slab);

  const uint64_t idle_max_;
  Slabs slabs_;
  std::map<size_t, std::vector<Slab*>> with_room_;  // by size: those with a free buffer
  uint64_t mapped_ = 0;
  uint64_t idle_ = 0;  // of it in no use
  uint64_t uses_ = 0;
  Told made_;
  Told gone_;
};

}  // namespace penstock::chain
