// Beginning by a unique id, which the program itself hands to its PEs.
#include "api.h"

#include <chrono>
#include <cstring>

namespace front = penstock::nvshmem;

namespace {

static_assert(sizeof(nvshmemx_uniqueid_t) == sizeof(penstock::job::UniqueId),
              "one is carried in the other's bytes");

// As long as NVSHMEM waits for the other PEs.
constexpr std::chrono::seconds kTimeToJoin{120};

// Of the process that has made an id: where the others meet, until it ends.
std::unique_ptr<penstock::job::Gate>& gate() {
  static auto* const own = new std::unique_ptr<penstock::job::Gate>;
  return *own;
}

int join(const char* call, const nvshmemx_uniqueid_args_t& args) {
  if (args.id == nullptr || args.nranks < 1 || args.myrank < 0 || args.myrank >= args.nranks) {
    return NVSHMEMX_ERROR_INVALID_VALUE;
  }
  penstock::job::UniqueId id;
  std::memcpy(id.bytes.data(), args.id, sizeof id.bytes);
  auto member = penstock::job::Member::by_unique_id(id, static_cast<uint32_t>(args.myrank),
                                                    static_cast<uint32_t>(args.nranks),
                                                    std::chrono::steady_clock::now() + kTimeToJoin);
  if (!member) {
    penstock::log::error("{}: {}", call, member.error().message);
    return NVSHMEMX_ERROR_INTERNAL;
  }
  front::begin(call, std::move(*member));
  return 0;
}

}  // namespace

NVSHMEM_DEFINE int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t* uniqueid) {
  auto opened = penstock::job::Gate::open();
  if (!opened) {
    penstock::log::error("nvshmemx_get_uniqueid: {}", opened.error().message);
    return NVSHMEMX_ERROR_INTERNAL;
  }
  gate() = std::move(*opened);
  std::memcpy(uniqueid, gate()->id().bytes.data(), sizeof *uniqueid);
  return 0;
}

NVSHMEM_DEFINE int nvshmemx_set_attr_uniqueid_args(int myrank, int nranks,
                                                   const nvshmemx_uniqueid_t* uniqueid,
                                                   nvshmemx_init_attr_t* attr) {
  attr->args.uid_args.id = const_cast<nvshmemx_uniqueid_t*>(uniqueid);
  attr->args.uid_args.myrank = myrank;
  attr->args.uid_args.nranks = nranks;
  return 0;
}

NVSHMEM_DEFINE int nvshmemx_init_attr(unsigned int flags, nvshmemx_init_attr_t* attributes) {
  const char* const call = "nvshmemx_init_attr";
  if ((flags & NVSHMEMX_INIT_WITH_UNIQUEID) != 0) {
    return attributes != nullptr ? join(call, attributes->args.uid_args)
                                 : NVSHMEMX_ERROR_INVALID_VALUE;
  }
  // A launcher's environment says the rest: an MPI communicator, too, is of a job that one has
  // started.
  front::begin(call, nullptr);
  return 0;
}

NVSHMEM_DEFINE int nvshmemx_hostlib_init_attr(unsigned int flags,
                                              nvshmemx_init_attr_t* attributes) {
  return nvshmemx_init_attr(flags, attributes);
}
NVSHMEM_DEFINE void nvshmemx_hostlib_finalize(void) {
  front::finish("nvshmemx_hostlib_finalize");
}
