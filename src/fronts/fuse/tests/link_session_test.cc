// Regions that a session links in a mount's virtual directory, over a real node.
#include "link_table.h"
#include "raw_session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

namespace penstock::fuse {
namespace {

using agent::RawSession;

TEST(LinkedRegions, are_linked_as_they_are_registered) {
  const test::ScratchDirectory directory;
  agent::AgentConfig config;
  config.directory = directory.store();
  config.listen = false;
  auto started = agent::Agent::start(config);
  ASSERT_TRUE(started) << started.error().message;
  agent::Agent& agent = **started;
  const auto links = agent.region_links([](std::shared_ptr<resources::Accounts> accounts) {
    return std::make_shared<LinkTable>(std::move(accounts));
  });
  const auto connect = [&] { return std::move(*agent.connect_local()); };
  // As programs of USRBIO have it: a file with a name.
  const std::string path = fmt::format("/dev/shm/penstock-session-test-{}", ::getpid());
  const UniqueFd memory(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(memory);
  ASSERT_EQ(::ftruncate(memory.get(), 4096), 0);
  const std::string link = "0123456789abcdef0123456789abcdef";
  RawSession session(connect());
  RawSession other(connect());
  const auto registers = [&](uint32_t id, const std::string& name, const std::string& to) {
    return session.ask(wire::RegisterRegion{id, 0, 4096, name, to}, {memory.get()}).status.code();
  };
  EXPECT_EQ(other.ask(wire::AttachRegion{0, link}).status, Code::not_found);
  EXPECT_EQ(registers(0, link, path), Code::ok);
  EXPECT_EQ(other.ask(wire::AttachRegion{0, link}).status, Code::ok);
  // Without its link there is no region.
  EXPECT_EQ(registers(1, link, path), Code::already_exists);
  EXPECT_EQ(session.ask(wire::ReleaseRegion{1}).status, Code::bad_handle);
  EXPECT_EQ(registers(1, "no name", path), Code::invalid_argument);
  EXPECT_EQ(registers(1, "f" + link.substr(1), "/etc/passwd"), Code::invalid_argument);
  // A path is this node's: what it leads to for an application elsewhere may be another file.
  const std::string third = "e" + link.substr(1);
  const wire::Reply absent =
      session.ask(wire::RegisterRegion{1, 0, 4096, third, path + "-elsewhere"}, {memory.get()});
  EXPECT_EQ(absent.status, Code::not_found);
  EXPECT_THAT(absent.text, testing::HasSubstr(path + "-elsewhere"));
  EXPECT_THAT(absent.text, testing::HasSubstr("--ipc=host"));
  const UniqueFd their_own(::memfd_create("theirs", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(their_own.get(), 4096), 0);
  const wire::Reply other_file =
      session.ask(wire::RegisterRegion{1, 0, 4096, third, path}, {their_own.get()});
  EXPECT_EQ(other_file.status, Code::not_found);
  EXPECT_THAT(other_file.text, testing::HasSubstr("--ipc=host"));
  EXPECT_EQ(other.ask(wire::AttachRegion{1, third}).status, Code::not_found);
  // Nor a link without its region.
  EXPECT_NE(
      session.ask(wire::RegisterRegion{1, 0, 8192, "f" + link.substr(1), path}, {memory.get()})
          .status,
      Code::ok);
  EXPECT_EQ(other.ask(wire::AttachRegion{1, "f" + link.substr(1)}).status, Code::not_found);
  EXPECT_EQ(links->remove({}, link), Code::ok);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace penstock::fuse
