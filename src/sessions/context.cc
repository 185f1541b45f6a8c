#include "context.h"

#include <fmt/format.h>

namespace penstock::sessions {

void Context::end_broken(const char* why) const {
  const uint32_t uid = credentials().uid;
  node.log.warning(fmt::format("broken {}", uid),
                   fmt::format("a session of user {} ends: {}", uid, why));
  host.end_session(id);
}

void Context::on_shard(uint32_t shard, const std::function<void(engine::Op&)>& work) const {
  ASSERT(shard < node.shards.size());
  (void)engine::thread_caller().call(*node.shards[shard]->loop, work);
}

void Context::at_once_on_shard(uint32_t shard, const std::function<void()>& work) const {
  on_shard(shard, [&](engine::Op& done) {
    work();
    node.shards[shard]->loop->complete(done, Code::ok);
  });
}

uint32_t Context::next_shard() const {
  return node.next_shard.fetch_add(1, std::memory_order_relaxed) %
         static_cast<uint32_t>(node.shards.size());
}

Failure failure_of(const std::string& what, Status status) {
  ASSERT(!status.ok());
  return {status, fmt::format("{}: {}", what, status.name())};
}

namespace {

wire::Time to_wire(meta::FileTime time) {
  const auto nanoseconds = static_cast<uint32_t>(time.nanoseconds());
  ASSERT(nanoseconds < 1'000'000'000);
  return {time.seconds(), nanoseconds};
}

}  // namespace

wire::Attributes to_wire(const client::Attributes& attributes) {
  wire::Attributes out;
  out.inode = attributes.inode.value;
  out.type = meta::type_bits(attributes.type);
  out.mode = attributes.mode;
  out.uid = attributes.uid;
  out.gid = attributes.gid;
  out.links = attributes.links;
  out.length = attributes.length;
  out.device = attributes.device;
  out.accessed = to_wire(attributes.accessed);
  out.modified = to_wire(attributes.modified);
  out.changed = to_wire(attributes.changed);
  out.allocated = attributes.allocated;
  out.created = to_wire(attributes.created);
  out.chunk_bytes = attributes.layout.chunk_bytes();
  return out;
}

meta::FileTime to_time(const wire::Time& time) {
  return {time.seconds, int64_t{time.nanoseconds}};
}

}  // namespace penstock::sessions
