// penstock.h: a store in the process itself. A library of its own, the only one that needs a whole
// agent: what only talks to one is linked without it.
#include "handles.h"

#include <cerrno>

#include "penstock/agent.h"

namespace penstock::api {
namespace {

Outcome<SessionHandle*> open_store(const char* directory, bool create) {
  const SignalsBlocked scope;  // for all threads of the agent
  agent::AgentConfig config;
  config.directory = directory;
  config.create = create;
  config.listen = false;
  TRY_ASSIGN(std::shared_ptr<agent::Agent> agent, agent::Agent::start(std::move(config)));
  TRY_ASSIGN(UniqueFd socket, agent->connect_local());
  TRY_ASSIGN(std::unique_ptr<Session> session, Session::over(std::move(socket)));
  return new SessionHandle(std::move(session), std::move(agent));
}

}  // namespace
}  // namespace penstock::api

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

int penstock_open_store(const char* directory, int create, penstock_session** session) {
  if (directory == nullptr || session == nullptr) {
    return fail_with(EINVAL, "open store: a null pointer");
  }
  const Outcome<SessionHandle*> made = open_store(directory, create != 0);
  if (!made) return fail(made.error());
  *session = to_handle(*made);
  return 0;
}
