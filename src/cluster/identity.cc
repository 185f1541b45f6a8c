#include "identity.h"

#include "limits.h"
#include "private_files.h"

#include <cstring>
#include <unistd.h>

namespace penstock::cluster {

std::array<std::byte, 16> bytes_of(const controller::Uuid& uuid) {
  std::array<std::byte, 16> bytes{};
  std::memcpy(bytes.data(), uuid.bytes.data(), sizeof bytes);
  return bytes;
}

controller::KeyPrint print_of(const tls::Fingerprint& fingerprint) {
  controller::KeyPrint print;
  static_assert(sizeof print.bytes == sizeof fingerprint);
  std::memcpy(print.bytes.data(), fingerprint.data(), sizeof fingerprint);
  return print;
}

controller::KeyPrint print_of(const tls::Certificate& authority) {
  return print_of(authority.fingerprint());
}

Outcome<std::shared_ptr<const tls::Credentials>> Identity::credentials() const {
  ASSERT(certificate);
  tls::Credentials::Config config;
  config.key = key;
  config.certificate = certificate;
  config.authorities = authorities;
  config.shown = shown;
  config.admit_guests = true;
  config.clock = &engine::system_clock();
  TRY_ASSIGN(auto made, tls::Credentials::make(std::move(config)));
  return std::shared_ptr<const tls::Credentials>(std::move(made));
}

Outcome<std::optional<Identity>> read_identity(const std::string& directory) {
  TRY_ASSIGN(const auto text, read_private(directory, kNodeFile));
  if (!text) return std::optional<Identity>();
  const std::string path = path_of_private(directory, kNodeFile);
  const std::vector<std::string> parts = parts_of_pem(*text);
  if (parts.empty()) return damaged(path, "it is empty");
  auto key = tls::PrivateKey::parse(parts.front());
  if (!key) return damaged(path, key.error().message);
  Identity identity{.key = std::move(*key), .certificate = {}, .authorities = {}, .shown = {}};
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
  return write_private(directory, kNodeFile, text);
}

void forget_identity(const std::string& directory) {
  for (const char* file : {kNodeFile, kAuthorityKeyFile, kAuthorityFile, kNextAuthorityFile}) {
    ::unlink(path_of_private(directory, file).c_str());
  }
  ::rmdir((directory + "/" + kIdentityName).c_str());
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
  Identity with{.key = identity.key,
                .certificate = std::move(*certificate),
                .authorities = {},
                .shown = identity.shown};
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

}  // namespace penstock::cluster
