// What statements are given and what they answer, in PostgreSQL's binary forms: numbers big endian,
// bytes as they are, arrays with a header.
#pragma once

#include <cstdint>
#include <libpq-fe.h>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock::kv::postgres {

// Which transaction wrote a row (its xmin); none where there is no row.
using Version = std::optional<uint32_t>;

// The parameters of one statement, in order.
class Arguments {
 public:
  Arguments& bytes(std::string_view value) {
    values_.emplace_back(value);
    return *this;
  }
  Arguments& int4(uint32_t value);
  Arguments& int8(uint64_t value);
  Arguments& int8s(const std::vector<uint64_t>& values);
  Arguments& booleans(const std::vector<bool>& values);
  Arguments& byteas(const std::vector<std::string_view>& values);
  Arguments& versions(const std::vector<Version>& values);

  const std::vector<std::string>& values() const { return values_; }

 private:
  std::vector<std::string> values_;
};

// The rows of one statement. What is read is checked by its size: a server is a peer.
class Answer {
 public:
  explicit Answer(PGresult* result) : result_(result, &PQclear) {}

  int rows() const { return PQntuples(result_.get()); }
  // Of a row's column; valid as long as this is. Empty for NULL.
  std::string_view bytes(int row, int column) const {
    return {PQgetvalue(result_.get(), row, column),
            static_cast<size_t>(PQgetlength(result_.get(), row, column))};
  }
  // Numbers of 4 or 8 bytes, or nothing.
  std::optional<uint64_t> number(int row, int column) const;
  // What the server says it did: "COMMIT".
  std::string_view command() const { return PQcmdStatus(result_.get()); }

 private:
  std::unique_ptr<PGresult, decltype(&PQclear)> result_;
};

}  // namespace penstock::kv::postgres
