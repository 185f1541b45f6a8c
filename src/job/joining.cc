#include "joining.h"

#include "member_impl.h"
#include "node_room.h"
#include "sockets.h"
#include "unique_id.h"

#include <cstdlib>
#include <unistd.h>

#include "penstock/job.h"

namespace penstock::job {
namespace {

constexpr std::chrono::seconds kOtherLaunchersPatience{60};
constexpr std::chrono::milliseconds kElectAgain{5};
constexpr size_t kNodeNameBytesMax = 40;

const char* variable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != 0) return value;
  }
  return nullptr;
}

// Of those that are set.
bool is_number_above(std::initializer_list<const char*> names, uint64_t least) {
  const char* text = variable(names);
  uint64_t value = 0;
  return text != nullptr && parse_number(text, &value) && value > least;
}

bool text_equal(const char* one, const char* other) {
  return other != nullptr && std::string_view(one) == other;
}

struct Names {
  const char* rank;
  const char* size;
};

// Its rank and size; nothing where they are not both there.
Outcome<std::optional<OtherLauncher>> launcher_by(const Names& names, std::string job,
                                                  bool one_node) {
  const char* rank_text = variable({names.rank});
  const char* size_text = variable({names.size});
  if (rank_text == nullptr || size_text == nullptr) return std::optional<OtherLauncher>();
  uint64_t rank = 0;
  uint64_t size = 0;
  if (!parse_number(rank_text, &rank) || !parse_number(size_text, &size) ||
      size > limits::kRanksMax || rank >= size) {
    return Failure{Code::invalid_argument,
                   fmt::format("{}={} and {}={} are no place in a job", names.rank, rank_text,
                               names.size, size_text)};
  }
  return std::optional(OtherLauncher{static_cast<uint32_t>(rank), static_cast<uint32_t>(size),
                                     std::move(job), one_node});
}

// Names of sockets are short: a job's name may be anything.
std::string socket_name(const std::string& job) {
  const auto* bytes = reinterpret_cast<const std::byte*>(job.data());
  const uint32_t forward = crc32c({bytes, job.size()});
  const uint32_t again = crc32c({bytes, job.size()}, forward);
  return fmt::format("penstock-job-{}-{}-{:08x}{:08x}", ::geteuid(), job.substr(0, 40), forward,
                     again);
}

using Joined = Outcome<std::unique_ptr<Member::Impl>>;

Joined join_as_first(UniqueFd listener, const Hello& hello, UniqueFd above, Time deadline) {
  UniqueFd own;
  TRY_ASSIGN(auto room, NodeRoom::start(std::move(listener), hello.size, hello.secret,
                                        std::move(above), &own));
  return Member::Impl::join(std::move(own), hello, deadline, std::move(room));
}

Joined join_by_name(const OtherLauncher& launcher, Time deadline) {
  const Hello hello{launcher.rank, launcher.size, {}};
  const std::string name = socket_name(launcher.job);
  if (launcher.rank == 0) {
    TRY_ASSIGN(UniqueFd listener, listen_locally(name));
    return join_as_first(std::move(listener), hello, UniqueFd(), deadline);
  }
  TRY_ASSIGN(UniqueFd socket, connect_locally(name, deadline));
  return Member::Impl::join(std::move(socket), hello, deadline, nullptr);
}

}  // namespace

Outcome<std::optional<OtherLauncher>> other_launcher() {
  const auto text = [](const char* value) { return std::string(value == nullptr ? "" : value); };
  const std::string ompi = text(variable({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}));
  // Of one node are as many as there are at all.
  const auto all_local = [](const char* local, const char* all) {
    const char* here = variable({local});
    return here == nullptr || text_equal(here, variable({all}));
  };
  TRY_ASSIGN(auto found,
             launcher_by({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, "ompi-" + ompi,
                         all_local("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE")));
  if (found) return found;
  // Its ranks are children of one process of each node.
  const char* pmi = variable({"PMI_JOBID", "PMI_PORT"});
  TRY_ASSIGN(found, launcher_by({"PMI_RANK", "PMI_SIZE"},
                                "pmi-" + (pmi != nullptr ? pmi : std::to_string(::getppid())),
                                all_local("MPI_LOCALNRANKS", "PMI_SIZE")));
  if (found) return found;
  // A batch script has the numbers of its job, and is no rank: only steps are.
  const char* step = variable({"SLURM_STEP_ID", "SLURM_STEPID"});
  if (step == nullptr) return std::optional<OtherLauncher>();
  const std::string job = text(variable({"SLURM_JOB_ID", "SLURM_JOBID"}));
  return launcher_by({"SLURM_PROCID", "SLURM_NTASKS"}, "slurm-" + job + "." + step,
                     !is_number_above({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}, 1));
}

Outcome<std::unique_ptr<Member>> Member::by_other_launcher() {
  TRY_ASSIGN(const auto launcher, other_launcher());
  if (!launcher) return Failure{Code::not_found, "no launcher started this process"};
  if (!launcher->one_node) {
    return Failure{Code::not_supported,
                   "this launcher's job is on several nodes: its ranks can join by a unique id"};
  }
  const auto deadline = std::chrono::steady_clock::now() + kOtherLaunchersPatience;
  TRY_ASSIGN(auto impl, join_by_name(*launcher, deadline));
  return std::make_unique<Member>(std::move(impl));
}

Outcome<std::unique_ptr<Member>> Member::by_unique_id(const UniqueId& id, uint32_t rank,
                                                      uint32_t size, Time deadline) {
  const auto invitation = decode(id);
  if (!invitation) return Failure{Code::invalid_argument, "these bytes are no unique id of a job"};
  if (size == 0 || size > limits::kRanksMax || rank >= size) {
    return Failure{Code::invalid_argument, fmt::format("rank {} of {}: a job has 1 to {} ranks",
                                                       rank, size, limits::kRanksMax)};
  }
  const Hello hello{rank, size, invitation->secret};
  const char* node = variable({"PENSTOCK_JOB_NODE"});
  const std::string name =
      fmt::format("penstock-job-{}-{}{}", ::geteuid(), as_hex(invitation->name),
                  node == nullptr ? "" : "-" + std::string(node).substr(0, kNodeNameBytesMax));
  while (true) {
    // Who has the name first has the room of this node.
    auto listener = listen_locally(name);
    if (listener) {
      TRY_ASSIGN(UniqueFd above, connect_to(invitation->addresses, invitation->port, deadline,
                                            "the process that made the unique id"));
      TRY_ASSIGN(auto impl, join_as_first(std::move(*listener), hello, std::move(above), deadline));
      return std::make_unique<Member>(std::move(impl));
    }
    if (listener.error().status.code() != Code::in_use) return listener.error();
    auto socket = try_connect_locally(name);
    if (socket) {
      TRY_ASSIGN(auto impl, Impl::join(std::move(*socket), hello, deadline, nullptr));
      return std::make_unique<Member>(std::move(impl));
    }
    if (socket.error().code() != Code::busy) {
      return Failure{socket.error(),
                     "the socket of this node's ranks: " + std::string(socket.error().name())};
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Failure{Code::timed_out, "this node's first rank did not come in time"};
    }
    std::this_thread::sleep_for(kElectAgain);
  }
}

}  // namespace penstock::job
