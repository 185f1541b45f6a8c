#include "calls.h"

#include <bit>

namespace penstock::nvshmem {
namespace {

// Where a call touches a PE's memory; for messages.
struct Touched {
  const void* address;
  uint64_t bytes;
  int pe;
};

void check(const char* call, Status done, const Touched& touched) {
  if (!done.ok()) [[unlikely]]
    fault_at(call, done, touched.address, touched.bytes, static_cast<uint32_t>(touched.pe));
}

void check_aligned(const char* call, const void* address, uint32_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) [[unlikely]]
    fault(call, fmt::format("address {}: a word of {} bytes stands at a multiple of them", address,
                            bytes));
}

symm::SignalOp signal_op(const char* call, int op) {
  if (op != NVSHMEM_SIGNAL_SET && op != NVSHMEM_SIGNAL_ADD) [[unlikely]]
    fault(call, fmt::format("there is no signal operation {}", op));
  return op == NVSHMEM_SIGNAL_ADD ? symm::SignalOp::add : symm::SignalOp::set;
}

symm::StridedElements strides_of(const char* call, Steps steps, Elements elements) {
  if (steps.dest < 1 || steps.source < 1) {
    fault(call, fmt::format("strides {} and {}: elements are at least 1 apart", steps.dest,
                            steps.source));
  }
  return {steps.dest, steps.source, elements.count, elements.bytes};
}

}  // namespace

uint64_t bytes_of(const char* call, Elements elements) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements.count, elements.bytes, &bytes))
    fault(call, fmt::format("{} elements of {} bytes", elements.count, elements.bytes));
  return bytes;
}

void put_on(const char* call, void* dest, const void* source, Elements elements, int pe,
            engine::DeviceStream stream) {
  OnDevice& there = on_device(call);
  const uint64_t bytes = bytes_of(call, elements);
  check(call, there.streams->put(dest, source, bytes, static_cast<uint32_t>(pe), stream),
        {dest, bytes, pe});
}

void get_on(const char* call, void* dest, const void* source, Elements elements, int pe,
            engine::DeviceStream stream) {
  OnDevice& there = on_device(call);
  const uint64_t bytes = bytes_of(call, elements);
  check(call, there.streams->get(dest, source, bytes, static_cast<uint32_t>(pe), stream),
        {source, bytes, pe});
}

void iput_on(const char* call, void* dest, const void* source, Steps steps, Elements elements,
             int pe, engine::DeviceStream stream, symm::By by) {
  OnDevice& there = on_device(call);
  const symm::StridedElements strides = strides_of(call, steps, elements);
  check(call, there.streams->iput(dest, source, strides, static_cast<uint32_t>(pe), stream, by),
        {dest, symm::reach_of(strides.dest, strides), pe});
}

void iget_on(const char* call, void* dest, const void* source, Steps steps, Elements elements,
             int pe, engine::DeviceStream stream, symm::By by) {
  OnDevice& there = on_device(call);
  const symm::StridedElements strides = strides_of(call, steps, elements);
  check(call, there.streams->iget(dest, source, strides, static_cast<uint32_t>(pe), stream, by),
        {source, symm::reach_of(strides.source, strides), pe});
}

void finish_own(const char* call) {
  gpu::SymmetricDevice& device = *on_device(call).device;
  if (const Status done = device.synchronize(device.own_stream()); !done.ok()) [[unlikely]]
    fault_status(call, done);
}

engine::DeviceStream own_stream(const char* call) {
  return on_device(call).device->own_stream();
}

void leave_for_quiet(const char* call) {
  on_device(call).begun.fetch_add(1, std::memory_order_release);
}

void quiet(const char* call) {
  group(call);
  OnDevice* const there = current_device.load(std::memory_order_acquire);
  if (there != nullptr && there->heap->has_far()) {
    // What kernels of the program have asked of other nodes, too.
    if (const Status asked = there->streams->quiet(there->device->own_stream()); !asked.ok())
      fault_status(call, asked);
    finish_own(call);
  }
  if (there != nullptr) {
    // Pairs with the release above: what was given to the stream before is in it.
    const uint64_t begun = there->begun.load(std::memory_order_acquire);
    uint64_t done = there->done.load(std::memory_order_acquire);
    if (done < begun) {
      finish_own(call);
      while (done < begun && !there->done.compare_exchange_weak(done, begun)) {
      }
    }
  }
  check_kernels(call);
}

