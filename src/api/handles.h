// The C handles and what they stand for.
#pragma once

#include "border.h"
#include "penstock.h"
#include "penstock_device_ring.h"

#include <memory>

namespace penstock::api {

// What a penstock_session stands for: a session, and what this interface makes of it.
struct SessionHandle {
  SessionHandle(std::unique_ptr<Session> session_given, std::shared_ptr<void> agent)
      : own_agent(std::move(agent)), session(std::move(session_given)) {}

  const std::shared_ptr<void> own_agent;  // null, or the agent in this process, which ends last
  const std::unique_ptr<Session> session;
  StagingPool staging{*session};
  // Ends first: the driver gives memory back only when no kernel waits any more.
  DeviceRings device_rings{*session};
};

inline penstock_session* to_handle(SessionHandle* session) {
  return reinterpret_cast<penstock_session*>(session);
}
inline SessionHandle* from_handle(penstock_session* session) {
  return reinterpret_cast<SessionHandle*>(session);
}
inline Session& session_of(penstock_session* session) {
  return *from_handle(session)->session;
}
inline penstock_region* to_handle(Region* region) {
  return reinterpret_cast<penstock_region*>(region);
}
inline Region* from_handle(penstock_region* region) {
  return reinterpret_cast<Region*>(region);
}
inline const Region* from_handle(const penstock_region* region) {
  return reinterpret_cast<const Region*>(region);
}
inline penstock_ring* to_handle(Ring* ring) {
  return reinterpret_cast<penstock_ring*>(ring);
}
inline Ring* from_handle(penstock_ring* ring) {
  return reinterpret_cast<Ring*>(ring);
}
inline penstock_lane* to_handle(Lane* lane) {
  return reinterpret_cast<penstock_lane*>(lane);
}
inline Lane* from_handle(penstock_lane* lane) {
  return reinterpret_cast<Lane*>(lane);
}
// A ring for kernels stands under the service of files that it has.
inline penstock_device_ring* to_handle(FileService* ring) {
  return reinterpret_cast<penstock_device_ring*>(ring);
}
inline FileService* from_handle(penstock_device_ring* ring) {
  return reinterpret_cast<FileService*>(ring);
}

// 0, or the error of a call that cannot be made: no session, or one of the parent process.
int check_session(penstock_session* session, const char* what);
// The same for what hangs on a session.
int check_forked(const Connection& connection, const char* what);
// Whether the region is one of this session; null is none.
bool is_of_session(penstock_session* session, const penstock_region* region);

}  // namespace penstock::api
