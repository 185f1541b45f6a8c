// Gates in streams of the program.
#include "cuda_memory.h"

#include <atomic>

namespace penstock::gpu {

namespace {

// A word in pinned memory that the stream waits for. It counts the openings, so that the stream
// need not be waited for before the gate is used again.
class CudaGate final : public engine::StreamGate {
 public:
  CudaGate(CudaMemory& memory, uint32_t* word)
      : memory_(memory), word_(word), opened_(std::atomic_ref(*word).load()), enqueued_(opened_) {}
  ~CudaGate() override { memory_.give_back(word_); }

  Status enqueue(engine::DeviceStream stream, void (*reached)(void*), void* context) override;

  void open() override {
    // Release: the device sees what was written before.
    std::atomic_ref<uint32_t>(*word_).store(++opened_, std::memory_order_release);
  }

 private:
  // A refused gate never counts as reached, also if the stream comes to it.
  enum class State : uint32_t { armed, reached, refused };

  static void CUDA_CB reached_in_stream(void* gate);

  CudaMemory& memory_;
  uint32_t* const word_;
  uint32_t opened_;
  uint32_t enqueued_;
  void (*reached_)(void*) = nullptr;
  void* context_ = nullptr;
  std::atomic<State> state_{State::armed};
};

void CUDA_CB CudaGate::reached_in_stream(void* gate) {
  auto& self = *static_cast<CudaGate*>(gate);
  State expected = State::armed;
  // Acquire and release: whichever side is first, the other sees that it was.
  if (self.state_.compare_exchange_strong(expected, State::reached, std::memory_order_acq_rel)) {
    self.reached_(self.context_);
  }
}

Status CudaGate::enqueue(engine::DeviceStream stream, void (*reached)(void*), void* context) {
  const Driver& driver = memory_.driver();
  const auto into = static_cast<CUstream>(stream);
  CUstreamCaptureStatus capturing{};
  CUresult result = driver.cuStreamIsCapturing(into, &capturing);
  if (result == CUDA_SUCCESS && capturing != CU_STREAM_CAPTURE_STATUS_NONE) {
    return Code::not_supported;
  }
  if (result != CUDA_SUCCESS) return status_of(result);
  reached_ = reached;
  context_ = context;
  state_.store(State::armed, std::memory_order_release);
  result = driver.cuLaunchHostFunc(into, reached_in_stream, this);
  if (result != CUDA_SUCCESS) return status_of(result);
  result = driver.cuStreamWaitValue32(into, reinterpret_cast<CUdeviceptr>(word_), ++enqueued_,
                                      CU_STREAM_WAIT_VALUE_GEQ);
  if (result == CUDA_SUCCESS) return Code::ok;
  --enqueued_;
  State expected = State::armed;
  if (state_.compare_exchange_strong(expected, State::refused, std::memory_order_acq_rel)) {
    return status_of(result);
  }
  // The wait could not be enqueued, but the stream has reached the gate, which will be opened:
  // only, what follows in the stream does not wait for that.
  ++enqueued_;
  log::error("{}", failure_of(driver, "make a stream wait", result).message);
  return Code::ok;
}

}  // namespace

// There are two default streams: one of the device, and one of each thread in programs that were
// compiled so.
Status CudaMemory::settle(engine::DeviceId device) {
  const Outcome<Context> context = this->context(device);
  if (!context) return context.error().status;
  const ContextScope scope(driver_, context->context);
  const CUresult result = driver_.cuStreamSynchronize(CU_STREAM_LEGACY);
  if (result != CUDA_SUCCESS) return status_of(result);
  return status_of(driver_.cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

Outcome<std::unique_ptr<engine::StreamGate>> CudaMemory::make_gate() {
  TRY_ASSIGN(uint32_t* const word, take_word());
  return std::unique_ptr<engine::StreamGate>(std::make_unique<CudaGate>(*this, word));
}

Outcome<uint32_t*> CudaMemory::take_word() {
  constexpr size_t kLine = 64;
  constexpr size_t kPage = 4096;
  const std::lock_guard lock(words_mutex_);
  if (free_words_.empty()) {
    if (facts_.empty()) return Failure{Code::not_found, "make a gate: there is no GPU"};
    TRY_ASSIGN(const MutableBytes page, pinned_memory(device_in_use(), kPage));
    for (size_t at = 0; at < kPage; at += kLine) {
      free_words_.push_back(reinterpret_cast<uint32_t*>(&page[at]));
    }
  }
  uint32_t* const word = free_words_.back();
  free_words_.pop_back();
  return word;
}

void CudaMemory::give_back(uint32_t* word) {
  const std::lock_guard lock(words_mutex_);
  free_words_.push_back(word);
}

}  // namespace penstock::gpu
