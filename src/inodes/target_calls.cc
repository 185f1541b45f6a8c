#include "penstock/inodes/target_calls.h"

#include <array>
#include <set>

#include "penstock/inodes/limits.h"

namespace penstock::inodes {

using wire::ChunkMethod;

struct TargetCalls::Call : engine::CallOp {
  ChainId chain;
  ChunkMethod what = ChunkMethod::sync;
  wire::ChunkRequest message;
  union {
    wire::ChunkIoResponse io;
    wire::ChunkRemoveResponse removed;
    wire::ChunkInodesResponse inodes;
    wire::ChunkEndResponse end{};
  };

  Call(ChainId to_chain, ChunkMethod to_do, wire::ChunkRequest with)
      : chain(to_chain), what(to_do), message(with) {}
  // Before the call runs; and after, of what it answered only `end`.
  Call(Call&& other) noexcept : Call(other.chain, other.what, other.message) {
    response_length = other.response_length;
    end = other.end;
  }
};

struct TargetCalls::Batch {
  engine::Loop* loop = nullptr;
  engine::Op* done = nullptr;
  size_t left = 0;
  Status status;
};

// All at once: there are only as many as targets, or a bounded batch of them.
Status TargetCalls::run(std::vector<Call>& calls, engine::Duration most) {
  if (calls.empty()) return Code::ok;
  const Shard& shard = config_.shards[calls.front().chain.value % config_.shards.size()];
  Batch batch;
  return engine::thread_caller().call(*shard.loop, [&](engine::Op& done) {
    batch.loop = shard.loop;
    batch.done = &done;
    batch.left = calls.size();
    for (Call& call : calls) {
      call.to = config_.chains->at(call.chain);
      call.method = static_cast<uint16_t>(call.what);
      call.request = wire::as_wire(call.message);
      if (call.what == ChunkMethod::read || call.what == ChunkMethod::write ||
          call.what == ChunkMethod::probe) {
        call.response = std::as_writable_bytes(std::span(&call.io, 1));
      } else if (call.what == ChunkMethod::remove) {
        call.response = std::as_writable_bytes(std::span(&call.removed, 1));
      } else if (call.what == ChunkMethod::end_query) {
        call.response = std::as_writable_bytes(std::span(&call.end, 1));
      } else if (call.what == ChunkMethod::inodes) {
        call.response = std::as_writable_bytes(std::span(&call.inodes, 1));
      }
      call.deadline = shard.loop->clock().now() + most;
      call.owner = &batch;
      call.completion = [](engine::Op& ended) {
        auto& self = ended.owner_as<Batch>();
        ASSERT(self.left > 0);
        if (self.status.ok()) self.status = ended.status;
        if (--self.left == 0) self.loop->complete(*self.done, self.status);
      };
      shard.net->call(call);
    }
  });
}

Status TargetCalls::wait(const std::function<void(engine::Loop&, engine::Op&)>& start) {
  engine::Loop& loop = *config_.shards.front().loop;
  return engine::thread_caller().call(loop, [&](engine::Op& done) { start(loop, done); });
}

Status TargetCalls::clear(InodeId inode, const Placement& placement, uint32_t chunk, uint32_t begin,
                          uint32_t end, bool durable) {
  std::vector<Call> calls;
  calls.emplace_back(placement.chain_of(chunk), ChunkMethod::clear,
                     wire::ChunkRequest{.inode = inode.value,
                                        .chunk = chunk,
                                        .begin = begin,
                                        .length = end,
                                        .flags = durable ? uint32_t{wire::kChunkDurable} : 0});
  return run(calls);
}

Status TargetCalls::clear_beyond(InodeId inode, const Placement& placement, Beyond beyond,
                                 bool durable) {
  uint32_t first_gone = placement.chunk_of(beyond.begin);
  if (const uint32_t within = placement.within(beyond.begin); within != 0) {
    TRY(clear(inode, placement, first_gone, within, wire::kChunkEnd, durable));
    if (first_gone == UINT32_MAX) return Code::ok;
    ++first_gone;
  } else if (beyond.begin >= placement.file_bytes_max()) {
    return Code::ok;  // there is no chunk behind it
  }
  std::vector<Call> calls;
  for (const ChainId chain :
       placement.chains_between(placement.offset_of(first_gone), beyond.end)) {
    calls.emplace_back(chain, ChunkMethod::remove,
                       wire::ChunkRequest{.inode = inode.value,
                                          .chunk = first_gone,
                                          .flags = durable ? uint32_t{wire::kChunkDurable} : 0});
  }
  return run(calls);
}

Status TargetCalls::remove(std::span<const Removed> files) {
  std::vector<Call> calls;
  std::set<ChainId> asked;
  for (const Removed& file : files) {
    for (const ChainId chain : file.chains) {
      asked.insert(chain);
      if (calls.size() == limits::kRemoveBatch) {
        TRY(run(calls));
        calls.clear();
      }
      calls.emplace_back(chain, ChunkMethod::remove, wire::ChunkRequest{.inode = file.inode.value});
    }
  }
  TRY(run(calls));
  return sync(std::vector<ChainId>(asked.begin(), asked.end()));
}

// What a chain of another node says is not believed to be in order.
Status TargetCalls::take_inodes(const Call& call, InodeId to, ByInode& files, InodeId& next) {
  const InodeId from{call.message.inode};
  const InodeId its_next{call.inodes.next};
  const bool all = its_next == InodeId{};
  const bool is_good = call.response_length == sizeof call.inodes &&
                       call.inodes.count <= call.message.length && (all || its_next > from);
  if (!is_good) return Code::bad_message;
  const auto* const first = reinterpret_cast<const InodeId*>(call.exposures[0].memory.data);
  std::optional<InodeId> last;
  for (const InodeId inode : std::span(first, call.inodes.count)) {
    if (inode < from || (!all && inode >= its_next) || (last && inode <= *last)) {
      return Code::bad_message;
    }
    last = inode;
    if (inode <= to) files[inode].push_back(call.chain);
  }
  if (!all && its_next <= to && (next == InodeId{} || its_next < next)) next = its_next;
  return Code::ok;
}

// All chains have told of what is below the least number from which one has to be asked on.
Result<TargetCalls::Listed> TargetCalls::with_chunks(InodeId from, InodeId to) {
  ASSERT(from != InodeId{});
  const std::vector<ChainId> chains = config_.chains->all();
  using Numbers = std::array<InodeId, wire::kInodesMax>;
  std::vector<Numbers> memory(std::min(chains.size(), limits::kListBatch));
  ByInode files;
  InodeId next;
  for (size_t at = 0; at < chains.size(); at += memory.size()) {
    const size_t count = std::min(memory.size(), chains.size() - at);
    std::vector<Call> calls;
    calls.reserve(count);  // exposures do not move
    for (size_t i = 0; i < count; ++i) {
      const wire::ChunkRequest request{.inode = from.value, .length = wire::kInodesMax};
      Call& call = calls.emplace_back(chains[at + i], ChunkMethod::inodes, request);
      std::byte* const numbers = reinterpret_cast<std::byte*>(memory[i].data());
      call.exposures[0] = {{numbers, sizeof(Numbers)}, engine::Access::place};
      call.exposure_count = 1;
    }
    TRY(run(calls));
    for (const Call& call : calls) TRY(take_inodes(call, to, files, next));
    if (next != InodeId{}) files.erase(files.lower_bound(next), files.end());
  }
  Listed listed;
  for (auto& [inode, its_chains] : files) listed.files.push_back({inode, std::move(its_chains)});
  listed.next = next;
  return listed;
}

Status TargetCalls::read_record(engine::MemoryRef memory) {
  if (config_.records != nullptr) {
    return config_.records->read({static_cast<std::byte*>(memory.data), memory.length});
  }
  std::vector<Call> calls;
  calls.emplace_back(config_.records_chain, ChunkMethod::read,
                     wire::ChunkRequest{.inode = kRecordsInode.value,
                                        .length = static_cast<uint32_t>(memory.length),
                                        .flags = wire::kChunkRefuseHoles});
  calls.front().exposures[0] = {memory, engine::Access::place};
  calls.front().exposure_count = 1;
  return run(calls);
}

Status TargetCalls::write_record(engine::MemoryRef memory) {
  if (config_.records != nullptr) {
    return config_.records->write({static_cast<const std::byte*>(memory.data), memory.length});
  }
  std::vector<Call> calls;
  calls.emplace_back(config_.records_chain, ChunkMethod::write,
                     wire::ChunkRequest{.inode = kRecordsInode.value,
                                        .length = static_cast<uint32_t>(memory.length),
                                        .flags = wire::kChunkDurable});
  calls.front().exposures[0] = {memory, engine::Access::fetch};
  calls.front().exposure_count = 1;
  return run(calls);
}

Status TargetCalls::sync_all() {
  return sync(config_.chains->all());
}

Status TargetCalls::sync(std::span<const ChainId> chains) {
  std::vector<Call> calls;
  calls.reserve(chains.size());
  for (const ChainId chain : chains) {
    calls.emplace_back(chain, ChunkMethod::sync, wire::ChunkRequest{});
  }
  return run(calls);
}

Result<std::vector<TargetCalls::Call>> TargetCalls::ask_ends(InodeId inode,
                                                             const Placement& placement,
                                                             engine::Duration most) {
  std::vector<Call> calls;
  calls.reserve(placement.chain_count());
  for (uint32_t i = 0; i < placement.chain_count(); ++i) {
    calls.emplace_back(placement.chain(i), ChunkMethod::end_query,
                       wire::ChunkRequest{.inode = inode.value});
  }
  TRY(run(calls, most));
  for (const Call& call : calls) {
    const wire::ChunkEndResponse& answer = call.end;
    if (call.response_length != sizeof answer || answer.any > 1 ||
        answer.end_in_chunk > placement.chunk_bytes()) {
      return Code::bad_message;
    }
  }
  return calls;
}

Result<uint64_t> TargetCalls::allocated(InodeId inode, const Placement& placement) {
  TRY_ASSIGN(const std::vector<Call> calls, ask_ends(inode, placement, limits::kAllocatedTimeout));
  uint64_t bytes = 0;
  for (const Call& call : calls) bytes += call.end.allocated_bytes;
  return bytes;
}

Result<uint64_t> TargetCalls::seek(InodeId inode, const Placement& placement, uint64_t from,
                                   uint64_t end, bool hole) {
  // A hole behind all that is stored may be as long as the largest file: it is not walked over.
  TRY_ASSIGN(const uint64_t bytes, end_of(inode, placement));
  const uint64_t stored = std::min(end, align_up(bytes, limits::kBlockBytes));
  if (from >= stored) return hole ? from : end;
  TRY_ASSIGN(const uint64_t found, seek_stored(inode, placement, from, stored, hole));
  return found == stored && !hole ? end : found;
}

Result<uint64_t> TargetCalls::seek_stored(InodeId inode, const Placement& placement, uint64_t from,
                                          uint64_t end, bool hole) {
  for (uint64_t at = from; at < end;) {
    std::vector<Call> calls;
    calls.reserve(limits::kProbeBatch);
    const uint64_t batch = at;
    while (at < end && calls.size() < limits::kProbeBatch) {
      const uint32_t chunk = placement.chunk_of(at);
      const uint64_t stop = std::min(end, placement.offset_of(chunk) + placement.chunk_bytes());
      calls.emplace_back(placement.chain_of(chunk), ChunkMethod::probe,
                         wire::ChunkRequest{.inode = inode.value,
                                            .chunk = chunk,
                                            .begin = placement.within(at),
                                            .length = static_cast<uint32_t>(stop - at)});
      at = stop;
    }
    TRY(run(calls));
    uint64_t begin = batch;
    for (const Call& call : calls) {
      if (call.response_length != sizeof call.io) return Code::bad_message;
      const bool is_hole = call.io.route == static_cast<uint8_t>(engine::Route::hole);
      if (is_hole == hole) return begin;
      // Where the first kind ends the other begins.
      const uint64_t block = begin / limits::kBlockBytes * limits::kBlockBytes;
      const uint64_t other = block + uint64_t{call.io.bad_block} * limits::kBlockBytes;
      if (call.io.bad_block == 0) return Code::bad_message;
      if (other < begin + call.message.length) return other;
      begin += call.message.length;
    }
  }
  return end;
}

Result<uint64_t> TargetCalls::end_of(InodeId inode, const Placement& placement) {
  TRY_ASSIGN(const std::vector<Call> calls, ask_ends(inode, placement));
  uint64_t end = 0;
  for (const Call& call : calls) {
    const wire::ChunkEndResponse& answer = call.end;
    if (answer.any == 0) continue;
    end = std::max(end, placement.offset_of(answer.last_chunk) + answer.end_in_chunk);
  }
  return std::min(end, placement.file_bytes_max());
}

}  // namespace penstock::inodes
