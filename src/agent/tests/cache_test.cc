// The node cache of a whole node, as applications see it: filled, mapped, never stale, no
// other user's.
#include "raw_session.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <thread>

#include "penstock/arena.h"

namespace penstock::agent {
namespace {

using arena::kExtentBytes;

constexpr uint64_t kFileBytes = 16 * uint64_t{kExtentBytes} + 100;
constexpr uint32_t kFileExtents = 17;

// An application: a session with a ring, a region and its class's segment.
class Application {
 public:
  explicit Application(UniqueFd socket) : session(std::move(socket)), ring(session, 0, 64) {
    EXPECT_EQ(ring.created.status, Code::ok);
    EXPECT_EQ(session.ask(wire::RegisterRegion{0, 0, region.size()}, {region.fd()}).status,
              Code::ok);
  }

  Status open(uint32_t id, const std::string& path, uint32_t flags) {
    const wire::Reply reply = session.ask(wire::OpenPath{id, path, flags, 0666});
    if (reply.status.ok()) inode = InodeId(std::get<wire::Opened>(reply.body).inode);
    return reply.status;
  }
  Status open_new(uint32_t id, const std::string& path) {
    return open(id, path, wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate);
  }
  int64_t run(uint8_t operation, uint64_t offset, uint64_t length, uint32_t file = 0) {
    ring::Submission entry{};
    entry.operation = operation;
    entry.file = file;
    entry.offset = offset;
    entry.length = length;
    return ring.run(entry);
  }
  int64_t fill(uint64_t offset = 0, uint64_t length = limits::kIoBytesMax, uint32_t file = 0) {
    return run(ring::kOperationFill, offset, length, file);
  }
  // Writes `length` bytes that say `version` all over.
  int64_t write(uint64_t offset, uint64_t length, uint32_t version, uint32_t file = 0) {
    auto* words = reinterpret_cast<uint32_t*>(region.bytes().data());
    for (uint64_t i = 0; i < (length + 3) / 4; ++i) words[i] = version;
    return run(ring::kOperationWrite, offset, length, file);
  }

  // Maps the segment, or what it has grown by.
  bool map() {
    if (reader == nullptr) {
      if (!session.ask(wire::MapCache{}).status.ok()) return false;
      auto opened = arena::Reader::open(std::move(session.given));
      if (!opened) return false;
      reader = std::move(*opened);
    }
    while (reader->slabs_mapped() < reader->slabs_offered()) {
      if (!session.ask(wire::MapSlab{reader->slabs_mapped()}).status.ok()) return false;
      if (!reader->add_slab(session.given).ok()) return false;
    }
    return true;
  }
  // The bytes of an extent as the cache has them; nothing if it has none.
  std::optional<std::vector<std::byte>> look(uint32_t extent) {
    const arena::Found found = reader->find({inode, extent});
    if (!found) return std::nullopt;
    std::vector<std::byte> copy(found.data, found.data + found.valid);
    const arena::Checksums checksums = *found.checksums;
    if (!reader->still(found.ticket)) return std::nullopt;
    for (uint32_t at = 0; at < copy.size(); at += arena::kBlockBytes) {
      const size_t length = std::min<size_t>(arena::kBlockBytes, copy.size() - at);
      EXPECT_EQ(crc32c(Bytes(copy).subspan(at, length)), checksums.block[at / arena::kBlockBytes]);
    }
    return copy;
  }
  uint32_t extents_there(uint32_t count = kFileExtents) {
    uint32_t there = 0;
    for (uint32_t i = 0; i < count; ++i) there += look(i) ? 1 : 0;
    return there;
  }

