// What `penstock up --metrics` serves, as Prometheus and others ask for it.
#include "exposition.h"
#include "http_get.h"

#include <atomic>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "penstock/base.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string body_of(const std::string& response) {
  const size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? "" : response.substr(end + 4);
}

class MetricsTest : public testing::Test {
 protected:
  ~MetricsTest() override { penstock({"down", store_}); }
  // Starts a node, and learns where it tells its figures.
  void start(const std::string& where = "127.0.0.1:0") {
    const Output up = penstock({"up", store_, "--background", "--metrics", where});
    ASSERT_EQ(up.exit_code, 0) << up.err;
    const std::string status = penstock({"status", store_, "--json"}).out;
    std::smatch match;
    ASSERT_TRUE(std::regex_search(status, match, std::regex("\"metrics\": \"([^\"]*)\"")))
        << status;
    address_ = match[1];
  }
  Scrape scrape() const {
    const std::string response = get(address_, "/metrics");
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200")) << response.substr(0, 200);
    EXPECT_THAT(response, HasSubstr("text/plain; version=0.0.4"));
    return parse_exposition(body_of(response));
  }

  const ScratchDirectory scratch_;
  const std::string store_ = scratch_ / "store";
  std::string address_;
};

TEST_F(MetricsTest, are_what_prometheus_reads_and_move_when_operations_happen) {
  start();
  const Scrape before = scrape();
  EXPECT_THAT(before.faults, IsEmpty());
  EXPECT_EQ(before.sum("penstock_healthy"), 1);
  EXPECT_EQ(before.sum("penstock_ring_operation_duration_seconds_count"), 0);
  write_file(scratch_ / "large", std::string(8 << 20, 'x'));
  ASSERT_EQ(penstock({"import", scratch_ / "large", store_ + ":/large", "-q"}).exit_code, 0);
  ASSERT_EQ(penstock({"verify", scratch_ / "large", store_ + ":/large", "-q"}).exit_code, 0);
  const Scrape after = scrape();
  EXPECT_THAT(after.faults, IsEmpty());
  const auto ring = [&](const std::string& what, const std::string& operation) {
    return after.sum("penstock_ring_operation_" + what, "operation=\"" + operation + "\"");
  };
  EXPECT_GT(ring("duration_seconds_count", "write"), 0);
  EXPECT_GT(ring("duration_seconds_sum", "write"), 0);
  EXPECT_EQ(ring("bytes_total", "write"), 8 << 20);
  EXPECT_GE(after.sum("penstock_store_written_bytes_total"), 8 << 20);
  EXPECT_GT(after.sum("penstock_shard_used_bytes"), before.sum("penstock_shard_used_bytes"));
  EXPECT_GT(after.sum("penstock_inodes"), before.sum("penstock_inodes"));
  EXPECT_GT(after.sum("penstock_disk_operations_total"),
            before.sum("penstock_disk_operations_total"));
  EXPECT_GT(after.sum("penstock_kv_commits_total"), before.sum("penstock_kv_commits_total"));
  EXPECT_EQ(after.sum("penstock_ring_operations_in_flight"), 0);
}

TEST_F(MetricsTest, tell_a_session_and_its_user_while_it_is_there) {
  start();
  EXPECT_EQ(scrape().sum("penstock_sessions"), 0);
  const std::string path = store_ + "/agent.sock";
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, path.c_str(), sizeof name.sun_path - 1);
  const UniqueFd session(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(session.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  Scrape seen;
  for (int tries = 0; tries < 200 && seen.sum("penstock_sessions") == 0; ++tries) seen = scrape();
  EXPECT_THAT(seen.faults, IsEmpty());
  EXPECT_EQ(seen.sum("penstock_sessions"), 1);
  const std::string uid = "uid=\"" + std::to_string(::geteuid()) + "\"";
  EXPECT_GT(seen.sum("penstock_user_resource_held", uid), 0);
  EXPECT_EQ(seen.sum("penstock_session_operations_total", uid), 0);
}

TEST_F(MetricsTest, health_is_ok_and_other_paths_and_methods_are_refused) {
  start();
  const std::string health = get(address_, "/healthz");
  EXPECT_THAT(health, StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(body_of(health), "ok\n");
  EXPECT_THAT(get(address_, "/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(get(address_, "/metrics/../admin"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(address_, "DELETE /metrics HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  for (const std::string& garbage : {std::string("\0\0\0", 3), std::string(70'000, 'x'),
                                     "GET /" + std::string(70'000, 'y') + " HTTP/1.0\r\n\r\n"}) {
    const UniqueFd socket = connect_to(address_);
    (void)!::send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  }
  EXPECT_THAT(scrape().faults, IsEmpty());
}

TEST_F(MetricsTest, two_may_scrape_at_once) {
  start();
  std::atomic<int> good{0};
  std::vector<std::thread> scrapers;
  for (int i = 0; i < 2; ++i) {
    scrapers.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        if (scrape().faults.empty()) ++good;
      }
    });
  }
  for (std::thread& scraper : scrapers) scraper.join();
  EXPECT_EQ(good, 40);
}

TEST_F(MetricsTest, a_taken_port_is_told_before_anything_is_made) {
  start();
  const std::string other = scratch_ / "other";
  const Output second = penstock({"up", other, "--background", "--metrics", address_});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr(address_));
  EXPECT_THAT(second.err, HasSubstr("choose another port with --metrics"));
  EXPECT_NE(::access(other.c_str(), F_OK), 0) << "a store was left behind";
  const Output nonsense = penstock({"up", other, "--background", "--metrics", "nonsense"});
  EXPECT_EQ(nonsense.exit_code, 2);
  EXPECT_THAT(nonsense.err, HasSubstr("127.0.0.1:9180"));
}

TEST_F(MetricsTest, are_served_on_a_socket_too) {
  start(scratch_ / "metrics.sock");
  EXPECT_EQ(address_, scratch_ / "metrics.sock");
  EXPECT_THAT(scrape().faults, IsEmpty());
  ASSERT_EQ(penstock({"down", store_}).exit_code, 0);
  EXPECT_NE(::access(address_.c_str(), F_OK), 0);
}

TEST_F(MetricsTest, every_answer_is_whole_while_the_node_stops) {
  start();
  std::atomic<bool> is_asked{false};
  std::string odd;
  std::thread asker([&] {
    for (std::string answer; !(answer = get(address_, "/healthz")).empty();) {
      is_asked = true;
      const bool is_known = body_of(answer) == "ok\n" || body_of(answer) == "stopping\n";
      if (!is_known) odd = answer;
      const std::string figures = get(address_, "/metrics");
      if (figures.empty()) break;
      if (!parse_exposition(body_of(figures)).faults.empty()) odd = figures;
    }
  });
  while (!is_asked) std::this_thread::yield();
  EXPECT_EQ(penstock({"down", store_}).exit_code, 0);
  asker.join();
  EXPECT_EQ(odd, "");
}

}  // namespace
}  // namespace penstock::test
