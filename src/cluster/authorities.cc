#include "authorities.h"

#include <fmt/format.h>
#include <map>
#include <unistd.h>

namespace penstock::cluster {
namespace {

constexpr const char* kFirstWord = "penstock-authority-change";
constexpr uint64_t kChangeVersion = 1;
constexpr const char* kRemoveIt =
    "or remove it: 'penstock identity renew' begins anew then, and nodes that have certificates by "
    "the authority in it get others";

constexpr std::pair<Stage, const char*> kStages[] = {
    {Stage::trusted, "trusted"}, {Stage::signs, "signs"}, {Stage::ended, "ended"}};

std::string word_of(Stage stage) {
  for (const auto& [one, word] : kStages) {
    if (one == stage) return word;
  }
  return "";
}

std::optional<Stage> stage_of(const std::string& text) {
  for (const auto& [stage, word] : kStages) {
    if (text == word) return stage;
  }
  return std::nullopt;
}

// Lines of words, then in PEM the next one's key and certificate, that of the one before, and the
// cross certificate.
Outcome<Change> parse_change(const std::string& text) {
  auto words = words_of(text.substr(0, text.find("-----BEGIN")));
  const std::vector<std::string> parts = parts_of_pem(text);
  uint64_t version = 0, since = 0;
  const auto stage = stage_of(words["stage"]);
  const bool is_good = parse_number(words[kFirstWord], &version) && version == kChangeVersion &&
                       stage && parse_number(words["since"], &since) && since <= INT64_MAX &&
                       (parts.size() == 3 || parts.size() == 4);
  if (!is_good) return Failure{Code::corrupt, "it does not say what follows"};
  TRY_ASSIGN(auto key, tls::PrivateKey::parse(parts[0]));
  TRY_ASSIGN(auto certificate, tls::Certificate::parse(parts[1]));
  TRY_ASSIGN(auto next, tls::Authority::open(std::move(key), std::move(certificate)));
  TRY_ASSIGN(auto before, tls::Certificate::parse(parts[2]));
  Change change{*stage, {static_cast<int64_t>(since)}, std::move(next), std::move(before), {}};
  if (parts.size() == 4) {
    TRY_ASSIGN(change.cross, tls::Certificate::parse(parts[3]));
  }
  return change;
}

Outcome<void> read_change(const std::string& directory, AuthorityFiles& files) {
  TRY_ASSIGN(const auto text, read_private(directory, kNextAuthorityFile));
  if (!text) return {};
  auto change = parse_change(*text);
  if (!change) {
    return damaged(path_of_private(directory, kNextAuthorityFile), change.error().message,
                   kRemoveIt);
  }
  if (change->stage == Stage::ended) return end_change(directory, *change);
  files.change = std::move(*change);
  return {};
}

// ca.pem has its certificate, and perhaps what leads to it.
Outcome<void> read_root(const std::string& directory, AuthorityFiles& files) {
  TRY_ASSIGN(const auto text, read_private(directory, kAuthorityFile));
  if (!text) return {};
  for (const std::string& part : parts_of_pem(*text)) {
    auto certificate = tls::Certificate::parse(part);
    if (!certificate) {
      return damaged(path_of_private(directory, kAuthorityFile), certificate.error().message,
                     "or remove it and ca.key, and have another authority follow it "
                     "('penstock identity renew')");
    }
    if (!files.root) {
      files.root = std::move(*certificate);
    } else {
      files.shown.push_back(std::move(*certificate));
    }
  }
  return {};
}

// Sets what is lost, if something is.
Outcome<void> read_key(const std::string& directory, AuthorityFiles& files) {
  const std::string path = path_of_private(directory, kAuthorityKeyFile);
  const auto text = read_private(directory, kAuthorityKeyFile);
  // That others can read it is a fault that people mend.
  if (!text && text.error().status == Code::not_permitted) return text.error();
  if (!text || !*text) {
    if (files.root) files.lost = text ? path + ": is not there" : text.error().message;
    return {};
  }
  if (!files.root) {
    files.lost = path_of_private(directory, kAuthorityFile) + ": is not there";
    return {};
  }
  auto key = tls::PrivateKey::parse(**text);
  if (!key) {
    files.lost = path + ": is damaged (" + key.error().message + ")";
    return {};
  }
  auto own = tls::Authority::open(std::move(*key), *files.root);
  if (own) {
    files.own = std::move(*own);
  } else {
    files.lost = path + ": " + own.error().message;
  }
  return {};
}

}  // namespace

std::vector<tls::Certificate> way_to(const Change& change) {
  if (!change.cross) return {};
  return {*change.cross, change.before};
}

Outcome<AuthorityFiles> open_authorities(const std::string& directory) {
  AuthorityFiles files;
  TRY(read_change(directory, files));
  TRY(read_root(directory, files));
  TRY(read_key(directory, files));
  if (!files.root && files.change) files.root = files.change->before;
  return files;
}

Outcome<void> keep(const std::string& directory, const tls::Authority& authority,
                   const std::vector<tls::Certificate>& shown) {
  std::string text = authority.certificate().pem();
  for (const tls::Certificate& one : shown) text += one.pem();
  TRY(write_private(directory, kAuthorityFile, text));
  return write_private(directory, kAuthorityKeyFile, authority.key().pem());
}

Outcome<void> keep(const std::string& directory, const Change& change) {
  std::string text = fmt::format("{} {}\nstage {}\nsince {}\n", kFirstWord, kChangeVersion,
                                 word_of(change.stage), change.signs_since.nanoseconds);
  text += change.next.key().pem() + change.next.certificate().pem() + change.before.pem();
  if (change.cross) text += change.cross->pem();
  return write_private(directory, kNextAuthorityFile, text);
}

Outcome<void> end_change(const std::string& directory, const Change& change) {
  ASSERT(change.stage == Stage::ended);
  TRY(keep(directory, change.next, way_to(change)));
  return remove_private(directory, kNextAuthorityFile);
}

void forget_change(const std::string& directory) {
  ::unlink(path_of_private(directory, kNextAuthorityFile).c_str());
}

}  // namespace penstock::cluster