  SharedMemory region{2 * kMiB, F_SEAL_SHRINK};
  RawSession session;
  RawRing ring;
  std::unique_ptr<arena::Reader> reader;
  InodeId inode;
};

bool says(const std::vector<std::byte>& bytes, uint32_t version) {
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    if (std::memcmp(&bytes[i], &version, 4) != 0) return false;
  }
  return true;
}

class Cache : public testing::Test {
 protected:
  void SetUp() override { start(8 * kMiB); }
  void start(uint64_t bytes) {
    agent.reset();
    AgentConfig config;
    config.directory = directory.store();
    config.spin = std::chrono::microseconds(0);
    config.cache_bytes = bytes;
    Outcome<std::unique_ptr<Agent>> started = Agent::start(config);
    ASSERT_TRUE(started) << started.error().message;
    agent = std::move(*started);
  }
  UniqueFd connect() { return std::move(*agent->connect_local()); }
  // An application with "/file" open as file 0, all of it saying 1, and resident.
  std::unique_ptr<Application> warm() {
    auto app = std::make_unique<Application>(connect());
    EXPECT_EQ(app->open_new(0, "/file"), Code::ok);
    EXPECT_EQ(app->write(0, kFileBytes, 1), static_cast<int64_t>(kFileBytes));
    EXPECT_EQ(app->fill(), static_cast<int64_t>(kFileBytes));
    EXPECT_TRUE(app->map());
    EXPECT_EQ(app->extents_there(), kFileExtents);
    return app;
  }

