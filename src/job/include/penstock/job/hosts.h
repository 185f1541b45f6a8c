// Hosts: which machines a job is spread over, and how many of its ranks each of them has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock::job {

// A machine as a user names it, and as ssh takes it: NAME, USER@NAME, an address.
struct Host {
  std::string name;
  std::optional<uint32_t> slots;  // at most so many ranks; not said: as many as there are to place
};

// "a,b:2,[fe80::1]:4". A name that is there twice is there twice in what comes back.
Outcome<std::vector<Host>> parse_hosts(std::string_view list);
// A file's text: one host a line, NAME, NAME:2 or NAME slots=2 (max_slots is taken, and means
// nothing here); what follows # is a comment. `place` is its name, for messages.
Outcome<std::vector<Host>> parse_host_file(std::string_view text, const std::string& place);

// Whether it is this machine, so that nothing has to be reached: its name, "localhost", or one of
// its addresses. Asks no name server.
bool is_this_machine(const std::string& name);

// One node of a job. Its ranks follow one another, behind those of the node before.
struct NodeShare {
  std::string host;
  uint32_t ranks = 0;
  bool here = false;  // this machine
};

struct Spread {
  std::optional<uint32_t> size;  // not said: as many as there are slots, one where none are said
  uint32_t per_node = 0;         // so many on each host, whatever its slots; 0: by slots
  bool oversubscribe = false;    // more than there are slots
};

// Names that are there several times are one node, with a slot for each time. In the order of hosts
// each takes as many ranks as it has slots; those whose slots nobody said take one each, and divide
// among them what is left. Hosts without a rank are not in it. invalid_argument: there are more
// ranks than slots, or no hosts; the message says how many.
Outcome<std::vector<NodeShare>> place_ranks(
    const std::vector<Host>& hosts, const Spread& spread,
    const std::function<bool(const std::string&)>& is_here = is_this_machine);

}  // namespace penstock::job
