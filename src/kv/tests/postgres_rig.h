// What tests of the backend on PostgreSQL have in common.
#pragma once

#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "penstock/kv.h"
#include "penstock/testing_postgres.h"

namespace penstock::kv {

class PostgresTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = test::PostgresServer::shared();
    if (server_ == nullptr) GTEST_SKIP() << test::PostgresServer::kMissing;
    const auto built = open_postgres({.url = "nonsense://", .cluster = "c"});
    if (!built && built.error().status.code() == Code::not_supported) {
      GTEST_SKIP() << test::PostgresServer::kMissing;
    }
    database_ = server_->new_database();
  }

  PostgresOptions options() {
    return {.url = server_->url(database_), .cluster = "c", .create = true};
  }
  static std::unique_ptr<engine::Kv> open(const PostgresOptions& options) {
    auto opened = open_postgres(options);
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  static void expect_refused(const PostgresOptions& options, Code code, const std::string& reason) {
    const auto opened = open_postgres(options);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().status.code(), code) << opened.error().message;
    EXPECT_NE(opened.error().message.find(reason), std::string::npos) << opened.error().message;
  }
  std::string sql(const std::string& text) { return server_->sql(database_, text); }

  static Status put(engine::Kv& kv, const std::string& key, const std::string& value) {
    return kv.run(engine::KvMode::write, [&](engine::KvTransaction& transaction) -> Status {
      transaction.put(key, value);
      return {};
    });
  }
  static Result<std::optional<std::string>> get(engine::Kv& kv, const std::string& key) {
    std::optional<std::string> value;
    TRY(kv.run(engine::KvMode::read, [&](engine::KvTransaction& transaction) -> Status {
      TRY_ASSIGN(value, transaction.get(key));
      return {};
    }));
    return value;
  }
  static Status increment(engine::Kv& kv, const std::string& key) {
    return kv.run(engine::KvMode::write, [&](engine::KvTransaction& transaction) -> Status {
      TRY_ASSIGN(const auto value, transaction.get(key));
      transaction.put(key, std::to_string(value ? std::stoi(*value) + 1 : 1));
      return {};
    });
  }

  test::PostgresServer* server_ = nullptr;
  std::string database_;
};

}  // namespace penstock::kv
