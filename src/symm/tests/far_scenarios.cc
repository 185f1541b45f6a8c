// What PEs of other nodes make different: targets that compute, both that send at once, strangers
// at the door, many questions, and ends in the middle.
#include "pes.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace penstock::symm::test {
namespace {

uint64_t look_at(const uint64_t* word) {
  return *const_cast<const volatile uint64_t*>(word);
}

// A PE that makes no call answers: by its thread.
void who_computes_answers(const Pe& pe) {
  auto* const words = pe.allocate<uint64_t>(4);
  if (pe.me() == pe.size() - 1) words[1] = 77;
  CHECK(pe.group.barrier(pe.group.world()).ok());
  if (pe.me() == 0) {
    const uint32_t last = pe.size() - 1;
    for (uint64_t i = 0; i < 500; ++i) {
      uint64_t seen = 0;
      CHECK(pe.group.get(&seen, words + 1, sizeof seen, last).ok() && seen == 77);
      CHECK(*atomic_fetch_add(pe.group, words, uint64_t{1}, last) == i);
      ::usleep(i % 50 == 0 ? 3000 : 0);
    }
    const uint64_t done = 1;
    CHECK(pe.group.put(words + 2, &done, sizeof done, last).ok());
    CHECK(pe.group.quiet().ok());
  } else if (pe.me() == pe.size() - 1) {
    while (look_at(words + 2) == 0) {
    }
    CHECK(look_at(words) == 500);
  }
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

// What was put arrives though who put it makes no call afterwards.
void puts_arrive_by_themselves(const Pe& pe) {
  auto* const words = pe.allocate<uint64_t>(64);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  for (uint64_t round = 1; round <= 30; ++round) {
    for (uint64_t i = 0; i < 64; ++i)
      CHECK(atomic_set(pe.group, words + i, round, pe.right()).ok());
    while (look_at(words + 63) < round) ::sched_yield();
    CHECK(pe.group.barrier(pe.group.world()).ok());
  }
}

// What a quiet has waited for is there for a third PE, too, which hears of it on another way; the
// one that it was put to computes.
void quiet_is_for_all(const Pe& pe) {
  constexpr uint64_t kRounds = 200;
  constexpr uint64_t kWords = 64;
  auto* const words = pe.allocate<uint64_t>(kWords);
  auto* const flag = pe.allocate<uint64_t>(1);
  auto* const is_over = pe.allocate<uint64_t>(1);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  if (pe.size() >= 3 && pe.me() == 0) {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      for (uint64_t i = 0; i < kWords; ++i)
        CHECK(pe.group.put(words + i, &round, sizeof round, 1).ok());
      CHECK(pe.group.quiet().ok());
      CHECK(atomic_set(pe.group, flag, round, 2).ok());
      CHECK(pe.group.wait([&] { return look_at(flag) >= round; }).ok());
    }
    CHECK(atomic_set(pe.group, is_over, uint64_t{1}, 1).ok());
  } else if (pe.size() >= 3 && pe.me() == 1) {
    while (look_at(is_over) == 0) ::sched_yield();
  } else if (pe.size() >= 3 && pe.me() == 2) {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      CHECK(pe.group.wait([&] { return look_at(flag) >= round; }).ok());
      uint64_t seen[kWords];
      CHECK(pe.group.get(seen, words, sizeof seen, 1).ok());
      for (const uint64_t word : seen) CHECK(word == round);
      CHECK(atomic_set(pe.group, flag, round, 0).ok());
    }
  }
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

void all_send_at_once(const Pe& pe) {
  constexpr uint64_t kBytes = 12 << 20;
  auto* const there = pe.allocate<char>(kBytes);
  auto* const other = pe.allocate<char>(kBytes);
  std::vector<char> source(kBytes, static_cast<char>('a' + pe.me()));
  std::vector<char> dest(kBytes);
  std::fill_n(other, kBytes, static_cast<char>('A' + pe.me()));
  CHECK(pe.group.barrier(pe.group.world()).ok());
  for (int turn = 0; turn < 3; ++turn) {
    Gets gets(pe.group);
    CHECK(gets.add(dest.data(), other, kBytes, pe.left()).ok());
    CHECK(pe.group.put(there, source.data(), kBytes, pe.right()).ok());
    CHECK(gets.finish().ok());
    CHECK(pe.group.barrier(pe.group.world()).ok());
    for (uint64_t i = 0; i < kBytes; i += 4093) {
      CHECK(there[i] == static_cast<char>('a' + pe.left()));
      CHECK(dest[i] == static_cast<char>('A' + pe.left()));
    }
  }
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

void threads_at_once(const Pe& pe) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kTimes = 300;
  auto* const words = pe.allocate<uint64_t>(2 * kThreads);
  auto* const large = pe.allocate<char>(kThreads * 100'000);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  std::vector<std::thread> threads;
  for (uint64_t me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      std::vector<char> bytes(100'000, static_cast<char>(me + 1));
      std::vector<char> back(bytes.size());
      for (uint64_t i = 1; i <= kTimes; ++i) {
        CHECK(atomic_add(pe.group, words, uint64_t{1}, pe.right()).ok());
        CHECK(pe.group.put(words + 1 + me, &i, sizeof i, pe.right()).ok());
        if (i % 30 != 0) continue;
        CHECK(pe.group.put(large + me * bytes.size(), bytes.data(), bytes.size(), pe.right()).ok());
        CHECK(pe.group.quiet().ok());
        CHECK(pe.group.get(back.data(), large + me * bytes.size(), bytes.size(), pe.right()).ok());
        CHECK(back == bytes);
        uint64_t seen = 0;
        CHECK(pe.group.get(&seen, words + 1 + me, sizeof seen, pe.right()).ok() && seen == i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(words[0] == kThreads * kTimes);
}

struct Large {
  char bytes[10'000];
};

template <class T>
void rows_of(const Pe& pe, uint64_t count, Strides strides) {
  const uint64_t room = count * static_cast<uint64_t>(std::max(strides.dest, strides.source));
  auto* const there = pe.allocate<T>(room);
  std::vector<T> mine(room);
  const auto fill = [](T* at, uint64_t value) {
    std::memset(at, static_cast<int>(value), sizeof(T));
  };
  const auto is = [](const T& at, uint64_t value) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&at);
    return bytes[0] == value % 256 && bytes[sizeof(T) - 1] == value % 256;
  };
  for (uint64_t i = 0; i < room; ++i) fill(there + i, 0);
  for (uint64_t i = 0; i < room; ++i) fill(&mine[i], 1 + pe.me() * 50 + i);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(iput(pe.group, there, mine.data(), strides, count, pe.right()).ok());
  CHECK(pe.group.barrier(pe.group.world()).ok());
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t to = i * static_cast<uint64_t>(strides.dest);
    CHECK(is(there[to], 1 + pe.left() * 50 + i * static_cast<uint64_t>(strides.source)));
    if (strides.dest > 1) CHECK(is(there[to + 1], 0));
  }
  // And back: what this PE has put there.
  std::vector<T> back(room);
  const Strides reversed = {strides.source, strides.dest};
  CHECK(iget(pe.group, back.data(), there, reversed, count, pe.right()).ok());
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = i * static_cast<uint64_t>(strides.source);
    CHECK(is(back[at], 1 + pe.me() * 50 + at));
  }
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(pe.group.heap().release(pe.group.heap_offset(there)));
}

void rows_go_in_pieces(const Pe& pe) {
  rows_of<char>(pe, 1, {1, 1});
  rows_of<char>(pe, 20'000, {3, 2});
  rows_of<uint64_t>(pe, 5'000, {2, 3});
  rows_of<Large>(pe, 7, {2, 1});
}

void many_questions(const Pe& pe) {
  constexpr uint64_t kCount = 5'000;
  auto* const words = pe.allocate<uint64_t>(kCount);
  for (uint64_t i = 0; i < kCount; ++i) words[i] = pe.me() * kCount + i;
  CHECK(pe.group.barrier(pe.group.world()).ok());
  std::vector<uint64_t> seen(kCount * pe.size());
  Gets gets(pe.group);
  for (uint64_t i = 0; i < kCount; ++i) {
    for (uint32_t from = 0; from < pe.size(); ++from)
      CHECK(gets.add(&seen[from * kCount + i], words + i, sizeof(uint64_t), from).ok());
  }
  CHECK(gets.finish().ok());
  for (uint64_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == i);
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

// The port at which this process listens; 0: none.
uint16_t own_port() {
  for (int fd = 0; fd < 256; ++fd) {
    int listens = 0;
    socklen_t length = sizeof listens;
    sockaddr_in own{};
    socklen_t own_length = sizeof own;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0)
      continue;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_length) != 0) continue;
    if (own.sin_family == AF_INET) return own.sin_port;
  }
  return 0;
}

void strangers_are_turned_away(const Pe& pe) {
  const uint16_t port = own_port();
  CHECK((port != 0) == pe.group.has_far());
  if (port == 0) return;
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 150; ++i) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = port;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    // A right beginning, a secret of zeros; or anything; or nothing.
    unsigned char hello[32] = {'P', 'S', 'N', 'F', 'A', 'R', 'v', '1'};
    hello[24] = static_cast<unsigned char>(pe.right());
    hello[28] = static_cast<unsigned char>(pe.me());
    if (i % 3 == 1) hello[0] = 'x';
    if (i % 3 != 2) (void)!::send(socket.get(), hello, sizeof hello, MSG_NOSIGNAL);
    strangers.push_back(std::move(socket));
  }
  CHECK(pe.group.barrier(pe.group.world()).ok());
  auto* const word = pe.allocate<uint64_t>(1);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(atomic_fetch_add(pe.group, word, uint64_t{1}, pe.right()));
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(*word == 1);
  // Those who said something wrong hear nothing but the end.
  char answer = 0;
  for (size_t i = 0; i < strangers.size(); ++i) {
    if (i % 3 != 2) CHECK(::recv(strangers[i].get(), &answer, 1, 0) <= 0);
  }
}

// The last PE is killed while others put into its memory, and get from it.
void goes_on_until_it_is_gone(const Pe& pe, const std::function<Status(uint32_t last)>& call) {
  const uint32_t last = pe.size() - 1;
  auto* const word = pe.allocate<uint64_t>(1);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  if (pe.me() == last) {
    CHECK(pe.group.wait([&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) >= 3; }).ok());
    ::kill(::getpid(), SIGKILL);
  }
  CHECK(!pe.group.is_near(last));
  const auto begin = std::chrono::steady_clock::now();
  Status ended;
  for (uint64_t turn = 0; ended.ok(); ++turn) {
    if (turn == 3) (void)atomic_set(pe.group, word, turn, last);
    ended = call(last);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(15));
  }
  CHECK(ended.code() == Code::peer_gone);
  CHECK(pe.group.first_gone() == last);
  CHECK(pe.group.sync(pe.group.world()).code() == Code::peer_gone);
  // All further calls say the same, those of others go on.
  CHECK(!atomic_fetch_add(pe.group, word, uint64_t{1}, last));
  CHECK(atomic_fetch_add(pe.group, word, uint64_t{1}, 0));
  (void)pe.group.quiet();
  CHECK(pe.group.quiet().ok());

  GroupOptions rest{.name = "rest", .heap_bytes = 1 << 20};
  for (uint32_t rank = 0; rank < last; ++rank) rest.ranks.push_back(rank);
  auto group = Group::join(pe.member, rest);
  CHECK(group);
  for (int i = 0; i < 50; ++i) CHECK((*group)->barrier((*group)->world()).ok());
}

