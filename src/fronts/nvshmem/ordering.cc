// Quiets, fences, syncs and barriers: of the host, and on streams.
#include "calls.h"

namespace front = penstock::nvshmem;
using penstock::Status;

namespace {

void check(const char* call, Status status) {
  if (!status.ok()) front::fault_status(call, status);
}

int sync(const char* call, nvshmem_team_t team, bool is_barrier) {
  penstock::symm::Team* const meant = front::find_team(call, team);
  if (meant == nullptr) return NVSHMEMX_ERROR_INVALID_VALUE;
  if (team == NVSHMEM_TEAM_WORLD) front::take_current_device(call);
  if (is_barrier) front::quiet(call);
  check(call, front::group(call).sync(*meant));
  return 0;
}

int barrier_on_stream(const char* call, nvshmem_team_t team, cudaStream_t stream) {
  penstock::symm::Team* const meant = front::find_team(call, team);
  if (meant == nullptr) return NVSHMEMX_ERROR_INVALID_VALUE;
  front::OnDevice& there = front::on_device(call);
  check(call, there.streams->barrier(*meant, stream));
  front::check_kernels(call);
  return 0;
}

}  // namespace

NVSHMEM_DEFINE void nvshmem_quiet(void) {
  front::quiet("nvshmem_quiet");
}
NVSHMEM_DEFINE void nvshmem_fence(void) {
  front::quiet("nvshmem_fence");
}

NVSHMEM_DEFINE void nvshmem_barrier_all(void) {
  sync("nvshmem_barrier_all", NVSHMEM_TEAM_WORLD, true);
}
NVSHMEM_DEFINE int nvshmem_barrier(nvshmem_team_t team) {
  return sync("nvshmem_barrier", team, true);
}
NVSHMEM_DEFINE void nvshmem_sync_all(void) {
  sync("nvshmem_sync_all", NVSHMEM_TEAM_WORLD, false);
}
NVSHMEM_DEFINE int nvshmem_team_sync(nvshmem_team_t team) {
  return sync("nvshmem_team_sync", team, false);
}

NVSHMEM_DEFINE void nvshmemx_barrier_all_on_stream(cudaStream_t stream) {
  barrier_on_stream("nvshmemx_barrier_all_on_stream", NVSHMEM_TEAM_WORLD, stream);
}
NVSHMEM_DEFINE int nvshmemx_barrier_on_stream(nvshmem_team_t team, cudaStream_t stream) {
  return barrier_on_stream("nvshmemx_barrier_on_stream", team, stream);
}
NVSHMEM_DEFINE void nvshmemx_sync_all_on_stream(cudaStream_t stream) {
  barrier_on_stream("nvshmemx_sync_all_on_stream", NVSHMEM_TEAM_WORLD, stream);
}
NVSHMEM_DEFINE int nvshmemx_team_sync_on_stream(nvshmem_team_t team, cudaStream_t stream) {
  return barrier_on_stream("nvshmemx_team_sync_on_stream", team, stream);
}
// What the stream has put is complete when it comes here (symm/device_streams.h).
NVSHMEM_DEFINE void nvshmemx_quiet_on_stream(cudaStream_t stream) {
  constexpr const char* kCall = "nvshmemx_quiet_on_stream";
  check(kCall, front::on_device(kCall).streams->quiet(stream));
}
