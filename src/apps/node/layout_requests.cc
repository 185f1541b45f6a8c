#include "layout_requests.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::apps {
namespace {

// Who may ask owns the store, and with it all that is in it.
client::Credentials owner() {
  client::Credentials credentials;
  credentials.enforce = false;
  return credentials;
}

Json json_of(const client::ChainTable& table) {
  return {{"table", table.id},
          {"copies", table.copies},
          {"media", client::name_of(table.media)},
          {"chain_first", table.chain_first},
          {"chain_count", table.chain_count}};
}

Json json_of(const std::string& path, const client::Attributes& found,
             const std::vector<client::ChainTable>& tables) {
  const meta::Layout& layout = found.layout;
  const bool is_directory = found.type == meta::FileType::directory;
  Json chains = Json::array();
  for (const ChainId chain : layout.chains) chains.push_back(chain.value);
  Json document = {{"path", path},
                   {"type", is_directory ? "directory" : "file"},
                   {"chunk_bytes", layout.chunk_bytes()},
                   {"copies", layout.copies},
                   {"media", client::name_of(layout.media)},
                   {"table", layout.table},
                   {"chain_first", layout.chain_first},
                   {"chain_count", layout.chain_count},
                   {"chains", chains}};
  if (is_directory) document["stripe"] = layout.stripe;
  document["tables"] = Json::array();
  for (const client::ChainTable& table : tables) document["tables"].push_back(json_of(table));
  return document;
}

Json error_of(const std::string& path, std::string_view why) {
  return {{"error", fmt::format("{}: {}", path, why)}};
}

std::string path_of(const Json& request) {
  return text_at(request, "path");
}

std::optional<uint64_t> number(const Json& request, const char* key) {
  const auto found = request.find(key);
  if (found == request.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<uint64_t>();
}

// A number that does not fit is as wrong as the largest.
std::optional<uint32_t> small(const Json& request, const char* key) {
  const auto value = number(request, key);
  if (!value) return std::nullopt;
  return static_cast<uint32_t>(std::min<uint64_t>(*value, UINT32_MAX));
}

constexpr size_t kPageEntries = 1024;

// The directories in one, which may change meanwhile. What is made after its directory was set has
// what that says.
Result<std::vector<InodeId>> directories_in(meta::Meta& meta, InodeId directory) {
  std::vector<InodeId> found;
  uint64_t cookie = 0;
  for (bool more = true; more;) {
    more = false;
    TRY(meta.read_directory(directory, cookie, kPageEntries, false,
                            [&](const meta::DirectoryEntry& entry, const meta::Attributes*) {
                              more = true;
                              cookie = entry.cookie;
                              if (entry.type == meta::FileType::directory) {
                                found.push_back(entry.inode);
                              }
                              return true;
                            }));
  }
  return found;
}

// All below a directory, parents first. How many; one that was removed meanwhile is none.
Outcome<uint64_t> set_below(client::FileSystem& files, InodeId top,
                            const client::LayoutChange& change) {
  uint64_t count = 0;
  std::vector<InodeId> open{top};
  while (!open.empty()) {
    const InodeId at = open.back();
    open.pop_back();
    if (at != top) {
      const auto set = files.set_layout(owner(), at, change, nullptr);
      if (!set && set.error().status == Code::not_found) continue;
      if (!set) {
        return Failure{set.error().status,
                       fmt::format("{} of the directories below were set, then: {}", count,
                                   set.error().message)};
      }
      ++count;
    }
    const auto below = directories_in(files.meta(), at);
    if (!below && below.error() == Code::not_found) continue;
    if (!below) {
      return Failure{below.error(), fmt::format("{} of the directories below were set, then one "
                                                "could not be read: {}",
                                                count, below.error().name())};
    }
    open.insert(open.end(), below->begin(), below->end());
  }
  return count;
}

}  // namespace

Json layout_of(client::FileSystem& files, const Json& request) {
  const std::string path = path_of(request);
  const auto found = files.resolve(owner(), path, true);
  if (!found) return error_of(path, found.error().name());
  if (found->type != meta::FileType::directory && found->type != meta::FileType::regular) {
    return error_of(path, "only files and directories have a layout");
  }
  return json_of(path, *found, files.tables());
}

Json set_layout(client::FileSystem& files, const Json& request) {
  const std::string path = path_of(request);
  client::LayoutChange change;
  change.chunk_bytes = number(request, "chunk_bytes");
  change.stripe = small(request, "stripe");
  change.copies = small(request, "copies");
  if (const auto media = request.find("media"); media != request.end() && media->is_string()) {
    change.media = client::media_of(media->get<std::string>());
    if (!change.media) return error_of(path, "there are no such media");
  }
  const auto found = files.resolve(owner(), path, true);
  if (!found) return error_of(path, found.error().name());
  const auto set = files.set_layout(owner(), found->inode, change, nullptr);
  if (!set) return error_of(path, set.error().message);
  log::info("layout of new files in {}: {}", path, client::text_of(set->layout, true));
  Json answer = json_of(path, *set, files.tables());
  if (!request.value("recursive", false)) return answer;
  const auto below = set_below(files, found->inode, change);
  if (!below) return error_of(path, below.error().message);
  log::info("layout of new files in {}: in {} directories below, too", path, *below);
  answer["directories_below"] = *below;
  return answer;
}

}  // namespace penstock::apps