  ScratchDirectory directory;
  std::unique_ptr<Agent> agent;
};

TEST_F(Cache, holds_what_was_asked_for) {
  const auto app = warm();
  for (uint32_t i = 0; i < kFileExtents; ++i) {
    const auto bytes = app->look(i);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(bytes->size(), i + 1 < kFileExtents ? kExtentBytes : 100u);
    EXPECT_TRUE(says(*bytes, 1));
  }
  EXPECT_EQ(app->fill(10, 100), 100);
  EXPECT_EQ(app->fill(kFileBytes - 10), 10);
  EXPECT_EQ(app->fill(kFileBytes), 0) << "behind the end there is nothing";
  const AgentStatus status = agent->status();
  ASSERT_EQ(status.cache.size(), 1u);
  EXPECT_EQ(status.cache[0].fills, kFileExtents);
  EXPECT_EQ(status.cache[0].sessions, 1u);
  EXPECT_EQ(status.cache[0].used_bytes, uint64_t{kFileExtents} * kExtentBytes);
}

TEST_F(Cache, fills_as_much_as_there_is_room_for) {
  Application app(connect());
  ASSERT_EQ(app.open_new(0, "/large"), Code::ok);
  for (uint64_t at = 0; at < 12 * kMiB; at += kMiB) ASSERT_EQ(app.write(at, kMiB, 7), kMiB);
  EXPECT_EQ(app.fill(), static_cast<int64_t>(8 * kMiB));
  EXPECT_EQ(agent->status().cache[0].bytes, 8 * kMiB);
}

TEST_F(Cache, brings_in_what_is_read_again) {
  Application app(connect());
  ASSERT_EQ(app.open_new(0, "/file"), Code::ok);
  ASSERT_EQ(app.write(0, kFileBytes, 3), static_cast<int64_t>(kFileBytes));
  ASSERT_TRUE(app.map());
  const auto read_all = [&] {
    for (uint32_t i = 0; i < kFileExtents; ++i) {
      EXPECT_GT(app.run(ring::kOperationRead, uint64_t{i} * kExtentBytes, kExtentBytes), 0);
    }
  };
  read_all();
  EXPECT_EQ(agent->status().cache[0].fills, 0u);
  EXPECT_TRUE(test::eventually([&] {
    read_all();
    return app.map() && app.extents_there() == kFileExtents;
  }));
}

TEST_F(Cache, forgets_a_file_when_its_attributes_change) {
  const auto app = warm();
  const uint32_t slots = app->reader->slabs_mapped() * app->reader->geometry().slab_slots();
  ASSERT_EQ(
      app->session.ask(wire::ChangeAttributes{"/file", true, 0600, {}, {}, {}, {}, false, false})
          .status,
      Code::ok);
  EXPECT_EQ(app->extents_there(), 0u);
  const Bytes memory = app->reader->slots().first(uint64_t{slots} * kExtentBytes);
  EXPECT_TRUE(std::all_of(memory.begin(), memory.end(), [](std::byte b) {
    return b == std::byte{0};
  })) << "its bytes are still in memory";
  EXPECT_EQ(app->fill(), static_cast<int64_t>(kFileBytes)) << "its owner may still read it";
}

TEST_F(Cache, forgets_what_changed_and_no_more) {
  const auto app = warm();
  EXPECT_EQ(app->write(3 * uint64_t{kExtentBytes} + 5, 10, 2), 10);
  EXPECT_FALSE(app->look(3));
  EXPECT_EQ(app->extents_there(), kFileExtents - 1);
  // The file grows: its old end is no end any more.
  EXPECT_EQ(app->write(kFileBytes + 5 * uint64_t{kExtentBytes}, 10, 2), 10);
  EXPECT_FALSE(app->look(kFileExtents - 1));
  EXPECT_EQ(app->extents_there(), kFileExtents - 2);
  ASSERT_EQ(app->session.ask(wire::TruncateFile{0, 2 * uint64_t{kExtentBytes} + 7}).status,
            Code::ok);
  EXPECT_EQ(app->extents_there(), 2u);
  EXPECT_EQ(app->fill(), 2 * int64_t{kExtentBytes} + 7);
  EXPECT_EQ(app->look(2)->size(), 7u);
}

TEST_F(Cache, follows_the_name_to_another_file) {
  const auto app = warm();
  Application other(connect());
  ASSERT_EQ(other.open_new(0, "/new"), Code::ok);
  ASSERT_EQ(other.write(0, kExtentBytes, 9), kExtentBytes);
  ASSERT_EQ(other.session.ask(wire::Rename{"/new", "/file"}).status, Code::ok);
  EXPECT_EQ(app->extents_there(), 0u) << "the file that lost its name is dropped";
  ASSERT_EQ(app->open(1, "/file", wire::kOpenRead), Code::ok);
  EXPECT_EQ(app->fill(0, kExtentBytes, 1), kExtentBytes);
  EXPECT_TRUE(says(*app->look(0), 9));
  ASSERT_EQ(other.session.ask(wire::Remove{"/file", false}).status, Code::ok);
  EXPECT_FALSE(app->look(0));
  EXPECT_EQ(app->fill(0, kExtentBytes, 1), kExtentBytes)
      << "an application that has it open still reads it";
}

// Writers and readers of one file: what a reader validated is never older than what was complete
// when it looked.
TEST_F(Cache, is_never_stale) {
  constexpr uint32_t kExtents = 8;
  const auto app = warm();
  std::array<std::atomic<uint32_t>, kExtents> floor{};
  for (auto& one : floor) one = 1;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> hits{0};
  std::thread writer([&] {
    Application mine(connect());
    ASSERT_EQ(mine.open(0, "/file", wire::kOpenRead | wire::kOpenWrite), Code::ok);
    for (uint32_t version = 2; version < 1500; ++version) {
      const uint32_t extent = static_cast<uint32_t>(mix64(version) % kExtents);
      ASSERT_EQ(mine.write(uint64_t{extent} * kExtentBytes, kExtentBytes, version), kExtentBytes);
      floor[extent] = version;
    }
    stop = true;
  });
  std::thread filler([&] {
    Application mine(connect());
    ASSERT_EQ(mine.open(0, "/file", wire::kOpenRead), Code::ok);
    while (!stop) mine.fill(0, kExtents * uint64_t{kExtentBytes});
  });
  for (uint64_t i = 0; !stop; ++i) {
    const auto extent = static_cast<uint32_t>(mix64(i) % kExtents);
    const uint32_t known = floor[extent];
    const auto bytes = app->look(extent);
    if (!bytes) continue;
    uint32_t version = 0;
    std::memcpy(&version, bytes->data(), 4);
    ASSERT_GE(version, known) << "stale";
    // A write that was not complete when the fill read may be there in part, until it is complete.
    hits += says(*bytes, version) ? 1 : 0;
  }
  writer.join();
  filler.join();
  EXPECT_GT(hits, 0u);
  RecordProperty("hits", static_cast<int>(hits));
}

TEST_F(Cache, survives_applications_that_vanish_while_it_fills_for_them) {
  const auto app = warm();
  for (int i = 0; i < 30; ++i) {
    auto other = std::make_unique<Application>(connect());
    const std::string path = "/file" + std::to_string(i);
    ASSERT_EQ(other->open_new(0, path), Code::ok);
    ASSERT_EQ(other->write(0, kMiB, 4), kMiB);
    ring::Submission entry{};
    entry.operation = ring::kOperationFill;
    entry.length = kMiB;
    for (int n = 0; n < 10; ++n) other->ring.submit(entry);
    other->session.hang_up();
  }
  EXPECT_TRUE(test::eventually([&] { return agent->status().sessions.size() == 1; }));
  EXPECT_EQ(app->fill(), static_cast<int64_t>(kFileBytes));
  EXPECT_TRUE(app->map());
  EXPECT_EQ(app->extents_there(), kFileExtents);
  EXPECT_TRUE(test::eventually([&] { return agent->status().file_system.open_files == 1; }))
      << "the cache keeps files open";
}

TEST_F(Cache, keeps_one_touch_log_of_a_session) {
  const auto app = warm();
  SharedMemory log(sizeof(arena::TouchLogMemory) + 4096, F_SEAL_SHRINK);
  SharedMemory small(4096, F_SEAL_SHRINK);
  SharedMemory unsealed(sizeof(arena::TouchLogMemory) + 4096, 0);
  EXPECT_FALSE(app->session.ask(wire::KeepTouchLog{}, {small.fd()}).status.ok());
  EXPECT_FALSE(app->session.ask(wire::KeepTouchLog{}, {unsealed.fd()}).status.ok());
  ASSERT_EQ(app->session.ask(wire::KeepTouchLog{}, {log.fd()}).status, Code::ok);
  arena::TouchLog(log.bytes()).touch(3, 5);
  EXPECT_EQ(agent->status().cache[0].hits, 5u);
  EXPECT_EQ(app->session.ask(wire::KeepTouchLog{}, {log.fd()}).status, Code::already_exists);
}

TEST_F(Cache, gives_slabs_that_there_are) {
  const auto app = warm();
  EXPECT_EQ(app->session.ask(wire::MapSlab{1000}).status, Code::not_found);
  EXPECT_EQ(app->session.ask(wire::MapSlab{UINT32_MAX}).status, Code::not_found);
  start(0);
  Application none(connect());
  EXPECT_EQ(none.session.ask(wire::MapCache{}).status, Code::not_supported);
  EXPECT_EQ(none.session.ask(wire::MapSlab{0}).status, Code::not_found);
}

// ---- several users ----

constexpr uint32_t kUser = 12345, kOther = 12346;

class CacheOfUsers : public Cache {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be several users";
    Cache::SetUp();
    for (const std::string& path : {directory.path(), directory.store()}) {
      ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
    }
  }