void put_word(const char* call, void* dest, const void* value, uint32_t bytes, int pe) {
  check(call, on_device(call).words->put(dest, value, bytes, static_cast<uint32_t>(pe)),
        {dest, bytes, pe});
}

void get_word(const char* call, void* value, const void* source, uint32_t bytes, int pe) {
  check(call, on_device(call).words->get(value, source, bytes, static_cast<uint32_t>(pe)),
        {source, bytes, pe});
}

void put_word_on(const char* call, void* dest, uint64_t value, uint32_t bytes, int pe,
                 engine::DeviceStream stream) {
  check_aligned(call, dest, bytes);
  check(call, on_device(call).streams->store(dest, value, bytes, static_cast<uint32_t>(pe), stream),
        {dest, bytes, pe});
}

void get_word_on(const char* call, void* value, const void* source, uint32_t bytes, int pe,
                 engine::DeviceStream stream) {
  const Status done =
      on_device(call).words->get(value, source, bytes, static_cast<uint32_t>(pe), stream);
  if (done.code() == Code::not_supported) [[unlikely]]
    fault(call, "the stream is being captured: there is no value to return before the graph runs");
  check(call, done, {source, bytes, pe});
}

void change_word(const char* call, void* dest, const symm::ChangeOfWord& change, int pe) {
  check_aligned(call, dest, change.bytes);
  check(call, on_device(call).words->change(dest, change, static_cast<uint32_t>(pe)),
        {dest, change.bytes, pe});
  leave_for_quiet(call);
}

uint64_t fetch_word(const char* call, void* dest, const symm::ChangeOfWord& change, int pe) {
  check_aligned(call, dest, change.bytes);
  const Result<uint64_t> before =
      on_device(call).words->fetch(dest, change, static_cast<uint32_t>(pe));
  if (!before) [[unlikely]]
    fault_at(call, before.error(), dest, change.bytes, static_cast<uint32_t>(pe));
  return *before;
}

void wait_on(const char* call, const symm::WordsToWaitFor& words, engine::DeviceStream stream) {
  OnDevice& there = on_device(call);
  if (words.count == 0) return;
  if (words.comparison < NVSHMEM_CMP_EQ || words.comparison > NVSHMEM_CMP_GE)
    fault(call, fmt::format("there is no comparison {}", words.comparison));
  const uint64_t bytes = bytes_of(call, {words.count, words.bytes});
  check_aligned(call, words.at, words.bytes);
  const Status done = there.streams->wait(words, stream);
  if (done.code() == Code::not_found) [[unlikely]] {
    fault(call,
          fmt::format("status at {}, values at {}: the GPU does not reach them (cudaMalloc(), "
                      "cudaMallocHost() and cudaMallocManaged() give what it reaches)",
                      static_cast<const void*>(words.status), words.values));
  }
  check(call, done, {words.at, bytes, static_cast<int>(group(call).me())});
  check_kernels(call);
}

void signal_on(const char* call, uint64_t* signal, uint64_t value, int op, int pe,
               engine::DeviceStream stream) {
  OnDevice& there = on_device(call);
  const symm::SignalOp meant = signal_op(call, op);
  check_aligned(call, signal, sizeof *signal);
  check(call, there.streams->signal(signal, value, meant, static_cast<uint32_t>(pe), stream),
        {signal, sizeof *signal, pe});
}

void put_signal_on(const char* call, void* dest, const void* source, Elements elements,
                   const Signal& signal, int pe, engine::DeviceStream stream) {
  OnDevice& there = on_device(call);
  const symm::SignalOp meant = signal_op(call, signal.op);
  check_aligned(call, signal.address, sizeof *signal.address);
  const uint64_t bytes = bytes_of(call, elements);
  const auto other = static_cast<uint32_t>(pe);
  const Status done = there.streams->put_signal(dest, source, bytes, signal.address, signal.value,
                                                meant, other, stream);
  const bool has_signal = there.heap->at(signal.address, sizeof *signal.address, other) != nullptr;
  check(
      call, done,
      has_signal ? Touched{dest, bytes, pe} : Touched{signal.address, sizeof *signal.address, pe});
}

}  // namespace penstock::nvshmem
