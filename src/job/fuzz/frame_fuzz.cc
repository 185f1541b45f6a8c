// Any bytes as the bodies of frames, and as a unique id. What is taken comes back alike.
#include "../frame.h"
#include "../rank_set.h"
#include "../task.h"
#include "../unique_id.h"
#include "fuzz.h"

#include <cstring>

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  using namespace penstock::job;
  const auto text = [](const std::vector<std::byte>& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const std::vector<uint32_t> ranks{0, 1, 2, 5, 9, 13};
  const std::vector<std::byte> bytes(10);
  Invitation invitation;
  invitation.addresses.resize(2, {4, {}});
  const UniqueId id = encode(invitation);
  Task task;
  task.version = "1";
  task.addresses = invitation.addresses;
  task.command = {"program", "argument"};
  task.environment = {{"NAME", "value"}};
  task.directory = "/";
  return {text(encode(Hello{1, 2, {}})),
          text(encode(Welcome{{0, 0, 1, 2, 2}})),
          text(encode_bring("name", ranks, bytes)),
          text(encode(FailedBody{Code::busy, "why"})),
          text(encode(EndedBody{{{3, How::killed, 9, "why"}}, {1, 2}})),
          text(encode_abort(3, "why")),
          text(encode_answer({{1, 2}, {3, 4}}, bytes)),
          text(encode(task)),
          text({id.bytes.begin(), id.bytes.end()})};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  using namespace penstock::job;
  constexpr uint32_t kSize = 16;
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto same = [&](const std::vector<std::byte>& other) {
    return other.size() == size && std::memcmp(other.data(), data, size) == 0;
  };
  (void)decode_hello(bytes);
  if (const auto welcome = decode_welcome(bytes)) {
    ASSERT(!welcome->node_of.empty() && welcome->node_of.size() <= job::limits::kRanksMax);
    ASSERT(welcome->place_of(0).node_rank == 0);
  }
  if (const auto failed = decode_failed(bytes)) ASSERT(same(encode(*failed)));
  if (const auto ended = decode_ended(bytes, kSize)) ASSERT(same(encode(*ended)));
  if (const auto told = decode_abort(bytes)) ASSERT(same(encode_abort(told->first, told->second)));
  if (const auto answer = decode_answer(bytes, kSize)) {
    ASSERT(same(encode_answer(answer->turns, answer->brought)));
  }
  if (const auto task = decode_task(bytes)) {
    ASSERT(same(encode(*task)) && task->count <= task->size - task->first);
    ASSERT(decode_task_version(bytes)->program == task->version);
  }
  if (const auto number = decode_number(bytes)) ASSERT(same(encode_number(*number)));
  if (const auto bring = decode_bring(bytes)) {
    ByteReader from(bring->ranks);
    const auto ranks = read_ranks(from, kSize);
    if (ranks) {
      ByteWriter to;
      write_ranks(to, *ranks);
      ByteReader again(to.bytes());
      ASSERT(read_ranks(again, kSize) == ranks);
    }
  }
  ByteReader from(bytes);
  if (const auto shares = decode_shares(from, 3, 2)) ASSERT(shares->size() == 3);
  if (size == sizeof(UniqueId)) {
    UniqueId id;
    std::memcpy(id.bytes.data(), data, size);
    if (const auto invitation = decode(id)) ASSERT(!invitation->addresses.empty());
  }
  return 0;
}
