// Loading models of a session's files through the C interface, with simulated GPUs.
#include "model_rig.h"

#include <cerrno>
#include <cstring>
#include <gmock/gmock.h>

#include "penstock/testing_node.h"
#include "penstock/wire.h"

namespace penstock::api {
namespace {

using testing::HasSubstr;

// Files of a session, in an embedded store.
class SessionLoad : public ModelTest {
 protected:
  SessionLoad() { EXPECT_EQ(client_.open_store(scratch_.store()), 0) << penstock_last_error(); }
  ~SessionLoad() override { penstock_close(std::exchange(client_.session, nullptr)); }

  ModelFile put(const std::string& path,
                const std::vector<std::pair<std::string, uint64_t>>& sizes) {
    ModelFile file = ModelFile::make(sizes, {{"format", "pt"}});
    if (client_.region == nullptr) client_.prepare(4 * kMiB);
    const penstock_file handle = client_.open(path, O_RDWR | O_CREAT);
    EXPECT_GE(handle, 0) << penstock_last_error();
    for (uint64_t at = 0; at < file.bytes.size(); at += 4 * kMiB) {
      const uint64_t length = std::min(file.bytes.size() - at, 4 * kMiB);
      std::memcpy(client_.memory(), file.bytes.data() + at, length);
      EXPECT_EQ(client_.run(client_.io(PENSTOCK_WRITE, handle, at, length)),
                static_cast<int64_t>(length));
    }
    EXPECT_EQ(penstock_file_close(client_.session, handle), 0);
    return file;
  }

