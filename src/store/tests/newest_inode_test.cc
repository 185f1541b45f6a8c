// The greatest inode of a database, by its keys alone.
#include "../block_map.h"
#include "../chain_records.h"

#include <gtest/gtest.h>

#include "penstock/sim.h"
#include "penstock/store.h"

namespace penstock::store {
namespace {

class NewestInode : public testing::Test {
 protected:
  void put(const std::string& key) {
    ASSERT_TRUE(kv_.run(engine::KvMode::write,
                        [&](engine::KvTransaction& transaction) -> Status {
                          transaction.put(key, "any");
                          return {};
                        })
                    .ok());
  }
  void put_map(uint32_t chain, uint64_t inode) {
    put(std::string(as_view(encode_key({ChainId(chain), {InodeId(inode), 3}, 1}))));
  }
  uint64_t newest(uint64_t below = UINT64_MAX) {
    const auto found = newest_inode(kv_, InodeId(below));
    EXPECT_TRUE(found.has_value());
    return found ? found->value : 0;
  }

  sim::SimWorld world_{1};
  sim::SimKvImage image_{world_};
  sim::SimKv kv_{image_};
};

TEST_F(NewestInode, is_none_where_there_is_no_chunk) {
  put("L");
  put("T");
  EXPECT_EQ(newest(), 0u);
}

TEST_F(NewestInode, is_the_greatest_of_all_chains_and_kinds) {
  put_map(0, 5);
  EXPECT_EQ(newest(), 5u);
  put_map(0, 4);
  put_map(7, 1'000'000'007);
  put_map(UINT32_MAX, 1'000'000'006);
  EXPECT_EQ(newest(), 1'000'000'007u);
  put(encode_chunk_key(kChunkKeyType, {ChainId(3), {InodeId(uint64_t{1} << 62), 0}}));
  EXPECT_EQ(newest(), uint64_t{1} << 62);
  put(encode_chunk_key(kPendingKeyType, {ChainId(1), {InodeId(uint64_t{3} << 62), 9}}));
  EXPECT_EQ(newest(), uint64_t{3} << 62);
}

TEST_F(NewestInode, is_below_a_bound) {
  put_map(0, UINT64_MAX - 1);
  put_map(0, 4711);
  put_map(1, 4712);
  EXPECT_EQ(newest(UINT64_MAX - 1), 4712u);
  EXPECT_EQ(newest(4712), 4711u);
  EXPECT_EQ(newest(4711), 0u);
  EXPECT_EQ(newest(), UINT64_MAX - 1);
}

TEST_F(NewestInode, is_not_told_where_the_store_cannot_be_read) {
  put_map(0, 5);
  image_.faults.read_error_permille = 1000;
  EXPECT_EQ(newest_inode(kv_, InodeId(100)).error().code(), Code::io_error);
}

}  // namespace
}  // namespace penstock::store
