// Collective operations of the host and on streams, whatever their types (typed_collectives.h).
#include "typed_collectives.h"

namespace penstock::nvshmem {
namespace {

constexpr int kNoSuchTeam = -1;

// One call, with what all of them look at first.
class Collective {
 public:
  Collective(const char* call, int32_t team, Where where)
      : call_(call), team_(find_team(call, team)), where_(where) {
    if (team_ == nullptr) return;
    there_ = &on_device(call);
    if (!where_.is_awaited) return;
    auto own = there_->team_streams->of(*team_);
    if (!own) fault(call, own.error().message);
    own_ = *own;
  }

  bool has_team() const { return team_ != nullptr; }
  const symm::Team& team() const { return *team_; }
  symm::DeviceCollectives& operations() const { return there_->streams->collectives(); }
  engine::DeviceStream stream() const {
    return own_ != nullptr ? own_->own_stream() : where_.stream;
  }

  // `times` the bytes that are counted once.
  uint64_t times_team(uint64_t bytes) const {
    uint64_t all = 0;
    if (__builtin_mul_overflow(bytes, uint64_t{team_->size()}, &all))
      fault(call_, fmt::format("{} bytes of each of {} PEs", bytes, team_->size()));
    return all;
  }
  uint64_t bytes_of_elements(uint64_t count, symm::Element element) const {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, symm::bytes_of(element), &bytes))
      fault(call_, fmt::format("{} elements of {} bytes", count, symm::bytes_of(element)));
    return bytes;
  }
  void expect_symmetric(const void* address, uint64_t bytes) const {
    const uint32_t me = group(call_).me();
    if (bytes != 0 && there_->heap->at(address, bytes, me) == nullptr) [[unlikely]]
      fault_at(call_, Code::invalid_argument, address, bytes, me);
  }
  void expect_aligned(const void* address, symm::Element element) const {
    const uint64_t each = symm::bytes_of(element);
    if (reinterpret_cast<uintptr_t>(address) % each != 0) [[unlikely]]
      fault(call_,
            fmt::format("address {} is not aligned for elements of {} bytes", address, each));
  }
  void expect_root(int root) const {
    if (root < 0 || static_cast<uint32_t>(root) >= team_->size()) [[unlikely]]
      fault(call_, fmt::format("there is no PE {} for the root: PEs of the team are 0 to {}", root,
                               team_->size() - 1));
  }

  // What the call gives back, once the operation was given to its stream.
  int end(Status started) const {
    if (started.ok() && own_ != nullptr) started = own_->synchronize(own_->own_stream());
    if (!started.ok()) [[unlikely]]
      fault_status(call_, started);
    check_kernels(call_);
    return 0;
  }

 private:
  const char* const call_;
  symm::Team* const team_;
  const Where where_;
  OnDevice* there_ = nullptr;
  gpu::SymmetricDevice* own_ = nullptr;  // has the team's stream, where the call waits for it
};

}  // namespace

int do_broadcast(const char* call, int32_t team, const Buffers& bytes, int root, Where where) {
  const Collective of(call, team, where);
  if (!of.has_team()) return kNoSuchTeam;
  of.expect_root(root);
  of.expect_symmetric(bytes.dest, bytes.count);
  // That of the others is not looked at.
  if (static_cast<uint32_t>(root) == of.team().index())
    of.expect_symmetric(bytes.source, bytes.count);
  return of.end(of.operations().broadcast(of.team(), bytes.dest, bytes.source, bytes.count,
                                          static_cast<uint32_t>(root), of.stream()));
}

int do_fcollect(const char* call, int32_t team, const Buffers& bytes, Where where) {
  const Collective of(call, team, where);
  if (!of.has_team()) return kNoSuchTeam;
  of.expect_symmetric(bytes.dest, of.times_team(bytes.count));
  of.expect_symmetric(bytes.source, bytes.count);
  return of.end(
      of.operations().fcollect(of.team(), bytes.dest, bytes.source, bytes.count, of.stream()));
}

int do_alltoall(const char* call, int32_t team, const Buffers& bytes, Where where) {
  const Collective of(call, team, where);
  if (!of.has_team()) return kNoSuchTeam;
  of.expect_symmetric(bytes.dest, of.times_team(bytes.count));
  of.expect_symmetric(bytes.source, of.times_team(bytes.count));
  return of.end(
      of.operations().alltoall(of.team(), bytes.dest, bytes.source, bytes.count, of.stream()));
}

int do_reduce(const char* call, int32_t team, symm::DeviceCollectives::Reduction reduction,
              const Buffers& elements, Where where) {
  const Collective of(call, team, where);
  if (!of.has_team()) return kNoSuchTeam;
  const uint64_t bytes = of.bytes_of_elements(elements.count, reduction.element);
  for (const void* const address : {static_cast<const void*>(elements.dest), elements.source}) {
    of.expect_symmetric(address, bytes);
    of.expect_aligned(address, reduction.element);
  }
  return of.end(of.operations().reduce(of.team(), reduction, elements.dest, elements.source,
                                       elements.count, of.stream()));
}

int do_reducescatter(const char* call, int32_t team, symm::DeviceCollectives::Reduction reduction,
                     const Buffers& elements, Where where) {
  const Collective of(call, team, where);
  if (!of.has_team()) return kNoSuchTeam;
  const uint64_t bytes = of.bytes_of_elements(elements.count, reduction.element);
  of.expect_symmetric(elements.dest, bytes);
  of.expect_symmetric(elements.source, of.times_team(bytes));
  of.expect_aligned(elements.dest, reduction.element);
  of.expect_aligned(elements.source, reduction.element);
  return of.end(of.operations().reducescatter(of.team(), reduction, elements.dest, elements.source,
                                              elements.count, of.stream()));
}

}  // namespace penstock::nvshmem
