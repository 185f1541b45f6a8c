// What was found between PEs, as machines read it.
#include "penstock/bench/symm.h"

namespace penstock::bench {
namespace {

void add(Json* json, const char* key, const std::optional<double>& value) {
  if (value) (*json)[key] = *value;
}

std::optional<double> value_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

uint32_t small_number_at(const Json& json, const char* key) {
  return static_cast<uint32_t>(number_at(json, key));
}

Json json_of(const SymmPe& pe) {
  Json json = {{"host", pe.host}, {"node", pe.node}};
  if (pe.gpu) {
    json["gpu"] = *pe.gpu;
    json["gpu_name"] = pe.gpu_name;
  } else {
    json["no_gpu"] = pe.no_gpu;
  }
  return json;
}

SymmPe pe_from(const Json& json) {
  SymmPe pe;
  pe.host = text_at(json, "host");
  pe.node = small_number_at(json, "node");
  if (json.contains("gpu")) pe.gpu = small_number_at(json, "gpu");
  pe.gpu_name = text_at(json, "gpu_name");
  pe.no_gpu = text_at(json, "no_gpu");
  return pe;
}

Json json_of(const SymmRail& rail) {
  return {{"from", rail.from}, {"to", rail.to},   {"gpu", rail.gpu},
          {"card", rail.card}, {"why", rail.why}, {"bytes_per_second", rail.bytes_per_second}};
}

SymmRail rail_from(const Json& json) {
  return {small_number_at(json, "from"),
          small_number_at(json, "to"),
          small_number_at(json, "gpu"),
          text_at(json, "card"),
          value_at(json, "bytes_per_second").value_or(0),
          text_at(json, "why")};
}

// Of a list under a key, the objects.
template <class T>
std::vector<T> all_at(const Json& json, const char* key, T (*read)(const Json&)) {
  std::vector<T> all;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return all;
  for (const Json& one : *found) {
    if (one.is_object()) all.push_back(read(one));
  }
  return all;
}

}  // namespace

Json json_of(const SymmWay& way) {
  Json json = {{"from", way.from},
               {"to", way.to},
               {"memory", way.memory},
               {"way", way.way},
               {"note", way.note}};
  add(&json, "put_bytes_per_second", way.put_bytes_per_second);
  add(&json, "get_bytes_per_second", way.get_bytes_per_second);
  add(&json, "put_seconds", way.put_seconds);
  add(&json, "get_seconds", way.get_seconds);
  add(&json, "signal_seconds", way.signal_seconds);
  return json;
}

SymmWay way_from(const Json& json) {
  SymmWay way;
  way.from = small_number_at(json, "from");
  way.to = small_number_at(json, "to");
  way.memory = text_at(json, "memory");
  way.way = text_at(json, "way");
  way.note = text_at(json, "note");
  way.put_bytes_per_second = value_at(json, "put_bytes_per_second");
  way.get_bytes_per_second = value_at(json, "get_bytes_per_second");
  way.put_seconds = value_at(json, "put_seconds");
  way.get_seconds = value_at(json, "get_seconds");
  way.signal_seconds = value_at(json, "signal_seconds");
  return way;
}

Json json_of(const SymmReport& report) {
  Json json = {{"pes", Json::array()},
               {"pairs", report.pairs},
               {"ways", Json::array()},
               {"rails", Json::array()},
               {"gpus", report.gpus}};
  for (const SymmPe& pe : report.pes) json["pes"].push_back(json_of(pe));
  for (const SymmWay& way : report.ways) json["ways"].push_back(json_of(way));
  for (const SymmRail& rail : report.rails) json["rails"].push_back(json_of(rail));
  add(&json, "barrier_seconds", report.barrier_seconds);
  add(&json, "stream_barrier_seconds", report.stream_barrier_seconds);
  return json;
}

SymmReport report_from(const Json& json) {
  SymmReport report;
  report.pes = all_at(json, "pes", pe_from);
  report.pairs = number_at(json, "pairs");
  report.ways = all_at(json, "ways", way_from);
  report.rails = all_at(json, "rails", rail_from);
  report.gpus = text_at(json, "gpus");
  report.barrier_seconds = value_at(json, "barrier_seconds");
  report.stream_barrier_seconds = value_at(json, "stream_barrier_seconds");
  return report;
}

}  // namespace penstock::bench
