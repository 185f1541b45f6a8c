#include "postgres_link.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>

namespace penstock::kv::postgres {
namespace {

using std::chrono::ceil;
using std::chrono::milliseconds;

std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

// libpq tells the SQLSTATE of a refused connection within its message only: "FATAL:  53300: ...".
std::string state_in(std::string_view message) {
  const size_t at = message.find(":  ");
  if (at == std::string_view::npos || at + 9 > message.size() || message[at + 8] != ':') return {};
  return std::string(message.substr(at + 3, 5));
}

}  // namespace

Link::Outcome<std::unique_ptr<Link>> Link::connect(const Address& address, size_t host,
                                                   engine::Time deadline) {
  std::unique_ptr<Link> link(new Link());
  link->connection_.reset(address.start(host));
  if (link->connection_ == nullptr) return Fault{Reach::operation, Code::no_memory, "no memory"};
  TRY(link->shake_hands(deadline));
  PGconn* const connection = link->connection_.get();
  if (PQsetnonblocking(connection, 1) != 0 || PQenterPipelineMode(connection) != 1) {
    return link->lost("cannot be used in pipeline mode");
  }
  ASSERT(PQpipelineStatus(connection) == PQ_PIPELINE_ON);
  link->usable_ = true;
  return link;
}

Link::Outcome<bool> Link::shake_hands(engine::Time deadline) {
  PGconn* const connection = connection_.get();
  PQsetErrorVerbosity(connection, PQERRORS_VERBOSE);
  PQsetNoticeReceiver(
      connection,
      [](void* self, const PGresult* notice) {
        const char* severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
        if (severity != nullptr && std::string_view(severity) == "WARNING") {
          static_cast<Link*>(self)->warned_ = true;
        }
      },
      this);
  PostgresPollingStatusType state =
      PQstatus(connection) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
  while (state != PGRES_POLLING_OK) {
    if (state == PGRES_POLLING_FAILED) {
      const std::string message = PQerrorMessage(connection);
      // libpq's own word, without a state.
      if (PQconnectionNeedsPassword(connection) != 0) {
        return fault_of("28P01", first_line(message));
      }
      return fault_of(state_in(message), first_line(message));
    }
    if (!wait(state == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline)) {
      return fault_of("", "no answer in time");
    }
    state = PQconnectPoll(connection);
  }
  PQsetErrorVerbosity(connection, PQERRORS_DEFAULT);
  return true;
}

bool Link::still_usable() {
  pollfd looked{PQsocket(connection_.get()), POLLRDHUP, 0};
  if (::poll(&looked, 1, 0) != 0) usable_ = false;
  return usable_;
}

bool Link::wait(short events, engine::Time deadline) {
  while (true) {
    const engine::Duration left = deadline - engine::system_clock().now();
    if (left <= engine::Duration::zero()) return false;
    pollfd waiting{PQsocket(connection_.get()), events, 0};
    const auto at_most = std::min<int64_t>(ceil<milliseconds>(left).count(), INT32_MAX);
    const int ready = ::poll(&waiting, 1, static_cast<int>(at_most));
    if (ready > 0) return true;  // also when it is broken: libpq finds out
    if (ready < 0 && errno != EINTR) return false;
  }
}

Fault Link::lost(std::string reason) {
  usable_ = false;
  return fault_of("", std::move(reason));
}

Fault Link::fault(const PGresult* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  Fault found = fault_of(state == nullptr ? "" : state, first_line(PQresultErrorMessage(result)));
  if (found.reach == Reach::connection) usable_ = false;
  return found;
}

bool Link::send(const Step& step) {
  const std::vector<std::string>& given = step.arguments.values();
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (const std::string& value : given) {
    values.push_back(value.data());
    lengths.push_back(static_cast<int>(value.size()));
  }
  const std::vector<int> formats(given.size(), 1);
  const int count = static_cast<int>(given.size());
  PGconn* const connection = connection_.get();
  if (prepared_) {
    return PQsendQueryPrepared(connection, step.statement.name, count, values.data(),
                               lengths.data(), formats.data(), 1) == 1;
  }
  return PQsendQueryParams(connection, step.statement.text, count, nullptr, values.data(),
                           lengths.data(), formats.data(), 1) == 1;
}

void Link::run_unseen(std::span<const Step> steps) {
  if (!usable_) return;
  bool sent = std::all_of(steps.begin(), steps.end(), [&](const Step& step) { return send(step); });
  sent = sent && PQpipelineSync(connection_.get()) == 1 && PQflush(connection_.get()) >= 0;
  if (!sent) usable_ = false;
  unseen_.push_back(steps.size());
}

Link::Outcome<std::vector<Answer>> Link::run(std::span<const Step> steps, engine::Time deadline) {
  while (!unseen_.empty() && usable_) {
    // What they answer is nothing to anybody, as long as the connection lasts.
    if (auto answers = collect(unseen_.front(), deadline); !answers && !usable_) {
      return answers.error();
    }
    unseen_.erase(unseen_.begin());
  }
  if (!usable_) return lost("the connection is gone");
  ASSERT(!steps.empty() && unseen_.empty());
  warned_ = false;
  for (const Step& step : steps) {
    if (!send(step)) return lost(first_line(PQerrorMessage(connection_.get())));
  }
  if (PQpipelineSync(connection_.get()) != 1) return lost("the connection is gone");
  return collect(steps.size(), deadline);
}

Link::Outcome<std::vector<Answer>> Link::prepare(std::span<const Statement> statements,
                                                 engine::Time deadline) {
  ASSERT(!prepared_ && unseen_.empty());
  for (const Statement& statement : statements) {
    if (PQsendPrepare(connection_.get(), statement.name, statement.text, 0, nullptr) != 1) {
      return lost(first_line(PQerrorMessage(connection_.get())));
    }
  }
  if (PQpipelineSync(connection_.get()) != 1) return lost("the connection is gone");
  auto answers = collect(statements.size(), deadline);
  prepared_ = answers.has_value();
  return answers;
}

// The results of so many steps and of the synchronisation after them.
Link::Outcome<std::vector<Answer>> Link::collect(size_t steps, engine::Time deadline) {
  std::vector<Answer> answers;
  std::optional<Fault> first;
  bool ended = false;
  while (true) {
    TRY_ASSIGN(PGresult * result, next(deadline));
    // Nothing is the end of a step. Twice, and the connection has no more to give.
    if (result == nullptr) {
      if (std::exchange(ended, true)) break;
      continue;
    }
    ended = false;
    const ExecStatusType status = PQresultStatus(result);
    Answer answer(result);
    if (status == PGRES_PIPELINE_SYNC) break;
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
      answers.push_back(std::move(answer));
    } else if (status != PGRES_PIPELINE_ABORTED && !first) {
      first = fault(result);
    }
  }
  if (first) return *first;
  if (answers.size() != steps) return lost("the connection was lost");
  return answers;
}

Link::Outcome<PGresult*> Link::next(engine::Time deadline) {
  PGconn* const connection = connection_.get();
  while (true) {
    const int unsent = PQflush(connection);
    // Also where nothing can be sent any more: what the server said before it went is still read.
    if (PQisBusy(connection) == 0) return PQgetResult(connection);
    if (!wait(static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN), deadline)) {
      return lost("no answer in time");
    }
    if (PQconsumeInput(connection) != 1 && PQisBusy(connection) != 0) {
      return lost(first_line(PQerrorMessage(connection)));
    }
  }
}

}  // namespace penstock::kv::postgres
