#include "process.h"

#include "environment.h"
#include "limits.h"
#include "nvshmem_host.h"
#include "teams.h"
#include "units.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unistd.h>
#include <utility>

namespace penstock::nvshmem {

std::atomic<symm::Group*> current_group{nullptr};
std::atomic<OnDevice*> current_device{nullptr};

namespace {

// A launcher's, or one of a job of one.
Outcome<std::unique_ptr<job::Member>> join_job() {
  auto member = job::Member::from_environment();
  if (member || member.error().status != Code::not_found) return member;
  return job::Member::alone();
}

void tell_at_start(const Environment& environment, uint32_t pe) {
  if (pe != 0) return;
  if (environment.wants_version || environment.wants_info) {
    std::printf("NVSHMEM v%d.%d.%d (%s)\n", NVSHMEM_VENDOR_MAJOR_VERSION,
                NVSHMEM_VENDOR_MINOR_VERSION, NVSHMEM_VENDOR_PATCH_VERSION, NVSHMEM_VENDOR_STRING);
  }
  if (environment.wants_info) std::fputs(info_text().c_str(), stdout);
  std::fflush(stdout);
}

// What a kernel of a program reports that ends without a call: its output is written before.
void look_at_exit() {
  const OnDevice* const there = current_device.load(std::memory_order_acquire);
  if (there == nullptr || process().pid != ::getpid()) return;
  if (there->streams->failure() != device::kSymmNothing) std::fflush(nullptr);
  check_kernels("nvshmem");
}

Outcome<std::unique_ptr<OnDevice>> make_device(symm::Group& group, const Environment& wanted) {
  auto made = std::make_unique<OnDevice>();
  TRY_ASSIGN(const engine::DeviceId id, gpu::current_device());
  TRY_ASSIGN(made->device, gpu::open_symmetric_device(id));
  TRY_ASSIGN(made->heap, symm::DeviceHeap::make(group, *made->device,
                                                {.bytes = wanted.heap_bytes,
                                                 .most = wanted.heap_bytes_most,
                                                 .spans_nodes = wanted.spans_nodes}));
  TRY_ASSIGN(made->streams, symm::DeviceStreams::make(*made->heap));
  TRY_ASSIGN(made->words, symm::DeviceWords::make(*made->heap));
  made->team_streams = std::make_unique<TeamStreams>(id);
  TRY(find_sharing(group, *made->heap));
  TRY(tell_teams(*made));
  return made;
}

// A launcher's job is joined once in a process: the next init finds it here. Who is through this
// knows that nobody waits for it any more, so that it may end however it likes.
void stay_for_next_init(job::Member& member) {
  job::Meeting all{.name = "nvshmem end", .ranks = {}};
  for (uint32_t rank = 0; rank < member.place().size; ++rank) all.ranks.push_back(rank);
  // Without the others there is no next one, and nothing to wait for.
  (void)member.exchange(all, {}, std::chrono::steady_clock::now() + limits::kToSeeOthersLeave);
  static std::once_flag once;
  std::call_once(once, [] {
    std::atexit([] {
      if (process().member != nullptr) process().member->leave();
    });
  });
}

}  // namespace

Process& process() {
  static Process* const own = new Process;
  return *own;
}

OnDevice& on_device(const char* call) {
  OnDevice* const current = current_device.load(std::memory_order_acquire);
  if (current != nullptr) return *current;
  symm::Group& all = group(call);
  Process& own = process();
  const std::lock_guard lock(own.mutex);
  if (own.on_device == nullptr) {
    const auto environment = read_environment();
    if (!environment) fault(call, environment.error().message);
    // For as long as it takes: what follows waits a minute for each PE.
    if (const Status met = all.sync(all.world()); !met.ok()) fault_status(call, met);
    auto made = make_device(all, *environment);
    if (!made) fault(call, made.error().message);
    own.on_device = std::move(*made);
    if (const Status told = tell_units(*own.on_device->heap); !told.ok()) fault_status(call, told);
    // Nobody's kernels write to words of teams that another PE is still making.
    if (const Status met = all.sync(all.world()); !met.ok()) fault_status(call, met);
    current_device.store(own.on_device.get(), std::memory_order_release);
    own.on_device->watch = std::make_unique<KernelWatch>(own.on_device->heap->state().failure,
                                                         [] { check_kernels("nvshmem"); });
    static std::once_flag once;
    std::call_once(once, [] { std::atexit(look_at_exit); });
  }
  return *own.on_device;
}

namespace {

Result<bool> all_have_device(symm::Group& all, Process& own) {
  if (gpu::has_current_device()) TRY(symm::atomic_add(all, own.with_device, uint64_t{1}, 0));
  TRY(all.barrier(all.world()));
  TRY_ASSIGN(const uint64_t said, symm::atomic_fetch(all, own.with_device, 0));
  TRY(all.sync(all.world()));  // nobody says more before all have asked
  return said - std::exchange(own.with_device_seen, said) == all.size();
}

}  // namespace

void take_current_device(const char* call) {
  if (current_device.load(std::memory_order_acquire) != nullptr) return;
  const Result<bool> have = all_have_device(group(call), process());
  if (!have) fault_status(call, have.error());
  if (*have) on_device(call);
}

bool has_begun() {
  Process& own = process();
  const std::lock_guard lock(own.mutex);
  return own.inits > 0;
}

bool has_been_finalized() {
  Process& own = process();
  const std::lock_guard lock(own.mutex);
  return own.was_finalized;
}

namespace {

// False: it had begun before.
bool begin_on_hosts(const char* call, std::unique_ptr<job::Member> member) {
  Process& own = process();
  const std::lock_guard lock(own.mutex);
  if (own.inits++ > 0) return false;
  own.was_finalized = false;
  own.pid = ::getpid();
  const auto environment = read_environment();
  if (!environment) fault(call, environment.error().message);
  log::set_level(environment->told);
  if (!environment->told_to.empty() && !log::set_file(environment->told_to))
    fault(call, "NVSHMEM_DEBUG_FILE: " + environment->told_to + " cannot be written");
  own.has_own_room = member != nullptr;
  if (member != nullptr) {
    if (own.member != nullptr) own.member->leave();
    own.member = std::move(member);
  } else if (own.member == nullptr) {
    auto joined = join_job();
    if (!joined) fault(call, joined.error().message);
    own.member = std::move(*joined);
  }
  // What the host's own words need, and mail between nodes, which takes memory as it is touched;
  // data is in the GPUs' heap.
  const auto rdma = symm::rdma_from_environment();
  if (!rdma) fault(call, rdma.error().message);
  auto group = symm::Group::join(
      *own.member, {.name = "nvshmem", .heap_bytes = uint64_t{64} << 20, .rdma = *rdma});
  if (!group) fault(call, group.error().message);
  own.group = std::move(*group);
  const auto word = own.group->heap().allocate(sizeof(uint64_t), alignof(uint64_t));
  if (!word) fault(call, "no room for a word of the host");
  own.with_device = reinterpret_cast<uint64_t*>(own.group->heap_address(*word));
  own.with_device_seen = 0;
  auto meetings = TeamMeetings::make(*own.group);
  if (!meetings) fault(call, meetings.error().message);
  own.team_meetings = std::move(*meetings);
  if (const Status made = make_first_teams(*own.group); !made.ok())
    fault(call, "the first teams cannot be made");
  current_group.store(own.group.get(), std::memory_order_release);
  tell_at_start(*environment, own.group->me());
  return true;
}

}  // namespace

void begin(const char* call, std::unique_ptr<job::Member> member) {
  if (begin_on_hosts(call, std::move(member))) take_current_device(call);
}

void finish(const char* call) {
  Process& own = process();
  const std::lock_guard lock(own.mutex);
  // Destructors of programs do it once more.
  if (own.was_finalized) return;
  symm::Group& all = group(call);
  if (--own.inits > 0) return;
  if (own.on_device != nullptr) {
    // What the program's streams still do with the heap.
    const Status done = own.on_device->device->synchronize_all();
    if (!done.ok()) fault_status(call, done);
  }
  // Nobody leaves while another one may still reach its memory.
  if (const Status met = all.barrier(all.world()); !met.ok()) fault_status(call, met);
  own.was_finalized = true;
  if (own.on_device != nullptr) own.on_device->watch.reset();
  current_device.store(nullptr, std::memory_order_release);
  current_group.store(nullptr, std::memory_order_release);
  own.on_device.reset();
  forget_teams();
  own.team_meetings.reset();
  own.group.reset();
  forget_loaded();
  if (!own.has_own_room) return stay_for_next_init(*own.member);
  own.member->leave();
  // With the end of this process what it has of the job's rooms would be gone for those that are
  // slower.
  own.member.reset();
  for (const auto& gate : own.gates) gate->close(limits::kToSeeOthersLeave);
  own.gates.clear();
}

int Process::exit_code_of_end() const {
  const auto end = member->first_end();
  if (!end) return limits::kFaultExitCode;
  const int code = job::exit_code_of(*end);
  return code != 0 || end->how == job::How::aborted ? code : 1;
}

}  // namespace penstock::nvshmem
