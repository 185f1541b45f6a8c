// Saving models through the C interface, with simulated GPUs.
#include "agent_proxy.h"
#include "model_rig.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <iterator>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/testing_node.h"

namespace penstock::api {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Tensors in GPU or host memory, as penstock_save() wants them.
class Tensors {
 public:
  explicit Tensors(sim::SimDeviceMemory& gpus) : gpus_(gpus) {}

  // `gpu` < 0: host memory.
  void add(const std::string& name, uint64_t bytes, int gpu, const char* dtype = "U8",
           uint64_t element = 1) {
    One& one = *all_.emplace_back(std::make_unique<One>());
    one.name = name;
    one.shape = {bytes / element};
    one.host.resize(bytes);
    test::fill({one.host.data(), bytes}, ModelFile::seed_of(name));
    penstock_save_tensor given{};
    given.name = one.name.c_str();
    given.dtype = dtype;
    given.shape = one.shape.data();
    given.rank = 1;
    given.data = one.host.data();
    if (gpu >= 0) {
      const auto span = gpus_.allocate(engine::DeviceId(static_cast<uint32_t>(gpu)), bytes + 3);
      EXPECT_TRUE(span);
      gpus_.poke(span->data + 3, one.host);
      given.data = span->data + 3;
    }
    given_.push_back(given);
  }
  int save(penstock_session* session, const std::string& path, penstock_save_options options = {}) {
    options.size = sizeof options;
    static const char* const kMetadata[] = {"format", "pt", "step", "1000"};
    options.metadata = kMetadata;
    options.metadata_pairs = 2;
    return penstock_save(session, path.c_str(), given_.data(), given_.size(), &options);
  }
  // What a load must find.
  ModelFile expected() const {
    ModelFile out;
    for (const auto& one : all_)
      out.tensors.push_back({.name = one->name, .bytes = one->host.size()});
    return out;
  }
  std::vector<penstock_save_tensor>& given() { return given_; }

 private:
  struct One {
    std::string name;
    std::vector<uint64_t> shape;
    std::vector<std::byte> host;
  };
  sim::SimDeviceMemory& gpus_;
  std::vector<std::unique_ptr<One>> all_;
  std::vector<penstock_save_tensor> given_;
};

class Save : public ModelTest {
 protected:
  std::string path(const std::string& name) const { return scratch_.path() + "/" + name; }
  void add_some(Tensors& tensors) {
    tensors.add("large", 37 * kMiB + 5, 1);
    tensors.add("words", 4096 * 8, 0, "I64", 8);
    tensors.add("host", 5 * kMiB + 1, -1);
    tensors.add("empty", 0, -1);
    tensors.add("halves", 6, 2, "BF16", 2);
  }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(scratch_.path()), {}));
  }
};

TEST_F(Save, file_holds_every_tensor_and_the_metadata) {
  Tensors tensors(gpus_);
  add_some(tensors);
  ASSERT_EQ(tensors.save(nullptr, path("out")), 0) << penstock_last_error();
  EXPECT_EQ(entries(), 1U);
  Loaded loaded;
  ASSERT_EQ(loaded.load(nullptr, {path("out")}, {3}), 0) << penstock_last_error();
  const ModelFile expected = tensors.expected();
  EXPECT_TRUE(holds(loaded.model, 0, {&expected}));
  EXPECT_STREQ(penstock_model_metadata(loaded.model, 0, "step"), "1000");
  penstock_tensor tensor{};
  ASSERT_EQ(penstock_model_tensor(loaded.model, 0, &tensor), 0);
  EXPECT_STREQ(tensor.name, "words");
  EXPECT_STREQ(tensor.dtype, "I64");
  EXPECT_EQ(tensor.shape[0], 4096U);
}

TEST_F(Save, session_file_holds_every_tensor) {
  Client client;
  ASSERT_EQ(client.open_store(scratch_.store()), 0);
  Tensors tensors(gpus_);
  add_some(tensors);
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(tensors.save(client.session, "/out"), 0) << penstock_last_error();
    Loaded loaded;
    ASSERT_EQ(loaded.load(client.session, {"/out"}, {3}), 0) << penstock_last_error();
    const ModelFile expected = tensors.expected();
    EXPECT_TRUE(holds(loaded.model, 0, {&expected}));
  }
  int count = 0;
  const auto visit = [](void* context, const char*, uint64_t, unsigned char) {
    ++*static_cast<int*>(context);
    return 0;
  };
  ASSERT_EQ(penstock_list(client.session, "/", visit, &count), 0);
  EXPECT_EQ(count, 1);
}

