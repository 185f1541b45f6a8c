// Names in a database of a PostgreSQL server: what a user sees of it, and what becomes of it when
// the server ends, is full, or has no room for connections.
#include "names_rig.h"

#include <sys/mount.h>

namespace penstock::test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class NamesOnServer : public NamesTest {
 protected:
  void SetUp() override {
    NamesTest::SetUp();
    if (server_ != nullptr && !NodeProcess::why_no_mount().empty()) {
      GTEST_SKIP() << NodeProcess::why_no_mount();
    }
  }
  std::vector<std::string> kv() const { return {"--kv", url_}; }
  // A role that is refused connections as others are, which the owner of the server is not.
  std::string url_of_user(int connections) {
    const std::string user = "user_of_" + database_;
    server_->sql(database_,
                 "CREATE ROLE " + user + " LOGIN CONNECTION LIMIT " + std::to_string(connections));
    server_->sql(database_, "ALTER DATABASE " + database_ + " OWNER TO " + user);
    std::string url = url_;
    const std::string before = "user=penstock";
    return url.replace(url.find(before), before.size(), "user=" + user);
  }
};

TEST_F(NamesOnServer, are_found_again_and_no_password_is_kept_or_shown) {
  const std::string secret = url_ + " password=hunter2";
  const Output up = penstock({"up", store_, "--background", "--kv", secret});
  ASSERT_EQ(up.exit_code, 0) << up.err;
  EXPECT_THAT(up.err, HasSubstr("~/.pgpass"));
  EXPECT_THAT(names_at(store_), HasSubstr(database_));
  const std::string pid = read_file(store_ + "/LOCK");
  const std::string arguments = read_file("/proc/" + pid.substr(0, pid.find('\n')) + "/cmdline");
  const std::string kept = read_file(store_ + "/names");
  const Output status = penstock({"status", store_});
  for (const std::string& text :
       {up.out, up.err, arguments, kept, status.out, read_file(store_ + "/agent.log")}) {
    EXPECT_THAT(text, Not(HasSubstr("hunter2")));
  }
  EXPECT_THAT(status.out, HasSubstr("names     at postgresql://"));
  EXPECT_THAT(arguments, HasSubstr("password=*******"));
  struct stat facts {};
  ASSERT_EQ(::stat((store_ + "/names").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  write_file(scratch_ / "file", "bytes");
  good({"import", scratch_ / "file", store_ + ":/file", "-q"});
  good({"down", store_});
  EXPECT_TRUE(fs::is_empty(store_ + "/meta"));
  // Also by another way to the same database.
  for (const auto& more :
       {std::vector<std::string>{}, {"--kv", url_}, {"--kv", url_ + " port=5432"}}) {
    std::vector<std::string> words = {"up", store_, "--background"};
    words.insert(words.end(), more.begin(), more.end());
    good(words);
    good({"verify", scratch_ / "file", store_ + ":/file", "-q"});
    check(store_);
    good({"down", store_});
  }
  EXPECT_THAT(read_file(store_ + "/names"), HasSubstr(":5432"));
  check(store_);
  check(url_);
  good({"metadata", "dump", store_, scratch_ / "dump"}, "2 inodes");
}

TEST_F(NamesOnServer, are_refused_with_what_to_do_when_they_are_not_this_stores) {
  good({"up", store_, "--background", "--kv", url_});
  good({"down", store_});
  const std::string other = scratch_ / "other";
  bad({"up", other, "--background", "--kv", url_}, "give each cluster a database of its own");
  EXPECT_FALSE(fs::exists(other));
  // Nor with a database that is empty, while the names are elsewhere.
  const std::string empty = server_->url(server_->new_database());
  bad({"up", store_, "--background", "--kv", empty}, "its names are in postgresql://");
  bad({"up", store_, "--background", "--kv", "rocksdb"}, "penstock metadata move");
  good({"up", other, "--background"});
  good({"down", other});
  bad({"up", other, "--background", "--kv", empty}, "penstock metadata move " + other + " --to");
  bad({"up", store_, "--background", "--kv", "mysql://somewhere"}, "its address is not understood");
  // What others wrote into the tables.
  server_->sql(database_, "UPDATE penstock.about SET version = 3");
  bad({"up", store_, "--background"}, "use the newest release");
  server_->sql(database_, "UPDATE penstock.about SET version = 2");
  server_->sql("postgres",
               "ALTER DATABASE " + database_ + " SET default_transaction_read_only = on");
  bad({"up", store_, "--background"}, "target_session_attrs=read-write");
  server_->sql("postgres", "ALTER DATABASE " + database_ + " RESET default_transaction_read_only");
  good({"up", store_, "--background"});
  // A copy of the directory, as on another machine, while this one runs: it is told after a while.
  const Output dumped = penstock({"metadata", "load", scratch_ / "none", store_});
  EXPECT_EQ(dumped.exit_code, 1);
}

TEST_F(NamesOnServer, leave_nothing_behind_when_a_store_cannot_be_made) {
  write_file(scratch_ / "in the way", "");
  bad({"up", scratch_ / "in the way", "--background", "--kv", url_}, "in the way");
  EXPECT_EQ(server_->sql(database_, "SELECT count(*) FROM pg_namespace WHERE nspname = 'penstock'"),
            "0");
}

TEST_F(NamesOnServer, lose_nothing_when_the_server_is_killed_while_programs_make_files) {
  NodeProcess node({.arguments = kv()});
  ASSERT_TRUE(node.start()) << node.ending();
  Makers makers(node.mount(), 3);
  EXPECT_TRUE(makers.go_on(50));
  for (int round = 0; round < 3; ++round) {
    server_->kill();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    server_->start();
    EXPECT_TRUE(makers.go_on(20)) << "within 10 s after the server is back";
  }
  makers.stop();
  EXPECT_THAT(makers.errors(), IsEmpty());
  EXPECT_EQ(makers.missing(node.mount()), 0);
  check(node.store());
  // And so it is for a node that knows nothing of before.
  node.kill();
  ASSERT_TRUE(node.start()) << node.ending();
  EXPECT_EQ(makers.missing(node.mount()), 0);
  check(node.store());
}

TEST_F(NamesOnServer, lose_nothing_when_the_node_is_killed_while_programs_make_files) {
  NodeProcess node({.arguments = kv()});
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(node.start()) << node.ending();
    Makers makers(node.mount(), 3);
    makers.may_die();
    EXPECT_TRUE(makers.go_on(50));
    node.kill();
    makers.stop();
    ASSERT_TRUE(node.start()) << node.ending();
    EXPECT_EQ(makers.missing(node.mount()), 0);
    check(node.store());
    node.kill();
  }
}

// Over TLS, with a password that libpq finds by its own means.
TEST_F(NamesOnServer, are_reached_by_tls_and_by_passwords_that_libpq_finds) {
  auto server = PostgresServer::make();
  ASSERT_NE(server, nullptr);
  const std::string directory = fs::path(server->socket()).parent_path();
  const std::string key = directory + "/key.pem", certificate = directory + "/certificate.pem";
  const std::string address = "127.0.0.77";  // of this machine, and nobody's
  const Output made =
      run({"/usr/bin/openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key,
           "-out", certificate, "-subj", "/CN=names", "-addext", "subjectAltName=IP:" + address});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  struct stat facts {};
  ASSERT_EQ(::stat((directory + "/data").c_str(), &facts), 0);
  ASSERT_EQ(::chown(key.c_str(), facts.st_uid, facts.st_gid), 0);
  ASSERT_EQ(::chmod(key.c_str(), 0600), 0);
  server->sql("postgres", "CREATE ROLE app LOGIN PASSWORD 'hunter2'");
  server->sql("postgres", "CREATE DATABASE names OWNER app");
  server->kill();
  write_file(directory + "/data/pg_hba.conf",
             "local all penstock trust\nhostssl all app 127.0.0.0/8 scram-sha-256\n");
  server->start({"listen_addresses=" + address, "ssl=on", "ssl_key_file=" + key,
                 "ssl_cert_file=" + certificate});
  const std::string rest =
      "@" + address + ":5432/names?sslmode=verify-full&sslrootcert=" + certificate;
  const std::string url = "postgresql://app" + rest;
  bad({"up", store_, "--background", "--kv", url}, "~/.pgpass");
  good({"up", store_, "--background", "--kv", "postgresql://app:hunter2" + rest}, "~/.pgpass");
  good({"down", store_});
  EXPECT_THAT(read_file(store_ + "/names"), HasSubstr("sslmode=verify-full"));
  bad({"up", store_, "--background"}, "~/.pgpass");
  const std::string passwords = scratch_ / "passwords";
  write_file(passwords, address + ":5432:names:app:hunter2\n");
  ASSERT_EQ(::chmod(passwords.c_str(), 0600), 0);
  ASSERT_EQ(::setenv("PGPASSFILE", passwords.c_str(), 1), 0);
  const Output up = penstock({"up", store_, "--background"});
  EXPECT_EQ(up.exit_code, 0) << up.err;
  check(store_);
  EXPECT_EQ(server->sql("names",
                        "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity "
                        "USING (pid) WHERE usename = 'app'"),
            "t");
  good({"down", store_});
  ::unsetenv("PGPASSFILE");
  // Somebody else's certificate.
  bad({"up", store_, "--background", "--kv",
       "postgresql://app:hunter2@" + address + ":5432/names?sslmode=verify-full"},
      "cannot connect");
}

// What a manager of fail-overs does, done by the test.
TEST_F(NamesOnServer, lose_nothing_when_a_synchronous_standby_takes_over) {
  auto primary = PostgresServer::make();
  ASSERT_NE(primary, nullptr);
  primary->sql("postgres", "CREATE DATABASE names");
  const auto standby = primary->make_standby();
  primary->await_standby();
  const auto directory = [](const PostgresServer& server) {
    return fs::path(server.socket()).parent_path().string();
  };
  NodeProcess node(
      {.arguments = {"--kv", "host=" + directory(*primary) + "," + directory(*standby) +
                                 " user=penstock dbname=names "
                                 "target_session_attrs=read-write"}});
  ASSERT_TRUE(node.start()) << node.ending();
  Makers makers(node.mount(), 3);
  EXPECT_TRUE(makers.go_on(100));
  primary->kill();
  standby->promote();
  EXPECT_TRUE(makers.go_on(50)) << "within 10 s after it is the primary";
  makers.stop();
  EXPECT_THAT(makers.errors(), IsEmpty());
  EXPECT_EQ(makers.missing(node.mount()), 0);
  check(node.store());
  node.kill();
  ASSERT_TRUE(node.start()) << node.ending();
  EXPECT_EQ(makers.missing(node.mount()), 0);
}

// A standby alone is refused, and nothing is changed there.
TEST_F(NamesOnServer, are_not_opened_on_a_standby) {
  const auto primary = PostgresServer::make();
  ASSERT_NE(primary, nullptr);
  const auto standby = primary->make_standby();
  bad({"up", store_, "--background", "--kv", standby->url("postgres")},
      "name the primary, or all hosts with target_session_attrs=read-write");
  EXPECT_FALSE(fs::exists(store_));
}

TEST_F(NamesOnServer, go_on_with_few_connections_and_are_refused_with_none) {
  const std::string url = url_of_user(3);
  NodeProcess node({.arguments = {"--kv", url}});
  ASSERT_TRUE(node.start()) << node.ending();
  {
    Makers makers(node.mount(), 4);
    EXPECT_TRUE(makers.go_on(100));
    makers.stop();
    EXPECT_THAT(makers.errors(), IsEmpty());
    EXPECT_EQ(makers.missing(node.mount()), 0);
  }
  node.stop();
  server_->sql(database_, "ALTER ROLE user_of_" + database_ + " CONNECTION LIMIT 0");
  EXPECT_FALSE(node.start());
  EXPECT_THAT(node.ending() + node.words(), HasSubstr("raise max_connections"));
  server_->sql(database_, "ALTER ROLE user_of_" + database_ + " CONNECTION LIMIT 3");
  EXPECT_TRUE(node.start()) << node.ending();
}

TEST_F(NamesOnServer, are_as_they_were_when_the_servers_disk_is_full) {
  const ScratchDirectory directory;
  if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=12m,uid=65534,gid=65534") != 0) {
    GTEST_SKIP() << "mounting is not allowed";
  }
  const std::string space = "space_of_" + database_;
  server_->sql("postgres", "CREATE TABLESPACE " + space + " LOCATION '" + directory.path() + "'");
  server_->sql("postgres", "ALTER DATABASE " + database_ + " SET TABLESPACE " + space);
  {
    NodeProcess node({.arguments = kv()});
    ASSERT_TRUE(node.start()) << node.ending();
    const std::string ballast = directory / "ballast";
    const fs::space_info room = fs::space(directory.path());
    write_file(ballast, std::string(room.available > 400'000 ? room.available - 400'000 : 0, 'x'));
    Makers makers(node.mount(), 2);
    EXPECT_TRUE(eventually([&] { return makers.errors().contains(ENOSPC); }, seconds(15)));
    fs::remove(ballast);
    EXPECT_TRUE(makers.go_on(50));
    makers.stop();
    std::map<int, int> errors = makers.errors();
    errors.erase(ENOSPC);
    // What could be made and not written to the end has its name already.
    errors.erase(EEXIST);
    EXPECT_THAT(errors, IsEmpty());
    EXPECT_EQ(makers.missing(node.mount()), 0);
    check(node.store());
  }
  server_->sql("postgres", "DROP DATABASE " + database_);
  server_->sql("postgres", "DROP TABLESPACE " + space);
  EXPECT_EQ(::umount2(directory.path().c_str(), MNT_DETACH), 0);
}

