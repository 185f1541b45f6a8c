// Where a database is: a connection string of libpq, taken apart.
#pragma once

#include <libpq-fe.h>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::kv::postgres {

// Of several hosts each is tried by itself: libpq gives the hosts of one attempt no time of their
// own when it is used without blocking, so that one that hangs would hide the next.
class Address {
 public:
  // A URL, or words as "host=... dbname=...".
  static Outcome<Address> parse(const std::string& url);

  // For people: hosts and database, never a password.
  const std::string& name() const { return name_; }
  size_t hosts() const { return hosts_.size(); }
  // The same as a URL without what is secret.
  std::string url() const;
  bool has_password() const { return has_password_; }
  // Begins to connect to host `which`; as PQconnectStartParams().
  PGconn* start(size_t which) const;

 private:
  struct Host {
    // Not set where libpq is to choose.
    std::string host;
    std::string address;
    std::string port;
  };
  struct Word {
    std::string name;
    std::string value;
    bool is_secret = false;
  };

  bool has_password_ = false;
  std::string name_;
  std::vector<Host> hosts_;
  std::vector<Word> words_;  // all others, with ours where none was given
};

}  // namespace penstock::kv::postgres
