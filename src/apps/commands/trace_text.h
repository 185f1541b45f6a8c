// The operations that a node was traced with, for people and for viewers of traces.
#pragma once

#include <string>

#include "penstock/json.h"

namespace penstock::apps {

// `operations` as the node tells them. The steps of each kind and route on average, and the slowest
// ones one by one.
std::string table_of_trace(const Json& operations);

// The trace-event format, which chrome://tracing and Perfetto open
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
Json trace_events_of(const Json& operations);

}  // namespace penstock::apps