// What is removed is kept there as well, over the end of the node, and comes back whole.
TEST_F(NamesOnServer, have_a_trash) {
  NodeOptions options;
  options.arguments = kv();
  NodeProcess node(options);
  ASSERT_TRUE(node.start()) << node.ending();
  good({"trash", "set", node.store(), "7"});
  fs::create_directories(node.path("project/below"));
  for (const char* const name : {"project/one", "project/below/two"}) {
    write_file(node.path(name), std::string("bytes of ") + name);
    const UniqueFd file(::open(node.path(name).c_str(), O_RDONLY));
    ASSERT_EQ(::fsync(file.get()), 0);
  }
  fs::remove_all(node.path("project"));
  EXPECT_FALSE(fs::exists(node.path("project")));
  good({"trash", "list", node.store()}, "/project/below/two");
  node.kill();
  ASSERT_TRUE(node.start()) << node.ending();
  good({"trash", "get", node.store()}, "7");
  const auto hours = fs::directory_iterator(node.path(".trash"));
  for (const fs::directory_entry& hour : hours) {
    const std::string name = hour.path().filename().string();
    good({"trash", "restore", node.store(), name.substr(0, name.find('.'))});
  }
  for (const char* const name : {"project/one", "project/below/two"}) {
    EXPECT_EQ(read_file(node.path(name)), std::string("bytes of ") + name);
  }
  fs::remove(node.path("project/one"));
  good({"trash", "empty", node.store(), "--all"});
  EXPECT_THAT(penstock({"trash", "list", node.store()}).out, Not(HasSubstr("project/one")));
  node.stop();
  check(node.store());
}

TEST_F(NamesOnServer, are_one_nodes_at_a_time) {
  good({"up", store_, "--background", "--kv", url_});
  // A copy of the directory, as one of another machine.
  const std::string copy = scratch_ / "copy";
  fs::create_directory(copy);
  for (const char* name : {"penstock.store", "secret", "names"}) {
    fs::copy_file(store_ + "/" + name, copy + "/" + name);
  }
  fs::create_directory(copy + "/meta");
  fs::copy(store_ + "/targets", copy + "/targets", fs::copy_options::recursive);
  bad({"up", copy, "--background"}, "another process has these names open");
  good({"down", store_});
}

}  // namespace
}  // namespace penstock::test
