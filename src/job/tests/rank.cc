// A rank of the tests' jobs: does what its words say, one after the other, and prints what it sees.
// Ends with 1 and a line when something is not as it should be.

#include "part_hostile.h"
#include "rank_hostile.h"
#include "unique_id.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "penstock/job.h"

namespace penstock::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Time from_now(milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::fflush(nullptr);
  ::_exit(1);
}

void expect(bool condition, const char* what) {
  if (!condition) give_up(std::string("not so: ") + what);
}
#define EXPECT(condition) expect(condition, #condition)

std::vector<uint32_t> everyone(const Member& member) {
  std::vector<uint32_t> ranks(member.place().size);
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] = rank;
  return ranks;
}

Outcome<std::vector<Brought>> meet(Member& member, const std::string& name,
                                   std::vector<uint32_t> ranks, const std::string& bytes,
                                   Time deadline = from_now(seconds(20))) {
  return member.exchange({name, std::move(ranks)}, {std::as_bytes(std::span(bytes)), {}}, deadline);
}

std::string text_of(const Brought& brought) {
  return {reinterpret_cast<const char*>(brought.bytes.data()), brought.bytes.size()};
}

// Prints how it ended: "ok", or its code and message.
void print(const Outcome<std::vector<Brought>>& met) {
  if (met) {
    std::printf("ok\n");
  } else {
    std::printf("%s: %s\n", std::string(met.error().status.name()).c_str(),
                met.error().message.c_str());
  }
  std::fflush(stdout);
}

void wait_for_trouble(Member& member) {
  const Time deadline = from_now(seconds(20));
  while (member.trouble().load(std::memory_order_acquire) == 0) {
    if (std::chrono::steady_clock::now() > deadline) give_up("no trouble came");
    std::this_thread::sleep_for(milliseconds(1));
  }
  const auto end = member.first_end();
  EXPECT(end.has_value());
  std::printf("%s\n", end->text.c_str());
  std::fflush(stdout);
}

// All bring their number, and a file of memory with it.
void exchange_all(Member& member) {
  const uint32_t me = member.place().rank;
  const std::string mine = "rank " + std::to_string(me);
  const UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  EXPECT(::write(file.get(), mine.data(), mine.size()) == static_cast<ssize_t>(mine.size()));
  const int fd = file.get();
  const auto met = member.exchange(
      {"all", everyone(member)}, {std::as_bytes(std::span(mine)), {&fd, 1}}, from_now(seconds(60)));
  if (!met) give_up(met.error().message);
  EXPECT(met->size() == member.place().size);
  for (uint32_t rank = 0; rank < met->size(); ++rank) {
    const std::string theirs = "rank " + std::to_string(rank);
    EXPECT(text_of((*met)[rank]) == theirs);
    const bool here = member.node_of(rank) == member.place().node;
    EXPECT((*met)[rank].descriptors.size() == (here ? 1 : 0));
    if (!here) continue;
    std::string content(theirs.size(), 0);
    const int from = (*met)[rank].descriptors[0].get();
    EXPECT(::pread(from, content.data(), content.size(), 0) == static_cast<ssize_t>(theirs.size()));
    EXPECT(content == theirs);
    EXPECT((::fcntl(from, F_GETFD) & FD_CLOEXEC) != 0);
  }
}

// Overlapping sets at once, from a thread each, and one name in disjoint sets.
void exchange_sets(Member& member) {
  const uint32_t me = member.place().rank;
  std::vector<std::thread> threads;
  const auto in = [&](const std::string& name, std::vector<uint32_t> ranks) {
    threads.emplace_back([&member, me, name, ranks] {
      for (int round = 0; round < 50; ++round) {
        const std::string mine = name + std::to_string(me) + "/" + std::to_string(round);
        const auto met = meet(member, name, ranks, mine);
        if (!met) give_up(met.error().message);
        for (size_t i = 0; i < ranks.size(); ++i) {
          EXPECT(text_of((*met)[i]) ==
                 name + std::to_string(ranks[i]) + "/" + std::to_string(round));
        }
      }
    });
  };
  std::vector<uint32_t> alike;
  for (uint32_t rank = me % 2; rank < member.place().size; rank += 2) alike.push_back(rank);
  in("half", alike);
  in("all", everyone(member));
  if (me <= 2) in("some", {0, 1, 2});
  if (me >= 1 && me <= 3) in("some", {1, 2, 3});
  for (std::thread& thread : threads) thread.join();
}

void wait_until(const std::function<bool()>& condition) {
  const Time deadline = from_now(seconds(20));
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) give_up("waited in vain");
    std::this_thread::sleep_for(milliseconds(1));
  }
}

