#include "ring_source.h"

#include "handles.h"

namespace penstock::api {

RingSource::RingSource(engine::Loop& loop, Ring& ring, Region& slots)
    : loop_(loop), slots_(slots), lane_(*ring.claim()) {}

void RingSource::submit(route::HostIo& io) {
  io.transferred = 0;
  if (!waiting_.empty() || !start(io)) waiting_.push_back(io);
}

// False when the lane is full.
bool RingSource::start(route::HostIo& io) {
  penstock_io entry{};
  entry.operation = io.write ? PENSTOCK_WRITE : PENSTOCK_READ;
  entry.flags = io.durable ? PENSTOCK_DURABLE : 0;
  entry.file = static_cast<penstock_file>(io.file);
  entry.offset = io.offset;
  entry.length = io.memory.length;
  entry.region = to_handle(&slots_);
  entry.region_offset = static_cast<uint64_t>(io.memory.data - slots_.base);
  if (io.deadline != engine::kNever) {
    entry.deadline = static_cast<uint64_t>(io.deadline.time_since_epoch().count());
  }
  entry.user_data = reinterpret_cast<uint64_t>(&io);
  const int error = lane_.prepare(entry);
  if (error == -EAGAIN) return false;
  if (error == 0) {
    prepared_ = true;
  } else {
    loop_.complete(io, Status::from_errno(-error));
  }
  return true;
}

bool RingSource::poll() {
  penstock_completion completions[64];
  const int count = lane_.take_ready(completions, 64);
  for (int i = 0; i < count; ++i) {
    auto& io = *reinterpret_cast<route::HostIo*>(completions[i].user_data);
    const int64_t result = completions[i].result;
    io.transferred = result > 0 ? static_cast<uint64_t>(result) : 0;
    io.route = static_cast<engine::Route>(completions[i].route);
    loop_.complete(io, result < 0 ? Status::from_errno(static_cast<int>(-result)) : Status());
  }
  while (!waiting_.empty() && start(waiting_.front())) waiting_.pop_front();
  if (prepared_) lane_.submit(UINT32_MAX);
  const bool worked = count > 0 || prepared_;
  prepared_ = false;
  return worked;
}

void RingSource::sleep(engine::Time deadline) {
  lane_.sleep(deadline == engine::kNever
                  ? PENSTOCK_FOREVER
                  : static_cast<uint64_t>(deadline.time_since_epoch().count()));
}

bool RingSource::find(uint32_t, uint64_t, route::Resident*) {
  return false;
}

bool RingSource::still_there(const route::Resident&) {
  return false;
}

}  // namespace penstock::api
