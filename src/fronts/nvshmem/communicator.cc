#include "communicator.h"

#include "environment.h"
#include "process.h"

#include <array>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <span>
#include <string>

namespace penstock::nvshmem {
namespace {

// In what the program is linked with, or else in libraries that it has loaded for itself alone, as
// interpreters do.
void* find_symbol(const char* name, std::span<const char* const> libraries) {
  if (void* const found = ::dlsym(RTLD_DEFAULT, name)) return found;
  for (const char* const file : libraries) {
    void* const library = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    void* const found = ::dlsym(library, name);
    ::dlclose(library);  // the program's own reference keeps it
    if (found != nullptr) return found;
  }
  return nullptr;
}

template <class Function>
void find_function(Function*& function, const char* name, std::span<const char* const> libraries) {
  function = reinterpret_cast<Function*>(find_symbol(name, libraries));
}

using IdBytes = std::array<std::byte, sizeof(job::UniqueId)>;
// Hands the first one's bytes on to all, together with them; says why it could not.
using Share = std::function<Outcome<void>(IdBytes&)>;

// The first one tells the others also that it has no id, with zeros: nobody waits for it then.
Outcome<std::unique_ptr<job::Member>> join_by_shared_id(uint32_t rank, uint32_t size,
                                                        const Share& share) {
  job::UniqueId id;
  Outcome<void> opened;
  if (rank == 0) {
    auto gate = open_gate();
    if (gate) {
      id = (*gate)->id();
      const std::lock_guard lock(process().mutex);
      process().gates.push_back(std::move(*gate));
    } else {
      opened = gate.error();
    }
  }
  TRY(share(id.bytes));
  if (!opened) return opened.error();
  if (id.bytes == IdBytes{}) return Failure{Code::not_found, "rank 0 could make no unique id"};
  return job::Member::by_unique_id(id, rank, size, std::chrono::steady_clock::now() + kTimeToJoin);
}

// ---- MPI ----

constexpr std::array kMpiLibraries = {"libmpi.so.40", "libmpi.so.12", "libmpi.so", "libmpich.so.12",
                                      "libmpi_cray.so.12"};

// Of MPICH and those that are compatible with it in binary: handles are numbers.
constexpr int kMpichByte = 0x4c00010d;

// One MPI's functions: in Open MPI handles are pointers, elsewhere numbers.
template <class Handle>
struct Mpi {
  int (*initialized)(int*) = nullptr;
  int (*rank)(Handle, int*) = nullptr;
  int (*size)(Handle, int*) = nullptr;
  int (*broadcast)(void*, int, Handle, int, Handle) = nullptr;
  Handle byte{};

  explicit Mpi(Handle type) : byte(type) {
    find_function(initialized, "MPI_Initialized", kMpiLibraries);
    find_function(rank, "MPI_Comm_rank", kMpiLibraries);
    find_function(size, "MPI_Comm_size", kMpiLibraries);
    find_function(broadcast, "MPI_Bcast", kMpiLibraries);
  }
  bool is_whole() const {
    return initialized != nullptr && rank != nullptr && size != nullptr && broadcast != nullptr;
  }
};

template <class Handle>
Outcome<std::unique_ptr<job::Member>> join_by(const Mpi<Handle>& mpi, const void* communicator) {
  if (!mpi.is_whole()) {
    return Failure{Code::not_found,
                   "there is no MPI in this process (link the program with it, or load it, before "
                   "NVSHMEM begins)"};
  }
  int has_begun = 0;
  if (mpi.initialized(&has_begun) != 0 || has_begun == 0)
    return Failure{Code::invalid_argument, "MPI_Init() was not called before"};
  Handle handle;
  std::memcpy(&handle, communicator, sizeof handle);
  int rank = -1;
  int size = 0;
  if (mpi.rank(handle, &rank) != 0 || mpi.size(handle, &size) != 0 || size < 1 || rank < 0 ||
      rank >= size) {
    return Failure{Code::invalid_argument, "that is no communicator of this process's MPI"};
  }
  return join_by_shared_id(
      static_cast<uint32_t>(rank), static_cast<uint32_t>(size),
      [&](IdBytes& bytes) -> Outcome<void> {
        const int done = mpi.broadcast(bytes.data(), int{sizeof bytes}, mpi.byte, 0, handle);
        if (done == 0) return {};
        return Failure{Code::peer_gone, fmt::format("MPI_Bcast() failed with {}", done)};
      });
}

// ---- OpenSHMEM ----

constexpr std::array kShmemLibraries = {"libpenstock_shmem.so", "liboshmem.so.40", "libsma.so"};

struct Shmem {
  int (*my_pe)() = nullptr;
  int (*n_pes)() = nullptr;
  void* (*malloc)(size_t) = nullptr;
  void (*free)(void*) = nullptr;
  void (*getmem)(void*, const void*, size_t, int) = nullptr;
  void (*barrier_all)() = nullptr;

  Shmem() {
    find_function(my_pe, "shmem_my_pe", kShmemLibraries);
    find_function(n_pes, "shmem_n_pes", kShmemLibraries);
    find_function(malloc, "shmem_malloc", kShmemLibraries);
    find_function(free, "shmem_free", kShmemLibraries);
    find_function(getmem, "shmem_getmem", kShmemLibraries);
    find_function(barrier_all, "shmem_barrier_all", kShmemLibraries);
  }
  bool is_whole() const {
    return my_pe != nullptr && n_pes != nullptr && malloc != nullptr && free != nullptr &&
           getmem != nullptr && barrier_all != nullptr;
  }
};

}  // namespace

Outcome<std::unique_ptr<job::Gate>> open_gate() {
  TRY_ASSIGN(const Environment environment, read_environment());
  return job::Gate::open(environment.interface);
}

Outcome<std::unique_ptr<job::Member>> join_by_mpi(const void* communicator) {
  if (communicator == nullptr)
    return Failure{Code::invalid_argument, "there is no communicator in the attributes"};
  if (void* const byte = find_symbol("ompi_mpi_byte", kMpiLibraries))
    return join_by(Mpi<void*>(byte), communicator);
  return join_by(Mpi<int>(kMpichByte), communicator);
}

Outcome<std::unique_ptr<job::Member>> join_by_shmem() {
  const Shmem shmem;
  if (!shmem.is_whole()) {
    return Failure{Code::not_found,
                   "there is no OpenSHMEM in this process (link the program with one, and call "
                   "shmem_init() before NVSHMEM begins)"};
  }
  const int me = shmem.my_pe();
  const int all = shmem.n_pes();
  if (me < 0 || all < 1 || me >= all)
    return Failure{Code::invalid_argument, "shmem_init() was not called before"};
  const auto share = [&](IdBytes& bytes) -> Outcome<void> {
    void* const place = shmem.malloc(sizeof bytes);
    if (place == nullptr) {
      return Failure{Code::no_memory, "shmem_malloc() has no room for the unique id"};
    }
    if (me == 0) std::memcpy(place, bytes.data(), sizeof bytes);
    shmem.barrier_all();
    shmem.getmem(bytes.data(), place, sizeof bytes, 0);
    shmem.barrier_all();
    shmem.free(place);
    return {};
  };
  return join_by_shared_id(static_cast<uint32_t>(me), static_cast<uint32_t>(all), share);
}

}  // namespace penstock::nvshmem
