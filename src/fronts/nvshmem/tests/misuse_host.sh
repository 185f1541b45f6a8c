#!/usr/bin/env bash
# Mistakes in calls of the host, on a machine with a GPU: each ends the job with a message that names the call and what is
# wrong with it.
#
#   misuse_host.sh NVSHMRUN PROGRAM
set -uo pipefail

run=$1
program=$2
failed=0

# mistake NAME CODE TEXT: TEXT is a part of the message.
mistake() {
  local said code
  said=$(timeout 60 "$run" -n 1 "$program" "$1" 2>&1)
  code=$?
  if [ $code -ne "$2" ] || [[ $said != *"$3"* ]]; then
    echo "FAIL $1: ended with $code: $said"
    failed=$((failed + 1))
  fi
}

mistake before_init 70 "nvshmem_uint64_p: called before nvshmem_init()"
mistake p_outside 70 "8 bytes from there are not symmetric"
mistake p_no_such_pe 70 "nvshmem_uint64_p: there is no PE 1: PEs are 0 to 0"
mistake g_negative_pe 70 "nvshmem_uint64_g: there is no PE -1"
mistake add_far 70 "nvshmem_uint64_atomic_add: PE 0, address"
mistake fetch_add_unaligned 70 "nvshmem_int_atomic_fetch_add: address"
mistake iput_stride_0 70 "nvshmem_uint64_iput: strides 0 and 1"
mistake iput_too_far 70 "are not symmetric"
mistake iget_outside 70 "nvshmemx_uint64_iget_on_stream: PE 0, address"
mistake put_too_many 70 "elements of 8 bytes"
mistake signal_bad_op 70 "there is no signal operation 3"
mistake wait_outside 70 "nvshmemx_uint64_wait_until_on_stream: PE 0, address"
mistake wait_bad_comparison 70 "there is no comparison 17"
mistake g_captured 70 "the stream is being captured"
mistake nothing 0 ""
echo "mistakes: $failed not as expected"
[ $failed -eq 0 ]
