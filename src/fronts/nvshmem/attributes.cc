// Beginning by a unique id, which the program itself hands to its PEs, or by what it has begun
// before: MPI, or an OpenSHMEM.
#include "api.h"
#include "communicator.h"

#include <chrono>
#include <cstring>

namespace front = penstock::nvshmem;

namespace {

static_assert(sizeof(nvshmemx_uniqueid_t) == sizeof(penstock::job::UniqueId),
              "one is carried in the other's bytes");

using Joined = penstock::Outcome<std::unique_ptr<penstock::job::Member>>;

int status_of(const char* call, const penstock::Failure& failure) {
  penstock::log::error("{}: {}", call, failure.message);
  return failure.status.code() == penstock::Code::invalid_argument ? NVSHMEMX_ERROR_INVALID_VALUE
                                                                   : NVSHMEMX_ERROR_INTERNAL;
}

// `join` is called when this process is of no job yet; a second init only counts.
template <class Join>
int begin_by(const char* call, Join&& join) {
  if (front::has_begun()) {
    front::begin(call, nullptr);
    return 0;
  }
  Joined member = join();
  if (!member) return status_of(call, member.error());
  front::begin(call, std::move(*member));
  return 0;
}

Joined join_by_id(const nvshmemx_uniqueid_args_t& args) {
  if (args.id == nullptr || args.nranks < 1 || args.myrank < 0 || args.myrank >= args.nranks) {
    return penstock::Failure{penstock::Code::invalid_argument,
                             "the attributes have no unique id, or a rank that is not there"};
  }
  penstock::job::UniqueId id;
  std::memcpy(id.bytes.data(), args.id, sizeof id.bytes);
  return penstock::job::Member::by_unique_id(id, static_cast<uint32_t>(args.myrank),
                                             static_cast<uint32_t>(args.nranks),
                                             std::chrono::steady_clock::now() + front::kTimeToJoin);
}

// Programs leave attributes without a value that they do not use: those of the initialiser have
// their version.
bool chooses_device(const nvshmemx_init_attr_t* attributes) {
  return attributes != nullptr &&
         attributes->args.version == static_cast<int>((2 << 16) + sizeof attributes->args) &&
         attributes->args.cuda_device_id >= 0;
}

}  // namespace

NVSHMEM_DEFINE int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t* uniqueid) {
  auto opened = front::open_gate();
  if (!opened) return status_of("nvshmemx_get_uniqueid", opened.error());
  std::memcpy(uniqueid, (*opened)->id().bytes.data(), sizeof *uniqueid);
  // Programs ask on all PEs, and use the id of one: none is given back before the end.
  const std::lock_guard lock(front::process().mutex);
  front::process().gates.push_back(std::move(*opened));
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

NVSHMEM_DEFINE int nvshmemx_set_attr_mpi_comm_args(void* mpi_comm, nvshmemx_init_attr_t* attr) {
  attr->mpi_comm = mpi_comm;
  return 0;
}

NVSHMEM_DEFINE int nvshmemx_init_attr(unsigned int flags, nvshmemx_init_attr_t* attributes) {
  const char* const call = "nvshmemx_init_attr";
  if ((flags & (NVSHMEMX_INIT_WITH_UNIQUEID | NVSHMEMX_INIT_WITH_MPI_COMM)) != 0 &&
      attributes == nullptr) {
    return NVSHMEMX_ERROR_INVALID_VALUE;
  }
  if (chooses_device(attributes)) {
    const auto device = static_cast<uint32_t>(attributes->args.cuda_device_id);
    const auto chosen = penstock::gpu::make_current(penstock::engine::DeviceId(device));
    if (!chosen) return status_of(call, chosen.error());
  }
  if ((flags & NVSHMEMX_INIT_WITH_UNIQUEID) != 0)
    return begin_by(call, [&] { return join_by_id(attributes->args.uid_args); });
  if ((flags & NVSHMEMX_INIT_WITH_MPI_COMM) != 0)
    return begin_by(call, [&] { return front::join_by_mpi(attributes->mpi_comm); });
  if ((flags & NVSHMEMX_INIT_WITH_SHMEM) != 0)
    return begin_by(call, [] { return front::join_by_shmem(); });
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