TEST_F(Save, failure_on_the_way_leaves_the_old_file_and_nothing_else) {
  write_local(path("out"), "the old one");
  Tensors tensors(gpus_);
  add_some(tensors);
  gpus_.lose(engine::DeviceId(1));
  EXPECT_EQ(tensors.save(nullptr, path("out")), -EIO);
  EXPECT_THAT(penstock_last_error(), HasSubstr("write tensor 'large' from the memory of GPU 1"));
  EXPECT_EQ(content_of(path("out")), "the old one");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Save, cancelled_or_late_save_leaves_the_old_file) {
  write_local(path("out"), "the old one");
  Tensors tensors(gpus_);
  add_some(tensors);
  penstock_save_options options{};
  options.progress = [](void*, uint64_t, uint64_t) { return 1; };
  EXPECT_EQ(tensors.save(nullptr, path("out"), options), -ECANCELED);
  options.progress = nullptr;
  gpus_.faults.delay_min = gpus_.faults.delay_max = std::chrono::milliseconds(20);
  options.deadline = penstock_now() + 30'000'000;
  EXPECT_EQ(tensors.save(nullptr, path("out"), options), -ETIMEDOUT);
  EXPECT_EQ(content_of(path("out")), "the old one");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Save, failure_in_a_session_leaves_the_old_file_and_nothing_else) {
  Client client;
  ASSERT_EQ(client.open_store(scratch_.store()), 0);
  Tensors old(gpus_);
  old.add("x", 1000, 0);
  ASSERT_EQ(old.save(client.session, "/out"), 0) << penstock_last_error();
  Tensors tensors(gpus_);
  add_some(tensors);
  gpus_.lose(engine::DeviceId(1));
  EXPECT_EQ(tensors.save(client.session, "/out"), -EIO);
  Loaded loaded;
  ASSERT_EQ(loaded.load(client.session, {"/out"}, {3}), 0) << penstock_last_error();
  const ModelFile expected = old.expected();
  EXPECT_TRUE(holds(loaded.model, 0, {&expected}));
  int count = 0;
  const auto visit = [](void* context, const char*, uint64_t, unsigned char) {
    ++*static_cast<int*>(context);
    return 0;
  };
  ASSERT_EQ(penstock_list(client.session, "/", visit, &count), 0);
  EXPECT_EQ(count, 1);
}

TEST_F(Save, tensors_that_no_file_can_hold_are_refused) {
  const auto refused = [&](auto change) {
    Tensors tensors(gpus_);
    tensors.add("x", 4096, 0);
    tensors.add("y", 10, -1);
    change(tensors.given());
    const int error = tensors.save(nullptr, path("out"));
    EXPECT_EQ(entries(), 0U) << penstock_last_error();
    return error;
  };
  static const uint64_t kHuge[] = {UINT64_MAX / 2, 9};
  static const uint64_t kMore = 100'000;
  using Given = std::vector<penstock_save_tensor>;
  EXPECT_EQ(refused([](Given& all) { all[1].name = all[0].name; }), -EINVAL);
  EXPECT_THAT(penstock_last_error(), HasSubstr("'x': the name comes twice"));
  EXPECT_EQ(refused([](Given& all) { all[1].name = "__metadata__"; }), -EINVAL);
  EXPECT_EQ(refused([](Given& all) { all[1].name = "\xff"; }), -EINVAL);
  EXPECT_EQ(refused([](Given& all) { all[1].name = nullptr; }), -EINVAL);
  EXPECT_EQ(refused([](Given& all) { all[1].dtype = "U7"; }), -EINVAL);
  EXPECT_EQ(refused([](Given& all) { all[1].shape = kHuge, all[1].rank = 2; }), -EINVAL);
  EXPECT_EQ(refused([](Given& all) { all[1].rank = 65; }), -EINVAL);
  EXPECT_EQ(refused([](Given& all) { all[1].shape = nullptr; }), -EINVAL);
  EXPECT_EQ(refused([](Given& all) { all[1].data = nullptr; }), -EINVAL);
  EXPECT_EQ(refused([](Given& all) { all[0].shape = &kMore; }), -EINVAL);
  EXPECT_THAT(penstock_last_error(), HasSubstr("leaves its allocation"));
  EXPECT_EQ(refused([](Given& all) { all[0].reserved = 1; }), -EINVAL);
  EXPECT_THAT(penstock_last_error(), HasSubstr("must be 0"));
}

TEST_F(Save, memory_is_refused_when_the_driver_cannot_tell_whose_it_is) {
  Tensors tensors(gpus_);
  tensors.add("x", 100, 0);
  gpus_.faults.driver_broken = true;
  EXPECT_EQ(tensors.save(nullptr, path("out")), -EIO);
  EXPECT_THAT(penstock_last_error(), HasSubstr("tensor 'x': CUDA does not tell whose memory"));
  gpus_.faults.driver_broken = false;
  EXPECT_EQ(entries(), 0U);
}

