#include "identity.h"

#include "limits.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::cluster {
namespace {

constexpr const char* kNodeFile = "node.pem";
constexpr const char* kAuthorityKeyFile = "ca.key";
constexpr const char* kAuthorityFile = "ca.pem";
constexpr std::string_view kBegin = "-----BEGIN ";

std::string path_of(const std::string& directory, const char* file) {
  return directory + "/" + kIdentityName + "/" + file;
}

Failure damaged(const std::string& path, const std::string& why) {
  return {Code::corrupt, fmt::format("{}: is damaged ({}); restore the file from a backup, or "
                                     "remove it and join anew with a token",
                                     path, why)};
}

// The directory and its files are their owner's alone.
Outcome<void> check_private(const std::string& path, mode_t others) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  const bool is_private =
      found.st_uid == ::geteuid() && (found.st_mode & others) == 0 && !S_ISLNK(found.st_mode);
  if (is_private) return {};
  return Failure{Code::not_permitted,
                 fmt::format("{}: others than the user of this process can get at it, and it is a "
                             "secret: give it to that user alone (chown, chmod go=)",
                             path)};
}

Outcome<std::optional<std::string>> read(const std::string& directory, const char* file) {
  constexpr mode_t kOthers = 077;
  TRY(check_private(directory + "/" + kIdentityName, kOthers));
  const std::string path = path_of(directory, file);
  TRY(check_private(path, kOthers));
  Result<std::string> text = read_kept_file(path);
  if (!text && text.error() == Code::not_found) return std::optional<std::string>();
  if (!text) {
    return Failure{text.error(), fmt::format("{}: cannot be read: {}", path, text.error().name())};
  }
  return std::optional(std::move(*text));
}

Outcome<void> write(const std::string& directory, const char* file, const std::string& text) {
  const std::string home = directory + "/" + kIdentityName;
  if (text.size() >= kKeptFileBytesMax) {
    return Failure{Code::bad_message, home + ": certificates are too long to be kept"};
  }
  if (::mkdir(home.c_str(), 0700) == 0) {
    (void)sync_directory(directory);
  } else if (errno != EEXIST) {
    return Failure{Status::from_errno(errno),
                   fmt::format("{}: cannot be made: {}", home, std::strerror(errno))};
  }
  TRY(check_private(home, 077));
  const std::string path = path_of(directory, file);
  // What an earlier try has left may have any mode.
  ::unlink((path + ".new").c_str());
  const Status status = keep_file(path, text, 0600);
  if (status.ok()) return {};
  return Failure{status, fmt::format("{}: cannot be written: {}", path, status.name())};
}

// Texts between "-----BEGIN" and the next one.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = text.find(kBegin); begin != std::string::npos;) {
    const size_t end = text.find(kBegin, begin + kBegin.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

}  // namespace

std::array<std::byte, 16> bytes_of(const controller::Uuid& uuid) {
  std::array<std::byte, 16> bytes{};
  std::memcpy(bytes.data(), uuid.bytes.data(), sizeof bytes);
  return bytes;
}

Outcome<std::shared_ptr<const tls::Credentials>> Identity::credentials() const {
  ASSERT(certificate);
  tls::Credentials::Config config;
  config.key = key;
  config.certificate = certificate;
  config.authorities = authorities;
  config.admit_guests = true;
  config.clock = &engine::system_clock();
  TRY_ASSIGN(auto made, tls::Credentials::make(std::move(config)));
  return std::shared_ptr<const tls::Credentials>(std::move(made));
}

Outcome<std::optional<Identity>> read_identity(const std::string& directory) {
  TRY_ASSIGN(const auto text, read(directory, kNodeFile));
  if (!text) return std::optional<Identity>();
  const std::string path = path_of(directory, kNodeFile);
  const std::vector<std::string> parts = parts_of(*text);
  if (parts.empty()) return damaged(path, "it is empty");
  auto key = tls::PrivateKey::parse(parts.front());
  if (!key) return damaged(path, key.error().message);
  Identity identity{.key = std::move(*key), .certificate = {}, .authorities = {}};
  for (size_t i = 1; i < parts.size(); ++i) {
    auto certificate = tls::Certificate::parse(parts[i]);
    if (!certificate) return damaged(path, certificate.error().message);
    if (i == 1) {
      identity.certificate = std::move(*certificate);
    } else {
      identity.authorities.push_back(std::move(*certificate));
    }
  }
  if (!identity.certificate) return std::optional(std::move(identity));
  if (const auto good = identity.credentials(); !good) return damaged(path, good.error().message);
  return std::optional(std::move(identity));
}

