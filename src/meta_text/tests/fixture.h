// Namespaces in memory, and their text.
#pragma once

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/kv.h"
#include "penstock/meta.h"
#include "penstock/meta_records.h"
#include "penstock/meta_text.h"

namespace penstock::meta_text {

class StringSink final : public Sink {
 public:
  Outcome<void> begin() override {
    text.clear();
    ++begun;
    return {};
  }
  Outcome<void> write(std::string_view more) override {
    text += more;
    return {};
  }

  std::string text;
  int begun = 0;
};

// Gives the text in pieces of a length.
class StringSource final : public Source {
 public:
  explicit StringSource(std::string_view text, size_t piece = SIZE_MAX)
      : rest_(text), piece_(piece) {}
  Outcome<size_t> read(std::span<char> to) override {
    const size_t length = std::min({to.size(), rest_.size(), piece_});
    std::memcpy(to.data(), rest_.data(), length);
    rest_.remove_prefix(length);
    return length;
  }

 private:
  std::string_view rest_;
  const size_t piece_;
};

// Looks how much one scan visits, and one transaction puts.
class WatchedKv final : public engine::Kv {
 public:
  explicit WatchedKv(engine::Kv& kv) : kv_(kv) {}

  void submit(engine::KvOp&) override { ADD_FAILURE() << "nobody waits for this"; }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override {
    return kv_.run(op.mode, [&](engine::KvTransaction& transaction) -> Status {
      Transaction watched(transaction, *this);
      return op.body(watched);
    });
  }
  Status sync() override { return kv_.sync(); }

  size_t scanned_most = 0;
  size_t put_most = 0;

 private:
  class Transaction final : public engine::KvTransaction {
   public:
    Transaction(engine::KvTransaction& inner, WatchedKv& kv) : inner_(inner), kv_(kv) {}
    Result<std::optional<std::string>> get(std::string_view key) override {
      return inner_.get(key);
    }
    void put(std::string_view key, std::string_view value) override {
      kv_.put_most = std::max(kv_.put_most, ++put_);
      inner_.put(key, value);
    }
    void erase(std::string_view key) override { inner_.erase(key); }
    Status scan(std::string_view begin, std::string_view end, const Visitor& visit) override {
      size_t scanned = 0;
      return inner_.scan(begin, end, [&](std::string_view key, std::string_view value) {
        kv_.scanned_most = std::max(kv_.scanned_most, ++scanned);
        return visit(key, value);
      });
    }

   private:
    engine::KvTransaction& inner_;
    WatchedKv& kv_;
    size_t put_ = 0;
  };

  engine::Kv& kv_;
};

// Changes the records of a store past Meta.
inline void put(engine::Kv& kv, const std::string& key, const std::optional<std::string>& value) {
  ASSERT_TRUE(kv.run(engine::KvMode::write, [&](engine::KvTransaction& transaction) -> Status {
                  if (value) {
                    transaction.put(key, *value);
                  } else {
                    transaction.erase(key);
                  }
                  return {};
                }).ok());
}

inline std::optional<std::string> get(engine::Kv& kv, const std::string& key) {
  std::optional<std::string> value;
  EXPECT_TRUE(kv.run(engine::KvMode::read, [&](engine::KvTransaction& transaction) -> Status {
                  TRY_ASSIGN(value, transaction.get(key));
                  return {};
                }).ok());
  return value;
}

inline std::string dump_of(engine::Kv& kv, uint64_t seed = 1) {
  engine::SeededRandom random(seed);
  StringSink sink;
  const auto counts = dump(kv, random, sink);
  EXPECT_TRUE(counts.has_value()) << counts.error().message;
  return sink.text;
}

// A namespace with one of everything.
class TextTest : public testing::Test {
 protected:
  TextTest() {
    auto opened = meta::Meta::open(*kv_, engine::system_clock(), {});
    EXPECT_TRUE(opened.has_value());
    meta_ = std::move(*opened);
  }

  void make_one_of_everything() {
    const meta::Credentials root;
    const InodeId below = meta_->make_directory(root, meta::kRootInode, "below", 0755)->inode;
    const InodeId deeper = meta_->make_directory(root, below, "dee per\\", 01777)->inode;
    file_ = meta_->create(root, below, "file", 0640, true)->inode;
    ASSERT_TRUE(meta_->link(root, file_, deeper, "\xc3\xa9 again\n").has_value());
    ASSERT_TRUE(meta_->make_symlink(root, below, "link", "../where to\\go").has_value());
    ASSERT_TRUE(
        meta_->make_node(root, below, "device", meta::FileType::block, 0600, 0x801).has_value());
    ASSERT_TRUE(meta_->make_node(root, deeper, "fifo", meta::FileType::fifo, 0600, 0).has_value());
    for (const char* name : {"user.b", "user.a", "trusted.c"}) {
      ASSERT_TRUE(
          meta_->set_xattr(root, file_, name, std::string("v\0 \xff", 4), meta::XattrMode::any)
              .ok());
    }
    ASSERT_TRUE(meta_->set_xattr(root, below, "user.empty", "", meta::XattrMode::any).ok());
    ASSERT_TRUE(meta_->begin_write(file_).has_value());
    const InodeId gone = meta_->create(root, deeper, "gone", 0600, true)->inode;
    ASSERT_TRUE(meta_->set_xattr(root, gone, "user.x", "kept", meta::XattrMode::any).ok());
    ASSERT_TRUE(meta_->unlink(root, deeper, "gone", nullptr).ok());
    ASSERT_TRUE(meta_->make_directory(root, deeper, "gone", 0700).has_value());
    ASSERT_TRUE(meta_->remove_directory(root, deeper, "gone", nullptr).ok());
    ASSERT_TRUE(meta_->create_unnamed(root, deeper, 0600, *meta_->unused_id()).has_value());
    below_ = below;
    deeper_ = deeper;
  }

  // What a dump of the store as it is now fails with.
  Failure failure_of_dump() {
    engine::SeededRandom random(1);
    StringSink sink;
    const auto counts = dump(*kv_, random, sink);
    EXPECT_FALSE(counts.has_value());
    return counts ? Failure{} : counts.error();
  }

  const meta::Keys keys_{""};
  InodeId below_, deeper_, file_;
  std::unique_ptr<engine::Kv> kv_ = kv::make_memory_kv();
  std::unique_ptr<meta::Meta> meta_;
};

}  // namespace penstock::meta_text