TEST_F(Save, places_where_no_file_can_be_are_refused) {
  Tensors tensors(gpus_);
  tensors.add("x", 10, -1);
  EXPECT_EQ(tensors.save(nullptr, path("no/such/out")), -ENOENT);
  EXPECT_EQ(tensors.save(nullptr, scratch_.path()), -EISDIR);
  EXPECT_EQ(tensors.save(nullptr, scratch_.path() + "/"), -EISDIR);
  EXPECT_EQ(penstock_save(nullptr, nullptr, nullptr, 0, nullptr), -EINVAL);
  const uint64_t shape = 8;
  const penstock_save_tensor nowhere{"x", "U8", &shape, 1, 0, reinterpret_cast<const void*>(8)};
  EXPECT_EQ(penstock_save(nullptr, path("out").c_str(), &nowhere, 1, nullptr), -EINVAL);
  EXPECT_EQ(penstock_save(nullptr, path("none").c_str(), nullptr, 0, nullptr), 0)
      << penstock_last_error();
  Loaded loaded;
  EXPECT_EQ(loaded.load(nullptr, {path("none")}, {0}), 0) << penstock_last_error();
  EXPECT_EQ(penstock_model_tensors(loaded.model), 0U);
}

TEST_F(Save, what_is_no_file_is_not_replaced) {
  Tensors tensors(gpus_);
  tensors.add("x", 10, -1);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(tensors.save(nullptr, path("pipe")), -EINVAL);
  struct stat facts {};
  ASSERT_EQ(::lstat(path("pipe").c_str(), &facts), 0);
  EXPECT_TRUE(S_ISFIFO(facts.st_mode));
  // A link stays, and what it names is replaced; who may read that is not changed.
  ASSERT_EQ(tensors.save(nullptr, path("real")), 0);
  ASSERT_EQ(::chmod(path("real").c_str(), 0640), 0);
  ASSERT_EQ(::symlink("real", path("link").c_str()), 0);
  tensors.add("y", 10, -1);
  ASSERT_EQ(tensors.save(nullptr, path("link")), 0) << penstock_last_error();
  ASSERT_EQ(::lstat(path("link").c_str(), &facts), 0);
  EXPECT_TRUE(S_ISLNK(facts.st_mode));
  ASSERT_EQ(::lstat(path("real").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0640U);
  Loaded loaded;
  ASSERT_EQ(loaded.load(nullptr, {path("real")}, {0}), 0) << penstock_last_error();
  EXPECT_EQ(penstock_model_tensors(loaded.model), 2U);
  ASSERT_EQ(::symlink("nowhere", path("dangling").c_str()), 0);
  EXPECT_EQ(tensors.save(nullptr, path("dangling")), -ENOENT);
}

// A real process that saves over and over, killed at any moment.
TEST_F(Save, killed_process_leaves_the_old_file_or_the_new_one) {
  engine::SeededRandom random(7);
  for (int round = 0; round < 30; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // Host memory alone: a child has no threads but its own.
      std::vector<std::byte> bytes(3 * kMiB);
      for (uint64_t version = 0;; ++version) {
        std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(version));
        const uint64_t shape = bytes.size();
        penstock_save_tensor tensor{};
        tensor.name = "x";
        tensor.dtype = "U8";
        tensor.shape = &shape;
        tensor.rank = 1;
        tensor.data = bytes.data();
        if (penstock_save(nullptr, path("out").c_str(), &tensor, 1, nullptr) != 0) ::_exit(1);
      }
    }
    // The first one is let finish a save.
    if (round == 0) {
      EXPECT_TRUE(test::eventually([&] { return fs::exists(path("out")); }));
    }
    ::usleep(static_cast<useconds_t>(3000 + random.below(20'000)));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the saving process ended by itself";
    Loaded loaded;
    ASSERT_EQ(loaded.load(nullptr, {path("out")}, {0}), 0) << penstock_last_error();
    std::vector<std::byte> got(3 * kMiB);
    gpus_.peek(static_cast<std::byte*>(penstock_model_base(loaded.model, 0, nullptr)), got);
    EXPECT_TRUE(std::all_of(got.begin(), got.end(), [&](std::byte b) { return b == got[0]; }));
  }
}

// The agent of a session is killed in the middle, and a successor takes over.
TEST_F(Save, killed_agent_fails_the_save_and_leaves_the_old_file) {
  test::AgentProcess agent(scratch_.store());
  ASSERT_TRUE(agent.start());
  Client client;
  ASSERT_EQ(client.connect(scratch_.store()), 0) << penstock_last_error();
  Tensors old(gpus_);
  old.add("x", 12 * kMiB, 0);
  ASSERT_EQ(old.save(client.session, "/out"), 0) << penstock_last_error();
  Tensors next(gpus_);
  next.add("x", 12 * kMiB, 1);
  next.add("y", 4 * kMiB, -1);
  struct Killer {
    test::AgentProcess* agent;
    bool done = false;
  } killer{&agent};
  penstock_save_options options{};
  options.context = &killer;
  options.progress = [](void* context, uint64_t, uint64_t) {
    auto& its = *static_cast<Killer*>(context);
    if (!its.done) {
      its.agent->kill();
      its.done = its.agent->start();
    }
    return 0;
  };
  const int saved = next.save(client.session, "/out", options);
  ASSERT_TRUE(killer.done);
  // What the first agent had taken is gone, and nobody may be told that it is safe.
  EXPECT_EQ(saved, -ECONNRESET);
  EXPECT_THAT(penstock_last_error(), HasSubstr("save it again"));
  Loaded loaded;
  ASSERT_EQ(loaded.load(client.session, {"/out"}, {3}), 0) << penstock_last_error();
  const ModelFile expected = old.expected();
  EXPECT_TRUE(holds(loaded.model, 0, {&expected}));
}

// The connection ends in the middle of the rename, before or after the agent has made it.
class SaveRenamed : public Save {
 protected:
  SaveRenamed() {
    EXPECT_TRUE(agent_.start());
    proxy_.emplace(path("proxy.sock"), scratch_.store() + "/agent.sock");
    EXPECT_EQ(client_.connect(path("proxy.sock")), 0) << penstock_last_error();
    old_.add("x", kMiB, 0);
    EXPECT_EQ(old_.save(client_.session, "/out"), 0) << penstock_last_error();
    next_.add("y", 2 * kMiB, 1);
  }
  ~SaveRenamed() override { penstock_close(std::exchange(client_.session, nullptr)); }

  testing::AssertionResult file_holds(const Tensors& tensors) {
    Loaded loaded;
    if (loaded.load(client_.session, {"/out"}, {3}) != 0) {
      return testing::AssertionFailure() << penstock_last_error();
    }
    const ModelFile expected = tensors.expected();
    return holds(loaded.model, 0, {&expected});
  }
  int files() const {
    int count = 0;
    const auto add = [](void* context, const char*, uint64_t, unsigned char) {
      ++*static_cast<int*>(context);
      return 0;
    };
    EXPECT_EQ(penstock_list(client_.session, "/", add, &count), 0);
    return count;
  }

  test::AgentProcess agent_{scratch_.store()};
  std::optional<AgentProxy> proxy_;
  Client client_;
  Tensors old_{gpus_};
  Tensors next_{gpus_};
};

TEST_F(SaveRenamed, answer_that_is_lost_changes_nothing) {
  const int files_before = files();
  proxy_->loses_rename = true;
  EXPECT_EQ(next_.save(client_.session, "/out"), 0) << penstock_last_error();
  EXPECT_FALSE(proxy_->loses_rename);
  EXPECT_TRUE(file_holds(next_));
  EXPECT_EQ(files(), files_before);
}

TEST_F(SaveRenamed, request_that_is_lost_leaves_the_old_file) {
  const int files_before = files();
  proxy_->loses_request = true;
  EXPECT_EQ(next_.save(client_.session, "/out"), -ECONNRESET);
  EXPECT_FALSE(proxy_->loses_request);
  EXPECT_TRUE(file_holds(old_));
  EXPECT_EQ(files(), files_before);
}

TEST_F(SaveRenamed, answer_that_never_comes_is_told_apart_from_a_failure) {
  penstock_close(std::exchange(client_.session, nullptr));
  // Nobody will be there to be asked: the session dies.
  ::setenv("PENSTOCK_RECONNECT_SECONDS", "0", 1);
  Client other;
  ASSERT_EQ(other.connect(path("proxy.sock")), 0) << penstock_last_error();
  ::unsetenv("PENSTOCK_RECONNECT_SECONDS");
  proxy_->takes_nobody = true;
  proxy_->loses_rename = true;
  EXPECT_EQ(next_.save(other.session, "/out"), -EIO);
  EXPECT_THAT(penstock_last_error(), HasSubstr("/out has its old content or, whole, the new one"));
}

// One that neither answers nor dies.
TEST_F(SaveRenamed, agent_that_hangs_holds_nobody_beyond_the_deadline) {
  Tensors host(gpus_);
  host.add("x", 32 * kMiB, -1);
  penstock_save_options options{};
  options.deadline = Client::in_seconds(1);
  options.context = &agent_;
  options.progress = [](void* context, uint64_t, uint64_t) {
    static_cast<test::AgentProcess*>(context)->pause();
    return 0;
  };
  // It returns at all, while the agent still hangs.
  EXPECT_EQ(host.save(client_.session, "/out", options), -ETIMEDOUT) << penstock_last_error();
  agent_.resume();
}

}  // namespace
}  // namespace penstock::api
