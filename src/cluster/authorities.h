// The cluster's own keys, as files of the node with the controller: the authority that signs, and
// while another follows it that one, too (decision 0057).
#pragma once

#include "private_files.h"

#include <optional>
#include <string>
#include <vector>

#include "penstock/tls.h"

namespace penstock::cluster {

// How far a cluster is on its way from one authority to the next.
enum class Stage : uint8_t {
  trusted,  // members learn to believe both; the one before signs, if its key is there
  signs,    // all believe both: the next one signs, and members get certificates by it
  ended,    // all have these: only the files are not in order yet
};

// What follows an authority. The file ca.next is all of it, so that each stage begins as a whole.
struct Change {
  Stage stage = Stage::trusted;
  engine::WallTime signs_since{};  // from the stage `signs` on
  tls::Authority next;
  tls::Certificate before;
  // The next one's key, signed by the one before, if that could.
  std::optional<tls::Certificate> cross;
};

struct AuthorityFiles {
  std::optional<tls::Authority> own;
  // Why there is none to sign with, though its certificate is known; for people. Else empty.
  std::string lost;
  std::optional<tls::Certificate> root;  // the own one's, or that of the one whose key is lost
  // What leads to it from the authority before, where one was: its cross certificate, and that one.
  std::vector<tls::Certificate> shown;
  std::optional<Change> change;
};

// Goes on with what a process that ended was about to do with them. Nothing at all where there was
// never one. Fails, with a reason for people, for what is damaged and is not the key of the
// authority: without that people can go on.
Outcome<AuthorityFiles> open_authorities(const std::string& directory);

// All of these are durable when they return. Of two files the certificate comes first, as a key
// without one is none.
Outcome<void> keep(const std::string& directory, const tls::Authority& authority,
                   const std::vector<tls::Certificate>& shown = {});
Outcome<void> keep(const std::string& directory, const Change& change);
// The next one takes the place of the one before, whose key is gone then.
Outcome<void> end_change(const std::string& directory, const Change& change);
void forget_change(const std::string& directory);

// What leads from the one before to the next one.
std::vector<tls::Certificate> way_to(const Change& change);

}  // namespace penstock::cluster
