#!/bin/sh
# In a guest: calls that are given up at any moment, and what lands afterwards. With two nodes the first one serves.
server=10.77.0.1
export LD_LIBRARY_PATH=/program/lib
if [ "$PENSTOCK_NODE" = 1 ]; then
  ./verbs_bench serve &
  serving=$!
  sleep 1
fi
if [ "$PENSTOCK_NODES" = 1 ] || [ "$PENSTOCK_NODE" = 2 ]; then
  ./verbs_bench late $server "${1:-200}"
  landed=$?
  ./verbs_bench stop $server
  exit $landed
fi
wait $serving
