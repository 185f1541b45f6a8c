// A PE that ends in the middle: the others' waits end, say which it was, and the rest joins a new
// group.
#include "pes.h"

#include <chrono>
#include <csignal>
#include <functional>
#include <unistd.h>

namespace penstock::symm::test {
namespace {

using std::chrono::steady_clock;

void goes_on_without_the_last(const Pe& pe, const std::function<Status()>& wait) {
  const uint32_t last = pe.size() - 1;
  if (pe.me() == last) {
    ::usleep(50'000);
    ::kill(::getpid(), SIGKILL);
  }
  const auto begin = steady_clock::now();
  const Status ended = wait();
  CHECK(ended.code() == Code::peer_gone);
  CHECK(steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK(pe.group.first_gone() == last);
  // What is ready needs nobody.
  CHECK(pe.group.wait([] { return true; }).ok());

  GroupOptions rest{.name = "rest", .heap_bytes = 1 << 20};
  for (uint32_t rank = 0; rank < last; ++rank) rest.ranks.push_back(rank);
  auto group = Group::join(pe.member, rest);
  CHECK(group);
  CHECK((*group)->size() == last && (*group)->health().ok());
  for (int i = 0; i < 100; ++i) CHECK((*group)->barrier((*group)->world()).ok());
}

void while_others_sync(const Pe& pe) {
  goes_on_without_the_last(pe, [&] { return pe.group.sync(pe.group.world()); });
}

// They want what it would bring; and one that needs nobody for what it does finds no place for
// more.
void while_others_bring_little(const Pe& pe) {
  auto* const words = pe.allocate<uint64_t>(1 + pe.size());
  CHECK(fcollect(pe.group, pe.group.world(), words + 1, words, sizeof *words).ok());
  goes_on_without_the_last(
      pe, [&] { return fcollect(pe.group, pe.group.world(), words + 1, words, sizeof *words); });
}

void while_a_root_is_ahead(const Pe& pe) {
  auto* const word = pe.allocate<uint64_t>(1);
  goes_on_without_the_last(pe, [&] {
    Status status;
    for (int i = 0; i < 3 && status.ok(); ++i)
      status = broadcast(pe.group, pe.group.world(), word, word, sizeof *word, pe.size() - 2);
    return status;
  });
}

void while_others_wait_for_a_word(const Pe& pe) {
  auto* const word = pe.allocate<uint64_t>(1);
  goes_on_without_the_last(pe, [&] {
    return pe.group.wait([&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0; });
  });
}

void while_it_has_a_lock(const Pe& pe) {
  long* const lock = pe.allocate<long>(1);
  if (pe.me() == pe.size() - 1) CHECK(set_lock(pe.group, lock).ok());
  CHECK(pe.group.barrier(pe.group.world()).ok());
  goes_on_without_the_last(pe, [&] { return set_lock(pe.group, lock); });
}

// One that leaves while others wait for it: they hear of it, though no end of a process tells them.
void one_leaves_in_between(const Pe& pe) {
  if (pe.me() == 0) return;
  const auto begin = steady_clock::now();
  CHECK(pe.group.sync(pe.group.world()).code() == Code::peer_gone);
  CHECK(pe.group.first_gone() == 0);
  // What a near one has stored may be on its way still; one that is far is not there any more.
  CHECK(!pe.group.is_near(0) || steady_clock::now() - begin >= std::chrono::seconds(9));
}

void a_deadline_ends_a_wait(const Pe& pe) {
  engine::Clock& clock = engine::system_clock();
  const auto deadline = clock.now() + std::chrono::milliseconds(20);
  CHECK(pe.group.wait([] { return false; }, deadline).code() == Code::timed_out);
  CHECK(clock.now() >= deadline);
  CHECK(pe.group.sync(pe.group.world()).ok());
}

}  // namespace

const Named kEndScenarios[] = {
    {"in_small", while_others_bring_little}, {"ahead", while_a_root_is_ahead},
    {"in_sync", while_others_sync},          {"in_wait", while_others_wait_for_a_word},
    {"with_lock", while_it_has_a_lock},      {"leaves", one_leaves_in_between},
    {"deadline", a_deadline_ends_a_wait},    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