  Client client_;
};

TEST_F(SessionLoad, every_tensor_arrives_on_every_gpu) {
  const ModelFile a = put("/a", {{"first", 21 * kMiB + 1}, {"odd", 77'777}, {"empty", 0}});
  const ModelFile b = put("/b", {{"second", 3 * kMiB}, {"tiny", 1}, {"small", 1000}});
  for (int round = 0; round < 2; ++round) {
    Loaded loaded;
    ASSERT_EQ(loaded.load(client_.session, {"/a", "/b"}, {0, 2, 3}), 0) << penstock_last_error();
    for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(holds(loaded.model, i, {&a, &b}));
  }
  EXPECT_TRUE(all_memory_is_free());
}

TEST_F(SessionLoad, many_links_share_what_transfers_there_are) {
  replace_devices(nullptr);
  sim::SimDeviceMemory many(random_, {.devices = 12, .memory_bytes = 80 * kMiB});
  replace_devices(&many);
  const ModelFile a = put("/a", {{"x", 30 * kMiB}});
  penstock_load_options options{};
  options.lend_all = 1;
  {
    Loaded loaded;
    ASSERT_EQ(loaded.load(client_.session, {"/a"}, {7}, options), 0) << penstock_last_error();
    penstock_model_traffic traffic{};
    ASSERT_EQ(penstock_model_get_traffic(loaded.model, &traffic), 0);
    EXPECT_EQ(traffic.links, 12U);
    std::vector<std::byte> got(30 * kMiB);
    many.peek(static_cast<std::byte*>(penstock_model_base(loaded.model, 0, nullptr)), got);
    EXPECT_TRUE(test::is_content({got.data(), got.size()}, ModelFile::seed_of("x")));
  }
  penstock_close(std::exchange(client_.session, nullptr));
  replace_devices(nullptr);
}

TEST_F(SessionLoad, bytes_that_do_not_verify_end_the_load) {
  put("/a", {{"x", 5 * kMiB}});
  gpus_.faults.flip_permille = 1000;
  Loaded loaded;
  EXPECT_EQ(loaded.load(client_.session, {"/a"}, {0, 1}), -EIO);
  EXPECT_THAT(penstock_last_error(), HasSubstr("/a: the bytes at "));
  EXPECT_THAT(penstock_last_error(), HasSubstr("do not verify in the memory of GPU"));
  EXPECT_TRUE(all_memory_is_free());
}

TEST_F(SessionLoad, file_that_is_written_meanwhile_is_an_error) {
  put("/a", {{"x", 20 * kMiB}});
  const penstock_file file = client_.open("/a", O_RDWR);
  struct Writer {
    Client* client;
    penstock_file file;
  } writer{&client_, file};
  penstock_load_options options{};
  options.context = &writer;
  options.progress = [](void* context, uint64_t, uint64_t) {
    auto& its = *static_cast<Writer*>(context);
    return its.client->run(its.client->io(PENSTOCK_WRITE, its.file, 10 * kMiB, 1)) == 1 ? 0 : 1;
  };
  Loaded loaded;
  EXPECT_EQ(loaded.load(client_.session, {"/a"}, {0}, options), -EIO);
  EXPECT_THAT(penstock_last_error(), HasSubstr("/a: was changed while it was read"));
  EXPECT_TRUE(all_memory_is_free());
}

TEST_F(SessionLoad, that_could_not_begin_leaves_no_rings_and_regions) {
  const ModelFile a = put("/a", {{"x", 100}});
  // Few are left, so that few tries tell.
  for (uint32_t taken = 1; taken < wire::kRingsMax - 2; ++taken) {
    penstock_ring* ring = nullptr;
    ASSERT_EQ(penstock_ring_create(client_.session, 1, 1, &ring), 0) << penstock_last_error();
  }
  gpus_.faults.pins_nothing = true;
  for (int i = 0; i < 4; ++i) {
    Loaded loaded;
    ASSERT_EQ(loaded.load(client_.session, {"/a"}, {0}), -ENOMEM) << penstock_last_error();
  }
  gpus_.faults.pins_nothing = false;
  Loaded loaded;
  ASSERT_EQ(loaded.load(client_.session, {"/a"}, {0}), 0) << penstock_last_error();
  EXPECT_TRUE(holds(loaded.model, 0, {&a}));
}

TEST_F(SessionLoad, paths_are_those_of_the_file_system) {
  Loaded loaded;
  EXPECT_EQ(loaded.load(client_.session, {"/none"}, {0}), -ENOENT);
  EXPECT_EQ(loaded.load(client_.session, {"relative"}, {0}), -EINVAL);
  EXPECT_THAT(penstock_last_error(), HasSubstr("not an absolute path"));
  EXPECT_EQ(loaded.load(client_.session, {"/"}, {0}), -EISDIR);
}

// Files of an agent with a node cache, in another process.
class AgentLoad : public SessionLoad {
 protected:
  AgentLoad() {
    penstock_close(std::exchange(client_.session, nullptr));
    EXPECT_TRUE(agent_.start());
    EXPECT_EQ(client_.connect(scratch_.store()), 0) << penstock_last_error();
  }
  ~AgentLoad() override { penstock_close(std::exchange(client_.session, nullptr)); }

  void warm(const std::string& path, uint64_t bytes) {
    const penstock_file file = client_.open(path, O_RDONLY);
    penstock_io io{};
    io.operation = PENSTOCK_WARM;
    io.file = file;
    io.length = bytes;
    EXPECT_EQ(client_.run(io), static_cast<int64_t>(bytes));
    penstock_file_close(client_.session, file);
  }

  test::AgentProcess agent_{scratch_.store(), 64 * kMiB};
};

TEST_F(AgentLoad, what_the_node_cache_holds_comes_from_there) {
  const ModelFile a = put("/a", {{"x", 30 * kMiB}, {"y", 5001}});
  warm("/a", a.bytes.size());
  penstock_model_traffic traffic{};
  const uint64_t end = Client::in_seconds(60);
  do {
    Loaded loaded;
    ASSERT_EQ(loaded.load(client_.session, {"/a"}, {0, 1}), 0) << penstock_last_error();
    EXPECT_TRUE(holds(loaded.model, 0, {&a}));
    EXPECT_TRUE(holds(loaded.model, 1, {&a}));
    ASSERT_EQ(penstock_model_get_traffic(loaded.model, &traffic), 0);
  } while (traffic.by_route[PENSTOCK_ROUTE_DEVICE_SLOTS] > 0 && penstock_now() < end);
  EXPECT_EQ(traffic.by_route[PENSTOCK_ROUTE_DEVICE_SLOTS], 0U);
  EXPECT_EQ(traffic.by_route[PENSTOCK_ROUTE_DEVICE_CACHE] +
                traffic.by_route[PENSTOCK_ROUTE_DEVICE_GATHER],
            traffic.bytes);
}

TEST_F(AgentLoad, successor_of_a_killed_agent_goes_on) {
  const ModelFile a = put("/a", {{"x", 100 * kMiB}});
  gpus_.faults.delay_min = gpus_.faults.delay_max = std::chrono::milliseconds(2);
  ASSERT_EQ(penstock_sync(client_.session), 0);
  struct Killer {
    test::AgentProcess* agent;
    bool done = false;
  } killer{&agent_};
  penstock_load_options options{};
  options.context = &killer;
  options.progress = [](void* context, uint64_t, uint64_t) {
    auto& its = *static_cast<Killer*>(context);
    if (!its.done) {
      its.agent->kill();
      its.done = its.agent->start();
    }
    return 0;
  };
  Loaded loaded;
  ASSERT_EQ(loaded.load(client_.session, {"/a"}, {0, 1}, options), 0) << penstock_last_error();
  EXPECT_TRUE(killer.done);
  EXPECT_TRUE(holds(loaded.model, 0, {&a}));
  EXPECT_TRUE(holds(loaded.model, 1, {&a}));
}

}  // namespace
}  // namespace penstock::api
