// A cluster whose names, and whose controller's records, are in a database of a PostgreSQL server.
#include "cluster_processes.h"

#include "penstock/testing_postgres.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;

class ClusterNames : public ClusterProcesses {
 protected:
  void SetUp() override {
    server_ = PostgresServer::shared();
    if (server_ == nullptr) GTEST_SKIP() << PostgresServer::kMissing;
    url_ = server_->url(server_->new_database());
    make_source();
  }
  std::string names_at(const std::string& name) const {
    return ask("status", name).value("names", Json::object()).value("at", "");
  }
  void move_names(const std::string& to) const {
    good({"metadata", "move", place("first"), "--to", to});
  }

  PostgresServer* server_ = nullptr;
  std::string url_;
};

TEST_F(ClusterNames, go_on_when_the_server_is_killed_and_when_names_move) {
  up("first", {"--listen", free_address(), "--kv", url_});
  join("second");
  good({"set", place("first") + ":/", "--copies", "2"});
  import("second", "in");
  verify("first", "in");
  EXPECT_THAT(names_at("first"), HasSubstr("postgresql://"));
  EXPECT_EQ(names_at("second"), "");
  work_while("second", "killed", [&] {
    server_->kill();
    server_->start();
  });
  for (const std::string& to : {std::string("rocksdb"), url_}) {
    work_while("second", to == "rocksdb" ? "back" : "there", [&] { move_names(to); });
    EXPECT_EQ(names_at("first") == "rocksdb", to == "rocksdb");
    good({"metadata", "check", place("first")});
  }
  // The controller's records are where the names are, and are found there again.
  kill("first");
  start_again("first");
  await_whole("first");
  verify("second", "in");
  import("second", "more");
  verify("first", "more");
  good({"metadata", "check", url_});
  refused({"metadata", "move", place("second"), "--to", "rocksdb"}, "on another node");
  down("second");
  refused({"up", place("second"), "-b", "--kv", url_}, "has no names of its own");
}

}  // namespace
}  // namespace penstock::test
