#include "kept_names.h"

#include "limits.h"
#include "store_contents.h"
#include "store_lock.h"

#include <fmt/format.h>

namespace penstock::agent {
namespace {

constexpr uint64_t kNamesVersion = 1;

}  // namespace

bool is_kept_url(const std::string& text) {
  return text.starts_with("postgresql://") && text.size() <= limits::kNamesUrlBytesMax &&
         text.find('\n') == std::string::npos;
}

Outcome<KeptNames> read_kept_names(const std::string& directory) {
  const std::string path = directory + "/" + kNamesName;
  const Result<std::string> text = read_kept_file(path);
  if (!text && text.error() == Code::not_found) return KeptNames();
  if (!text) {
    return Failure{text.error(), fmt::format("{}: cannot be read: {}", path, text.error().name())};
  }
  auto words = words_of(*text);
  uint64_t version = 0;
  const auto where = [&](const char* word, std::string* url) {
    const std::string& value = words[word];
    if (value == kRocksDbWord) return true;
    *url = value;
    return is_kept_url(value);
  };
  KeptNames kept;
  const bool has_version = parse_number(words["penstock-names"], &version);
  if (has_version && version != kNamesVersion) {
    return Failure{Code::wrong_version,
                   fmt::format("{}: has format {}, this program reads format {} (use the version "
                               "of penstock that wrote it)",
                               path, version, kNamesVersion)};
  }
  kept.moves = words.contains("moving");
  kept.copy = words["copy"];
  kept.to_copy = words["moving_copy"];
  const bool good = has_version && where("at", &kept.at) && kept.copy.size() == 32 &&
                    (!kept.moves || (where("moving", &kept.to) && kept.to_copy.size() == 32));
  if (!good) {
    return Failure{Code::corrupt, path +
                                      ": is damaged: it says where the names are (restore the "
                                      "file from a backup)"};
  }
  return kept;
}

Outcome<void> keep_names(const std::string& directory, const KeptNames& kept) {
  ASSERT(kept.copy.size() == 32 && kept.moves == (kept.to_copy.size() == 32));
  std::string text = fmt::format("penstock-names {}\nat {}\ncopy {}\n", kNamesVersion,
                                 names_word(kept.at), kept.copy);
  if (kept.moves) {
    text += fmt::format("moving {}\nmoving_copy {}\n", names_word(kept.to), kept.to_copy);
  }
  const Status status = keep_file(directory + "/" + kNamesName, text, kOwnerOnly);
  if (status.ok()) return {};
  return Failure{status, fmt::format("{}: the file '{}' cannot be written: {}", directory,
                                     kNamesName, status.name())};
}

}  // namespace penstock::agent
