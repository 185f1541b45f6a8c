// Stands in the place of the backend on PostgreSQL where libpq was missing.
#include "penstock/kv.h"

namespace penstock::kv {

Outcome<std::unique_ptr<engine::Kv>> open_postgres(PostgresOptions) {
  return Failure{
      Code::not_supported,
      "metadata database: this program was built without PostgreSQL (build it again with "
      "the package libpq-dev)"};
}

}  // namespace penstock::kv
