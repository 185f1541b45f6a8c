// penstock.h: sessions and regions.
#include "handles.h"

#include <cerrno>

#include "penstock/engine.h"

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace penstock::api {

int check_session(penstock_session* session, const char* what) {
  if (session == nullptr) return fail(EINVAL, fmt::format("{}: no session", what));
  return check_forked(session_of(session).connection(), what);
}

int check_forked(const Connection& connection, const char* what) {
  if (!connection.forked()) return 0;
  return fail(ECHILD, fmt::format("{}: the session belongs to the process that was forked; connect "
                                  "again in this one",
                                  what));
}

bool is_of_session(penstock_session* session, const penstock_region* region) {
  return region != nullptr && from_handle(region)->table == &session_of(session).regions();
}

}  // namespace penstock::api

const char* penstock_version(void) {
  return "0.1.0";
}

const char* penstock_last_error(void) {
  return last_error();
}

uint64_t penstock_now(void) {
  return static_cast<uint64_t>(engine::system_clock().now().time_since_epoch().count());
}

const char* penstock_route_name(penstock_route route) {
  return engine::route_name(static_cast<engine::Route>(route));
}

int penstock_connect(const char* where, penstock_session** session) {
  if (where == nullptr || session == nullptr) return fail_with(EINVAL, "connect: a null pointer");
  const Outcome<std::string> socket = find_socket(where);
  if (!socket) return fail(socket.error());
  Outcome<std::unique_ptr<Session>> made = Session::connect(*socket);
  if (!made) return fail(made.error());
  *session = to_handle(new SessionHandle(std::move(*made), nullptr));
  return 0;
}

void penstock_close(penstock_session* session) {
  if (session == nullptr) return;
  // A forked child has none of the threads: what it inherited ends with it.
  if (session_of(session).connection().forked()) return;
  delete from_handle(session);
}

int penstock_region_create(penstock_session* session, size_t size, penstock_region** region) {
  const int error = check_session(session, "region create");
  if (error != 0) return error;
  if (region == nullptr || size == 0)
    return fail_with(EINVAL, "region create: size 0 or no result");
  Outcome<Region*> made = session_of(session).regions().make(size);
  if (!made) return fail(made.error());
  *region = to_handle(*made);
  return 0;
}

int penstock_region_register(penstock_session* session, int fd, uint64_t fd_offset, void* base,
                             size_t size, penstock_region** region) {
  const int error = check_session(session, "region register");
  if (error != 0) return error;
  if (region == nullptr || base == nullptr || size == 0) {
    return fail_with(EINVAL, "region register: size 0 or a null pointer");
  }
  Outcome<Region*> made = session_of(session).regions().add_memory(fd, fd_offset, base, size);
  if (!made) return fail(made.error());
  *region = to_handle(*made);
  return 0;
}

int penstock_region_register_named(penstock_session* session, int fd, const char* path,
                                   const char* link, void* base, size_t size,
                                   penstock_region** region) {
  const int error = check_session(session, "region register");
  if (error != 0) return error;
  if (region == nullptr || base == nullptr || size == 0 || path == nullptr || *path != '/') {
    return fail_with(EINVAL, "region register: size 0, a null pointer or a relative path");
  }
  Outcome<Region*> made =
      session_of(session).regions().add_named(fd, path, link != nullptr ? link : "", base, size);
  if (!made) return fail(made.error());
  *region = to_handle(*made);
  return 0;
}

int penstock_region_keep(penstock_region* region) {
  if (region == nullptr) return fail_with(EINVAL, "region keep: no region");
  Region& own = *from_handle(region);
  if (own.table->connection().forked()) {
    return fail_with(ECHILD, "region keep: it belongs to the process that was forked");
  }
  const Outcome<void> kept = own.table->keep_descriptor(own);
  return kept ? 0 : fail(kept.error());
}

void* penstock_region_base(const penstock_region* region) {
  return region != nullptr ? from_handle(region)->base : nullptr;
}

size_t penstock_region_size(const penstock_region* region) {
  return region != nullptr ? from_handle(region)->size : 0;
}

int penstock_region_release(penstock_region* region) {
  if (region == nullptr) return fail_with(EINVAL, "region release: a null pointer");
  Regions& table = *from_handle(region)->table;
  const int error = check_forked(table.connection(), "region release");
  if (error != 0) return error;
  if (from_handle(region)->device_rings.load(std::memory_order_relaxed) > 0) {
    return fail_with(EBUSY,
                     "region release: kernels use it through a device ring; destroy that first");
  }
  const Outcome<void> released = table.release(from_handle(region));
  return released ? 0 : fail(released.error());
}
