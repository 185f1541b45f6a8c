// penstock.h: rings and lanes.
#include "error.h"
#include "handles.h"
#include "lane_transfers.h"

#include <cerrno>

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace penstock::api {
namespace {

int check_ring(penstock_ring* ring) {
  if (ring == nullptr) return fail_with(EINVAL, "no ring");
  if (!from_handle(ring)->session().forked()) return 0;
  return fail_with(ECHILD, "the ring belongs to the process that was forked");
}

int check_lane(penstock_lane* lane) {
  if (lane == nullptr) return fail_with(EINVAL, "no lane");
  return check_ring(to_handle(&from_handle(lane)->ring()));
}

// The calling thread's lane.
int lane_of(penstock_ring* ring, Lane** lane) {
  const int error = check_ring(ring);
  if (error != 0) return error;
  *lane = from_handle(ring)->lane_of_thread();
  return *lane != nullptr ? 0 : fail_with(EUSERS, "all lanes of the ring belong to other threads");
}

int cancel_on(Lane& lane, uint64_t user_data) {
  int asked = 0;
  std::vector<DeviceOperation*> transfers;
  for (const Lane::Target& target : lane.targets(user_data, &transfers)) {
    const Session::Answer answer = lane.ring().session().call(
        wire::CancelOperation{lane.ring().id(), lane.index(), target.slot, target.sequence}, true);
    if (!answer) return fail(answer.error());
    ++asked;
  }
  for (DeviceOperation* const transfer : transfers) {
    lane.cancel_transfer(*transfer);
    ++asked;
  }
  return asked;
}

bool is_room(const penstock_completion* completions, uint32_t max) {
  return completions != nullptr || max == 0;
}

}  // namespace
}  // namespace penstock::api

int penstock_ring_create(penstock_session* session, uint32_t entries, uint32_t lanes,
                         penstock_ring** ring) {
  const int error = check_session(session, "ring create");
  if (error != 0) return error;
  if (ring == nullptr) return fail_with(EINVAL, "ring create: no place for the result");
  Outcome<Ring*> made = from_handle(session)->make_ring(entries, lanes);
  if (!made) return fail(made.error());
  *ring = to_handle(*made);
  return 0;
}

int penstock_ring_destroy(penstock_ring* ring) {
  const int error = check_ring(ring);
  if (error != 0) return error;
  const Outcome<void> destroyed = from_handle(ring)->session().destroy_ring(from_handle(ring));
  return destroyed ? 0 : fail(destroyed.error());
}

int penstock_prepare(penstock_ring* ring, const penstock_io* io) {
  Lane* lane = nullptr;
  const int error = lane_of(ring, &lane);
  if (error != 0) return error;
  return io != nullptr ? lane->prepare(*io) : fail_with(EINVAL, "prepare: no operation");
}

int penstock_prepare_gather(penstock_ring* ring, const penstock_gather* gather) {
  Lane* lane = nullptr;
  const int error = lane_of(ring, &lane);
  if (error != 0) return error;
  return gather != nullptr ? lane->prepare_gather(*gather)
                           : fail_with(EINVAL, "prepare: no operation");
}

int penstock_submit(penstock_ring* ring) {
  Lane* lane = nullptr;
  const int error = lane_of(ring, &lane);
  return error != 0 ? error : lane->submit(UINT32_MAX);
}

int penstock_wait(penstock_ring* ring, penstock_completion* completions, uint32_t max, uint32_t min,
                  uint64_t deadline) {
  Lane* lane = nullptr;
  const int error = lane_of(ring, &lane);
  if (error != 0) return error;
  if (!is_room(completions, max)) return fail_with(EINVAL, "wait: no place for completions");
  return lane->wait(completions, max, min, deadline, true);
}

int penstock_cancel(penstock_ring* ring, uint64_t user_data) {
  Lane* lane = nullptr;
  const int error = lane_of(ring, &lane);
  return error != 0 ? error : cancel_on(*lane, user_data);
}

int penstock_ring_leave(penstock_ring* ring) {
  const int error = check_ring(ring);
  if (error != 0) return error;
  if (from_handle(ring)->leave_thread()) return 0;
  return fail_with(EBUSY, "ring leave: operations are in flight on this thread's lane");
}

int penstock_lane_claim(penstock_ring* ring, penstock_lane** lane) {
  const int error = check_ring(ring);
  if (error != 0) return error;
  if (lane == nullptr) return fail_with(EINVAL, "lane claim: no place for the result");
  Lane* claimed = from_handle(ring)->claim();
  if (claimed == nullptr) return fail_with(EUSERS, "lane claim: all lanes of the ring are taken");
  *lane = to_handle(claimed);
  return 0;
}

int penstock_lane_release(penstock_lane* lane) {
  const int error = check_lane(lane);
  if (error != 0) return error;
  if (from_handle(lane)->ring().release(from_handle(lane))) return 0;
  return fail_with(EBUSY, "lane release: operations are in flight on it");
}

int penstock_lane_prepare(penstock_lane* lane, const penstock_io* io) {
  const int error = check_lane(lane);
  if (error != 0) return error;
  return io != nullptr ? from_handle(lane)->prepare(*io)
                       : fail_with(EINVAL, "prepare: no operation");
}

int penstock_lane_prepare_gather(penstock_lane* lane, const penstock_gather* gather) {
  const int error = check_lane(lane);
  if (error != 0) return error;
  return gather != nullptr ? from_handle(lane)->prepare_gather(*gather)
                           : fail_with(EINVAL, "prepare: no operation");
}

int penstock_lane_submit(penstock_lane* lane, uint32_t count) {
  const int error = check_lane(lane);
  return error != 0 ? error : from_handle(lane)->submit(count);
}

int penstock_lane_wait(penstock_lane* lane, penstock_completion* completions, uint32_t max,
                       uint32_t min, uint64_t deadline) {
  const int error = check_lane(lane);
  if (error != 0) return error;
  if (!is_room(completions, max)) return fail_with(EINVAL, "wait: no place for completions");
  return from_handle(lane)->wait(completions, max, min, deadline, false);
}

int penstock_lane_cancel(penstock_lane* lane, uint64_t user_data) {
  const int error = check_lane(lane);
  return error != 0 ? error : cancel_on(*from_handle(lane), user_data);
}
