// Calls over loopback, in the clear and sealed, beside bare sockets and OpenSSL's own cipher, in
// turns in one run.
//
//   tcp_bench [ROUNDS] [MILLISECONDS] [ROWS]
//
// Each pair of nodes, and each bare pair, has a serving thread. Reads are of 1 MiB and of 4 KiB,
// placed into the asking memory, over one connection. References: a bare stream of bytes, with
// CRC-32C of what came where the reads have it; the same in records that OpenSSL seals and opens; a
// bare exchange of 64 bytes for 4 KiB; and AES-128-GCM on one processor as `openssl speed -evp
// aes-128-gcm -bytes 16384` counts it, alone and with another one that does the same. Prints
// medians of all rounds, ratios of medians, and the time of processors for each read of the side
// that asks and of the one that serves. ROWS: only those whose names begin so, without ratios.
//
// Where the kernel has TLS, it makes the records of sealed reads, and a bare stream of its own is
// one reference more.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "penstock/loopback.h"

namespace penstock::loopback {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Row {
  const char* name;
  std::function<Figures()> measure;
  std::vector<Figures> rounds = {};

  double of(double Figures::*which) const {
    std::vector<double> values;
    for (const Figures& round : rounds) values.push_back(round.*which);
    return median(std::move(values));
  }
  double rate() const { return of(&Figures::rate); }
  void print() const {
    std::printf("%-38s %11.1f/s  processors %7.2f + %7.2f us  system calls %6.2f\n", name, rate(),
                of(&Figures::near_us), of(&Figures::far_us), of(&Figures::calls));
  }
};

void print_ratio(const char* what, double ours, double theirs) {
  std::printf("%-68s %.2f\n", what, ours / theirs);
}

// In the order of the rows.
enum : size_t {
  kChecked,
  kBareChecked,
  kBareOne,
  kBareMany,
  kPlainLargeOne,
  kPlainLarge,
  kPlainOne,
  kPlainMany,
  kSealedLargeOne,
  kSealedLarge,
  kSealedOne,
  kSealedMany,
  kBareSealed,
  kSealing,
  kOpening,
  kBoth,
  kBareKernel,  // where it has TLS
};

void print_ratios(const std::vector<Row>& rows) {
  std::printf("\n");
  const auto rate = [&rows](size_t which) { return rows[which].rate(); };
  print_ratio("plain 1 MiB, 4 at once, checked, of a bare stream", rate(kChecked),
              rate(kBareChecked));
  print_ratio("plain 4 KiB, one at a time, of bare sockets", rate(kPlainOne), rate(kBareOne));
  print_ratio("plain 4 KiB, 64 at once, of bare sockets", rate(kPlainMany), rate(kBareMany));
  print_ratio("sealed 1 MiB, one at a time, of plain", rate(kSealedLargeOne), rate(kPlainLargeOne));
  print_ratio("sealed 1 MiB, one at a time, of OpenSSL opening", rate(kSealedLargeOne),
              rate(kOpening));
  print_ratio("sealed 1 MiB, 8 at once, of plain", rate(kSealedLarge), rate(kPlainLarge));
  print_ratio("sealed 1 MiB, 8 at once, of OpenSSL's bare stream", rate(kSealedLarge),
              rate(kBareSealed));
  print_ratio("sealed 1 MiB, 8 at once, of OpenSSL opening (wanted: 0.85)", rate(kSealedLarge),
              rate(kOpening));
  print_ratio("sealed 1 MiB, 8 at once, of OpenSSL sealing", rate(kSealedLarge), rate(kSealing));
  print_ratio("sealed 1 MiB, 8 at once, of OpenSSL sealing and opening at once", rate(kSealedLarge),
              rate(kBoth));
  if (rows.size() > kBareKernel) {
    print_ratio("sealed 1 MiB, 8 at once, of the kernel's bare stream (wanted: 0.85)",
                rate(kSealedLarge), rate(kBareKernel));
  }
  print_ratio("sealed 4 KiB, one at a time, of plain", rate(kSealedOne), rate(kPlainOne));
  print_ratio("sealed 4 KiB, 64 at once, of plain (wanted: 0.7)", rate(kSealedMany),
              rate(kPlainMany));
}

int run(int rounds, std::chrono::milliseconds each, const std::string& only) {
  const auto plain_nodes = Nodes::start(Wire::plain);
  const auto sealed_nodes = Nodes::start(Wire::sealed);
  for (const auto* nodes : {&plain_nodes, &sealed_nodes}) {
    if (*nodes) continue;
    std::fprintf(stderr, "tcp_bench: %s\n", nodes->error().message.c_str());
    return 1;
  }
  Nodes& plain = **plain_nodes;
  Nodes& sealed = **sealed_nodes;
  const auto reads = [each](Nodes& nodes, Nodes::Reads what) {
    return [&nodes, each, what] { return nodes.read(what, each); };
  };
  std::vector<Row> rows = {
      {"plain 1 MiB, 4 at once, checked", reads(plain, {kMiB, 4, true})},
      {"bare stream, 1 MiB, checked", [each] { return bare_stream(kMiB, true, each); }},
      {"bare sockets, 4 KiB, one at a time",
       [each] {
         return bare_exchange({64, 4096, 1}, each);
       }},
      {"bare sockets, 4 KiB, 64 at once",
       [each] {
         return bare_exchange({64, 4096, 64}, each);
       }},
      {"plain 1 MiB, one at a time", reads(plain, {kMiB, 1})},
      {"plain 1 MiB, 8 at once", reads(plain, {kMiB, 8})},
      {"plain 4 KiB, one at a time", reads(plain, {4096, 1})},
      {"plain 4 KiB, 64 at once", reads(plain, {4096, 64})},
      {"sealed 1 MiB, one at a time", reads(sealed, {kMiB, 1})},
      {"sealed 1 MiB, 8 at once", reads(sealed, {kMiB, 8})},
      {"sealed 4 KiB, one at a time", reads(sealed, {4096, 1})},
      {"sealed 4 KiB, 64 at once", reads(sealed, {4096, 64})},
      {"bare stream of OpenSSL's, 1 MiB", [each] { return bare_sealed_stream(each); }},
      {"OpenSSL seals 1 MiB, one processor", [each] { return openssl_seals(each); }},
      {"OpenSSL opens 1 MiB, one processor", [each] { return openssl_opens(each); }},
      {"OpenSSL seals and opens, two of them", [each] { return openssl_seals_and_opens(each); }},
  };
  if (!tls::why_no_kernel_tls()) {
    rows.push_back({"bare stream of the kernel's TLS, 1 MiB",
                    [each] { return bare_kernel_tls_stream(each); }});
  }
  if (!only.empty())
    std::erase_if(rows,
                  [&](const Row& row) { return !std::string_view(row.name).starts_with(only); });
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) row.rounds.push_back(row.measure());
  }
  for (const Row& row : rows) row.print();
  if (!only.empty()) return 0;
  print_ratios(rows);
  return 0;
}

}  // namespace
}  // namespace penstock::loopback

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 5;
  const int each = count > 2 ? std::atoi(arguments[2]) : 1000;
  return penstock::loopback::run(std::max(1, rounds), std::chrono::milliseconds(each),
                                 count > 3 ? arguments[3] : "");
}