void killed_in_a_put(const Pe& pe) {
  constexpr uint64_t kBytes = 16 << 20;
  auto* const there = pe.allocate<char>(kBytes);
  const std::vector<char> source(kBytes, 'p');
  goes_on_until_it_is_gone(
      pe, [&](uint32_t last) { return pe.group.put(there, source.data(), kBytes, last); });
}

void killed_in_a_get(const Pe& pe) {
  constexpr uint64_t kBytes = 16 << 20;
  auto* const there = pe.allocate<char>(kBytes);
  std::vector<char> dest(kBytes);
  goes_on_until_it_is_gone(
      pe, [&](uint32_t last) { return pe.group.get(dest.data(), there, kBytes, last); });
}

void killed_in_a_quiet(const Pe& pe) {
  auto* const there = pe.allocate<uint64_t>(1000);
  goes_on_until_it_is_gone(pe, [&](uint32_t last) {
    for (uint64_t i = 0; i < 1000; ++i) TRY(pe.group.put(there + i, &i, sizeof i, last));
    return pe.group.quiet();
  });
}

// One PE of each node waits for a word, another one for what it has put: the network is cut
// meanwhile (network_test.cc). Those of a node still have each other.
void network_is_cut(const Pe& pe) {
  auto* const words = pe.allocate<uint64_t>(2);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  for (uint32_t other = 0; other < pe.size(); ++other) CHECK(atomic_fetch(pe.group, words, other));
  CHECK(pe.group.barrier(pe.group.world()).ok());
  if (pe.me() == 0) {
    std::FILE* const mark = std::fopen(std::getenv("TEST_MARK"), "w");
    CHECK(mark != nullptr && std::fclose(mark) == 0);
  }
  const auto begin = std::chrono::steady_clock::now();
  const uint32_t across = (pe.me() + pe.size() / 2) % pe.size();
  Status ended;
  if (pe.me() % 2 == 0) {
    ended = pe.group.wait([&] { return __atomic_load_n(words, __ATOMIC_ACQUIRE) == 1; });
  } else {
    // One sends all the time, the other one only when the network is gone: nothing is on its way.
    if (pe.me() == 1) ::usleep(1'500'000);
    while (ended.ok()) {
      ended = pe.group.put(words + 1, words, sizeof *words, across);
      if (ended.ok()) ended = pe.group.quiet();
    }
  }
  CHECK(ended.code() == Code::peer_gone);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(40));
  CHECK(pe.group.first_gone());
  for (uint32_t other = 0; other < pe.size(); ++other) {
    if (pe.group.is_near(other)) CHECK(atomic_fetch_add(pe.group, words + 1, uint64_t{1}, other));
  }
}

}  // namespace

const Named kFarScenarios[] = {
    {"cut_off", network_is_cut},
    {"computes", who_computes_answers},
    {"by_themselves", puts_arrive_by_themselves},
    {"third", quiet_is_for_all},
    {"at_once", all_send_at_once},
    {"threads", threads_at_once},
    {"strides", rows_go_in_pieces},
    {"questions", many_questions},
    {"strangers", strangers_are_turned_away},
    {"in_put", killed_in_a_put},
    {"in_get", killed_in_a_get},
    {"in_quiet", killed_in_a_quiet},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
