// Loading models of files of the operating system through the C interface, with simulated GPUs.
#include "model_rig.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <thread>

namespace penstock::api {
namespace {

using testing::HasSubstr;

class LocalLoad : public ModelTest {
 protected:
  std::string path(const std::string& name) const { return scratch_.path() + "/" + name; }
  ModelFile put(const std::string& name,
                const std::vector<std::pair<std::string, uint64_t>>& sizes) const {
    ModelFile file = ModelFile::make(sizes, {{"format", "pt"}, {"name", name}});
    write_local(path(name), file.bytes);
    return file;
  }
};

TEST_F(LocalLoad, every_tensor_arrives_on_every_gpu) {
  const ModelFile a = put("a", {{"first", 40 * kMiB + 123}, {"odd", 77'777}, {"empty", 0}});
  const ModelFile b = put("b", {{"second", 20 * kMiB}, {"tiny", 1}});
  for (uint32_t count = 1; count <= 4; ++count) {
    std::vector<int32_t> gpus;
    for (uint32_t i = 0; i < count; ++i) gpus.push_back(static_cast<int32_t>(3 - i));
    Loaded loaded;
    ASSERT_EQ(loaded.load(nullptr, {path("a"), path("b")}, gpus), 0) << penstock_last_error();
    for (uint32_t i = 0; i < count; ++i) EXPECT_TRUE(holds(loaded.model, i, {&a, &b}));
    EXPECT_EQ(penstock_model_base(loaded.model, count, nullptr), nullptr);
    penstock_model_traffic traffic{};
    ASSERT_EQ(penstock_model_get_traffic(loaded.model, &traffic), 0);
    const uint64_t bytes = 60 * kMiB + 123 + 77'777 + 1;
    EXPECT_EQ(traffic.bytes, bytes);
    EXPECT_EQ(traffic.links, count);
    // Read once, and copied to all others.
    EXPECT_EQ(traffic.by_route[PENSTOCK_ROUTE_DEVICE_SLOTS], bytes);
    EXPECT_EQ(traffic.by_route[PENSTOCK_ROUTE_DEVICE_PEER], (count - 1) * bytes);
  }
  EXPECT_TRUE(all_memory_is_free());
}

TEST_F(LocalLoad, what_was_loaded_is_described) {
  const ModelFile a = put("a", {{"x", 1000}, {"y", 24}});
  const ModelFile b = put("b", {{"z", 5}});
  Loaded loaded;
  penstock_load_options options{};
  options.alignment = 512;
  ASSERT_EQ(loaded.load(nullptr, {path("a"), path("b")}, {1}, options), 0) << penstock_last_error();
  ASSERT_EQ(penstock_model_tensors(loaded.model), 3U);
  penstock_tensor tensor{};
  ASSERT_EQ(penstock_model_tensor(loaded.model, 1, &tensor), 0);
  EXPECT_STREQ(tensor.name, "y");
  EXPECT_STREQ(tensor.dtype, "U8");
  ASSERT_EQ(tensor.rank, 1U);
  EXPECT_EQ(tensor.shape[0], 24U);
  EXPECT_EQ(tensor.offset % 512, 0U);
  ASSERT_EQ(penstock_model_find(loaded.model, "z", &tensor), 0);
  EXPECT_EQ(tensor.file, 1U);
  EXPECT_EQ(penstock_model_find(loaded.model, "no", &tensor), -ENOENT);
  EXPECT_THAT(penstock_last_error(), HasSubstr("no tensor 'no'"));
  EXPECT_EQ(penstock_model_tensor(loaded.model, 3, &tensor), -EINVAL);
  EXPECT_STREQ(penstock_model_metadata(loaded.model, 1, "name"), "b");
  EXPECT_EQ(penstock_model_metadata(loaded.model, 1, "nothing"), nullptr);
  EXPECT_EQ(penstock_model_metadata(loaded.model, 2, "name"), nullptr);
}

TEST_F(LocalLoad, memory_of_a_model_goes_to_other_processes_and_into_regions) {
  const ModelFile a = put("a", {{"x", 300'000}});
  Loaded loaded;
  ASSERT_EQ(loaded.load(nullptr, {path("a")}, {2}), 0) << penstock_last_error();
  Client client;
  ASSERT_EQ(client.open_store(scratch_.store()), 0);
  penstock_device_handle handle{};
  ASSERT_EQ(penstock_model_export(loaded.model, 0, &handle), 0) << penstock_last_error();
  penstock_region* region = nullptr;
  ASSERT_EQ(penstock_region_import(client.session, &handle, &region), 0) << penstock_last_error();
  EXPECT_EQ(penstock_region_base(region), penstock_model_base(loaded.model, 0, nullptr));
  EXPECT_EQ(penstock_region_gpu(region), 2);
  EXPECT_EQ(penstock_model_export(loaded.model, 1, &handle), -EINVAL);
  ::close(handle.fd);
}

TEST_F(LocalLoad, lenders_carry_a_part_and_keep_nothing) {
  const ModelFile a = put("a", {{"x", 90 * kMiB}});
  penstock_load_options options{};
  options.lend_all = 1;
  Loaded loaded;
  ASSERT_EQ(loaded.load(nullptr, {path("a")}, {0}, options), 0) << penstock_last_error();
  EXPECT_TRUE(holds(loaded.model, 0, {&a}));
  uint64_t sum = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    penstock_model_link link{};
    ASSERT_EQ(penstock_model_get_link(loaded.model, i, &link), 0);
    EXPECT_EQ(link.gpu, static_cast<int32_t>(i));
    EXPECT_EQ(link.lends, i > 0 ? 1U : 0U);
    EXPECT_EQ(link.forwarded, i > 0 ? link.bytes : 0U);
    EXPECT_GT(link.bytes, 0U);
    sum += link.bytes;
  }
  EXPECT_EQ(sum, 90 * kMiB);
  penstock_model_free(std::exchange(loaded.model, nullptr));
  EXPECT_TRUE(all_memory_is_free());
}

TEST_F(LocalLoad, files_that_are_no_models_are_refused_with_their_name) {
  write_local(path("text"), "hello, I am no model at all");
  write_local(path("short"), "1234");
  ModelFile cut = ModelFile::make({{"x", 5000}});
  cut.bytes.resize(cut.bytes.size() - 1);
  write_local(path("cut"), cut.bytes);
  std::string huge(16, '\0');
  huge[7] = '\x10';
  write_local(path("huge"), huge);
  for (const char* const name : {"text", "short", "cut", "huge"}) {
    Loaded loaded;
    EXPECT_EQ(loaded.load(nullptr, {path(name)}, {0}), -EIO);
    EXPECT_THAT(penstock_last_error(), HasSubstr(path(name) + ": not a safetensors file"));
  }
  Loaded loaded;
  EXPECT_EQ(loaded.load(nullptr, {path("missing")}, {0}), -ENOENT);
  EXPECT_THAT(penstock_last_error(), HasSubstr(path("missing")));
  EXPECT_EQ(loaded.load(nullptr, {scratch_.path()}, {0}), -EISDIR);
}

TEST_F(LocalLoad, tensor_that_two_files_have_is_refused_with_both_names) {
  put("a", {{"x", 100}, {"same", 5}});
  put("b", {{"same", 5}});
  Loaded loaded;
  EXPECT_EQ(loaded.load(nullptr, {path("a"), path("b")}, {0}), -EEXIST);
  EXPECT_THAT(penstock_last_error(), HasSubstr("'same'"));
  EXPECT_THAT(penstock_last_error(), HasSubstr(path("a")));
  EXPECT_THAT(penstock_last_error(), HasSubstr(path("b")));
}

TEST_F(LocalLoad, options_that_make_no_sense_are_refused) {
  put("a", {{"x", 100}});
  const auto refused = [&](auto change) {
    penstock_load_options options{};
    options.size = sizeof options;
    change(options);
    Loaded loaded;
    return loaded.load(nullptr, {path("a")}, {0, 1}, options);
  };
  static const int32_t kNine = 9;
  static const int32_t kOne = 1;
  static const int32_t kNegative = -1;
  static const int32_t kTwice[] = {2, 2};
  const auto gpu = [](const int32_t* list, uint32_t count) {
    return [=](penstock_load_options& o) { o.gpus = list, o.gpu_count = count; };
  };
  EXPECT_EQ(refused([](penstock_load_options&) {}), 0);
  EXPECT_EQ(refused(gpu(&kNine, 1)), -EINVAL);
  EXPECT_THAT(penstock_last_error(), HasSubstr("GPU 9: there are 4"));
  EXPECT_EQ(refused(gpu(&kNegative, 1)), -EINVAL);
  EXPECT_EQ(refused(gpu(kTwice, 2)), -EINVAL);
  EXPECT_THAT(penstock_last_error(), HasSubstr("named twice"));
  EXPECT_EQ(refused(gpu(nullptr, 1)), -EINVAL);
  EXPECT_EQ(refused([](auto& o) { o.alignment = 3; }), -EINVAL);
  EXPECT_EQ(refused([](auto& o) { o.alignment = 8192; }), -EINVAL);
  EXPECT_EQ(refused([](auto& o) { o.lenders = &kOne, o.lender_count = 1; }), -EINVAL);
  EXPECT_EQ(refused([](auto& o) { o.lend_all = 2; }), -EINVAL);
  EXPECT_EQ(refused([](auto& o) { o.threads = 100'000; }), -EINVAL);
  EXPECT_EQ(refused([](auto& o) { o.size = 3; }), -EINVAL);
  EXPECT_EQ(refused([](auto& o) { o.size += 8; }), -EINVAL);
  EXPECT_EQ(penstock_load(nullptr, nullptr, 0, nullptr, nullptr), -EINVAL);
}

TEST_F(LocalLoad, full_gpu_is_an_error_and_leaves_nothing) {
  put("a", {{"x", 50 * kMiB}});
  const auto taken = gpus_.allocate(engine::DeviceId(1), 120 * kMiB);
  ASSERT_TRUE(taken);
  Loaded loaded;
  EXPECT_EQ(loaded.load(nullptr, {path("a")}, {0, 1}), -ENOMEM);
  EXPECT_THAT(penstock_last_error(), HasSubstr("GPU 1"));
  ASSERT_TRUE(gpus_.release(*taken).ok());
  EXPECT_TRUE(all_memory_is_free());
}

TEST_F(LocalLoad, progress_is_told_and_can_end_the_load) {
  put("a", {{"x", 60 * kMiB}});
  struct Seen {
    uint64_t last = 0;
    uint64_t total = 0;
    bool forward = true;
    int answer = 0;
  } seen;
  penstock_load_options options{};
  options.context = &seen;
  options.progress = [](void* context, uint64_t done, uint64_t total) {
    auto& its = *static_cast<Seen*>(context);
    its.forward = its.forward && done >= its.last;
    its.last = done;
    its.total = total;
    return its.answer;
  };
  {
    Loaded loaded;
    ASSERT_EQ(loaded.load(nullptr, {path("a")}, {0}, options), 0) << penstock_last_error();
    EXPECT_EQ(seen.last, 60 * kMiB);
    EXPECT_EQ(seen.total, 60 * kMiB);
    EXPECT_TRUE(seen.forward);
  }
  seen.answer = 1;
  Loaded loaded;
  EXPECT_EQ(loaded.load(nullptr, {path("a")}, {0}, options), -ECANCELED);
  EXPECT_TRUE(all_memory_is_free());
}

TEST_F(LocalLoad, deadline_ends_the_load) {
  put("a", {{"x", 100 * kMiB}});
  gpus_.faults.delay_min = gpus_.faults.delay_max = std::chrono::milliseconds(20);
  penstock_load_options options{};
  options.deadline = penstock_now() + 30'000'000;
  Loaded loaded;
  EXPECT_EQ(loaded.load(nullptr, {path("a")}, {0}, options), -ETIMEDOUT);
  EXPECT_TRUE(all_memory_is_free());
}

TEST_F(LocalLoad, lost_gpu_is_an_error) {
  put("a", {{"x", 30 * kMiB}});
  gpus_.lose(engine::DeviceId(1));
  Loaded loaded;
  EXPECT_EQ(loaded.load(nullptr, {path("a")}, {0, 2}), 0) << penstock_last_error();
  gpus_.lose(engine::DeviceId(2));
  Loaded other;
  EXPECT_EQ(other.load(nullptr, {path("a")}, {0, 2}), -EIO);
}

TEST_F(LocalLoad, file_that_becomes_shorter_meanwhile_is_an_error_with_its_place) {
  put("a", {{"x", 100 * kMiB}});
  gpus_.faults.delay_min = gpus_.faults.delay_max = std::chrono::milliseconds(2);
  std::string name = path("a");
  penstock_load_options options{};
  options.context = name.data();
  options.progress = [](void* context, uint64_t, uint64_t) {
    return ::truncate(static_cast<const char*>(context), 60 * kMiB);
  };
  Loaded loaded;
  EXPECT_EQ(loaded.load(nullptr, {name}, {0}, options), -EIO);
  // Pieces behind the new end may be found missing before the one that it cuts.
  const std::string said = penstock_last_error();
  const std::string before_place = name + ": nothing is there any more from byte ";
  ASSERT_THAT(said, HasSubstr(before_place));
  const uint64_t place = std::stoull(said.substr(said.find(before_place) + before_place.size()));
  EXPECT_GE(place, 60 * kMiB);
  EXPECT_LT(place, 100 * kMiB + 4096);
  EXPECT_TRUE(all_memory_is_free());
}

// Their times tell only what is as old as the clock's steps are long.
void let_it_become_older() {
  ::usleep(30'000);
}

TEST_F(LocalLoad, file_that_is_written_meanwhile_is_an_error) {
  put("a", {{"x", 20 * kMiB}});
  let_it_become_older();
  std::string name = path("a");
  penstock_load_options options{};
  options.context = name.data();
  options.progress = [](void* context, uint64_t, uint64_t) {
    const UniqueFd file(::open(static_cast<const char*>(context), O_WRONLY));
    return ::pwrite(file.get(), "x", 1, 10 * kMiB) == 1 ? 0 : 1;
  };
  Loaded loaded;
  EXPECT_EQ(loaded.load(nullptr, {name}, {0}, options), -EIO);
  EXPECT_THAT(penstock_last_error(), HasSubstr(name + ": was changed while it was read"));
  EXPECT_TRUE(all_memory_is_free());
}

TEST_F(LocalLoad, file_that_is_replaced_meanwhile_is_loaded_as_it_was) {
  const ModelFile a = put("a", {{"x", 20 * kMiB}});
  put("b", {{"x", 20 * kMiB}});
  let_it_become_older();
  const std::pair<std::string, std::string> names{path("b"), path("a")};
  penstock_load_options options{};
  options.context = const_cast<std::pair<std::string, std::string>*>(&names);
  options.progress = [](void* context, uint64_t, uint64_t) {
    const auto& its = *static_cast<const std::pair<std::string, std::string>*>(context);
    (void)std::rename(its.first.c_str(), its.second.c_str());
    return 0;
  };
  Loaded loaded;
  ASSERT_EQ(loaded.load(nullptr, {path("a")}, {0}, options), 0) << penstock_last_error();
  EXPECT_TRUE(holds(loaded.model, 0, {&a}));
  EXPECT_NE(::access(path("b").c_str(), F_OK), 0) << "it was replaced";
}

TEST_F(LocalLoad, that_could_not_begin_can_be_tried_again_with_any_number_of_threads) {
  const ModelFile a = put("a", {{"x", 100}});
  const auto load_by = [&](Loaded& loaded, uint32_t threads) {
    penstock_load_options options{};
    options.threads = threads;
    return loaded.load(nullptr, {path("a")}, {0}, options);
  };
  gpus_.faults.pins_nothing = true;
  for (uint32_t threads = 1; threads <= 6; ++threads) {
    Loaded loaded;
    EXPECT_EQ(load_by(loaded, threads), -ENOMEM) << penstock_last_error();
  }
  gpus_.faults.pins_nothing = false;
  Loaded loaded;
  ASSERT_EQ(load_by(loaded, 7), 0) << penstock_last_error();
  EXPECT_TRUE(holds(loaded.model, 0, {&a}));
}

TEST_F(LocalLoad, without_descriptors_says_which_file_and_what_to_do) {
  put("a", {{"x", 100}});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // The lowest number that is free is the first that may not be.
  const int next = ::dup(STDIN_FILENO);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  Loaded loaded;
  const int error = loaded.load(nullptr, {path("a")}, {0});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(error, 0);
  EXPECT_THAT(penstock_last_error(), HasSubstr(path("a")));
  EXPECT_THAT(penstock_last_error(), HasSubstr("ulimit -n"));
}

TEST_F(LocalLoad, threads_load_side_by_side) {
  const ModelFile a = put("a", {{"x", 20 * kMiB}, {"y", 500}});
  const ModelFile b = put("b", {{"z", 25 * kMiB}});
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const bool first = t % 2 == 0;
      Loaded loaded;
      const int error = loaded.load(nullptr, {path(first ? "a" : "b")}, {t, (t + 1) % 4});
      if (error != 0 || !holds(loaded.model, 0, {first ? &a : &b})) return;
      if (holds(loaded.model, 1, {first ? &a : &b})) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
  EXPECT_TRUE(all_memory_is_free());
}

// Two GPUs that do not reach each other's memory, and a third that reaches the second only.
class ApartLoad : public LocalLoad {
 protected:
  ApartLoad() { replace_devices(&apart_); }
  ~ApartLoad() override { replace_devices(nullptr); }

  sim::SimDeviceMemory apart_{
      random_, {.devices = 3, .memory_bytes = 160 * kMiB, .peers = {0b000, 0b100, 0b010}}};
};

TEST_F(ApartLoad, each_gpu_is_served_over_its_own_link_and_the_result_says_so) {
  put("a", {{"x", 50 * kMiB}});
  Loaded loaded;
  ASSERT_EQ(loaded.load(nullptr, {path("a")}, {0, 1}), 0) << penstock_last_error();
  penstock_model_traffic traffic{};
  ASSERT_EQ(penstock_model_get_traffic(loaded.model, &traffic), 0);
  EXPECT_EQ(traffic.by_route[PENSTOCK_ROUTE_DEVICE_PEER], 0U);
  EXPECT_EQ(traffic.by_route[PENSTOCK_ROUTE_DEVICE_SLOTS], 100 * kMiB);
  for (uint32_t i = 0; i < 2; ++i) {
    penstock_model_link link{};
    ASSERT_EQ(penstock_model_get_link(loaded.model, i, &link), 0);
    EXPECT_EQ(link.bytes, 50 * kMiB);
    std::vector<std::byte> got(50 * kMiB);
    apart_.peek(static_cast<std::byte*>(penstock_model_base(loaded.model, i, nullptr)), got);
    EXPECT_TRUE(test::is_content({got.data(), got.size()}, ModelFile::seed_of("x")));
  }
  EXPECT_EQ(apart_.detours(), 0U);
}

TEST_F(ApartLoad, lender_that_reaches_nobody_is_refused_by_name_and_left_out_of_all) {
  put("a", {{"x", 50 * kMiB}});
  static const int32_t kTwo = 2;
  penstock_load_options options{};
  options.lenders = &kTwo;
  options.lender_count = 1;
  Loaded loaded;
  EXPECT_EQ(loaded.load(nullptr, {path("a")}, {0}, options), -EOPNOTSUPP);
  EXPECT_THAT(penstock_last_error(), HasSubstr("GPU 2 cannot lend its link"));
  options = {};
  options.lend_all = 1;
  ASSERT_EQ(loaded.load(nullptr, {path("a")}, {0}, options), 0) << penstock_last_error();
  penstock_model_traffic traffic{};
  ASSERT_EQ(penstock_model_get_traffic(loaded.model, &traffic), 0);
  EXPECT_EQ(traffic.links, 1U);
}

}  // namespace
}  // namespace penstock::api
