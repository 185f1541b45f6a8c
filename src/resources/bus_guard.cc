#include "penstock/resources/bus_guard.h"

#include "limits.h"

#include <algorithm>
#include <mutex>
#include <signal.h>
#include <sys/mman.h>

namespace penstock::resources {

// Read by the signal handler in any thread. `size` is 0 while the slot is free; it is stored last
// when a slot is taken (release) and loaded first by the handler (acquire).
struct BusGuard::Slot {
  std::atomic<uintptr_t> base{0};
  std::atomic<size_t> size{0};
  std::atomic<bool> broken{false};
};

namespace {

BusGuard::Slot slots[limits::kGuardsMax];
std::atomic<uint32_t> slots_used{0};  // slots at and above were never taken
std::mutex slots_mutex;
uint32_t first_free = 0;  // no slot below is free; with slots_mutex held
struct sigaction previous_action;

BusGuard::Slot* slot_holding(uintptr_t address) {
  const uint32_t used = slots_used.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used; ++i) {
    const size_t size = slots[i].size.load(std::memory_order_acquire);
    const uintptr_t base = slots[i].base.load(std::memory_order_relaxed);
    if (size != 0 && address - base < size) return &slots[i];
  }
  return nullptr;
}

// Not our fault: what would have happened without us. Returning repeats the access.
void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler == SIG_DFL || previous_action.sa_handler == SIG_IGN) {
    ::signal(signal, SIG_DFL);
  } else {
    previous_action.sa_handler(signal);
  }
}

// Only system calls and lock-free atomics in here.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
  BusGuard::Slot* slot = slot_holding(address);
  if (slot == nullptr) return pass_on(signal, info, context);
  // Relaxed: the thread that looks is the one that was interrupted, or learns of the end of the
  // operation through a queue that orders it.
  slot->broken.store(true, std::memory_order_relaxed);
  // The whole mapping at once, so that one owner costs one mapping however often it faults.
  void* base = reinterpret_cast<void*>(slot->base.load(std::memory_order_relaxed));
  const size_t size = slot->size.load(std::memory_order_relaxed);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  if (::mmap(base, size, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) {
    return pass_on(signal, info, context);
  }
  errno = saved_errno;
}

}  // namespace

void BusGuard::install() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    return ::sigaction(SIGBUS, &action, &previous_action) == 0;
  }();
  if (!installed) log::error("cannot install a handler for SIGBUS");
}

Result<BusGuard> BusGuard::over(MutableBytes mapping) {
  ASSERT(mapping.data() != nullptr && !mapping.empty());
  const std::lock_guard lock(slots_mutex);
  const uint32_t used = slots_used.load(std::memory_order_relaxed);
  for (uint32_t i = first_free; i < limits::kGuardsMax; ++i) {
    Slot& slot = slots[i];
    if (slot.size.load(std::memory_order_relaxed) != 0) continue;
    slot.broken.store(false, std::memory_order_relaxed);
    slot.base.store(reinterpret_cast<uintptr_t>(mapping.data()), std::memory_order_relaxed);
    slot.size.store(mapping.size(), std::memory_order_release);
    if (i >= used) slots_used.store(i + 1, std::memory_order_release);
    first_free = i + 1;
    return BusGuard(&slot);
  }
  return Code::busy;
}

BusGuard::~BusGuard() {
  if (slot_ == nullptr) return;
  const std::lock_guard lock(slots_mutex);
  ASSERT(slot_ >= slots && slot_ < slots + limits::kGuardsMax && slot_->size.load() != 0);
  slot_->size.store(0, std::memory_order_release);
  first_free = std::min(first_free, static_cast<uint32_t>(slot_ - slots));
}

bool BusGuard::broken() const {
  return slot_ != nullptr && slot_->broken.load(std::memory_order_relaxed);
}

}  // namespace penstock::resources
