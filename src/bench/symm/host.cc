#include "host.h"

#include "pes.h"

#include <cstring>

namespace penstock::bench {
namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t kEnd = UINT64_MAX;
constexpr uint64_t kHeapBeside = uint64_t{4} << 20;  // what the group and the words take

uint64_t seen(const uint64_t* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

}  // namespace

Outcome<std::unique_ptr<SymmHost>> SymmHost::join(job::Member& member, uint64_t bytes) {
  symm::GroupOptions options;
  options.name = "measured";
  options.heap_bytes = bytes + kHeapBeside;
  TRY_ASSIGN(options.rdma, symm::rdma_from_environment());
  TRY_ASSIGN(auto group, symm::Group::join(member, options));
  const auto word = group->heap().allocate(kLine, kLine);
  const auto there = group->heap().allocate(bytes, kLine);
  if (!word || !there)
    return Failure{Code::no_memory,
                   fmt::format("a symmetric heap of {} bytes is too small", bytes)};
  std::unique_ptr<SymmHost> host(new SymmHost(std::move(group)));
  host->word_ = reinterpret_cast<uint64_t*>(host->group_->heap_address(*word));
  host->there_ = host->group_->heap_address(*there);
  // All that is measured is there already.
  std::memset(host->there_, 1, bytes);
  host->here_.assign(bytes, std::byte{2});
  return host;
}

Status SymmHost::puts(uint64_t calls, uint64_t bytes, uint32_t pe) {
  for (uint64_t i = 0; i < calls; ++i) TRY(group_->put(there_, here_.data(), bytes, pe));
  static_cast<void>(group_->quiet());
  // Memory alone does not tell that the other one has ended.
  return group_->health();
}

Status SymmHost::quiet_puts(uint64_t calls, uint64_t bytes, uint32_t pe) {
  for (uint64_t i = 0; i < calls; ++i) {
    TRY(group_->put(there_, here_.data(), bytes, pe));
    static_cast<void>(group_->quiet());
  }
  return group_->health();
}

Status SymmHost::gets(uint64_t calls, uint64_t bytes, uint32_t pe) {
  for (uint64_t i = 0; i < calls; ++i) {
    TRY(group_->get(here_.data(), there_, bytes, pe));
    // The next one is made when this one is there, and is made although nothing may have changed.
    group_->fence();
  }
  return group_->health();
}

Status SymmHost::send(uint64_t value, uint64_t bytes, uint32_t pe) {
  if (bytes == 0) return symm::atomic_set(*group_, word_, value, pe);
  return group_->put_signal(there_, here_.data(), bytes, word_, value, symm::SignalOp::set, pe);
}

Status SymmHost::wait_for(uint64_t value) {
  return group_->wait([&] { return seen(word_) == value; });
}

Status SymmHost::pings(uint64_t calls, uint64_t bytes, uint32_t pe) {
  for (uint64_t i = 0; i < calls; ++i) {
    TRY(send(++turn_, bytes, pe));
    TRY(wait_for(turn_));
  }
  return {};
}

Status SymmHost::end_echo(uint32_t pe) {
  TRY(send(kEnd, 0, pe));
  TRY(wait_for(kEnd));
  turn_ = 0;
  __atomic_store_n(word_, 0, __ATOMIC_RELEASE);
  return {};
}

Status SymmHost::echo(uint64_t bytes, uint32_t pe) {
  uint64_t last = 0;
  while (last != kEnd) {
    TRY(group_->wait([&] { return seen(word_) != last; }));
    last = seen(word_);
    if (last == kEnd) __atomic_store_n(word_, 0, __ATOMIC_RELEASE);
    TRY(send(last, last == kEnd ? 0 : bytes, pe));
  }
  return {};
}

}  // namespace penstock::bench
