#include "penstock/load/spread.h"

#include <algorithm>

namespace penstock::load {

using engine::DeviceId;
using engine::DeviceSpan;

namespace {

// A part of a span, of the same allocation.
DeviceSpan part_of(const DeviceSpan& span, uint64_t offset, uint64_t length) {
  ASSERT(range_within(offset, length, span.length));
  return {span.device, span.data + offset, length, span.allocation};
}

bool reach_each_other(DeviceId a, DeviceId b, std::span<const uint64_t> peers) {
  const auto reaches = [&](DeviceId from, DeviceId to) {
    return from.value < peers.size() && (peers[from.value] >> to.value & 1) != 0;
  };
  return a == b || (reaches(a, b) && reaches(b, a));
}

bool reaches_all(DeviceId device, const std::vector<size_t>& group,
                 std::span<const DeviceId> destinations, std::span<const uint64_t> peers) {
  return std::all_of(group.begin(), group.end(), [&](size_t member) {
    return reach_each_other(device, destinations[member], peers);
  });
}

std::vector<DeviceId> devices_of(const std::vector<DeviceSpan>& spans) {
  std::vector<DeviceId> out;
  for (const DeviceSpan& span : spans) out.push_back(span.device);
  return out;
}

const engine::Op& operation_of(const Fetch& fetch) {
  return fetch.is_list ? static_cast<const engine::Op&>(fetch.list) : fetch.range;
}

// Where in the file the first byte is that did not come.
uint64_t first_missing(const Fetch& fetch) {
  if (!fetch.is_list) return fetch.range.offset + fetch.range.transferred;
  const auto is_short = [](const route::ListEntry& entry) { return entry.done < entry.length; };
  const auto found = std::find_if(fetch.entries.begin(), fetch.entries.end(), is_short);
  return found != fetch.entries.end() ? found->offset + found->done : fetch.piece->offset;
}

}  // namespace

std::vector<std::vector<size_t>> groups_of(std::span<const DeviceId> destinations,
                                           std::span<const uint64_t> peers) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < destinations.size(); ++i) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return reaches_all(destinations[i], group, destinations, peers);
    });
    (found != groups.end() ? *found : groups.emplace_back()).push_back(i);
  }
  return groups;
}

bool can_lend(DeviceId lender, std::span<const DeviceId> destinations,
              std::span<const uint64_t> peers) {
  const std::vector<std::vector<size_t>> groups = groups_of(destinations, peers);
  return std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
    return reaches_all(lender, group, destinations, peers);
  });
}

Spread::Spread(const Order& order, Carrier& carrier) : order_(order), carrier_(carrier) {
  ASSERT(!order.destinations.empty() && order.links.size() >= order.destinations.size());
  make_groups();
  make_links();
  pieces_left_ = order.pieces.pieces.size() * groups_.size();
  counts_.links.resize(order.links.size());
}

Spread::~Spread() {
  ASSERT(in_flight_ == 0);
}

void Spread::make_groups() {
  for (auto& members : groups_of(devices_of(order_.destinations), order_.peers)) {
    groups_.push_back({.members = std::move(members)});
  }
}

// A destination's link carries for its own group, a lender's for all groups whose members it
// reaches.
void Spread::make_links() {
  const std::vector<DeviceId> destinations = devices_of(order_.destinations);
  for (size_t i = 0; i < order_.links.size(); ++i) {
    LinkState& link = links_.emplace_back();
    const bool lends = i >= order_.destinations.size();
    for (size_t g = 0; g < groups_.size(); ++g) {
      const std::vector<size_t>& members = groups_[g].members;
      const bool carries =
          lends ? reaches_all(order_.links[i].device, members, destinations, order_.peers)
                : std::find(members.begin(), members.end(), i) != members.end();
      if (carries) link.groups.push_back(g);
    }
    for (uint32_t slot = 0; slot < kPiecesPerLink; ++slot) {
      link.fetches.push_back(std::make_unique<Fetch>());
      Fetch& fetch = *link.fetches.back();
      fetch.carrier = &carrier_;
      fetch.link = i;
      fetch.slot = slot;
    }
  }
}

// One for each link first, then a second one, so that few pieces are shared evenly, too.
void Spread::start() {
  for (size_t depth = 1; depth <= kPiecesPerLink; ++depth) {
    for (size_t link = 0; link < links_.size(); ++link) fill(link, depth);
  }
}

// How many pieces a link may have on its way. Near the end no more than its share of what is left,
// and one to go on with, so that none waits on one link while another has nothing to do.
size_t Spread::room_of(const LinkState& link) const {
  size_t left = 0;
  for (const size_t group : link.groups) left += order_.pieces.pieces.size() - groups_[group].next;
  const size_t share = (left + links_.size() - 1) / links_.size();
  return std::min<size_t>(share + 1, kPiecesPerLink);
}

// The groups that a link carries for take pieces one after the other.
bool Spread::take_group(LinkState& link, size_t* group) {
  for (size_t tried = 0; tried < link.groups.size(); ++tried) {
    *group = link.groups[link.next_group++ % link.groups.size()];
    if (groups_[*group].next < order_.pieces.pieces.size()) return true;
  }
  return false;
}

void Spread::fill(size_t index, size_t depth) {
  LinkState& link = links_[index];
  const auto is_busy = [](const auto& fetch) { return fetch->piece != nullptr; };
  auto busy = static_cast<size_t>(std::count_if(link.fetches.begin(), link.fetches.end(), is_busy));
  for (const auto& fetch : link.fetches) {
    size_t group = 0;
    if (is_busy(fetch)) continue;
    if (stopped() || busy >= std::min(depth, room_of(link)) || !take_group(link, &group)) return;
    begin(*fetch, group, order_.pieces.pieces[groups_[group].next++]);
    ++busy;
  }
}

