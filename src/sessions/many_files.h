// Many files in one request: opened, read and closed together, or made. Each has the rights of the
// application, and a result of its own.
#pragma once

#include "cache_access.h"
#include "context.h"
#include "shares.h"

#include <deque>
#include <vector>

namespace penstock::sessions {

// Without state of its own; thread safe.
class ManyFiles {
 public:
  ManyFiles(const Context& context, Shares& shares, CacheAccess& cache)
      : context_(context), shares_(shares), cache_(cache) {}

  Answer read(const wire::ReadFiles& m) const;
  Answer create(const wire::CreateFiles& m) const;
  Answer look_at(const wire::LookAtFiles& m) const;

 private:
  struct Reads {
    std::deque<serving::FileOp> ops;
    uint64_t bytes = 0;  // of all
  };
  // Answers for one file, and adds its read if there is one.
  void prepare(const wire::FileToRead& file, const Result<client::Attributes>& attributes,
               const std::shared_ptr<arena::Segment>& cached, wire::FileRead* out,
               Reads* reads) const;
  // Waits until all have ended.
  void run(std::deque<serving::FileOp>& ops) const;

  const Context& context_;
  Shares& shares_;
  CacheAccess& cache_;
};

}  // namespace penstock::sessions
