// What a hostile or unlucky application may do to an agent, over a real store.
#include "raw_session.h"

#include <atomic>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>

namespace penstock::agent {
namespace {

constexpr uint64_t kRegionBytes = 64 * kKiB;

class Sessions : public testing::Test {
 protected:
  // One node for all tests: none of them may harm the others.
  static void SetUpTestSuite() {
    log::set_level(log::Level::off);
    directory = new ScratchDirectory;
    AgentConfig config;
    config.directory = directory->store();
    config.spin = std::chrono::microseconds(0);
    Outcome<std::unique_ptr<Agent>> started = Agent::start(config);
    ASSERT_TRUE(started) << started.error().message;
    agent = std::move(*started);
  }
  static void TearDownTestSuite() {
    agent.reset();
    delete directory;
    log::set_level(log::Level::warning);
  }

  static UniqueFd connect() {
    Outcome<UniqueFd> socket = agent->connect_local();
    EXPECT_TRUE(socket);
    return std::move(*socket);
  }

  // A session with region 0, file 0 for reading and writing with 8 KiB in it, file 1 for reading.
  struct Working {
    explicit Working(UniqueFd socket) : session(std::move(socket)), ring(session, 0) {
      EXPECT_EQ(ring.created.status, Code::ok) << ring.created.text;
      EXPECT_EQ(session.ask(wire::RegisterRegion{0, 0, kRegionBytes}, {region.fd()}).status,
                Code::ok);
      EXPECT_EQ(session
                    .ask(wire::OpenPath{
                        0, "/file", wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate, 0644})
                    .status,
                Code::ok);
      EXPECT_EQ(session.ask(wire::OpenPath{1, "/file", wire::kOpenRead, 0}).status, Code::ok);
      EXPECT_EQ(ring.run(entry(ring::kOperationWrite)), 8192);
    }
    static ring::Submission entry(uint8_t operation) {
      ring::Submission out{};
      out.operation = operation;
      out.length = 8192;
      return out;
    }
    bool works() { return ring.run(entry(ring::kOperationRead)) == 8192; }

    SharedMemory region{kRegionBytes, F_SEAL_SHRINK};
    RawSession session;
    RawRing ring;
  };

