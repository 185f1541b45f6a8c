// Spread: brings files into the memory of several devices, each byte once from where it is stored,
// over every link that may carry it.
//
// A link is the way from host memory to one device. A link that has room takes the next piece, so
// that a slower link carries less. A piece goes to its destination at once where the link's device
// is one of those that want it, else into staging memory of a lender; as soon as it has landed and
// was verified there, copies from device to device take it to the others.
//
// Devices that do not reach one another's memory make groups, and each group is brought its own
// copy of everything over its own links.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/load/pieces.h"
#include "penstock/route.h"

namespace penstock::load {

// Pieces on their way over one link: enough to keep it busy while the thread that hands them out is
// being woken, and while a piece goes on to the other devices. Also what a lender's device gives
// its memory for.
inline constexpr uint32_t kPiecesPerLink = 4;

struct Link {
  engine::DeviceId device;
  // Memory of a lender for kPiecesPerLink pieces; empty: the device is one of the destinations.
  engine::DeviceSpan staging;
};

struct Order {
  Pieces pieces;
  std::vector<std::string> files;  // their names, for messages
  // Of different devices; each has room for all pieces.
  std::vector<engine::DeviceSpan> destinations;
  // First the destinations' own, in their order, then the lenders'.
  std::vector<Link> links;
  // What each device reaches, by device: DeviceFacts::peers.
  std::vector<uint64_t> peers;
  engine::Time deadline = engine::kNever;
};

// The destinations that reach one another's memory, as indexes: each joins the first group all of
// whose members it reaches. `peers` as in an order.
std::vector<std::vector<size_t>> groups_of(std::span<const engine::DeviceId> destinations,
                                           std::span<const uint64_t> peers);
// Whether the link of a device that is none of the destinations can carry for any of them: it must
// reach all of a group, and they it.
bool can_lend(engine::DeviceId lender, std::span<const engine::DeviceId> destinations,
              std::span<const uint64_t> peers);

// What went over one link.
struct LinkCounts {
  uint64_t pieces = 0;
  uint64_t bytes = 0;      // from host memory to the link's device
  uint64_t forwarded = 0;  // from there to other devices, each time that they were copied
};

struct Counts {
  std::vector<LinkCounts> links;  // as in the order
  // Bytes by the route that they took, over all destinations; device_peer: what was forwarded.
  std::array<uint64_t, engine::kRouteCount> routes{};
};

class Carrier;
struct Fetch;

// A piece that has landed, on its way to another device.
struct Forward {
  route::PeerTransfer copy;
  Fetch* fetch = nullptr;
  size_t destination = 0;
};

// A piece on its way over a link.
struct Fetch {
  Carrier* carrier = nullptr;
  // One of the two, with everything but `file` filled in.
  route::Transfer range;
  route::ListTransfer list;
  bool is_list = false;
  size_t link = 0;
  uint32_t file = 0;  // in the order

  // The spread's.
  size_t slot = 0;  // of the link
  size_t group = 0;
  const Piece* piece = nullptr;  // null: free
  bool landed = false;
  std::vector<route::ListEntry> entries;
  std::vector<std::unique_ptr<Forward>> forwards;
  size_t forwards_left = 0;
};

// Does what a spread has decided. Every operation ends later, never inside the call, by
// Spread::fetched() or Spread::forwarded().
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual void start(Fetch& fetch) = 0;
  virtual void start(Forward& forward) = 0;
  // Asks for an early end; it may have ended already.
  virtual void cancel(Fetch& fetch) = 0;
};

// Moves nothing itself and waits for nothing. One thread.
class Spread {
 public:
  // Both outlive it.
  Spread(const Order& order, Carrier& carrier);
  ~Spread();  // nothing is in flight

  void start();
  void fetched(Fetch& fetch);
  void forwarded(Forward& forward);
  // Nothing more is begun, and what is in flight ends early. The first reason counts.
  void stop(Failure why);

  // Nothing is in flight, nor will be: all has arrived, or failure() says why not. Nothing writes
  // to the memory any more.
  bool ended() const { return in_flight_ == 0 && (stopped() || pieces_left_ == 0); }
  bool stopped() const { return !failure_.status.ok(); }
  const Failure& failure() const { return failure_; }
  // Bytes that have arrived wherever they are wanted, of Pieces::bytes.
  uint64_t bytes_done() const { return bytes_done_ / groups_.size(); }
  const Counts& counts() const { return counts_; }

 private:
  // Destinations that reach one another, and get each piece once.
  struct Group {
    std::vector<size_t> members;  // of the order's destinations
    size_t next = 0;              // the piece to be handed out next
  };
  struct LinkState {
    std::vector<size_t> groups;  // that it carries for
    size_t next_group = 0;       // of these: the one that takes the next piece
    std::vector<std::unique_ptr<Fetch>> fetches;
  };

  void make_groups();
  void make_links();
  bool take_group(LinkState& link, size_t* group);
  size_t room_of(const LinkState& link) const;
  void fill(size_t link, size_t depth);
  void begin(Fetch& fetch, size_t group, const Piece& piece);
  engine::DeviceSpan destination_of(const Fetch& fetch, size_t destination) const;
  engine::DeviceSpan landing_of(const Fetch& fetch) const;
  Failure check(const Fetch& fetch) const;
  void forward(Fetch& fetch);
  void end_piece(Fetch& fetch);

  const Order& order_;
  Carrier& carrier_;
  std::vector<Group> groups_;
  std::vector<LinkState> links_;
  uint64_t pieces_left_ = 0;  // over all groups
  uint64_t in_flight_ = 0;    // fetches and forwards
  uint64_t bytes_done_ = 0;   // over all groups
  Failure failure_;
  Counts counts_;
};

}  // namespace penstock::load
