#include "cluster_story.h"

#include <gtest/gtest.h>

namespace penstock::membership {

using std::chrono::milliseconds;
using std::chrono::seconds;

ClusterStory::ClusterStory(uint64_t seed, bool on_targets)
    : world_(seed), network_(world_), records_(world_) {
  world_.set_time_limit(std::chrono::hours(2));
  network_.faults.detection = milliseconds(300);
  storage_ = 2 + world_.random().below(3);
  const engine::Duration give_max = world_.chance(300) ? milliseconds(400) : milliseconds(2);
  const auto newest = static_cast<uint32_t>(1 + world_.random().below(3));
  const uint32_t count = static_cast<uint32_t>(storage_) + 3;
  for (uint32_t number = 1; number <= count; ++number) {
    SimNodeConfig config;
    config.number = number;
    config.give_max = give_max;
    config.newest = newest;
    config.timing.suspicion = seconds(3);
    const bool has_chunks = number <= storage_ + 1;
    if (has_chunks && on_targets) {
      config.storage = std::make_unique<test::TargetStorage>(world_);
    } else if (has_chunks) {
      config.storage = std::make_unique<test::MemoryStorage>(world_);
    }
    if (number == 1) config.records = &records_;
    nodes_.push_back(std::make_unique<SimNode>(world_, network_, std::move(config)));
    if (!has_chunks) clients_.push_back(nodes_.back().get());
  }
  if (storage_ > 2 && world_.chance(400)) late_ = nodes_[storage_].get();
}

void ClusterStory::begin() {
  controller().start();
  ASSERT_TRUE(world_.run_until([this] { return controller().member() != nullptr; }, seconds(10)))
      << where();
  for (const auto& node : nodes_) {
    if (node.get() != &controller() && node.get() != late_) node->start();
  }
  const auto is_ready = [this](const auto& node) {
    if (node.get() == late_) return true;
    return node->member() != nullptr && (!node->has_storage() || node->host() != nullptr);
  };
  ASSERT_TRUE(world_.run_until([&] { return std::all_of(nodes_.begin(), nodes_.end(), is_ready); },
                               seconds(10)))
      << where();
  const size_t early = storage_ + 1 - (late_ != nullptr ? 1 : 0);
  copies_ = static_cast<uint32_t>(std::min<size_t>(3, early));
  // Targets are up once they were reported.
  bool is_made = false;
  for (int left = 20; left > 0 && !is_made; --left) {
    const auto made =
        clients_[0]->ask(controller::TablePlan{.copies = copies_, .chains = kChains}, seconds(5));
    ASSERT_TRUE(made.has_value()) << made.error().name() << where();
    is_made = std::holds_alternative<controller::Made>(*made);
    if (!is_made) world_.run_for(milliseconds(100));
  }
  ASSERT_TRUE(is_made) << where();
  for (SimNode* client : clients_) registers_.push_back(client->registers(history_, kChains));
}

void ClusterStory::let_late_one_join() {
  if (late_ != nullptr) std::exchange(late_, nullptr)->start();
}

// Targets are of one size.
bool ClusterStory::is_even(const ClusterMap& map) const {
  size_t least = kChains, most = 0;
  for (const auto& [id, target] : map.targets()) {
    least = std::min(least, map.chains_of(id).size());
    most = std::max(most, map.chains_of(id).size());
  }
  return most <= least + 1;
}

bool ClusterStory::is_whole() {
  const ClusterMap& map = clients_[0]->member()->map();
  // What the client knows is what there is.
  if (controller().service() == nullptr) return false;
  const ControllerService::Status status = controller().service()->status();
  if (!status.leads || status.version != map.version()) return false;
  for (uint32_t i = 0; i < kChains; ++i) {
    const ChainId chain{kFirstSharedChain.value + i};
    const auto view = map.view_of(chain);
    if (!view || view->serving() != copies_ || view->members.size() != copies_) return false;
    // Not by what they were before they ended.
    const bool are_present =
        std::all_of(view->members.begin(), view->members.end(), [this](const auto& member) {
          return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
            return node->target() == member.target &&
                   node->incarnation().value == member.incarnation;
          });
        });
    if (!are_present) return false;
  }
  if (!is_even(map)) return false;
  for (const auto& node : nodes_) {
    if (node->member() == nullptr) return false;
    if (node->member()->applied() < map.version()) return false;
    if (!node->has_storage()) continue;
    if (node->host() == nullptr) return false;
    const chain::Host::Status chunks = node->host()->status();
    if (chunks.pending + chunks.waiting > 0) return false;
  }
  return true;
}

void ClusterStory::settle() {
  const bool whole = world_.run_until([this] { return is_whole(); }, seconds(90));
  EXPECT_TRUE(whole) << "no progress " << where();
  for (const auto& node : nodes_) {
    EXPECT_EQ(node->refusal(), "") << "node " << node->number() << " " << where();
  }
}

template <class Operation>
void ClusterStory::do_in(SimNode& node, Operation& op) {
  bool done = false;
  op.owner = &done;
  op.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
  node.store()->submit(op);
  world_.run_until([&] { return done; });
  ASSERT_TRUE(op.status.ok()) << op.status.name() << where();
}

std::map<ChunkId, ClusterStory::Copy> ClusterStory::copies_of(SimNode& node, ChainId chain) {
  std::map<ChunkId, Copy> copies;
  EXPECT_TRUE(node.store()->pending(chain).empty()) << where();
  store::ListOp list;
  list.from = {chain, {}};
  list.limit = 100;
  do_in(node, list);
  for (const store::ListEntry& entry : list.entries) {
    Copy& copy = copies[entry.chunk];
    copy.committed = entry.state.committed;
    copy.bytes.resize(entry.state.length);
    if (copy.bytes.empty()) continue;
    store::CopyReadOp read;
    read.at = {chain, entry.chunk};
    read.destination = {reinterpret_cast<std::byte*>(copy.bytes.data()), copy.bytes.size()};
    do_in(node, read);
  }
  // A chunk of which nothing was ever committed is none.
  std::erase_if(copies, [](const auto& one) { return one.second.committed == UpdateName{}; });
  return copies;
}

void ClusterStory::check_copies() {
  for (uint32_t i = 0; i < kChains; ++i) {
    const ChainId chain{kFirstSharedChain.value + i};
    const auto view = clients_[0]->member()->map().view_of(chain);
    ASSERT_TRUE(view.has_value()) << where();
    std::optional<std::map<ChunkId, Copy>> first;
    for (const auto& node : nodes_) {
      const bool is_member =
          std::any_of(view->members.begin(), view->members.end(),
                      [&](const auto& member) { return member.target == node->target(); });
      if (!node->has_storage() || !is_member) continue;
      std::map<ChunkId, Copy> here = copies_of(*node, chain);
      if (!first) first = here;
      EXPECT_TRUE(here == *first) << "chain " << chain.value << " node " << node->number()
                                  << where();
    }
    EXPECT_TRUE(first.has_value()) << where();
  }
}

void ClusterStory::stop() {
  registers_.clear();
  std::vector<engine::Thread> ends;
  for (const auto& node : nodes_) {
    if (!node->is_up()) continue;
    ends.emplace_back("end", [&node] { node->die(false); });
  }
  for (engine::Thread& end : ends) end.join();
}

}  // namespace penstock::membership
