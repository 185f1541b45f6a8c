#include "cuda_mailbox.h"

#include <chrono>
#include <cstring>

namespace penstock::gpu {

using engine::DeviceId;
using engine::DeviceSpan;

static_assert(kMailboxBytesMax == engine::kMailboxBytesMax && kMailboxUnit == engine::kMailboxUnit);

namespace {

constexpr uint32_t kTicksPerNanosecond = 2;  // about, at full clock

template <class Duration>
uint32_t ticks(Duration time) {
  return static_cast<uint32_t>(std::chrono::nanoseconds(time).count()) * kTicksPerNanosecond;
}

}  // namespace

CudaMailbox::~CudaMailbox() {
  if (!broken_.ok()) return;
  parts_.numbers = sender_.numbers();
  mailboxes_.give_back(device_, parts_);
}

MutableBytes CudaMailbox::space_for(const DeviceSpan& destination) {
  DASSERT(destination.length <= kMailboxBytesMax);
  const uint64_t past = reinterpret_cast<uintptr_t>(destination.data) % engine::kMailboxUnit;
  return parts_.buffer.subspan(past, destination.length);
}

Status CudaMailbox::send(const DeviceSpan& destination, const std::byte* source) {
  DASSERT(engine::is_mailable(destination, source));
  if (!broken_.ok()) return broken_;
  if (destination.device != device_) return Code::invalid_argument;
  destination_ = destination;
  const Status sent =
      sender_.send(reinterpret_cast<uint64_t>(destination.data), reinterpret_cast<uint64_t>(source),
                   static_cast<uint32_t>(destination.length));
  if (sent.code() == Code::peer_gone) broken_ = sent;
  return sent;
}

Status CudaMailbox::start(uint32_t number) {
  const ContextScope scope(memory_.driver(), context_.context);
  MailboxServer::Patience patience{ticks(limits::kMailboxIdle), ticks(limits::kMailboxLife)};
  void* arguments[] = {&parts_.mailbox, &number, &patience};
  return status_of(memory_.driver().cuLaunchKernel(context_.serve_mailbox, 1, 1, 1, kMailboxThreads,
                                                   1, 1, 0, parts_.stream, arguments, nullptr));
}

// What was freed must not be written to: the driver may have given it to another allocation.
bool CudaMailbox::is_there() {
  const Result<DeviceSpan> found = memory_.find(destination_.data, destination_.length);
  return found && found->allocation == destination_.allocation;
}

Status CudaMailbox::look_after() {
  const ContextScope scope(memory_.driver(), context_.context);
  const CUresult result = memory_.driver().cuStreamQuery(parts_.stream);
  return result == CUDA_ERROR_NOT_READY ? Code::ok : status_of(result);
}

// ---- where they come from ----

Outcome<MailboxParts> CudaMailboxes::take(DeviceId device) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = free_.find(device.value);
    if (found != free_.end()) {
      const MailboxParts parts = found->second;
      free_.erase(found);
      return parts;
    }
  }
  MailboxParts parts;
  TRY_ASSIGN(
      const MutableBytes memory,
      memory_.pinned_memory(device, sizeof(Mailbox) + kMailboxBytesMax + engine::kMailboxUnit));
  parts.mailbox = reinterpret_cast<Mailbox*>(memory.data());
  parts.buffer = memory.subspan(sizeof(Mailbox));
  TRY_ASSIGN(const Context context, memory_.context(device));
  const Driver& driver = memory_.driver();
  const ContextScope scope(driver, context.context);
  int least = 0;
  int greatest = 0;
  driver.cuCtxGetStreamPriorityRange(&least, &greatest);
  const CUresult result =
      driver.cuStreamCreateWithPriority(&parts.stream, CU_STREAM_NON_BLOCKING, greatest);
  if (result != CUDA_SUCCESS) return failure_of(driver, "make a stream", result);
  return parts;
}

void CudaMailboxes::give_back(DeviceId device, const MailboxParts& parts) {
  const std::lock_guard lock(mutex_);
  free_.emplace(device.value, parts);
}

Outcome<std::unique_ptr<engine::CopyMailbox>> CudaMailboxes::make(DeviceId device) {
  TRY_ASSIGN(const Context context, memory_.context(device));
  TRY_ASSIGN(const MailboxParts parts, take(device));
  return std::unique_ptr<engine::CopyMailbox>(
      std::make_unique<CudaMailbox>(*this, device, context, parts));
}

std::unique_ptr<Mailboxes> make_mailboxes(CudaMemory& memory) {
  return std::make_unique<CudaMailboxes>(memory);
}

const char* mailbox_kernel_name() {
  return "penstock_serve_mailbox";
}

}  // namespace penstock::gpu