  // Connects as another user: credentials belong to threads, where libc does not interfere.
  UniqueFd connect_as(uint32_t uid) {
    UniqueFd socket;
    std::thread([&] {
      ASSERT_EQ(::syscall(SYS_setgroups, 0, nullptr), 0);
      ASSERT_EQ(::syscall(SYS_setresgid, uid, uid, uid), 0);
      ASSERT_EQ(::syscall(SYS_setresuid, uid, uid, uid), 0);
      socket.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      const std::string path = directory.store() + "/" + wire::kSessionSocketName;
      ASSERT_LT(path.size(), sizeof address.sun_path);
      std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
      ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    }).join();
    return socket;
  }
  void change_mode(Application& owner, uint32_t mode, uint32_t uid) {
    ASSERT_EQ(owner.session
                  .ask(wire::ChangeAttributes{"/file", true, mode, uid, uid, {}, {}, false, false})
                  .status,
              Code::ok);
  }
  static bool is_zero(const Application& app) {
    const auto& geometry = app.reader->geometry();
    const Bytes memory =
        app.reader->slots().first(app.reader->slabs_mapped() * geometry.slab_bytes);
    return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0}; });
  }
};

TEST_F(CacheOfUsers, gives_each_user_memory_of_its_own) {
  const auto root = warm();
  change_mode(*root, 0600, kUser);
  Application user(connect_as(kUser)), other(connect_as(kOther));
  ASSERT_EQ(user.open(0, "/file", wire::kOpenRead), Code::ok);
  EXPECT_EQ(other.open(0, "/file", wire::kOpenRead), Code::access_denied);
  EXPECT_EQ(user.fill(), static_cast<int64_t>(kFileBytes));
  ASSERT_TRUE(user.map());
  EXPECT_EQ(user.extents_there(), kFileExtents);
  // The other one looks at all that it can map.
  other.inode = user.inode;
  ASSERT_TRUE(other.map());
  EXPECT_EQ(other.extents_there(), 0u);
  EXPECT_EQ(other.reader->slabs_mapped(), 0u);
  EXPECT_EQ(other.fill(), -EBADF);
}

