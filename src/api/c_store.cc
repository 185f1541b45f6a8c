// penstock.h: a store in the process itself. A library of its own, the only one that needs a whole
// agent: what only talks to one is linked without it.
#include "error.h"
#include "handles.h"

#include <cerrno>

#include "penstock/agent.h"

namespace penstock::api {

Outcome<std::unique_ptr<Session>> Session::open_store(const std::string& directory, bool create) {
  const SignalsBlocked scope;  // for all threads of the agent
  std::unique_ptr<Session> session(new Session);
  agent::AgentConfig config;
  config.directory = directory;
  config.create = create;
  config.listen = false;
  TRY_ASSIGN(std::shared_ptr<agent::Agent> agent, agent::Agent::start(std::move(config)));
  session->own_agent_ = agent;
  TRY_ASSIGN(UniqueFd socket, agent->connect_local());
  agent.reset();
  TRY(session->begin(std::move(socket)));
  return session;
}

}  // namespace penstock::api

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

int penstock_open_store(const char* directory, int create, penstock_session** session) {
  if (directory == nullptr || session == nullptr) {
    return fail_with(EINVAL, "open store: a null pointer");
  }
  Outcome<std::unique_ptr<Session>> made = Session::open_store(directory, create != 0);
  if (!made) return fail(made.error());
  *session = to_handle(made->release());
  return 0;
}
