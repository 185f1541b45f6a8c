#include "penstock/load/distribute.h"

#include "ends.h"
#include "limits.h"

namespace penstock::load {

namespace {

// One of the two.
struct End {
  Fetch* fetch = nullptr;
  Forward* forward = nullptr;
};

class TransferCarrier final : public Carrier {
 public:
  TransferCarrier(std::span<const FileTransfers> transfers, const engine::Clock& clock)
      : transfers_(transfers), ends_(std::make_shared<Ends<End>>(clock)) {}

  void start(Fetch& fetch) override {
    const FileTransfers& link = transfers_[fetch.link];
    if (fetch.is_list) {
      start_read(link, fetch, fetch.list);
    } else {
      start_read(link, fetch, fetch.range);
    }
  }

  // By the transfers of the destination's own link, which have lanes of that device.
  void start(Forward& forward) override {
    forward.copy.owner = &forward;
    forward.copy.ended = [](route::PeerTransfer& copy) {
      auto& ended = copy.owner_as<Forward>();
      put(*ended.fetch, {.forward = &ended});
    };
    transfers_[forward.destination].transfers->post(forward.copy);
  }

  void cancel(Fetch& fetch) override {
    route::Transfers& transfers = *transfers_[fetch.link].transfers;
    if (fetch.is_list) {
      transfers.cancel(fetch.list);
    } else {
      transfers.cancel(fetch.range);
    }
  }

  // Tells the spread what has ended; waits until the deadline when nothing has.
  void wait(engine::Time deadline, Spread& spread) {
    for (const End& end : ends_->wait(deadline)) {
      if (end.fetch != nullptr) {
        spread.fetched(*end.fetch);
      } else {
        spread.forwarded(*end.forward);
      }
    }
  }

 private:
  template <class AnyTransfer>
  static void start_read(const FileTransfers& link, Fetch& fetch, AnyTransfer& transfer) {
    transfer.file = link.files[fetch.file];
    transfer.owner = &fetch;
    transfer.ended = [](AnyTransfer& read) {
      auto& ended = read.template owner_as<Fetch>();
      put(ended, {.fetch = &ended});
    };
    link.transfers->post(transfer);
  }

  // In the thread that drives. Once it is put, this object may go away.
  static void put(const Fetch& fetch, End end) {
    const std::shared_ptr<Ends<End>> ends = static_cast<TransferCarrier*>(fetch.carrier)->ends_;
    ends->put(end);
  }

  const std::span<const FileTransfers> transfers_;
  const std::shared_ptr<Ends<End>> ends_;
};

}  // namespace

Outcome<Counts> distribute(const Order& order, std::span<const FileTransfers> transfers,
                           const engine::Clock& clock, const Progress& progress) {
  ASSERT(transfers.size() == order.links.size());
  TransferCarrier carrier(transfers, clock);
  Spread spread(order, carrier);
  const auto so_far = [&] {
    return fmt::format("after {} of {} bytes", spread.bytes_done(), order.pieces.bytes);
  };
  engine::Time next_told = clock.now();
  const auto tell = [&] {
    const engine::Time now = clock.now();
    if (progress == nullptr || spread.stopped() || (now < next_told && !spread.ended())) return;
    next_told = now + limits::kTellEvery;
    if (progress(spread.bytes_done(), order.pieces.bytes)) return;
    spread.stop({Code::cancelled, "cancelled " + so_far()});
  };
  spread.start();
  tell();
  while (!spread.ended()) {
    // What is in flight ends by itself soon after it was stopped.
    engine::Time until = spread.stopped() ? engine::kNever : order.deadline;
    if (progress != nullptr && !spread.stopped()) until = std::min(until, next_told);
    carrier.wait(until, spread);
    if (!spread.ended() && clock.now() >= order.deadline) {
      spread.stop({Code::timed_out, "the deadline passed " + so_far()});
    }
    tell();
  }
  if (spread.stopped()) return spread.failure();
  return spread.counts();
}

}  // namespace penstock::load