  static size_t session_count() { return agent->status().sessions.size(); }
  static ScratchDirectory* directory;
  static std::unique_ptr<Agent> agent;
};
ScratchDirectory* Sessions::directory = nullptr;
std::unique_ptr<Agent> Sessions::agent;

struct BadEntry {
  const char* what;
  std::function<void(ring::Submission&)> change;
  int expected;
};

const BadEntry kBadEntries[] = {
    {"operation 0", [](ring::Submission& e) { e.operation = 0; }, -EINVAL},
    {"operation 200", [](ring::Submission& e) { e.operation = 200; }, -EINVAL},
    {"unknown flag", [](ring::Submission& e) { e.flags = 0x40; }, -EINVAL},
    {"durable read", [](ring::Submission& e) { e.flags = ring::kFlagDurable; }, -EINVAL},
    {"write that refuses holes",
     [](ring::Submission& e) {
       e.operation = ring::kOperationWrite;
       e.flags = ring::kFlagRefuseHoles;
     },
     -EINVAL},
    {"a region for checksums", [](ring::Submission& e) { e.checksum_region = 1; }, -EINVAL},
    {"a page for checksums", [](ring::Submission& e) { e.checksum_page = 1; }, -EINVAL},
    {"fill where there is no cache",
     [](ring::Submission& e) { e.operation = ring::kOperationFill; }, -EOPNOTSUPP},
    {"file not open", [](ring::Submission& e) { e.file = 2; }, -EBADF},
    {"file beyond the table", [](ring::Submission& e) { e.file = 100'000; }, -EBADF},
    {"file UINT32_MAX", [](ring::Submission& e) { e.file = UINT32_MAX; }, -EBADF},
    {"sync of no file",
     [](ring::Submission& e) {
       e.operation = ring::kOperationSync;
       e.file = UINT32_MAX;
     },
     -EBADF},
    {"write through a file opened for reading",
     [](ring::Submission& e) {
       e.operation = ring::kOperationWrite;
       e.file = 1;
     },
     -EACCES},
    {"region not registered", [](ring::Submission& e) { e.region = 1; }, -EINVAL},
    {"region UINT32_MAX", [](ring::Submission& e) { e.region = UINT32_MAX; }, -EINVAL},
    {"length 0", [](ring::Submission& e) { e.length = 0; }, -EINVAL},
    {"length beyond the limit", [](ring::Submission& e) { e.length = 64 * kMiB + 1; }, -EINVAL},
    {"length UINT64_MAX", [](ring::Submission& e) { e.length = UINT64_MAX; }, -EINVAL},
    {"range out of the region by a byte",
     [](ring::Submission& e) { e.region_offset = kRegionBytes - 8191; }, -EINVAL},
    {"region offset beyond the region", [](ring::Submission& e) { e.region_offset = kRegionBytes; },
     -EINVAL},
    {"region offset that overflows",
     [](ring::Submission& e) { e.region_offset = UINT64_MAX - 4095; }, -EINVAL},
    {"offset that overflows", [](ring::Submission& e) { e.offset = UINT64_MAX - 4095; }, -EINVAL},
    {"write beyond the largest file",
     [](ring::Submission& e) {
       e.operation = ring::kOperationWrite;
       e.offset = limits::kFileBytesMax - 4096;
     },
     -EFBIG},
    {"deadline that has passed", [](ring::Submission& e) { e.deadline = 1; }, -ETIMEDOUT},
};

TEST_F(Sessions, ends_a_bad_entry_with_a_status_and_goes_on) {
  Working app(connect());
  for (const BadEntry& bad : kBadEntries) {
    ring::Submission entry = Working::entry(ring::kOperationRead);
    entry.user_data = 77;
    entry.slot = 0xffffffff;
    entry.sequence = 5;
    bad.change(entry);
    EXPECT_EQ(app.ring.run(entry), bad.expected) << bad.what;
    EXPECT_EQ(app.ring.completion.user_data, 77u) << bad.what;
    EXPECT_EQ(app.ring.completion.slot, 0xffffffffu) << bad.what;
    EXPECT_EQ(app.ring.completion.sequence, 5u) << bad.what;
  }
  EXPECT_TRUE(app.works());
  ring::Submission nop{};
  nop.operation = ring::kOperationNop;
  EXPECT_EQ(app.ring.run(nop), 0);
  EXPECT_EQ(app.ring.run(Working::entry(ring::kOperationSync)), 0);
}

TEST_F(Sessions, is_not_moved_by_a_header_that_changes_after_setup) {
  Working app(connect());
  ring::Header& header = app.ring.layout.header();
  header.magic = 0;
  header.entries = 1u << 31;
  header.lanes = UINT32_MAX;
  header.lane_bytes = UINT64_MAX;
  header.total_bytes = 1;
  ring::Word(header.lanes_used).store(UINT32_MAX);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(app.works());
}

TEST_F(Sessions, ends_the_session_with_an_impossible_tail_and_no_other) {
  Working good(connect());
  Working bad(connect());
  ring::Word(bad.ring.layout.control(0).submission_tail).store(0x40000000);
  bad.ring.wake_agent();
  EXPECT_TRUE(bad.session.is_ended());
  EXPECT_TRUE(good.works());
  EXPECT_TRUE(test::eventually([] { return session_count() == 1; }));
}

TEST_F(Sessions, survives_random_scribbling_over_a_ring_in_use) {
  Working good(connect());
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Working bad(connect());
    const MutableBytes memory = bad.ring.memory().bytes();
    uint64_t state = seed;
    for (int i = 0; i < 200; ++i) {
      state = mix64(state);
      auto* word = reinterpret_cast<uint32_t*>(memory.data() + state % (memory.size() / 4) * 4);
      ring::Word(*word).store(static_cast<uint32_t>(state >> 32));
      bad.ring.wake_agent();
      // Small steps of the tail are believed, and whatever lies in the queue is then an entry.
      ring::Word tail(bad.ring.layout.control(0).submission_tail);
      tail.fetch_add(1);
    }
    bad.ring.wake_agent();
    ASSERT_TRUE(good.works()) << "seed " << seed;
  }
  EXPECT_TRUE(test::eventually([] { return session_count() == 1; }));
}

TEST_F(Sessions, cleans_up_after_an_application_died_with_io_in_flight) {
  for (int i = 0; i < 5; ++i) {
    Working app(connect());
    for (int n = 0; n < 8; ++n) app.ring.submit(Working::entry(ring::kOperationWrite));
    app.session.hang_up();
    EXPECT_TRUE(test::eventually([] { return session_count() == 0; }));
  }
}

TEST_F(Sessions, waits_for_io_in_flight_before_it_lets_a_region_go) {
  Working app(connect());
  for (int i = 0; i < 8; ++i) app.ring.submit(Working::entry(ring::kOperationWrite));
  EXPECT_EQ(app.session.ask(wire::ReleaseRegion{0}).status, Code::ok);
  // Everything submitted before is complete, or ended because the region was gone.
  for (int i = 0; i < 8; ++i) {
    const int64_t result = app.ring.next();
    EXPECT_TRUE(result == 8192 || result == -EINVAL) << result;
  }
  EXPECT_EQ(app.ring.run(Working::entry(ring::kOperationRead)), -EINVAL);
  EXPECT_EQ(app.session.ask(wire::ReleaseRegion{0}).status, Code::bad_handle);
}

TEST_F(Sessions, refuses_operations_on_a_closed_file) {
  Working app(connect());
  EXPECT_EQ(app.session.ask(wire::CloseFile{0}).status, Code::ok);
  EXPECT_EQ(app.ring.run(Working::entry(ring::kOperationRead)), -EBADF);
  EXPECT_EQ(app.session.ask(wire::CloseFile{0}).status, Code::bad_handle);
  EXPECT_EQ(app.session.ask(wire::FileAttributes{0}).status, Code::bad_handle);
}

TEST_F(Sessions, shows_a_ring_made_late_everything_that_was_opened_before) {
  Working app(connect());
  RawRing second(app.session, 1);
  ASSERT_EQ(second.created.status, Code::ok);
  EXPECT_EQ(second.run(Working::entry(ring::kOperationRead)), 8192);
  EXPECT_EQ(app.session.ask(wire::DestroyRing{0}).status, Code::ok);
  EXPECT_EQ(second.run(Working::entry(ring::kOperationRead)), 8192);
  EXPECT_EQ(app.session.ask(wire::DestroyRing{0}).status, Code::bad_handle);
}

TEST_F(Sessions, takes_back_what_no_operation_has_used_and_what_one_has) {
  Working app(connect());
  const SharedMemory memory(kRegionBytes, F_SEAL_SHRINK);
  ring::Submission read = Working::entry(ring::kOperationRead);
  read.file = 2;
  ring::Submission elsewhere = Working::entry(ring::kOperationRead);
  elsewhere.region = 1;
  for (const bool used : {false, true, false}) {
    EXPECT_EQ(app.ring.run(read), -EBADF);
    EXPECT_EQ(app.ring.run(elsewhere), -EINVAL);
    EXPECT_EQ(app.session.ask(wire::OpenPath{2, "/file", wire::kOpenRead, 0}).status, Code::ok);
    EXPECT_EQ(app.session.ask(wire::RegisterRegion{1, 0, kRegionBytes}, {memory.fd()}).status,
              Code::ok);
    if (used) {
      EXPECT_EQ(app.ring.run(read), 8192);
      EXPECT_EQ(app.ring.run(elsewhere), 8192);
    }
    EXPECT_EQ(app.session.ask(wire::CloseFile{2}).status, Code::ok);
    EXPECT_EQ(app.session.ask(wire::ReleaseRegion{1}).status, Code::ok);
  }
  EXPECT_EQ(app.ring.run(read), -EBADF);
  EXPECT_EQ(app.ring.run(elsewhere), -EINVAL);
  EXPECT_TRUE(app.works());
}

TEST_F(Sessions, links_nothing_where_there_is_no_virtual_directory) {
  RawSession session(connect());
  const SharedMemory memory(4096, 0);
  const std::string link = "0123456789abcdef0123456789abcdef";
  EXPECT_EQ(session.ask(wire::RegisterRegion{0, 0, 4096, link, "/dev/shm/x"}, {memory.fd()}).status,
            Code::not_supported);
  EXPECT_EQ(session.ask(wire::AttachRegion{0, link}).status, Code::not_found);
}

TEST_F(Sessions, ends_a_session_that_does_not_speak_the_protocol) {
  const auto ended_by = [&](const std::function<void(RawSession&)>& act, bool greet = true) {
    RawSession session(connect(), greet);
    act(session);
    return session.is_ended();
  };
  const std::string garbage = "this is no request at all";
  EXPECT_TRUE(ended_by([](RawSession& s) { s.send(wire::SyncAll{}); }, false)) << "no greeting";
  EXPECT_TRUE(ended_by([](RawSession& s) { s.send(wire::Hello{99}); }, false)) << "version";
  EXPECT_TRUE(ended_by([&](RawSession& s) { s.send_bytes(std::as_bytes(std::span(garbage))); }));
  EXPECT_TRUE(ended_by([](RawSession& s) {
    std::vector<std::byte> large(wire::kSessionMessageMax + 1);
    s.send_bytes(large);
  }));
  EXPECT_TRUE(ended_by([](RawSession& s) { s.send(wire::OpenDescriptor{0}); })) << "descriptor";
  EXPECT_TRUE(ended_by([](RawSession& s) { s.send(wire::SyncAll{}, {0}); })) << "one too many";
  EXPECT_TRUE(ended_by([](RawSession& s) {
    s.send(wire::RegisterRegion{0, 0, 4096}, {0, 0, 0, 0, 0, 0});
  }));
  EXPECT_TRUE(test::eventually([] { return session_count() == 0; }));
}

TEST_F(Sessions, ends_a_session_that_uses_a_number_twice) {
  Working app(connect());
  EXPECT_EQ(app.session.ask(wire::OpenPath{0, "/file", wire::kOpenRead, 0}).status,
            Code::bad_message);
  EXPECT_TRUE(app.session.is_ended());
}

TEST_F(Sessions, says_which_version_it_speaks) {
  RawSession session(connect(), false);
  const wire::Reply reply = session.ask(wire::Hello{99, 99});
  EXPECT_EQ(reply.status, Code::wrong_version);
  EXPECT_NE(reply.text.find(fmt::format("version {}", wire::kSessionVersion)), std::string::npos);
  EXPECT_TRUE(session.is_ended());
}

TEST_F(Sessions, refuses_memory_that_is_not_shared_memory_or_too_small) {
  RawSession session(connect());
  const std::string path = directory->path() + "/plain";
  UniqueFd plain(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(plain.get(), 4096), 0);
  SharedMemory memory(8192, 0);
  UniqueFd read_only(::open(("/proc/self/fd/" + std::to_string(memory.fd())).c_str(), O_RDONLY));
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const auto refused = [&](uint64_t offset, uint64_t size, int fd) {
    return session.ask(wire::RegisterRegion{0, offset, size}, {fd}).status.code();
  };
  EXPECT_EQ(refused(0, 4096, plain.get()), Code::invalid_argument);
  EXPECT_EQ(refused(0, 4096, pipes[0]), Code::invalid_argument);
  EXPECT_EQ(refused(0, 8193, memory.fd()), Code::invalid_argument);
  EXPECT_EQ(refused(4096, 8192, memory.fd()), Code::invalid_argument);
  EXPECT_EQ(refused(100, 4096, memory.fd()), Code::invalid_argument);
  EXPECT_NE(refused(0, 8192, read_only.get()), Code::ok);
  EXPECT_EQ(refused(0, 8192, memory.fd()), Code::ok) << "the session goes on";
  ::close(pipes[0]);
  ::close(pipes[1]);
}

TEST_F(Sessions, refuses_rings_that_could_shrink_or_have_no_header) {
  RawSession session(connect());
  const ring::Geometry geometry{8, 1};
  const uint64_t size = align_up(geometry.total_bytes(), 4096);
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC));
  SharedMemory unsealed(size, 0);
  ring::Memory::format(unsealed.bytes(), geometry);
  EXPECT_EQ(session.ask(wire::CreateRing{0, size}, {unsealed.fd(), wake.get()}).status,
            Code::invalid_argument);
  SharedMemory lying(size, F_SEAL_SHRINK);
  ring::Memory::format(lying.bytes(), geometry).header().entries = 4096;
  EXPECT_EQ(session.ask(wire::CreateRing{0, size}, {lying.fd(), wake.get()}).status,
            Code::bad_message);
  EXPECT_TRUE(session.is_ended());

