#include "units.h"

#include "process.h"

#include <mutex>

namespace penstock::nvshmem {
namespace {

// Constructors of units may run before this library's: nothing here has one.
constinit std::mutex units_mutex;
constinit penstock_symm_unit* first_unit = nullptr;

Status tell(const symm::DeviceHeap& heap, const penstock_symm_unit& unit) {
  const bool is_known =
      unit.version == device::kSymmVersion && unit.bytes == sizeof(device::SymmState);
  if (!is_known) return Code::wrong_version;
  void* const address = unit.address();
  return address != nullptr ? heap.tell(address) : Status(Code::not_found);
}

}  // namespace

Status tell_units(const symm::DeviceHeap& heap) {
  const std::lock_guard lock(units_mutex);
  for (const penstock_symm_unit* unit = first_unit; unit != nullptr; unit = unit->next)
    TRY(tell(heap, *unit));
  return {};
}

}  // namespace penstock::nvshmem

void penstock_symm_add_unit(penstock_symm_unit* unit) {
  namespace front = penstock::nvshmem;
  {
    const std::lock_guard lock(front::units_mutex);
    unit->next = front::first_unit;
    front::first_unit = unit;
  }
  const front::OnDevice* const there = front::current_device.load(std::memory_order_acquire);
  if (there == nullptr) return;
  if (const penstock::Status told = front::tell(*there->heap, *unit); !told.ok()) {
    front::fault_status("a module with kernels", told);
  }
}

int penstock_nvshmem_ready() {
  (void)penstock::nvshmem::on_device("nvshmemx_collective_launch");
  return 0;
}
