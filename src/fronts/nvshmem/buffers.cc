// The program's own buffers: local ones, and such that become symmetric.
#include "calls.h"
#include "registrations.h"
#include "units.h"

namespace front = penstock::nvshmem;
using penstock::Code;
using penstock::Status;

namespace {

// On one node every address of this process may be source or destination: what is registered is
// only remembered, so that mistakes are told here as elsewhere.
front::Registrations& registrations() {
  static auto* const own = new front::Registrations;
  return *own;
}

int refuse_buffer(const char* call, const void* address, const char* why) {
  penstock::log::error("{}: address {}: {}", call, address, why);
  return NVSHMEMX_ERROR_INVALID_VALUE;
}

}  // namespace

NVSHMEM_DEFINE int nvshmemx_buffer_register(void* addr, size_t length) {
  const char* const call = "nvshmemx_buffer_register";
  front::group(call);
  const front::OnDevice* const there = front::current_device.load(std::memory_order_acquire);
  if (there != nullptr && there->heap->at(addr, 1, front::group(call).me()) != nullptr)
    return refuse_buffer(call, addr, "symmetric memory needs no registration");
  if (!registrations().add(addr, length)) {
    return refuse_buffer(call, addr,
                         "a buffer has at least one byte, and overlaps no registered one");
  }
  return 0;
}

NVSHMEM_DEFINE int nvshmemx_buffer_unregister(void* addr) {
  const char* const call = "nvshmemx_buffer_unregister";
  front::group(call);
  if (registrations().remove(addr)) return 0;
  return refuse_buffer(call, addr, "no registered buffer begins there");
}

NVSHMEM_DEFINE void nvshmemx_buffer_unregister_all(void) {
  front::group("nvshmemx_buffer_unregister_all");
  registrations().clear();
}

NVSHMEM_DEFINE void* nvshmemx_buffer_register_symmetric(void* buf_ptr, size_t size, int /*flags*/) {
  const char* const call = "nvshmemx_buffer_register_symmetric";
  const front::OnDevice& there = front::on_device(call);
  const auto symmetric = there.heap->adopt(buf_ptr, size);
  if (!symmetric) {
    if (symmetric.error().status.code() == Code::peer_gone)
      front::fault_status(call, symmetric.error().status);
    penstock::log::error("{}: PE {}: {}", call, front::group(call).me(), symmetric.error().message);
    return nullptr;
  }
  front::tell_reach(call, there);
  return *symmetric;
}

NVSHMEM_DEFINE int nvshmemx_buffer_unregister_symmetric(void* mmap_ptr, size_t size) {
  const char* const call = "nvshmemx_buffer_unregister_symmetric";
  const front::OnDevice& there = front::on_device(call);
  front::quiet(call);  // nothing is on its way into it any more
  const Status done = there.heap->disown(mmap_ptr, size);
  if (done.code() == Code::invalid_argument)
    return refuse_buffer(call, mmap_ptr, "no registered buffer of that length begins there");
  if (!done.ok()) front::fault_status(call, done);
  front::tell_reach(call, there);
  return 0;
}