  RawSession other(connect());
  SharedMemory good(size, F_SEAL_SHRINK);
  ring::Memory::format(good.bytes(), geometry);
  EXPECT_EQ(other.ask(wire::CreateRing{0, size}, {good.fd(), good.fd()}).status, Code::bad_message)
      << "the second descriptor is no eventfd";
}

TEST_F(Sessions, keeps_to_its_limits) {
  RawSession session(connect());
  SharedMemory memory(4096, F_SEAL_SHRINK);
  constexpr uint32_t kMany = 2000;
  for (uint32_t i = 1; i < kMany; ++i) {
    ASSERT_EQ(session.ask(wire::RegisterRegion{i, 0, 4096}, {memory.fd()}).status, Code::ok) << i;
  }
  constexpr uint32_t kLast = wire::kRegionsMax - 1;
  ASSERT_EQ(session.ask(wire::RegisterRegion{kLast, 0, 4096}, {memory.fd()}).status, Code::ok);
  const auto status = agent->status().sessions.at(0);
  EXPECT_EQ(status.regions, kMany);
  EXPECT_EQ(status.region_bytes, kMany * 4096);
  EXPECT_FALSE(session.send(wire::RegisterRegion{wire::kRegionsMax, 0, 4096}, {memory.fd()}) &&
               session.receive().status == Code::ok);
}

TEST_F(Sessions, reports_efault_and_goes_on_when_a_region_is_truncated) {
  Working good(connect());
  Working bad(connect());
  SharedMemory region(kRegionBytes, 0);
  ASSERT_EQ(bad.session.ask(wire::RegisterRegion{1, 0, kRegionBytes}, {region.fd()}).status,
            Code::ok);
  ASSERT_EQ(::ftruncate(region.fd(), 0), 0);
  for (const uint8_t operation : {ring::kOperationWrite, ring::kOperationRead}) {
    ring::Submission entry = Working::entry(operation);
    entry.region = 1;
    entry.offset = 100;  // unaligned, so that the processor must touch the region
    const int64_t result = bad.ring.run(entry);
    EXPECT_LT(result, 0) << "operation " << int{operation};
  }
  EXPECT_TRUE(bad.works()) << "the session's other region";
  EXPECT_TRUE(good.works());
}

TEST_F(Sessions, keeps_one_user_out_of_anothers_reopen_tokens) {
  Working app(connect());
  const wire::Reply opened = app.session.ask(wire::OpenPath{5, "/file", wire::kOpenRead, 0});
  const std::string token = std::get<wire::Opened>(opened.body).token;
  RawSession other(connect());
  EXPECT_EQ(other.ask(wire::Reopen{0, token}).status, Code::ok) << "the same user";
  std::string forged = token;
  forged[8] = static_cast<char>(forged[8] | wire::kOpenWrite);
  EXPECT_EQ(other.ask(wire::Reopen{1, forged}).status, Code::access_denied);
  EXPECT_EQ(other.ask(wire::Reopen{1, ""}).status, Code::access_denied);
}

TEST_F(Sessions, closes_a_file_after_the_requests_that_work_on_it) {
  RawSession session(connect());
  // Requests of one session run at once: whether a request finds the file still open is chance,
  // that it never works on one that is gone is not.
  for (int round = 0; round < 500; ++round) {
    ASSERT_TRUE(session.send(wire::OpenPath{
        9, "/closing", wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate, 0600}));
    ASSERT_EQ(session.receive().status, Code::ok) << "round " << round;
    ASSERT_TRUE(session.send(wire::SyncFile{9}));
    ASSERT_TRUE(session.send(wire::TruncateFile{9, 4096}));
    ASSERT_TRUE(session.send(wire::FileAttributes{9}));
    ASSERT_TRUE(session.send(wire::CloseFile{9}));
    for (int reply = 0; reply < 4; ++reply) {
      const Code code = session.receive().status.code();
      ASSERT_TRUE(code == Code::ok || code == Code::bad_handle) << "round " << round;
    }
    EXPECT_EQ(session.ask(wire::FileAttributes{9}).status, Code::bad_handle);
  }
}

TEST_F(Sessions, refuses_descriptors_of_files_that_are_not_on_a_mount) {
  RawSession session(connect());
  const std::string path = directory->path() + "/elsewhere";
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(session.ask(wire::OpenDescriptor{0}, {file.get()}).status, Code::bad_handle);
  // The directory's file system stands for a mount whose inode numbers are ours.
  struct stat facts {};
  ASSERT_EQ(::fstat(file.get(), &facts), 0);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd connection(ends[0]);
  UniqueFd kernel(ends[1]);
  agent->add_mount(facts.st_dev, connection.get());
  EXPECT_NE(session.ask(wire::OpenDescriptor{0}, {file.get()}).status, Code::bad_handle);
  UniqueFd path_only(::open(path.c_str(), O_PATH | O_CLOEXEC));
  EXPECT_EQ(session.ask(wire::OpenDescriptor{0}, {path_only.get()}).status, Code::bad_handle);
  // Unmounted behind the agent's back: another file system may have the number now.
  kernel.reset();
  EXPECT_EQ(session.ask(wire::OpenDescriptor{0}, {file.get()}).status, Code::bad_handle);
  agent->remove_mount(facts.st_dev);
  EXPECT_EQ(session.ask(wire::OpenDescriptor{0}, {file.get()}).status, Code::bad_handle);
}

TEST_F(Sessions, answers_other_sessions_while_one_does_not_read_its_replies) {
  RawSession deaf(connect());
  for (int i = 0; i < 3000; ++i) {
    const Result<std::string> bytes =
        wire::encode(wire::Request{static_cast<uint64_t>(i) + 10, wire::PathAttributes{"/", true}});
    const ssize_t sent =
        ::send(deaf.socket(), bytes->data(), bytes->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) break;
  }
  Working good(connect());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(good.works());
  EXPECT_EQ(good.session.ask(wire::PathAttributes{"/", true}).status, Code::ok);
}

TEST_F(Sessions, cancels_by_slot_and_sequence_without_harm) {
  Working app(connect());
  for (int i = 0; i < 8; ++i) {
    ring::Submission entry = Working::entry(ring::kOperationWrite);
    entry.slot = static_cast<uint32_t>(i);
    app.ring.submit(entry);
  }
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(app.session.ask(wire::CancelOperation{0, 0, i, 0}).status, Code::ok);
  }
  for (int i = 0; i < 8; ++i) {
    const int64_t result = app.ring.next();
    EXPECT_TRUE(result == 8192 || result == -ECANCELED) << result;
  }
  EXPECT_EQ(app.session.ask(wire::CancelOperation{0, 99, 99, 99}).status, Code::ok);
  EXPECT_EQ(app.session.ask(wire::CancelOperation{7, 0, 0, 0}).status, Code::bad_handle);
  EXPECT_TRUE(app.works());
}

