// Looks at who has the names, by a connection of its own.
#pragma once

#include "postgres_address.h"
#include "postgres_link.h"

#include <memory>
#include <string>

#include "penstock/kv.h"

namespace penstock::kv::postgres {

// To the first host that answers as it should.
Outcome<std::unique_ptr<Link>> connect(const Address& address);

class Watch final : public PostgresWatch {
 public:
  Watch(Address address, std::string cluster)
      : address_(std::move(address)), cluster_(std::move(cluster)) {}

  Outcome<Seen> look(std::span<const std::string> keys) override;
  Outcome<void> stand_by(const std::string& number, const std::string& who) override;
  Outcome<void> stop_standing_by(const std::string& number) override;
  Outcome<void> tell(const std::string& process, const std::string& who) override;

 private:
  Outcome<std::vector<Answer>> run(std::span<const Step> steps);

  const Address address_;
  const std::string cluster_;
  std::unique_ptr<Link> link_;
};

}  // namespace penstock::kv::postgres
