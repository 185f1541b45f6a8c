#include "pes.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <numeric>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/gpu.h"

namespace penstock::bench {
namespace {

constexpr uint32_t kPesLeast = 2;
// The exit code of a command that has told what is not as it should be.
constexpr int kDifferencesFound = 3;

// In a child: what the driver starts, threads and all, is gone with it.
uint32_t count_gpus() {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto devices = gpu::devices();
    ::_exit(devices ? static_cast<int>(std::min<size_t>((*devices)->devices().size(), 64)) : 0);
  }
  int status = 0;
  if (child < 0) return 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? static_cast<uint32_t>(WEXITSTATUS(status)) : 0;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, HOST_NAME_MAX);
  return name;
}

std::string text_of(const std::array<char, 16>& uuid) {
  if (std::ranges::all_of(uuid, [](char byte) { return byte == 0; })) return "";
  std::string text;
  for (const char byte : uuid) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return text;
}

Json json_of(const PeFacts& facts) {
  return {{"host", facts.host},
          {"node", facts.node},
          {"gpus", facts.gpus},
          {"gpu", facts.gpu},
          {"gpu_name", facts.gpu_name},
          {"gpu_uuid", facts.gpu_uuid},
          {"gpu_bytes", facts.gpu_bytes},
          {"sees", facts.sees},
          {"reaches", facts.reaches},
          {"no_gpu", facts.no_gpu},
          {"rails", bench::json_of(facts.rails)}};
}

std::vector<std::string> texts_at(const Json& json, const char* key) {
  std::vector<std::string> texts;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return texts;
  for (const Json& one : *found) {
    if (one.is_string()) texts.push_back(one.get<std::string>());
  }
  return texts;
}

PeFacts facts_from(const Json& json) {
  PeFacts facts;
  facts.host = text_at(json, "host");
  facts.node = static_cast<uint32_t>(number_at(json, "node"));
  facts.gpus = static_cast<uint32_t>(number_at(json, "gpus"));
  facts.gpu = static_cast<uint32_t>(number_at(json, "gpu"));
  facts.gpu_name = text_at(json, "gpu_name");
  facts.gpu_uuid = text_at(json, "gpu_uuid");
  facts.gpu_bytes = number_at(json, "gpu_bytes");
  facts.sees = texts_at(json, "sees");
  facts.reaches = texts_at(json, "reaches");
  facts.no_gpu = text_at(json, "no_gpu");
  facts.rails = rail_node_from(json.value("rails", Json::object()));
  return facts;
}

}  // namespace

Outcome<std::unique_ptr<job::Member>> job_with_others() {
  auto member = job::Member::from_environment();
  if (!member) {
    if (member.error().status == Code::not_found) return std::unique_ptr<job::Member>();
    return member.error();
  }
  if ((*member)->place().size > 1) return std::move(*member);
  (*member)->leave();
  return std::unique_ptr<job::Member>();
}

Outcome<std::string> output_of_job(const std::vector<std::string>& words, uint32_t pes) {
  const UniqueFd output(::memfd_create("penstock output", MFD_CLOEXEC));
  if (!output) return Failure{Status::from_errno(errno), "memory for the output of PEs"};
  job::LaunchOptions launch;
  launch.size = pes != 0 ? pes : std::max(kPesLeast, count_gpus());
  launch.command = {"/proc/self/exe"};
  launch.command.insert(launch.command.end(), words.begin(), words.end());
  launch.output = output.get();
  TRY_ASSIGN(const int code, job::launch(launch));
  if (code != 0 && code != kDifferencesFound)
    return Failure{Code::peer_gone, fmt::format("the PEs have ended with exit code {}", code)};
  const off_t length = ::lseek(output.get(), 0, SEEK_END);
  std::string text(static_cast<size_t>(std::max<off_t>(length, 0)), '\0');
  if (::pread(output.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return Failure{Code::io_error, "the output of PEs cannot be read"};
  return text;
}

PeFacts facts_of(const job::Member& member) {
  PeFacts facts;
  facts.host = host_name();
  facts.node = member.place().node;
  const auto devices = gpu::devices();
  if (!devices) {
    facts.no_gpu = devices.error().message;
    return facts;
  }
  const auto all = (*devices)->devices();
  facts.gpus = static_cast<uint32_t>(all.size());
  facts.gpu = member.place().node_rank % facts.gpus;
  const engine::DeviceFacts& own = all[facts.gpu];
  facts.gpu_name = own.name;
  facts.gpu_uuid = text_of(own.uuid);
  facts.gpu_bytes = own.memory_bytes;
  if (member.place().nodes > 1) facts.rails = own_rail_node();
  for (uint32_t i = 0; i < all.size(); ++i) {
    facts.sees.push_back(text_of(all[i].uuid));
    if ((own.peers >> i & 1) != 0) facts.reaches.push_back(facts.sees.back());
  }
  return facts;
}

Outcome<std::vector<std::string>> tell_others(job::Member& member, const std::string& name,
                                              const std::vector<uint32_t>& ranks,
                                              const std::string& text) {
  const auto deadline = job::Time::clock::now() + kMeasureTime;
  TRY_ASSIGN(const auto brought, member.exchange({"symm: " + name, ranks},
                                                 {std::as_bytes(std::span(text)), {}}, deadline));
  std::vector<std::string> texts;
  for (const job::Brought& one : brought) {
    texts.emplace_back(reinterpret_cast<const char*>(one.bytes.data()), one.bytes.size());
  }
  return texts;
}

Outcome<std::vector<PeFacts>> exchange_facts(job::Member& member, const PeFacts& own) {
  TRY_ASSIGN(const auto texts,
             tell_others(member, "facts", all_ranks(member), json_of(own).dump()));
  std::vector<PeFacts> all;
  for (const std::string& text : texts) {
    const Json json = parse_json(text);
    if (!json.is_object())
      return Failure{Code::wrong_version, "all PEs must run the same build of Penstock"};
    all.push_back(facts_from(json));
  }
  return all;
}

std::vector<uint32_t> all_ranks(const job::Member& member) {
  std::vector<uint32_t> ranks(member.place().size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<uint32_t> ranks_of_own_node(const job::Member& member) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < member.place().size; ++rank) {
    if (member.node_of(rank) == member.place().node) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace penstock::bench
