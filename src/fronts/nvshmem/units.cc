#include "units.h"

#include "process.h"

#include <fmt/core.h>
#include <mutex>
#include <string>
#include <vector>

namespace penstock::nvshmem {
namespace {

// Constructors of units may run before this library's: nothing here has one.
constinit std::mutex units_mutex;
constinit penstock_symm_unit* first_unit = nullptr;

// Of code that the program has loaded by the driver; under the mutex, too.
std::vector<std::byte*>& loaded_states() {
  static auto* const own = new std::vector<std::byte*>;
  return *own;
}

// As nvcc names the variable of nvshmem.h (penstock_symm_state) in device code: by the rules of
// C++.
const std::string& name_of_state() {
  static const std::string name =
      fmt::format("_Z19penstock_symm_stateILj{}EE", device::kSymmVersion);
  return name;
}

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
  for (std::byte* const state : loaded_states()) TRY(heap.tell(state));
  return {};
}

void tell_reach(const char* call, const OnDevice& there) {
  if (const Status told = tell_units(*there.heap); !told.ok()) fault_status(call, told);
  symm::Group& all = group(call);
  if (const Status met = all.barrier(all.world()); !met.ok()) fault_status(call, met);
}

Status tell_loaded(const OnDevice& there, std::byte* state) {
  const std::lock_guard lock(units_mutex);
  TRY(there.heap->tell(state));
  std::erase(loaded_states(), state);
  loaded_states().push_back(state);
  return {};
}

Status untell_loaded(const OnDevice& there, std::byte* state) {
  const std::lock_guard lock(units_mutex);
  std::erase(loaded_states(), state);
  gpu::SymmetricDevice& device = *there.device;
  TRY(device.fill_zeros(state, sizeof(device::SymmState), device.own_stream()));
  return device.synchronize(device.own_stream());
}

void forget_loaded() {
  const std::lock_guard lock(units_mutex);
  loaded_states().clear();
}

Outcome<std::byte*> state_in(const gpu::LoadedCode& code, const OnDevice& there) {
  auto found = gpu::variable_of(code, name_of_state().c_str(), there.device->id());
  if (!found && found.error().status.code() == Code::not_found) {
    return Failure{Code::not_found,
                   "no kernel there calls NVSHMEM, or they were compiled with the headers of "
                   "another version of Penstock"};
  }
  if (!found) return found.error();
  if (found->size() != sizeof(device::SymmState))
    return Failure{Code::wrong_version, "its state has another size"};
  return found->data();
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