TEST_F(CacheOfUsers, takes_a_file_away_from_who_may_not_read_it_any_more) {
  const auto root = warm();
  change_mode(*root, 0644, kUser);
  Application other(connect_as(kOther));
  ASSERT_EQ(other.open(0, "/file", wire::kOpenRead), Code::ok);
  EXPECT_EQ(other.fill(), static_cast<int64_t>(kFileBytes));
  ASSERT_TRUE(other.map());
  EXPECT_EQ(other.extents_there(), kFileExtents);
  change_mode(*root, 0600, kUser);
  EXPECT_EQ(other.extents_there(), 0u);
  EXPECT_TRUE(is_zero(other));
  // The open file still reads, but nothing of it is left in memory for others of the class.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(other.run(ring::kOperationRead, 0, kExtentBytes), kExtentBytes);
  }
  EXPECT_EQ(other.fill(), -EACCES);
  EXPECT_TRUE(is_zero(other));
}

// The first request leaves room for one extent of the second, which fails before anything of the
// first has been read.
TEST_F(CacheOfUsers, ends_a_fill_once_that_fails_while_it_waits_for_more_room) {
  const auto root = warm();
  ASSERT_EQ(root->open_new(1, "/other"), Code::ok);
  constexpr uint64_t kBytes = (node_cache::limits::kFillsMax - 1) * uint64_t{kExtentBytes};
  static_assert(kFileExtents > 1 && kBytes <= 2 * kMiB);
  ASSERT_EQ(root->write(0, kBytes, 1, 1), static_cast<int64_t>(kBytes));
  Application other(connect_as(kOther));
  ASSERT_EQ(other.open(0, "/file", wire::kOpenRead), Code::ok);
  ASSERT_EQ(other.open(1, "/other", wire::kOpenRead), Code::ok);
  change_mode(*root, 0600, kUser);
  ring::Submission entry{};
  entry.operation = ring::kOperationFill;
  entry.length = limits::kIoBytesMax;
  entry.file = entry.user_data = 1;
  other.ring.lane.push(entry);
  entry.file = entry.user_data = 0;
  other.ring.submit(entry);
  int64_t results[2] = {};
  for (int i = 0; i < 2; ++i) {
    const int64_t result = other.ring.next();
    results[other.ring.completion.user_data] = result;
  }
  EXPECT_EQ(results[0], -EACCES);
  EXPECT_EQ(results[1], static_cast<int64_t>(kBytes));
  EXPECT_EQ(other.fill(0, kBytes, 1), static_cast<int64_t>(kBytes));
  EXPECT_EQ(other.ring.lane.ready(), 0u);
}

}  // namespace
}  // namespace penstock::agent
