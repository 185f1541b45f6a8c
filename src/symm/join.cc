// How ranks of a job become PEs of a group: they tell each other what they have, agree, exchange
// descriptors of their memory, and map it.
#include "far_tcp.h"
#include "limits.h"
#include "mapped.h"
#include "program_data.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <numeric>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::symm {
namespace {

using Brought = std::vector<job::Brought>;
using JobTime = std::chrono::steady_clock::time_point;

// What a PE tells the others first. Processes of one build of this library, as `layout` shows.
struct Facts {
  uint64_t layout = kLayout;
  uint64_t heap_bytes = 0;
  uint64_t data_bytes = 0;  // of the program's variables; 0 where they are not symmetric
  uint64_t processors = 0;  // on which this PE may run
  uint64_t machine = machine_name();
  uint64_t has_one_caller = 0;
  FarSecret secret{};  // that of PE 0 is all PEs'
  static constexpr uint64_t kLayout = 0x73796d6d00000002 + sizeof(Control);
};
static_assert(std::is_trivially_copyable_v<Facts> && sizeof(Facts) == 64);

// As a machine: all are not on one.
constexpr uint64_t kSeveral = 0;

uint64_t count_processors() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return limits::kPesMax;  // a machine with more than 1,024
  return static_cast<uint64_t>(CPU_COUNT(&allowed));
}

Facts facts_in(const job::Brought& brought) {
  Facts facts;
  std::memcpy(&facts, brought.bytes.data(), sizeof facts);
  return facts;
}

// Whether some PE may run on fewer processors than its machine has PEs. All find the same. A
// machine may play several nodes.
bool is_crowded(const Brought& all) {
  std::map<uint64_t, uint64_t> pes_of;  // by machine
  for (const job::Brought& one : all) ++pes_of[facts_in(one).machine];
  return std::any_of(all.begin(), all.end(), [&](const job::Brought& one) {
    const Facts facts = facts_in(one);
    return facts.processors < pes_of[facts.machine];
  });
}

uint64_t default_heap_bytes(uint32_t pes) {
  const auto memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::max(memory / pes, limits::kHeapBytesMin);
}

Failure refuse(std::string message, Code code = Code::invalid_argument) {
  return {code, std::move(message)};
}

// Whether all have the same program and library, and may share.
Outcome<Facts> agree(const Brought& all, const Facts& own) {
  Facts agreed = own;
  for (size_t pe = 0; pe < all.size(); ++pe) {
    if (all[pe].bytes.size() != sizeof(Facts)) {
      return refuse(fmt::format("PE {} speaks another version of Penstock", pe),
                    Code::wrong_version);
    }
    const Facts facts = facts_in(all[pe]);
    if (facts.layout != own.layout) {
      return refuse(
          fmt::format("PE {} runs another build of Penstock; all PEs must run the same", pe),
          Code::wrong_version);
    }
    if (facts.data_bytes != own.data_bytes) {
      return refuse(fmt::format(
          "PE {} has {} bytes of global variables, this one {}; all PEs must run the same program",
          pe, facts.data_bytes, own.data_bytes));
    }
    if (pe == 0) agreed.secret = facts.secret;
    if (facts.machine != agreed.machine) agreed.machine = kSeveral;
    agreed.heap_bytes = std::min(agreed.heap_bytes, facts.heap_bytes);
    agreed.has_one_caller = std::min(agreed.has_one_caller, facts.has_one_caller);
  }
  return agreed;
}

// The file behind a descriptor that a peer has sent must be as large as it said, and stay so: else
// a load beyond its end would end this process.
Status check_memory(int descriptor, uint64_t bytes) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) return Status::from_errno(errno);
  if (static_cast<uint64_t>(facts.st_size) < bytes) return Code::bad_message;
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 ? Status() : Status(Code::bad_message);
}

