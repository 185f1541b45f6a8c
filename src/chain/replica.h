// One replica: takes part in versions of its chain, and hands calls to what answers them.
#pragma once

#include "credit.h"
#include "healing.h"
#include "repair.h"
#include "tombstones.h"
#include "updates.h"

namespace penstock::chain {

class Replica {
 public:
  Replica(Shared& host, ChainId chain);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  void adopt(const View& view);
  void on_call(engine::IncomingCall& call);
  // Sessions were fenced.
  void refuse_fenced() { updates_.refuse_fenced(); }
  // What is under way ends without effect.
  void close() {
    *core_.alive = false;
    healing_.stop();
  }

  // A scrub has found a damaged block.
  void heal(const store::ChainChunk& at, uint32_t block, Healing::Ended ended) {
    healing_.found(at, {block, block + 1}, std::move(ended));
  }

  uint64_t version() const { return core_.part.version(); }
  size_t pending() const { return updates_.pending_count(); }
  size_t waiting() const { return updates_.waiting_count(); }
  bool is_ungreeted() const { return core_.part.serves() && !core_.part.active; }

 private:
  template <class Request>
  void decode(engine::IncomingCall& call,
              void (Replica::*take)(engine::IncomingCall&, const Request&));

  void on_read(engine::IncomingCall& call, const wire::ChainReadRequest& request);
  void ask(const store::ChainChunk& at, std::function<void()> then,
           std::function<void()> otherwise);
  void on_ask(engine::IncomingCall& call, const wire::ChainAskRequest& request);
  struct Reading;
  void when_shown(engine::IncomingCall& call, const store::ChainChunk& at,
                  std::function<void()> then);
  void read_committed(engine::IncomingCall& call, const wire::ChainReadRequest& request);
  void place_bytes(engine::IncomingCall& call, const std::shared_ptr<Reading>& reading);
  void on_probe(engine::IncomingCall& call, const wire::ChainReadRequest& request);
  void probe_committed(engine::IncomingCall& call, const wire::ChainReadRequest& request);
  void on_chunks(engine::IncomingCall& call, const wire::ChainChunksRequest& request);
  void on_inodes(engine::IncomingCall& call, const wire::ChainInodesRequest& request);

  void on_update(engine::IncomingCall& call, const wire::ChainUpdateRequest& request);
  void on_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request);
  void on_word(engine::IncomingCall& call, const wire::ChainWordRequest& request);
  void on_committed(engine::IncomingCall& call, const wire::ChainNameRequest& request);
  void on_replace(engine::IncomingCall& call, const wire::ChainReplaceRequest& request);
  void on_list(engine::IncomingCall& call, const wire::ChainListRequest& request);
  void on_copy(engine::IncomingCall& call, const wire::ChainCopyRequest& request);
  void on_hello(engine::IncomingCall& call, const wire::ChainHelloRequest& request);
  void take_hello(engine::IncomingCall& call, const wire::ChainHelloRequest& request,
                  Bytes entries);

  void on_grant(engine::IncomingCall& call, const wire::ChainGrantRequest& request);
  void watch();
  void on_state(engine::IncomingCall& call, const wire::ChainStateRequest& request);
  void activate(const std::map<ChunkId, UpdateName>* before);
  void greet(const Member& to);
  void greeted();

  Core core_;
  Updates updates_;
  Repair repair_;
  Healing healing_;
  Credit credit_;
  Tombstones tombstones_;
  // As the syncing one: the repair that it knows of.
  uint64_t repaired_since_ = 0;
};

}  // namespace penstock::chain