// A child that is no member must neither disturb the parent's connection nor hang.
void use_after_fork(Member& member) {
  const pid_t child = ::fork();
  if (child == 0) {
    member.leave();
    member.abort(9, "the child");
    const bool closed =
        meet(member, "child", everyone(member), "").error().status.code() == Code::closed;
    ::_exit(closed ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT(status == 0);
}

// Lines that are cut wherever writes end.
void say_lines(const std::string& rank) {
  std::string text;
  for (int line = 0; line < 500; ++line) text += rank + " says " + std::to_string(line) + "\n";
  text += "no end";
  for (size_t at = 0; at < text.size(); at += 7) {
    const size_t part = std::min<size_t>(7, text.size() - at);
    EXPECT(::write(STDOUT_FILENO, text.data() + at, part) == static_cast<ssize_t>(part));
  }
}

std::string variable_or(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) give_up(std::string("not set: ") + name);
  return value;
}

// Rank 0 makes the id and leaves it in the file $TEST_ID.
std::unique_ptr<Gate> open_gate() {
  const char* interface = std::getenv("TEST_INTERFACE");
  auto gate = Gate::open(interface != nullptr ? interface : "lo");
  if (!gate) give_up(gate.error().message);
  const std::string file = variable("TEST_ID");
  FILE* to = std::fopen((file + ".new").c_str(), "w");
  EXPECT(to != nullptr);
  EXPECT(std::fwrite((*gate)->id().bytes.data(), 128, 1, to) == 1);
  std::fclose(to);
  EXPECT(std::rename((file + ".new").c_str(), file.c_str()) == 0);
  return std::move(*gate);
}

UniqueId read_id() {
  UniqueId id;
  wait_until([&] {
    FILE* from = std::fopen(variable("TEST_ID").c_str(), "r");
    if (from == nullptr) return false;
    EXPECT(std::fread(id.bytes.data(), 128, 1, from) == 1);
    std::fclose(from);
    return true;
  });
  return id;
}

// As of one of $TEST_NODES nodes, in turns.
Outcome<std::unique_ptr<Member>> join_by_id(const std::string& rank, milliseconds patience) {
  const auto nodes = std::stoul(variable("TEST_NODES"));
  const auto own = static_cast<uint32_t>(std::stoul(rank));
  if (nodes > 1) ::setenv("PENSTOCK_JOB_NODE", std::to_string(own % nodes).c_str(), 1);
  const auto size = static_cast<uint32_t>(std::stoul(variable("PENSTOCK_SIZE")));
  return Member::by_unique_id(read_id(), own, size, from_now(patience));
}

// Until another rank of this one's node has its room.
void wait_for_room(const std::string& rank) {
  const auto nodes = std::stoul(variable("TEST_NODES"));
  std::string name = as_hex(decode(read_id())->name);
  if (nodes > 1) name += "-" + std::to_string(std::stoul(rank) % nodes);
  wait_until([&] {
    std::ifstream sockets("/proc/net/unix");
    const std::string text(std::istreambuf_iterator<char>(sockets), {});
    return text.find(name + "\n") != std::string::npos;
  });
}

// Rank 0 leaves meanwhile: a word counts that once, when its time has come.
void follow_leaving(Member& member) {
  const auto load = [](const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); };
  uint32_t soon = 7;
  uint32_t later = 7;
  uint32_t others = 7;
  uint32_t after = 7;
  member.follow(&soon, everyone(member), milliseconds(20));
  member.follow(&later, everyone(member), seconds(3600));
  member.follow(&others, {member.place().rank}, milliseconds(0));
  EXPECT(load(soon) == 0 && load(later) == 0 && load(others) == 0);
  EXPECT(meet(member, "followed", everyone(member), "").has_value());
  wait_until([&] { return load(soon) == 1; });
  EXPECT(member.has_ended(0));
  member.follow(&after, everyone(member), milliseconds(20));
  wait_until([&] { return load(after) == 1; });
  EXPECT(load(soon) == 1 && load(later) == 0 && load(others) == 0);
  for (uint32_t* const word : {&soon, &later, &others, &after}) member.unfollow(word);
}

std::vector<uint32_t> neighbours(const Member& member) {
  std::vector<uint32_t> ranks;
  for (const uint32_t rank : everyone(member)) {
    if (member.node_of(rank) == member.place().node) ranks.push_back(rank);
  }
  return ranks;
}

