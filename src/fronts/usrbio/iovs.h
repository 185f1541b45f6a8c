// The regions behind hf3fs_iov: shared memory and its registration with sessions.
//
// Thread safe, except that no thread may use an iov while another one destroys it. Records are
// never given back to the heap, only reused: an iov that is used after its end is noticed by its id
// and refused instead of crashing the program.
#pragma once

#include "hf3fs_usrbio.h"
#include "link_name.h"
#include "pages_made.h"
#include "penstock.h"
#include "shared_memory.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "penstock/front.h"

namespace penstock::usrbio {

// An iov made known to one session.
struct Registration {
  front::Session* session = nullptr;
  penstock_region* region = nullptr;
  size_t block_size = 0;
  std::unique_ptr<Registration> earlier;  // of sessions whose agents have died
};

struct Iov {
  enum class Kind : uint8_t { unused, created, opened, wrapped };

  Kind kind = Kind::unused;
  Uuid id{};
  uint8_t* base = nullptr;
  size_t size = 0;
  size_t block_size = 0;  // as the caller stated it
  std::string mount;
  std::string link;          // empty for a wrapped one until it is attached
  std::string link_to_make;  // of one that is being created
  SharedMemory memory;
  std::unique_ptr<PagesMade> pages;      // of an iov that was created here; else null
  uint32_t uses = 0;                     // wrapped: iovwrap calls that describe the same memory
  uint32_t fork_generation = 0;          // of the process that made it
  int gpu = -1;                          // whose memory it is; -1: host memory
  penstock_region* published = nullptr;  // GPU memory: what shows it to others, until unlinked
  std::unique_ptr<Registration> registrations;
  // The newest of `registrations`. Release in attach() pairs with the acquire in region_for().
  std::atomic<const Registration*> current{nullptr};
};

class Iovs {
 public:
  explicit Iovs(front::Sessions& sessions) : sessions_(sessions) {}

  // The bodies of hf3fs_iovcreate and so on; 0 or a negative errno. The mount is not empty and
  // fits.
  int create(hf3fs_iov& iov, const std::string& mount, size_t size, size_t block_size, int numa);
  int open(hf3fs_iov& iov, const Uuid& id, const std::string& mount, size_t size, size_t block_size,
           int numa);
  void wrap(hf3fs_iov& iov, void* base, const Uuid& id, const std::string& mount, size_t size,
            size_t block_size, int numa);
  void unlink(const hf3fs_iov& iov);
  void destroy(hf3fs_iov& iov);

  // The same for GPU memory: device_iovs.cc.
  int create_device(hf3fs_iov& iov, const std::string& mount, size_t size, int gpu);
  int open_device(hf3fs_iov& iov, const Uuid& id, const std::string& mount, size_t size, int gpu);
  int wrap_device(hf3fs_iov& iov, void* base, const Uuid& id, const std::string& mount, size_t size,
                  int gpu);
  int sync(const hf3fs_iov& iov, int direction);
  // -1: host memory, or no iov.
  int gpu_of(const hf3fs_iov& iov);

  // Where an operation on [ptr, ptr + length) goes. Without a lock for an iov that the session
  // knows.
  struct Location {
    penstock_region* region = nullptr;
    uint64_t offset = 0;
  };
  // 0 or a negative errno.
  int resolve(const hf3fs_iov& iov, front::Session& session, const void* ptr, uint64_t length,
              Location& location) {
    if (iov.base == nullptr || ptr == nullptr || length == 0) return -EINVAL;
    if (!inside(iov.base, iov.size, ptr, length)) return -EINVAL;
    Iov* record = static_cast<Iov*>(iov.iovh);
    const Registration* known = nullptr;
    if (record != nullptr && __builtin_memcmp(record->id.data(), iov.id, sizeof(iov.id)) == 0) {
      known = record->current.load(std::memory_order_acquire);
    }
    if (known == nullptr || known->session != &session) [[unlikely]] {
      const int result = attach(iov, session, record, known);
      if (result < 0) return result;
    }
    if (!inside(record->base, record->size, ptr, length)) return -EINVAL;
    const uint64_t offset = static_cast<uint64_t>(static_cast<const uint8_t*>(ptr) - record->base);
    const uint64_t block = known->block_size;
    if (block != 0 && offset / block != (offset + length - 1) / block) return -EINVAL;
    location = {known->region, offset};
    return record->pages == nullptr ? 0 : record->pages->make(offset, length);
  }

  // fork(): as in Sessions. The child registers inherited memory with its own sessions and leaves
  // the names to its parent.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void inherit();

 private:
  static bool inside(const uint8_t* base, size_t size, const void* ptr, uint64_t length) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(base);
    const uintptr_t at = reinterpret_cast<uintptr_t>(ptr);
    return at >= begin && range_within(at - begin, length, size);
  }

  // With mutex_ held.
  Iov& take_record();
  Iov* find_wrapped(const Uuid& id, const uint8_t* base, size_t size);
  int attach_locked(Iov& iov, front::Session& session);
  static void remove_name(Iov& iov);
  int register_host(Iov& iov, front::Session& session, Registration& registration);
  int register_device(Iov& iov, front::Session& session, Registration& registration);
  Iov* find_record(const hf3fs_iov& iov);
  Iov* find_same_wrapped(const Iov& wanted);
  bool use_same_wrapped(hf3fs_iov& iov, const Iov& wanted);
  int wrap_new(hf3fs_iov& iov, Iov& facts);
  Iov& keep_device(const Iov& facts, std::unique_ptr<Registration> registration);
  std::unique_ptr<Registration> retire(Iov& iov);
  void collect_stale(std::vector<std::unique_ptr<Registration>>& ended);

  // Registers the iov with the session; sets `record` and `known` when that is done.
  int attach(const hf3fs_iov& iov, front::Session& session, Iov*& record,
             const Registration*& known);
  int register_in_mount(Iov& iov);
  // Makes a region in the mount's session; what `make` returns is the result.
  using MakeRegion = std::function<int(front::Session& session, penstock_region** region)>;
  int make_in_mount(const std::string& mount, const MakeRegion& make, Registration& registration);

  front::Sessions& sessions_;
  std::once_flag cleaned_;
  std::mutex mutex_;
  std::deque<Iov> records_;   // stable addresses
  std::vector<Iov*> unused_;  // for reuse
  std::vector<Iov*> wrapped_;
  // GPU memory: of two threads that wrap under one id the second waits for what the first has made.
  std::set<Uuid> being_wrapped_;
  std::condition_variable was_wrapped_;
  size_t stale_cursor_ = 0;
  uint32_t fork_generation_ = 0;
};

// What callers see of an iov.
void fill(hf3fs_iov& iov, Iov& record, int numa);
Uuid id_of(const hf3fs_iov& iov);

// Gives up what a retired iov was registered with; waits for I/O. Call it without a lock.
void release_registrations(std::unique_ptr<Registration> newest);

}  // namespace penstock::usrbio
