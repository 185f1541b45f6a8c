// Another directory for the same node, on another machine (decision 0069).
#include "kept.h"
#include "private_files.h"

#include <fmt/format.h>

#include "penstock/cluster/listening.h"
#include "penstock/cluster/participant.h"

namespace penstock::cluster {

std::string Participant::authority_print(const std::string& directory) {
  const Result<std::string> text = read_kept_file(path_of_private(directory, kAuthorityFile));
  if (!text) return "-";
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : *text) {
    hash ^= static_cast<uint8_t>(byte);
    hash *= 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

Outcome<void> Participant::copy_to_standby(const std::string& directory, const std::string& copy,
                                           const std::string& listen) {
  TRY_ASSIGN(auto kept, read_kept_node(directory));
  ASSERT(kept && runs_controller(kept->roles) && !has_storage(kept->roles));
  TRY_ASSIGN(const ListenAt at, parse_listen(listen));
  TRY_ASSIGN(const auto next, read_private(directory, kNextAuthorityFile));
  if (next) {
    return Failure{Code::busy,
                   directory +
                       ": its cluster is getting another authority just now (wait until 'penstock "
                       "identity status' says that it has it)"};
  }
  for (const char* file : {kAuthorityKeyFile, kAuthorityFile, kNodeFile}) {
    TRY_ASSIGN(const auto text, read_private(directory, file));
    if (text) TRY(write_private(copy, file, *text));
  }
  kept->listen = {listen};
  kept->controller = at.address.text();
  kept->others.clear();
  return keep(copy, *kept);
}

}  // namespace penstock::cluster
