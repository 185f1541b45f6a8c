// What a proxy needs of its PE's GPU.
#pragma once

#include "penstock/base.h"

namespace penstock::symm {

// One thread. Copies are done in their order; what they move is staging memory until finish().
class ProxyDevice {
 public:
  virtual ~ProxyDevice() = default;
  // An aligned word of up to 8 bytes is written and read at once.
  virtual Status copy_in(uint64_t to, Bytes from) = 0;
  virtual Status copy_out(MutableBytes to, uint64_t from) = 0;
  // All copies are done. Waits for no kernel.
  virtual Status finish() = 0;
  // Whether copies reach all of it, beside the heap.
  virtual bool holds(uint64_t address, uint64_t bytes) = 0;
  // Whether calls of the program may hold up copies of this memory: kernels make them then.
  virtual bool is_programs(uint64_t address) = 0;
  // Called as long as not all changes and copies that are posted have been made, `served` of all
  // that ever were: has a kernel make them, where none is on its way. timed_out: none has come for
  // minutes.
  virtual Status make_changes(uint64_t served) = 0;
};

}  // namespace penstock::symm
