#include "process.h"

#include "checking.h"
#include "contexts.h"
#include "environment.h"
#include "limits.h"

#include <cstdio>
#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

namespace penstock::shmem {

std::atomic<symm::Group*> current_group{nullptr};

namespace {

// A program that returns from main without shmem_finalize() is finalized here. One that failed is
// not: the others may wait for it somewhere else than in the barrier of its finalization, and the
// launcher ends them.
void at_exit(int status, void* /*unused*/) {
  if (status != 0 || current_group.load() == nullptr || process().pid != ::getpid()) return;
  while (current_group.load() != nullptr) finish("exit");
}

void greet(const Environment& environment, symm::Group& group) {
  if (environment.is_debugging) {
    const uint64_t bytes = group.heap().end() - group.heap().begin();
    std::fprintf(stderr, "penstock: PE %u of %u, process %d, symmetric heap of %llu bytes\n",
                 group.me(), group.size(), process().pid, static_cast<unsigned long long>(bytes));
  }
  if (group.me() != 0) return;
  if (environment.wants_version) {
    std::printf("%s, OpenSHMEM %d.%d\n", SHMEM_VENDOR_STRING, SHMEM_MAJOR_VERSION,
                SHMEM_MINOR_VERSION);
  }
  if (environment.wants_info) std::fputs(info_text().c_str(), stdout);
  if (environment.wants_version || environment.wants_info) std::fflush(stdout);
}

// A launcher's, or one of a job of one.
Outcome<std::unique_ptr<job::Member>> join_job() {
  auto member = job::Member::from_environment();
  if (member || member.error().status != Code::not_found) return member;
  return job::Member::alone();
}

void join(const char* call, Process& own) {
  const auto environment = read_environment();
  if (!environment) fault(call, environment.error().message);
  if (environment->is_debugging) log::set_level(log::Level::debug);
  own.pid = ::getpid();
  if (own.member == nullptr) {
    auto member = join_job();
    if (!member) fault(call, member.error().message);
    own.member = std::move(*member);
  }
  symm::GroupOptions options;
  options.heap_bytes = environment->heap_bytes;
  options.interface = environment->interface;
  options.rdma = environment->rdma;
  options.has_program_data = true;
  options.has_one_caller = own.thread_level != SHMEM_THREAD_MULTIPLE;
  auto group = symm::Group::join(*own.member, options);
  if (!group) fault(call, group.error().message);
  own.group = std::move(*group);
  begin_checking();
  current_group.store(own.group.get(), std::memory_order_release);
  [[maybe_unused]] static const int registered = ::on_exit(at_exit, nullptr);
  greet(*environment, *own.group);
}

}  // namespace

Process& process() {
  static Process* const own = new Process;
  return *own;
}

void begin(const char* call, int thread_level) {
  Process& own = process();
  const std::lock_guard lock(own.mutex);
  if (own.was_finalized) fault(call, "called after shmem_finalize()");
  if (own.inits++ > 0) return;
  own.thread_level = thread_level;
  join(call, own);
}

void finish(const char* call) {
  Process& own = process();
  const std::lock_guard lock(own.mutex);
  // Programs finalize more often than they begin: nothing is left to be ended.
  if (own.was_finalized) return;
  symm::Group& all = group(call);
  ASSERT(own.inits > 0 && own.member != nullptr && own.group.get() == &all);
  if (--own.inits > 0) return;
  if (const Status done = all.quiet(); !done.ok()) fault_status(call, done);
  check_alike(call, all, all.world());
  // Nobody leaves while another one may still reach its memory.
  if (const Status met = all.barrier(all.world()); !met.ok()) fault_status(call, met);
  own.was_finalized = true;
  current_group.store(nullptr, std::memory_order_release);
  forget_contexts_and_teams();
  own.group.reset();
  own.member->leave();
}

int Process::exit_code_of_end() const {
  const auto end = member->first_end();
  if (!end) return limits::kFaultExitCode;
  const int code = job::exit_code_of(*end);
  return code != 0 || end->how == job::How::aborted ? code : 1;
}

}  // namespace penstock::shmem
