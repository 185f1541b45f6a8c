// Memory of a file without a name, as an application shares it with an agent.
#pragma once

#include <cstdint>

#include "penstock/base.h"

namespace penstock::test {

class SharedMemory {
 public:
  // Maps it for reading and writing, with the seals of fcntl(F_ADD_SEALS); unless `with_pages`, no
  // page of it exists before it is touched. The program ends where there is no such memory.
  SharedMemory(uint64_t size, int seals, bool with_pages = true);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int fd() const { return fd_.get(); }
  uint64_t size() const { return bytes_.size(); }
  MutableBytes bytes() const { return bytes_; }

 private:
  UniqueFd fd_;
  MutableBytes bytes_;
};

}  // namespace penstock::test