Outcome<UniqueFd> make_memory(uint64_t bytes) {
  UniqueFd memory(::memfd_create("penstock-symmetric", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    const int error = errno;
    return Failure{Status::from_errno(error),
                   fmt::format("no symmetric memory of {} bytes: {}", bytes, std::strerror(error))};
  }
  return memory;
}

Failure cannot_map(const char* what, uint32_t pe, uint64_t bytes, Status status) {
  return {status, fmt::format("the {} of PE {} ({} bytes) cannot be mapped: {}", what, pe, bytes,
                              status.name())};
}

// Maps descriptor `which` of each PE of this node, one after the other.
Outcome<Window> map_all(Addresses& addresses, const std::vector<uint32_t>& near, const Brought& all,
                        size_t which, uint64_t bytes, const char* what) {
  Window window;
  window.bytes = bytes;
  const uint64_t alignment = alignment_of(bytes);
  window.stride = align_up(bytes, alignment);
  if (const Status reserved = addresses.reserve(window.stride * near.size(), alignment);
      !reserved.ok()) {
    return refuse(
        fmt::format(
            "{} PEs with {} bytes each do not fit into the addresses of a process: {}; give "
            "SHMEM_SYMMETRIC_SIZE a smaller number",
            near.size(), bytes, reserved.name()),
        reserved.code());
  }
  window.peers = addresses.begin();
  for (size_t slot = 0; slot < near.size(); ++slot) {
    const uint32_t pe = near[slot];
    const int descriptor = all[pe].descriptors[which].get();
    if (const Status is_right = check_memory(descriptor, bytes); !is_right.ok()) {
      return cannot_map(what, pe, bytes, is_right);
    }
    if (const Status placed = addresses.map(slot * window.stride, bytes, descriptor);
        !placed.ok()) {
      return cannot_map(what, pe, bytes, placed);
    }
  }
  return window;
}

// All of the job, where none are named.
Outcome<std::vector<uint32_t>> ranks_of(const job::Place& place, const GroupOptions& options) {
  std::vector<uint32_t> ranks = options.ranks;
  if (ranks.empty()) {
    ranks.resize(place.size);
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  if (std::find(ranks.begin(), ranks.end(), place.rank) == ranks.end() ||
      !std::is_sorted(ranks.begin(), ranks.end()) || ranks.size() > limits::kPesMax) {
    return refuse(
        fmt::format("a group of {} PEs: up to {} ranks in ascending order, with the own one ({})",
                    ranks.size(), limits::kPesMax, place.rank));
  }
  return ranks;
}

// What this PE tells the others.
Outcome<Facts> facts_of(const job::Place& place, const GroupOptions& options,
                        const ProgramData& data) {
  Facts facts;
  facts.heap_bytes =
      options.heap_bytes != 0 ? options.heap_bytes : default_heap_bytes(place.node_size);
  facts.data_bytes = data.bytes;
  facts.processors = count_processors();
  facts.has_one_caller = options.has_one_caller ? 1 : 0;
  if (::getrandom(facts.secret.data(), facts.secret.size(), 0) !=
      static_cast<ssize_t>(facts.secret.size())) {
    return refuse("this machine has no random numbers", Code::io_error);
  }
  return facts;
}

// By which PEs of other nodes reach this one, if it has any and may use it.
Outcome<FoundCard> find_card(const GroupOptions& options) {
  if (options.rdma.use == RdmaChoice::Use::off) return FoundCard{};
  auto opened = verbs::open_device({.name = options.rdma.device});
  if (opened) return FoundCard{std::move(*opened), FarLack::none, {}};
  if (options.rdma.use == RdmaChoice::Use::required || !options.rdma.device.empty()) {
    return refuse("RDMA, which PENSTOCK_RDMA asks for: " + opened.error().message,
                  opened.error().status.code());
  }
  return FoundCard{nullptr, FarLack::no_device, opened.error().message};
}

}  // namespace

std::string exchange_name(const std::string& group, const std::string& what) {
  return "symm/" + group + "/" + what;
}

std::chrono::nanoseconds join_time(const GroupOptions& options) {
  return options.time_to_join.count() != 0 ? options.time_to_join : limits::kJoinTime;
}

Outcome<void> Group::Mapped::reach_far(job::Member& member, const GroupOptions& options,
                                       const std::vector<uint32_t>& ranks, const Brought& all,
                                       const FarSecret& secret, FarListener listener,
                                       FoundCard card) {
  FarTcp::Options far_options;
  far_options.secret = secret;
  far_options.segments = {MutableBytes(memory.own, memory.bytes),
                          MutableBytes(data.own, data.bytes)};
  far_options.listener = std::move(listener);
  far_options.looks = far_looks(is_crowded);
  far_options.clock = options.clock != nullptr ? options.clock : &engine::system_clock();
  far_options.trouble = &member.trouble();
  far_options.ended = [&member, ranks] {
    std::vector<uint32_t> pes;
    for (const job::End& end : member.ends()) {
      const auto found = std::lower_bound(ranks.begin(), ranks.end(), end.rank);
      if (found != ranks.end() && *found == end.rank)
        pes.push_back(static_cast<uint32_t>(found - ranks.begin()));
    }
    return pes;
  };
  far_options.takes_part = [&member, ranks](uint32_t pe) { return !member.has_ended(ranks[pe]); };
  far_options.lack = card.lack;
  far_options.why_no_card = card.why;
  far_options.provider = std::move(card.provider);
  far_options.needs_card = options.rdma.use == RdmaChoice::Use::required;
  far_options.pinned_bytes_max = default_heap_bytes(member.place().node_size) / 2;
  uint32_t slot = 0;
  for (uint32_t pe = 0; pe < ranks.size(); ++pe) {
    nodes.push_back(member.node_of(ranks[pe]));
    const bool is_near = nodes.back() == member.place().node;
    slots.push_back(is_near ? slot++ : kNoSlot);
    if (ranks[pe] == member.place().rank) far_options.me = pe;
    std::optional<FarAddress>& address = far_options.pes.emplace_back();
    FarLack& lack = far_options.lacks.emplace_back(FarLack::none);
    if (is_near) continue;
    const Bytes told(all[pe].bytes);
    if (!told.empty()) address = decode_far_address(told.subspan(1));
    if (!address) {
      return refuse(fmt::format("PE {} says no address by which it is reached", pe),
                    Code::bad_message);
    }
    lack = static_cast<FarLack>(told[0]);
    if (lack != FarLack::none && far_options.needs_card) {
      return refuse(fmt::format("PE {} is not reached by RDMA, which PENSTOCK_RDMA asks for: {}",
                                pe, text_of(lack)),
                    Code::not_supported);
    }
  }
  TRY_ASSIGN(far, FarTcp::start(std::move(far_options)));
  return {};
}

Outcome<std::unique_ptr<Group>> Group::join(job::Member& member, const GroupOptions& options) {
  const job::Place& place = member.place();
  TRY_ASSIGN(std::vector<uint32_t> ranks, ranks_of(place, options));
  const auto me =
      static_cast<uint32_t>(std::find(ranks.begin(), ranks.end(), place.rank) - ranks.begin());
  std::vector<uint32_t> near;  // PEs
  for (uint32_t pe = 0; pe < ranks.size(); ++pe) {
    if (member.node_of(ranks[pe]) == place.node) near.push_back(pe);
  }
  const bool has_far = near.size() != ranks.size();

  const JobTime deadline = std::chrono::steady_clock::now() + join_time(options);
  ProgramData data;
  if (options.has_program_data) {
    TRY_ASSIGN(data, move_program_data());
  }
  TRY_ASSIGN(const Facts facts, facts_of(place, options, data));
  TRY_ASSIGN(const Brought told,
             member.exchange({exchange_name(options.name, "facts"), ranks},
                             {std::as_bytes(std::span(&facts, 1)), {}}, deadline));
  TRY_ASSIGN(const Facts agreed, agree(told, facts));

  const uint64_t room = limits::kWindowsBytesMax / ranks.size();
  const uint64_t wanted = sizeof(Control) + std::min(agreed.heap_bytes, limits::kWindowsBytesMax);
  const uint64_t bytes =
      std::min(align_up(wanted, limits::kGranule), align_down(room, limits::kGranule));
  TRY_ASSIGN(const UniqueFd memory, make_memory(bytes));
  std::vector<int> descriptors = {memory.get()};
  if (data.bytes != 0) descriptors.push_back(data.descriptor);
  FarListener listener;
  std::vector<std::byte> address;
  FoundCard card;
  if (has_far) {
    TRY_ASSIGN(listener, listen_for_pes(agreed.machine != kSeveral, options.interface));
    TRY_ASSIGN(card, find_card(options));
    address = encode(listener.address);
    // In front of it: whether this PE has a card.
    address.insert(address.begin(), static_cast<std::byte>(card.lack));
  }
  TRY_ASSIGN(const Brought all, member.exchange({exchange_name(options.name, "memory"), ranks},
                                                {address, descriptors}, deadline));
  for (const uint32_t pe : near) {
    if (all[pe].descriptors.size() != descriptors.size()) {
      return refuse(fmt::format("PE {} gave {} descriptors, not {}", pe, all[pe].descriptors.size(),
                                descriptors.size()),
                    Code::bad_message);
    }
  }
  auto mapped = std::make_unique<Mapped>();
  mapped->is_crowded = is_crowded(told);
  mapped->has_one_caller = agreed.has_one_caller == 1;
  TRY_ASSIGN(mapped->memory, map_all(mapped->memory_addresses, near, all, 0, bytes, "heap"));
  const auto own_slot = std::find(near.begin(), near.end(), me) - near.begin();
  mapped->memory.own =
      mapped->memory.peers + static_cast<uint64_t>(own_slot) * mapped->memory.stride;
  if (data.bytes != 0) {
    TRY_ASSIGN(mapped->data,
               map_all(mapped->data_addresses, near, all, 1, data.bytes, "global variables"));
    mapped->data.own = data.begin;
  }
  if (has_far)
    TRY(mapped->reach_far(member, options, ranks, all, agreed.secret, std::move(listener),
                          std::move(card)));
  // Who has mapped waits for those who still map: the first store may come at once.
  TRY_ASSIGN(const Brought ready,
             member.exchange({exchange_name(options.name, "mapped"), ranks}, {}, deadline));
  return std::unique_ptr<Group>(new Group(member, options, std::move(ranks), std::move(mapped)));
}

}  // namespace penstock::symm
