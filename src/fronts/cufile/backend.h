// Reads and writes of a program, and the seam to what carries them out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <sys/types.h>
#include <vector>

#include "penstock/engine.h"
#include "penstock/route.h"

namespace penstock::cufile {

// Where an operation's bytes come from or go to.
struct Memory {
  std::byte* data = nullptr;
  uint64_t length = 0;
  bool on_device = false;
  engine::DeviceSpan device;  // the same range, if it is
  // What it lies in: the registered buffer, or the range itself.
  std::byte* buffer = nullptr;
  uint64_t buffer_length = 0;
};

class Backend;

// A registered file.
struct File {
  ~File();

  int number = -1;  // the program's descriptor, which may be closed since
  dev_t device = 0;
  ino_t inode = 0;
  bool readable = false;
  bool writable = false;
  Backend* backend = nullptr;
  uint32_t id = 0;  // the backend's
};

struct Operation;

// A part of an operation, as large as one entry of a ring may be.
struct RingPart : ListNode {
  Operation* operation = nullptr;
  uint64_t begin = 0;  // in the operation
  uint64_t length = 0;
  uint64_t done = 0;
  Status status;
};

// Its caller keeps it, and the file, until it has ended.
struct Operation : ListNode {
  File* file = nullptr;
  bool write = false;
  uint64_t offset = 0;  // in the file
  Memory memory;
  // In whatever thread ends the operation; must not block. Null for run().
  void (*ended)(Operation&) = nullptr;
  void* owner = nullptr;

  // Out. Everything before the first byte that failed, or that the file does not have.
  Status status;
  uint64_t transferred = 0;
  engine::Route route = engine::Route::none;

  // The backend that carries it out keeps here what it needs.
  route::Transfer transfer;
  std::vector<RingPart> parts;
  uint32_t parts_left = 0;
  std::shared_ptr<void> region;
};

// Thread safe.
class Backend {
 public:
  virtual ~Backend() = default;
  // Returns when the operation has ended.
  virtual void run(Operation& operation) = 0;
  // Several at once, which costs less than one by one.
  virtual void submit(std::span<Operation* const> operations) = 0;
  void submit(Operation& operation) {
    Operation* const one = &operation;
    submit({&one, 1});
  }
  // Asks for an early end of what was submitted, and may have ended.
  virtual void cancel(Operation& operation) = 0;
  // Nothing is in progress on the file, nor will be.
  virtual void remove(uint32_t file) = 0;
};

inline File::~File() {
  if (backend != nullptr) backend->remove(id);
}

}  // namespace penstock::cufile