Outcome<void> keep(const std::string& directory, const Identity& identity) {
  std::string text = identity.key.pem();
  if (identity.certificate) text += identity.certificate->pem();
  for (const tls::Certificate& authority : identity.authorities) text += authority.pem();
  return write(directory, kNodeFile, text);
}

void forget_identity(const std::string& directory) {
  for (const char* file : {kNodeFile, kAuthorityKeyFile, kAuthorityFile}) {
    ::unlink(path_of(directory, file).c_str());
  }
  ::rmdir((directory + "/" + kIdentityName).c_str());
}

Outcome<std::optional<tls::Authority>> read_authority(const std::string& directory) {
  TRY_ASSIGN(const auto key_text, read(directory, kAuthorityKeyFile));
  TRY_ASSIGN(const auto text, read(directory, kAuthorityFile));
  if (!key_text || !text) return std::optional<tls::Authority>();
  auto key = tls::PrivateKey::parse(*key_text);
  if (!key) return damaged(path_of(directory, kAuthorityKeyFile), key.error().message);
  auto certificate = tls::Certificate::parse(*text);
  if (!certificate) return damaged(path_of(directory, kAuthorityFile), certificate.error().message);
  auto authority = tls::Authority::open(std::move(*key), std::move(*certificate));
  if (!authority) return damaged(path_of(directory, kAuthorityFile), authority.error().message);
  return std::optional(std::move(*authority));
}

// The certificate first: a key without one is none.
Outcome<void> keep(const std::string& directory, const tls::Authority& authority) {
  TRY(write(directory, kAuthorityFile, authority.certificate().pem()));
  return write(directory, kAuthorityKeyFile, authority.key().pem());
}

Outcome<Identity> with_papers(const Identity& identity, const membership::Papers& papers,
                              const controller::Uuid& cluster, NodeId node) {
  const auto refused = [](const std::string& why) {
    return Failure{Code::bad_message, "the controller's certificate for this node: " + why};
  };
  auto certificate = tls::Certificate::parse(papers.certificate);
  if (!certificate) return refused(certificate.error().message);
  const auto name = certificate->name();
  if (!name) return refused(name.error().message);
  if (name->cluster != bytes_of(cluster) || name->node != node) {
    return refused("it names another node: " + tls::uri_of(*name));
  }
  Identity with{.key = identity.key, .certificate = std::move(*certificate), .authorities = {}};
  for (const std::string& text : papers.authorities) {
    auto authority = tls::Certificate::parse(text);
    if (!authority) return refused(authority.error().message);
    with.authorities.push_back(std::move(*authority));
  }
  if (const auto good = with.credentials(); !good) return refused(good.error().message);
  return with;
}

bool is_due(const tls::Certificate& certificate, engine::WallTime now) {
  const int64_t begins = certificate.begins().nanoseconds +
                         std::chrono::nanoseconds(limits::kCertificateBackdate).count();
  const int64_t lasts = certificate.ends().nanoseconds - begins;
  return now.nanoseconds >= certificate.ends().nanoseconds - lasts / 3;
}

Outcome<controller::KeyPrint> ClusterSigner::key_of(const std::string& request) const {
  TRY_ASSIGN(const tls::Fingerprint print, tls::key_of_request(request));
  controller::KeyPrint key;
  static_assert(sizeof key.bytes == sizeof print);
  std::memcpy(key.bytes.data(), print.data(), sizeof print);
  return key;
}

controller::TokenHash ClusterSigner::hash_of(const std::string& secret) const {
  const auto digest = tls::digest_of(std::as_bytes(std::span(secret)));
  controller::TokenHash hash;
  static_assert(sizeof hash.bytes == sizeof digest);
  std::memcpy(hash.bytes.data(), digest.data(), sizeof digest);
  return hash;
}

Outcome<membership::Papers> ClusterSigner::sign(const std::string& request, NodeId node,
                                                uint8_t roles) {
  const engine::WallTime now = engine::system_clock().wall();
  const engine::WallTime begins{now.nanoseconds -
                                std::chrono::nanoseconds(limits::kCertificateBackdate).count()};
  const engine::WallTime ends{now.nanoseconds + lasts_.count()};
  // Never 0, and never the same for two.
  const auto random = tls::random_secret();
  uint64_t serial = 0;
  std::memcpy(&serial, random.data(), sizeof serial);
  serial = serial >> 1 | 1;
  TRY_ASSIGN(const tls::Certificate certificate,
             authority_.sign(
                 request,
                 {.cluster = bytes_of(cluster_), .node = node, .roles = engine::roles_text(roles)},
                 serial, begins, ends));
  return membership::Papers{certificate.pem(), {authority_.certificate().pem()}};
}

}  // namespace penstock::cluster