DeviceSpan Spread::destination_of(const Fetch& fetch, size_t destination) const {
  return part_of(order_.destinations[destination], fetch.piece->memory_offset, fetch.piece->length);
}

DeviceSpan Spread::landing_of(const Fetch& fetch) const {
  if (fetch.link < order_.destinations.size()) return destination_of(fetch, fetch.link);
  return part_of(order_.links[fetch.link].staging, fetch.slot * order_.pieces.piece_bytes,
                 fetch.piece->length);
}

void Spread::begin(Fetch& fetch, size_t group, const Piece& piece) {
  fetch.group = group;
  fetch.piece = &piece;
  fetch.file = piece.file;
  fetch.landed = false;
  fetch.is_list = piece.entries > 0;
  if (fetch.is_list) {
    const auto first = order_.pieces.entries.begin() + static_cast<ptrdiff_t>(piece.first_entry);
    fetch.entries.assign(first, first + static_cast<ptrdiff_t>(piece.entries));
    fetch.list.entries = fetch.entries;
    fetch.list.memory = landing_of(fetch);
    fetch.list.deadline = order_.deadline;
  } else {
    fetch.range.offset = piece.offset;
    fetch.range.memory = landing_of(fetch);
    fetch.range.deadline = order_.deadline;
  }
  ++in_flight_;
  carrier_.start(fetch);
}

// What is wrong with a piece that has come to its end; ok: all of it is there.
Failure Spread::check(const Fetch& fetch) const {
  const Status status = operation_of(fetch).status;
  const std::string& name = order_.files[fetch.file];
  const uint32_t gpu = order_.links[fetch.link].device.value;
  if (status == Code::cancelled || status == Code::timed_out) {
    return {status, fmt::format("{}: {} after {} of {} bytes", name,
                                status == Code::cancelled ? "cancelled" : "the deadline passed",
                                bytes_done(), order_.pieces.bytes)};
  }
  if (status == Code::corrupt) {
    const uint64_t at = fetch.is_list ? first_missing(fetch) : fetch.range.bad_offset;
    return {status,
            fmt::format("{}: the bytes at {} do not verify in the memory of GPU {} (try again; "
                        "'penstock scrub' tells whether what is stored is damaged)",
                        name, at, gpu)};
  }
  if (!status.ok()) {
    return {status, fmt::format("{}: read from byte {} on into the memory of GPU {}: {}", name,
                                first_missing(fetch), gpu, status.name())};
  }
  const uint64_t bytes = fetch.is_list ? fetch.list.transferred : fetch.range.transferred;
  if (bytes == fetch.piece->bytes) return {};
  // It ends there, or before: this piece may lie wholly behind the end.
  return {Code::corrupt, fmt::format("{}: nothing is there any more from byte {} on, where its "
                                     "tensors were: it became shorter while it was read",
                                     name, first_missing(fetch))};
}

void Spread::fetched(Fetch& fetch) {
  --in_flight_;
  fetch.landed = true;
  Failure wrong = check(fetch);
  if (!wrong.status.ok()) stop(std::move(wrong));
  if (stopped()) return end_piece(fetch);
  LinkCounts& counts = counts_.links[fetch.link];
  ++counts.pieces;
  counts.bytes += fetch.piece->bytes;
  const engine::Route route = fetch.is_list ? fetch.list.route : fetch.range.route;
  counts_.routes[static_cast<size_t>(route)] += fetch.piece->bytes;
  forward(fetch);
  if (fetch.forwards_left == 0) end_piece(fetch);
}

// To all members of the group that do not have it.
void Spread::forward(Fetch& fetch) {
  const std::vector<size_t>& members = groups_[fetch.group].members;
  fetch.forwards_left = 0;
  for (const size_t member : members) {
    if (member == fetch.link) continue;
    if (fetch.forwards_left == fetch.forwards.size()) {
      fetch.forwards.push_back(std::make_unique<Forward>());
    }
    Forward& forward = *fetch.forwards[fetch.forwards_left++];
    forward.fetch = &fetch;
    forward.destination = member;
    forward.copy.from = landing_of(fetch);
    forward.copy.to = destination_of(fetch, member);
  }
  in_flight_ += fetch.forwards_left;
  for (size_t i = 0; i < fetch.forwards_left; ++i) carrier_.start(*fetch.forwards[i]);
}

void Spread::forwarded(Forward& forward) {
  --in_flight_;
  Fetch& fetch = *forward.fetch;
  const Status status = forward.copy.status;
  if (status.ok()) {
    counts_.links[fetch.link].forwarded += fetch.piece->bytes;
    counts_.routes[static_cast<size_t>(engine::Route::device_peer)] += fetch.piece->bytes;
  } else {
    stop({status,
          fmt::format("{}: copy {} bytes from GPU {} to GPU {}: {}", order_.files[fetch.file],
                      forward.copy.to.length, forward.copy.from.device.value,
                      forward.copy.to.device.value, status.name())});
  }
  if (--fetch.forwards_left == 0) end_piece(fetch);
}

void Spread::end_piece(Fetch& fetch) {
  if (!stopped()) {
    bytes_done_ += fetch.piece->bytes;
    --pieces_left_;
  }
  fetch.piece = nullptr;
  fill(fetch.link, kPiecesPerLink);
}

void Spread::stop(Failure why) {
  if (stopped()) return;
  failure_ = std::move(why);
  for (const LinkState& link : links_) {
    for (const auto& fetch : link.fetches) {
      if (fetch->piece != nullptr && !fetch->landed) carrier_.cancel(*fetch);
    }
  }
}

}  // namespace penstock::load
