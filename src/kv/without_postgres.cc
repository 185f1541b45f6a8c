// Stands in the place of the backend on PostgreSQL where libpq was missing.
#include "penstock/kv.h"

namespace penstock::kv {
namespace {

Failure without_libpq() {
  return {Code::not_supported,
          "metadata database: this program was built without PostgreSQL (build it again with "
          "the package libpq-dev)"};
}

}  // namespace

Outcome<std::unique_ptr<engine::Kv>> open_postgres(PostgresOptions) {
  return without_libpq();
}

Outcome<std::unique_ptr<PostgresWatch>> PostgresWatch::open(const PostgresOptions&) {
  return without_libpq();
}

Outcome<void> drop_postgres(const PostgresOptions&) {
  return without_libpq();
}

Outcome<PostgresUrl> without_password(const std::string&) {
  return without_libpq();
}

}  // namespace penstock::kv
