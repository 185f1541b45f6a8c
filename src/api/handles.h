// The C handles and what they stand for.
#pragma once

#include "penstock.h"
#include "session.h"

namespace penstock::api {

inline penstock_session* to_handle(Session* session) {
  return reinterpret_cast<penstock_session*>(session);
}
inline Session* from_handle(penstock_session* session) {
  return reinterpret_cast<Session*>(session);
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

// 0, or the error of a call that cannot be made: no session, or one of the parent process.
int check_session(penstock_session* session, const char* what);
// The same for a path: absolute, and not longer than any path may be.
int check_path(const char* path, const char* what);
mode_t current_umask();

}  // namespace penstock::api