int run(int argc, char** argv) {
  std::unique_ptr<Gate> gate;  // is needed until all have left
  std::unique_ptr<Member> member;
  const char* own = std::getenv("PENSTOCK_RANK");
  std::string rank = own != nullptr ? own : "0";
  const std::map<std::string, std::function<void()>> verbs = {
      {"join",
       [&] {
         auto joined = Member::from_environment();
         if (!joined) give_up(joined.error().message);
         member = std::move(*joined);
         EXPECT(std::to_string(member->place().rank) == rank);
       }},
      {"gate", [&] { gate = open_gate(); }},
      {"join-id",
       [&] {
         auto joined = join_by_id(rank, seconds(30));
         if (!joined) give_up(joined.error().message);
         member = std::move(*joined);
         EXPECT(std::to_string(member->place().rank) == rank);
         EXPECT(std::to_string(member->place().nodes) == variable("TEST_NODES"));
       }},
      {"join-in-vain",
       [&] {
         auto joined = join_by_id(rank, milliseconds(1500));
         EXPECT(!joined);
         std::printf("%s: %s\n", std::string(joined.error().status.name()).c_str(),
                     joined.error().message.c_str());
       }},
      {"after-others", [&] { wait_for_room(rank); }},
      {"mark", [&] { std::ofstream(variable("TEST_ID") + "." + rank).put('x'); }},
      {"await-marks",
       [&] {
         for (const uint32_t each : everyone(*member)) {
           const std::string mark = variable("TEST_ID") + "." + std::to_string(each);
           wait_until([&] { return ::access(mark.c_str(), F_OK) == 0; });
         }
       }},
      {"pose-as-1", [&] { rank = "1"; }},
      {"meet-node", [&] { print(meet(*member, "node", neighbours(*member), rank)); }},
      {"close-gate",
       [&] {
         if (gate) gate->close(seconds(20));
       }},
      {"all", [&] { exchange_all(*member); }},
      {"sets", [&] { exchange_sets(*member); }},
      {"meet", [&] { print(meet(*member, "meet", everyone(*member), rank)); }},
      {"meet-briefly",
       [&] { print(meet(*member, "meet", everyone(*member), rank, from_now(milliseconds(300)))); }},
      {"meet-first-two",
       [&] {
         print(meet(*member, "two", {0, 1}, rank));
       }},
      {"pace",
       [&] {
         const Time begun = from_now(milliseconds(0));
         for (int round = 0; round < 1000; ++round) {
           if (!meet(*member, "pace", everyone(*member), rank)) give_up("no meeting");
         }
         const auto took =
             std::chrono::duration<double, std::micro>(from_now(milliseconds(0)) - begun);
         if (rank == "0") std::printf("%.1f us for each meeting\n", took.count() / 1000);
       }},
      {"trouble", [&] { wait_for_trouble(*member); }},
      {"follow-leaving", [&] { follow_leaving(*member); }},
      {"meet-followed",
       [&] { EXPECT(meet(*member, "followed", everyone(*member), "").has_value()); }},
      {"leave", [&] { member->leave(); }},
      {"abort", [&] { member->abort(42, "it was asked to"); }},
      {"drop", [&] { member.reset(); }},
      {"killed", [&] { ::kill(::getpid(), SIGKILL); }},
      {"fail", [&] { ::_exit(7); }},
      {"exit", [&] { ::_exit(0); }},
      {"nap", [&] { std::this_thread::sleep_for(milliseconds(300)); }},
      {"sleep", [&] { std::this_thread::sleep_for(seconds(60)); }},
      {"hear-of-0", [&] { wait_until([&] { return member->has_ended(0); }); }},
      {"garbage", [&] { send_raw(std::string(100, 'x')); }},
      {"too-long",
       [&] {
         send_frame({.body_bytes = UINT32_MAX, .kind = Kind::bring, .rank = member->place().rank});
       }},
      {"claim", [&] { send_frame({.kind = Kind::leave, .rank = 0}); }},
      {"hello-twice", [&] { send_frame({.kind = Kind::hello, .rank = member->place().rank}); }},
      {"nowhere",
       [&] {
         send_bring(member->place().rank, {0, 70000});
       }},
      {"elsewhere", [&] { send_bring(member->place().rank, {0}); }},
      {"flood", [&] { flood_descriptors(); }},
      {"say", [&] { say_lines(rank); }},
      {"pid",
       [&] {
         std::printf("%d\n", ::getpid());
         std::fflush(stdout);
       }},
      {"forked", [&] { use_after_fork(*member); }},
      {"again",
       [&] { EXPECT(Member::from_environment().error().status.code() == Code::already_exists); }},
      {"stubborn", [&] { ::signal(SIGTERM, SIG_IGN); }},
  };
  // "3:word" is for rank 3, "!3:word" for all others.
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (const size_t colon = word.find(':'); colon != std::string::npos) {
      const bool others = word[0] == '!';
      const bool mine = word.substr(others ? 1 : 0, colon - (others ? 1 : 0)) == rank;
      word.erase(0, colon + 1);
      if (mine == others) continue;
    }
    const auto verb = verbs.find(word);
    if (verb == verbs.end()) give_up("no such word: " + word);
    verb->second();
  }
  return 0;
}

}  // namespace
}  // namespace penstock::job

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "pose-as-part") == 0) {
    return penstock::job::pose_as_part(argv[2]);
  }
  // As the part of a launcher on another node.
  if (argc == 2 && std::strcmp(argv[1], "run-node") == 0) {
    const auto code = penstock::job::serve_node(0, penstock::job::variable_or("TEST_VERSION", "1"));
    if (!code) std::fprintf(stderr, "%s\n", code.error().message.c_str());
    return code ? *code : 1;
  }
  return penstock::job::run(argc, argv);
}