TEST_F(Sessions, are_held_to_the_limits_of_their_user_and_their_own) {
  Working limited(connect());
  uint64_t id = 0;
  for (const SessionStatus& session : agent->status().sessions) id = std::max(id, session.id);
  const auto few = [](client::Allowance& allowance) { allowance.operations_per_second = 100; };
  const auto any = [](client::Allowance& allowance) { allowance = {}; };
  // Never faster than the limit, however fast the machine.
  const auto seconds_of_twenty = [&] {
    const engine::Time began = engine::system_clock().now();
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(limited.works());
    return std::chrono::duration<double>(engine::system_clock().now() - began).count();
  };
  ASSERT_TRUE(agent->allow_session(id, few));
  EXPECT_GT(seconds_of_twenty(), 0.17);
  ASSERT_TRUE(agent->allow_session(id, any));
  ASSERT_TRUE(agent->allow_user(::geteuid(), few));
  EXPECT_GT(seconds_of_twenty(), 0.17);
  EXPECT_EQ(agent->status().allowances.size(), 1u);
  EXPECT_GT(agent->status().operations_slowed, 0u);
  ASSERT_TRUE(agent->allow_user(::geteuid(), any));
  EXPECT_TRUE(agent->status().allowances.empty());
  EXPECT_FALSE(agent->allow_session(id + 1000, few));
  EXPECT_FALSE(agent->allow_user(1, [](client::Allowance& allowance) { allowance.weight = 0; }));
}

TEST_F(Sessions, end_while_their_operations_are_held_back) {
  // By its number: sessions of other tests may still be ending.
  uint64_t id = 0;
  {
    Working limited(connect());
    for (const SessionStatus& session : agent->status().sessions) id = std::max(id, session.id);
    ASSERT_TRUE(agent->allow_session(
        id, [](client::Allowance& allowance) { allowance.bytes_per_second = 1; }));
    EXPECT_TRUE(limited.works());
    limited.ring.submit(Working::entry(ring::kOperationRead));
    limited.ring.submit(Working::entry(ring::kOperationWrite));
  }
  EXPECT_TRUE(test::eventually([&] {
    const auto sessions = agent->status().sessions;
    return std::none_of(sessions.begin(), sessions.end(),
                        [&](const SessionStatus& session) { return session.id == id; });
  }));
}

}  // namespace
}  // namespace penstock::agent
