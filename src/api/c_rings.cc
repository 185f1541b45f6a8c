// penstock.h: rings and lanes.
#include "handles.h"

#include <cerrno>
#include <cstddef>

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace penstock::api {
namespace {

static_assert(PENSTOCK_READ == static_cast<int>(ring::kOperationRead));
static_assert(PENSTOCK_WRITE == static_cast<int>(ring::kOperationWrite));
static_assert(PENSTOCK_SYNC == static_cast<int>(ring::kOperationSync));
static_assert(PENSTOCK_NOP == static_cast<int>(ring::kOperationNop));
static_assert(PENSTOCK_WARM == static_cast<int>(ring::kOperationFill));
static_assert(PENSTOCK_LOOK == static_cast<int>(ring::kFlagLook));
static_assert(PENSTOCK_DURABLE == static_cast<int>(ring::kFlagDurable));
static_assert(PENSTOCK_REFUSE_HOLES == static_cast<int>(ring::kFlagRefuseHoles));
static_assert(PENSTOCK_CHECKSUMS == static_cast<int>(ring::kFlagChecksums));
static_assert(PENSTOCK_FOREVER == ring::kForever);

// The structs pass this border as they are.
#define SAME(ours, ours_member, theirs, theirs_member)                            \
  static_assert(offsetof(ours, ours_member) == offsetof(theirs, theirs_member) && \
                sizeof(ours::ours_member) == sizeof(theirs::theirs_member))
static_assert(sizeof(Io) == sizeof(penstock_io));
SAME(Io, operation, penstock_io, operation);
SAME(Io, flags, penstock_io, flags);
SAME(Io, route, penstock_io, route);
SAME(Io, reserved, penstock_io, reserved0);
SAME(Io, file, penstock_io, file);
SAME(Io, offset, penstock_io, offset);
SAME(Io, length, penstock_io, length);
SAME(Io, region, penstock_io, region);
SAME(Io, region_offset, penstock_io, region_offset);
SAME(Io, deadline, penstock_io, deadline);
SAME(Io, user_data, penstock_io, user_data);
static_assert(sizeof(Completion) == sizeof(penstock_completion));
SAME(Completion, user_data, penstock_completion, user_data);
SAME(Completion, result, penstock_completion, result);
SAME(Completion, route, penstock_completion, route);
static_assert(sizeof(Gather) == sizeof(penstock_gather));
SAME(Gather, file, penstock_gather, file);
SAME(Gather, count, penstock_gather, count);
SAME(Gather, pieces, penstock_gather, pieces);
SAME(Gather, region, penstock_gather, region);
SAME(Gather, deadline, penstock_gather, deadline);
SAME(Gather, user_data, penstock_gather, user_data);
static_assert(sizeof(route::ListEntry) == sizeof(penstock_piece));
SAME(route::ListEntry, offset, penstock_piece, offset);
SAME(route::ListEntry, memory_offset, penstock_piece, region_offset);
SAME(route::ListEntry, length, penstock_piece, length);
SAME(route::ListEntry, done, penstock_piece, done);
#undef SAME

int prepare_on(Lane& lane, const penstock_io* io) {
  if (io == nullptr) return fail_with(EINVAL, "prepare: no operation");
  return lane.prepare(*reinterpret_cast<const Io*>(io));
}

int prepare_on(Lane& lane, const penstock_gather* gather) {
  if (gather == nullptr) return fail_with(EINVAL, "prepare: no operation");
  return lane.prepare(*reinterpret_cast<const Gather*>(gather));
}

int check_ring(penstock_ring* ring) {
  if (ring == nullptr) return fail_with(EINVAL, "no ring");
  if (!from_handle(ring)->session().connection().forked()) return 0;
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
  const Outcome<int> asked = lane.cancel(user_data);
  return asked ? *asked : fail(asked.error());
}

int descriptor_of(Lane& lane) {
  const Outcome<int> made = lane.descriptor();
  return made ? *made : fail(made.error());
}

// With the same checks for all that wait.
int wait_on(Lane& lane, penstock_completion* completions, uint32_t max, uint32_t min,
            uint64_t deadline, bool only_own) {
  if (completions == nullptr && max > 0) return fail_with(EINVAL, "wait: no place for completions");
  return lane.wait(reinterpret_cast<Completion*>(completions), max, min, deadline, only_own);
}

}  // namespace
}  // namespace penstock::api

int penstock_ring_create(penstock_session* session, uint32_t entries, uint32_t lanes,
                         penstock_ring** ring) {
  const int error = check_session(session, "ring create");
  if (error != 0) return error;
  if (ring == nullptr) return fail_with(EINVAL, "ring create: no place for the result");
  Outcome<Ring*> made = session_of(session).rings().make(entries, lanes);
  if (!made) return fail(made.error());
  *ring = to_handle(*made);
  return 0;
}

int penstock_ring_destroy(penstock_ring* ring) {
  const int error = check_ring(ring);
  if (error != 0) return error;
  const Outcome<void> destroyed = from_handle(ring)->session().rings().destroy(from_handle(ring));
  return destroyed ? 0 : fail(destroyed.error());
}

int penstock_prepare(penstock_ring* ring, const penstock_io* io) {
  Lane* lane = nullptr;
  const int error = lane_of(ring, &lane);
  if (error != 0) return error;
  return prepare_on(*lane, io);
}

int penstock_prepare_gather(penstock_ring* ring, const penstock_gather* gather) {
  Lane* lane = nullptr;
  const int error = lane_of(ring, &lane);
  if (error != 0) return error;
  return prepare_on(*lane, gather);
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
  return wait_on(*lane, completions, max, min, deadline, true);
}

int penstock_ring_descriptor(penstock_ring* ring) {
  Lane* lane = nullptr;
  const int error = lane_of(ring, &lane);
  return error != 0 ? error : descriptor_of(*lane);
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
  return prepare_on(*from_handle(lane), io);
}

int penstock_lane_prepare_gather(penstock_lane* lane, const penstock_gather* gather) {
  const int error = check_lane(lane);
  if (error != 0) return error;
  return prepare_on(*from_handle(lane), gather);
}

int penstock_lane_submit(penstock_lane* lane, uint32_t count) {
  const int error = check_lane(lane);
  return error != 0 ? error : from_handle(lane)->submit(count);
}

int penstock_lane_wait(penstock_lane* lane, penstock_completion* completions, uint32_t max,
                       uint32_t min, uint64_t deadline) {
  const int error = check_lane(lane);
  if (error != 0) return error;
  return wait_on(*from_handle(lane), completions, max, min, deadline, false);
}

int penstock_lane_descriptor(penstock_lane* lane) {
  const int error = check_lane(lane);
  return error != 0 ? error : descriptor_of(*from_handle(lane));
}

int penstock_lane_cancel(penstock_lane* lane, uint64_t user_data) {
  const int error = check_lane(lane);
  return error != 0 ? error : cancel_on(*from_handle(lane), user_data);
}
