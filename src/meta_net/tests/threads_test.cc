// Callers in several threads, over a LocalNet.
#include "gated_kv.h"
#include "over_net.h"

#include <atomic>
#include <gtest/gtest.h>
#include <set>

namespace penstock::meta_net {
namespace {

class RemoteTest : public testing::Test {
 protected:
  explicit RemoteTest(const MetaServiceConfig& config = {}) : host_(*meta_, config) {}

  std::unique_ptr<RemoteMeta> remote(engine::Duration call_time = RemoteMetaConfig::kCallTime,
                                     uint32_t slots = RemoteMetaConfig::kSlots) {
    RemoteMetaConfig config = host_.asking();
    config.call_time = call_time;
    config.slots = slots;
    return RemoteMeta::make(config);
  }
  static double seconds_of(const std::function<void()>& what) {
    const auto begin = std::chrono::steady_clock::now();
    what();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  meta::TickingClock clock_;
  std::unique_ptr<meta::Storage> storage_ = meta::make_storage("memory");
  GatedKv gate_{storage_->kv()};
  std::unique_ptr<meta::Meta> meta_ = meta::open_meta(gate_, clock_);
  LocalHost host_;
};

TEST_F(RemoteTest, several_threads_share_one_and_use_it_at_once) {
  const auto shared = remote(RemoteMetaConfig::kCallTime, 3);
  constexpr int kThreads = 6;
  constexpr int kFiles = 100;
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kFiles; ++i) {
        const std::string name = std::to_string(thread) + "." + std::to_string(i);
        if (shared->create({}, meta::kRootInode, name, 0644, true)) ++made;
        EXPECT_TRUE(shared->lookup({}, meta::kRootInode, name).has_value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, kThreads * kFiles);
  EXPECT_EQ(shared->counts()->inodes, uint64_t{kThreads * kFiles + 1});
  EXPECT_GE(shared->figures().calls, uint64_t{2 * kThreads * kFiles});
  EXPECT_EQ(shared->figures().unknown, 0u);
}

TEST_F(RemoteTest, what_waits_for_a_slot_ends_in_time) {
  const auto shared = remote(std::chrono::milliseconds(300), 1);
  ASSERT_TRUE(shared->unused_id().has_value());
  gate_.hold();
  std::thread first([&] { (void)shared->create({}, meta::kRootInode, "f", 0644, true); });
  gate_.await(1);
  EXPECT_EQ(shared->create({}, meta::kRootInode, "g", 0644, true).error(), Code::busy);
  gate_.let_go();
  first.join();
  EXPECT_TRUE(shared->create({}, meta::kRootInode, "g", 0644, true).has_value());
}

TEST_F(RemoteTest, calls_end_when_the_service_is_withdrawn) {
  const auto shared = remote(std::chrono::milliseconds(400));
  const auto unused = remote(std::chrono::milliseconds(400));
  ASSERT_TRUE(shared->create({}, meta::kRootInode, "f", 0644, true).has_value());
  host_.stop();
  const double seconds = seconds_of([&] {
    EXPECT_EQ(shared->attributes(meta::kRootInode).error(), Code::peer_gone);
    EXPECT_EQ(shared->create({}, meta::kRootInode, "g", 0644, true).error(),
              Code::may_have_happened);
    EXPECT_EQ(shared->newest_cookie(), meta::kIdMax);
    EXPECT_EQ(unused->create({}, meta::kRootInode, "g", 0644, true).error(), Code::peer_gone)
        << "it never knew the service, so nothing was sent that changes anything";
    std::vector<Result<meta::MadeFile>> made;
    const meta::CompleteFile file{{InodeId(5000), meta::kRootInode, "h", {}, false}, 0, 7, {}, 0};
    EXPECT_EQ(shared->create_files({}, {file}, &made), Code::may_have_happened);
    ASSERT_EQ(made.size(), 1u);
    ASSERT_TRUE(made[0].has_value()) << "what would have happened";
    EXPECT_EQ(made[0]->attributes.inode, InodeId(5000));
    EXPECT_EQ(made[0]->attributes.length, 7u);
  });
  EXPECT_LT(seconds, 5 * 0.4 + 1);
  EXPECT_EQ(shared->figures().unknown, 2u);
  EXPECT_TRUE(shared->close().ok());
}

TEST_F(RemoteTest, calls_end_soon_where_they_are_to_hurry) {
  const auto shared = remote();
  ASSERT_TRUE(shared->unused_id().has_value());
  host_.stop();
  std::thread waiting([&] {
    EXPECT_LT(seconds_of([&] {
                EXPECT_EQ(shared->attributes(meta::kRootInode).error(), Code::peer_gone);
              }),
              5);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  shared->hurry(std::chrono::milliseconds(100));
  waiting.join();
  EXPECT_LT(seconds_of([&] { EXPECT_FALSE(shared->attributes(meta::kRootInode).has_value()); }), 5);
}

TEST_F(RemoteTest, calls_under_way_are_answered_while_the_service_ends) {
  const auto shared = remote();
  ASSERT_TRUE(shared->unused_id().has_value());
  gate_.hold();
  std::thread caller(
      [&] { EXPECT_TRUE(shared->create({}, meta::kRootInode, "f", 0644, true).has_value()); });
  gate_.await(1);
  std::thread opener([&] { gate_.let_go(); });
  host_.stop();
  caller.join();
  opener.join();
}

TEST_F(RemoteTest, a_caller_that_ends_leaves_nothing_open) {
  for (int i = 0; i < 10; ++i) {
    const auto one = remote();
    EXPECT_TRUE(one->make_directory({}, meta::kRootInode, std::to_string(i), 0755).has_value());
  }
  const Status status = engine::thread_caller().call(host_.serving().loop, [&](engine::Op& done) {
    const MetaService::Figures figures = host_.service().figures();
    EXPECT_EQ(figures.open, 0u);
    EXPECT_EQ(figures.callers, 10u);
    host_.serving().loop.complete(done, Code::ok);
  });
  EXPECT_TRUE(status.ok());
}

TEST_F(RemoteTest, layouts_are_edited_anew_when_others_change_them_meanwhile) {
  const auto one = remote();
  const InodeId directory = one->make_directory({}, meta::kRootInode, "d", 0755)->inode;
  int edits = 0;
  const auto set = one->set_layout({}, directory, [&](meta::Layout& layout) -> Status {
    if (++edits == 1) {
      const auto other = meta_->set_layout({}, directory, [](meta::Layout& theirs) -> Status {
        theirs.chunk_bytes_log2 = 20;
        return Code::ok;
      });
      EXPECT_TRUE(other.has_value());
    }
    layout.copies = 2;
    return Code::ok;
  });
  ASSERT_TRUE(set.has_value());
  EXPECT_EQ(edits, 2);
  EXPECT_EQ(set->layout.copies, 2);
  EXPECT_EQ(set->layout.chunk_bytes_log2, 20u) << "what the other has set stays";
}

TEST_F(RemoteTest, long_lists_are_asked_for_in_parts) {
  const auto one = remote();
  constexpr int kFiles = 1200;
  std::vector<std::string> paths;
  for (int i = 0; i < kFiles; ++i) paths.push_back("/f" + std::to_string(i));
  paths.insert(paths.begin() + 700, "/" + std::string(200'000, 'x'));
  std::vector<meta::WantedPlace> wanted;
  for (const std::string& path : paths) wanted.push_back({path, false});
  const auto places = one->place_files({}, wanted);
  ASSERT_TRUE(places.has_value());
  ASSERT_EQ(places->size(), paths.size());
  EXPECT_EQ((*places)[700].error(), Code::name_too_long);
  std::vector<meta::CompleteFile> files;
  for (const auto& place : *places) {
    if (place) files.push_back({*place, 0644, 3, {}, false});
  }
  std::vector<Result<meta::MadeFile>> made;
  ASSERT_TRUE(one->create_files({}, files, &made).ok());
  EXPECT_EQ(made.size(), size_t{kFiles});
  const std::vector<std::string_view> views(paths.begin(), paths.end());
  const auto found = one->resolve_many({}, views, true);
  ASSERT_TRUE(found.has_value());
  std::vector<InodeId> inodes;
  std::vector<meta::Meta::Accessed> accesses;
  for (size_t i = 0; i < paths.size(); ++i) {
    ASSERT_EQ((*found)[i].has_value(), i != 700);
    if (i == 700) continue;
    inodes.push_back((*found)[i]->inode);
    accesses.push_back({inodes.back(), meta::FileTime(5, 6)});
    EXPECT_TRUE(one->unlink({}, meta::kRootInode, paths[i].substr(1), nullptr).ok());
  }
  EXPECT_EQ(inodes.size(), size_t{kFiles});
  EXPECT_TRUE(one->record_accessed(accesses).ok());
  EXPECT_EQ(*one->orphans(SIZE_MAX, {}), *meta_->orphans(SIZE_MAX, {}));
  EXPECT_TRUE(one->forget_many(inodes).ok());
  EXPECT_TRUE(one->orphans(SIZE_MAX, {})->empty());
}

}  // namespace
}  // namespace penstock::meta_net
