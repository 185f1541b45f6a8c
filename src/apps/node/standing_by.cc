#include "standing_by.h"

#include "cluster_admin.h"
#include "node_service.h"

#include <unistd.h>

namespace penstock::apps {

bool StandingBy::tell(const agent::StandbyStatus& status) {
  {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  if (admin_ == nullptr) {
    auto admin = begin_log(options_);
    if (!admin) log::warning("{}", admin.error().message);
    auto started = AdminServer::start(
        options_.directory,
        [this](const Json& request, const AdminServer::Say&) { return handle(request); });
    // It takes over all the same.
    if (!started) {
      log::warning("{}", started.error().message);
      return !is_ended_;
    }
    admin_ = std::move(*started);
    begun_();
  }
  return !is_ended_;
}

Json StandingBy::handle(const Json& request) {
  const std::string command = command_of(request);
  if (command == "status") return status();
  if (command == "down") {
    is_ended_ = true;
    return {{"pid", ::getpid()}};
  }
  const std::lock_guard lock(mutex_);
  return {{"error", "this node stands by, and has nothing to show: the node at " + status_.holder +
                        " has the names and the controller"}};
}

Json StandingBy::status() {
  const auto uptime = std::chrono::steady_clock::now() - since_;
  const std::lock_guard lock(mutex_);
  return {{"directory", options_.directory},
          {"pid", ::getpid()},
          {"uptime_seconds", std::chrono::duration_cast<std::chrono::seconds>(uptime).count()},
          {"standby",
           {{"holder", status_.holder},
            {"trouble", status_.trouble},
            {"could_take_over", status_.trouble.empty()}}}};
}

}  // namespace penstock::apps
