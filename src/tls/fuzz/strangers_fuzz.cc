// What strangers say before anybody knows who they are: names, keys, certificates and requests as
// texts, and the first bytes of a handshake.
#include "fuzz.h"

#include <cstdlib>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/tls.h"

namespace penstock::fuzz {
namespace {

using namespace tls;

constexpr int64_t kDay = int64_t{24} * 3600 * 1'000'000'000;

void check(bool holds) {
  if (!holds) std::abort();
}

// A cluster of one node, made once.
struct World {
  World() : authority(Authority::make({}, engine::system_clock().wall())) {
    const engine::WallTime now = engine::system_clock().wall();
    config.key = PrivateKey::make();
    config.certificate = *authority.sign(config.key->request(), {{}, NodeId{7}, "storage"}, 5,
                                         {now.nanoseconds - kDay}, {now.nanoseconds + kDay});
    config.authorities = {authority.certificate()};
    config.admit_guests = true;
    config.clock = &engine::system_clock();
    credentials = *Credentials::make(config);
  }
  Authority authority;
  Credentials::Config config;
  std::shared_ptr<const Credentials> credentials;
};
const World& world() {
  static const World kWorld;
  return kWorld;
}

struct Pair {
  Pair() {
    int both[2] = {-1, -1};
    check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) == 0);
    near = UniqueFd(both[0]);
    far = UniqueFd(both[1]);
  }
  UniqueFd near;
  UniqueFd far;
};

// What a caller says first.
std::string first_flight() {
  const Pair pair;
  Handshake caller(world().credentials, Part::caller, pair.near.get());
  check(caller.step() == Handshake::Step::wants_to_read);
  std::string said(4096, '\0');
  const ssize_t length = ::read(pair.far.get(), said.data(), said.size());
  check(length > 0);
  said.resize(static_cast<size_t>(length));
  return said;
}

void try_texts(std::string_view text) {
  if (const auto name = parse_uri(text)) check(uri_of(*name) == text);
  if (const auto key = PrivateKey::parse(text)) check(!key->pem().empty());
  if (const auto certificate = Certificate::parse(text)) {
    (void)certificate->name();
    (void)certificate->ends();
    (void)certificate->fingerprint();
  }
  if (!key_of_request(text)) return;
  const auto made = world().authority.sign(text, {{}, NodeId{8}, "storage"}, 6, {0}, {kDay});
  check(made && made->name()->node == NodeId{8});
}

// Nobody is let in by bytes that were said once to somebody else.
void try_handshake(std::string_view bytes, Part part) {
  const Pair pair;
  Handshake handshake(world().credentials, part, pair.near.get());
  (void)handshake.step();
  (void)!::write(pair.far.get(), bytes.data(), bytes.size());
  for (int i = 0; i < 4; ++i) check(handshake.step() != Handshake::Step::done);
}

}  // namespace

std::vector<std::string> seeds() {
  return {uri_of({{}, NodeId{7}, "storage,agent"}), world().config.key->pem(),
          world().config.certificate->pem(),        world().config.key->request(),
          world().authority.certificate().pem(),    first_flight()};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  penstock::fuzz::try_texts(bytes);
  penstock::fuzz::try_handshake(bytes, penstock::tls::Part::server);
  penstock::fuzz::try_handshake(bytes, penstock::tls::Part::caller);
  return 0;
}
