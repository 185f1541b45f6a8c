// Where the nodes of the cluster are, as TCP asks for it.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "penstock/membership.h"
#include "penstock/tcp.h"

namespace penstock::cluster {

// Thread safe.
class Addresses final : public tcp::Resolver {
 public:
  // Of this node's own cards. Before others ask.
  void set_rails(std::set<uint16_t> rails) { rails_ = std::move(rails); }

  std::vector<tcp::SocketAddress> addresses_of(NodeId node) const override {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(node);
    if (found == known_.end()) return {};
    std::vector<tcp::SocketAddress> all = found->second;
    const auto turned = turns_.find(node);
    if (turned != turns_.end() && !all.empty()) {
      const auto by = static_cast<std::ptrdiff_t>(turned->second % all.size());
      std::rotate(all.begin(), all.begin() + by, all.end());
    }
    return all;
  }
  // The same in the node's own order.
  std::vector<tcp::SocketAddress> told_of(NodeId node) const {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(node);
    return found == known_.end() ? std::vector<tcp::SocketAddress>() : found->second;
  }
  // It does not answer as it should where it was tried first: another place comes first from now
  // on, until it tells where it is. False: there is only one.
  bool turn(NodeId node) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(node);
    if (found == known_.end() || found->second.size() < 2) return false;
    ++turns_[node];
    return true;
  }

  bool was_removed(NodeId node) const override {
    const std::lock_guard lock(mutex_);
    return removed_.contains(node);
  }

  void set(NodeId node, std::vector<tcp::SocketAddress> addresses) {
    const std::lock_guard lock(mutex_);
    turns_.erase(node);
    known_[node] = std::move(addresses);
  }
  // Cards on a rail that this node has come first, otherwise in the node's own order. Cards whose
  // host is no numeric address are left out: nothing here looks up names.
  void learn(const controller::Node& node) {
    std::vector<controller::CardAddress> cards = node.facts.cards;
    std::stable_partition(cards.begin(), cards.end(), [this](const controller::CardAddress& card) {
      return rails_.contains(card.rail);
    });
    std::vector<tcp::SocketAddress> addresses;
    for (const controller::CardAddress& card : cards) {
      const bool is_six = card.host.find(':') != std::string::npos;
      const std::string host = is_six ? "[" + card.host + "]" : card.host;
      const auto address = tcp::SocketAddress::parse(host + ":" + std::to_string(card.port));
      if (address) addresses.push_back(*address);
    }
    // A removed node is not called any more.
    if (node.standing == controller::Standing::removed) {
      addresses.clear();
      const std::lock_guard lock(mutex_);
      removed_.insert(node.id);
    }
    set(node.id, std::move(addresses));
  }

 private:
  std::set<uint16_t> rails_;
  mutable engine::Mutex mutex_;
  std::map<NodeId, std::vector<tcp::SocketAddress>> known_;
  std::map<NodeId, size_t> turns_;
  std::set<NodeId> removed_;
};

}  // namespace penstock::cluster
