// A share of a real device.
#pragma once

#include <algorithm>
#include <infiniband/verbs.h>
#include <unordered_map>
#include <vector>

#include "penstock/verbs/device.h"

namespace penstock::verbs {

// One port with one address.
struct PortFacts {
  uint8_t number = 1;
  uint8_t gid_index = 0;
  std::array<std::byte, 16> gid{};
  uint16_t lid = 0;
  uint8_t mtu = 1;
};

class IbvProvider final : public Provider {
 public:
  // Closes the context.
  IbvProvider(ibv_context* context, const PortFacts& port, DeviceFacts facts);
  ~IbvProvider() override;
  IbvProvider(const IbvProvider&) = delete;
  IbvProvider& operator=(const IbvProvider&) = delete;
  Status create();

  const DeviceFacts& facts() const override { return facts_; }
  Result<QueuePairId> create_queue_pair() override;
  Endpoint endpoint(QueuePairId id) const override;
  Status connect(QueuePairId id, const Endpoint& other) override;
  void break_queue_pair(QueuePairId id) override;
  void destroy_queue_pair(QueuePairId id) override;
  Result<MemoryId> register_memory(MutableBytes bytes, bool writable) override;
  Result<MemoryId> register_device_memory(const Region& region) override;
  void deregister_memory(MemoryId id) override;
  Result<Window> create_window() override;
  void destroy_window(WindowId id) override;
  Status post(QueuePairId id, const WorkRequest& request) override;
  Status post_receive(uint64_t id, MutableBytes buffer, MemoryId memory) override;
  size_t poll(std::span<Completion> completions) override;
  bool arm() override;
  void disarm() override;
  int wake_descriptor() const override { return channel_->fd; }
  std::optional<Event> next_event() override;

 private:
  struct Pair {
    ibv_qp* pair = nullptr;
    uint32_t first_packet = 0;
  };
  // In the id of a receive, so that it is known also where it failed.
  static constexpr uint64_t kReceive = uint64_t{1} << 63;

  MemoryId keep(ibv_mr* memory);
  void harvest();
  Completion translate(const ibv_wc& taken) const;

  ibv_context* const context_;
  const PortFacts port_;
  const DeviceFacts facts_;
  engine::SeededRandom random_;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_srq* receives_ = nullptr;
  uint32_t last_id_ = 0;
  std::unordered_map<uint32_t, Pair> pairs_;
  std::unordered_map<uint32_t, QueuePairId> numbers_;  // by the device's
  std::unordered_map<uint32_t, ibv_mr*> memories_;
  std::unordered_map<uint32_t, ibv_mw*> windows_;
  std::vector<Completion> pending_;  // harvested
};

}  // namespace penstock::verbs
