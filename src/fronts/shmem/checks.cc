// What the typed calls check, and say, out of line.
#include "typed_collectives.h"
#include "typed_waits.h"

#include <fmt/core.h>

namespace penstock::shmem {

void fault_length(const char* call, uint64_t count, uint64_t bytes_of_each) {
  fault(call, fmt::format("{} elements of {} bytes are more than there are addresses", count,
                          bytes_of_each));
}

void fault_stride(const char* call, ptrdiff_t stride) {
  fault(call, fmt::format("stride {}: must be 1 or more", stride));
}

void fault_comparison(const char* call, int cmp) {
  fault(call, fmt::format("comparison {} is none of SHMEM_CMP_EQ to SHMEM_CMP_LE", cmp));
}

symm::SignalOp signal_operation(const char* call, int sig_op) {
  if (sig_op == SHMEM_SIGNAL_SET) return symm::SignalOp::set;
  if (sig_op == SHMEM_SIGNAL_ADD) return symm::SignalOp::add;
  fault(call, fmt::format("signal operation {} is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD",
                          sig_op));
}

void check_put_signal(const char* call, Status status, const Asked& data, const Asked& signal) {
  if (status.code() == Code::invalid_argument && data.bytes != 0 &&
      group(call).fault_of(data.address, data.bytes, data.pe) != symm::Fault::none) {
    check_asked(call, status, data);
  }
  check_asked(call, status, signal);
}

symm::ActiveSet active_set(const char* call, int start, int log_stride, int size, long* psync) {
  symm::Group& all = group(call);
  const bool is_row = start >= 0 && size >= 1 && log_stride >= 0 && log_stride < 31;
  const uint64_t last = is_row ? start + (static_cast<uint64_t>(size - 1) << log_stride) : 0;
  if (!is_row || last >= all.size()) {
    fault(call,
          fmt::format(
              "active set of {} PEs from {} with a stride of 2 to the power of {}: PEs are 0 to {}",
              size, start, log_stride, all.size() - 1));
  }
  const symm::PeSet set = {static_cast<uint32_t>(start), uint32_t{1} << log_stride,
                           static_cast<uint32_t>(size)};
  const auto index = set.index_of(all.me());
  if (!index) fault(call, "this PE is not in the active set that it names");
  if (size > 1) {
    const Asked words = {psync, sizeof(symm::ActiveSetWords), all.me(), sizeof(long)};
    if (all.fault_of(psync, words.bytes, all.me()) != symm::Fault::none) {
      check_asked(call, Code::invalid_argument, words);
    }
  }
  return symm::ActiveSet(set, *index, psync);
}

void fault_arrays(const char* call, const Arrays& arrays) {
  const symm::Group& all = group(call);
  if (all.fault_of(arrays.source, arrays.source_bytes, all.me()) != symm::Fault::none) {
    check_asked(call, Code::invalid_argument, {arrays.source, arrays.source_bytes, all.me()});
  }
  check_asked(call, Code::invalid_argument, {arrays.dest, arrays.dest_bytes, all.me()});
  fault(call, "an array that cannot be reached");
}

}  // namespace penstock::shmem
