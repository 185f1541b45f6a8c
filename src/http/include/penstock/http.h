// A small HTTP server for figures and health, on libmicrohttpd.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "penstock/base.h"

namespace penstock::http {

// Where a server listens: "HOST:PORT", ":PORT" or "PORT" (this machine's programs only, 127.0.0.1),
// "[::1]:PORT", or the path of a UNIX socket, which has a slash.
struct Address {
  std::string host;  // empty: a UNIX socket
  uint16_t port = 0;
  std::string path;
};
Outcome<Address> parse_address(const std::string& text);

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Answers GET and HEAD with what the handler says of the path. Requests come from every client that
// reaches the socket: connections, their memory and their time are bounded, and bodies are not
// read.
class Server {
 public:
  // In the server's one thread, so one request after another; must not block for long.
  using Handler = std::function<Response(const std::string& path)>;

  // A UNIX socket is for its owner and group alone, and replaces one that no process answers on.
  static Outcome<std::unique_ptr<Server>> start(const Address& address, Handler handler);
  // Ends the connections. Waits for the handler.
  virtual ~Server() = default;

  // What it listens on, with the port that port 0 became: "127.0.0.1:9180", or the path.
  virtual std::string address() const = 0;
};

}  // namespace penstock::http
