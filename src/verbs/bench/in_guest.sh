#!/bin/sh
# In a guest (tools/verbs_guest.sh --add BENCH --add THIS sh in_guest.sh): bytes and small calls by perftest and by
# verbs_bench in turns, then calls that are given up. With two nodes the first one serves.
server=10.77.0.1
rounds=${1:-2}

# perftest NAME COMMAND...: both ends in one guest, or one in each.
perftest() {
  name=$1
  shift
  if [ "$PENSTOCK_NODES" = 2 ] && [ "$PENSTOCK_NODE" = 1 ]; then
    "$@" -d rxe0 -x 1 -F >/dev/null 2>&1
    return
  fi
  if [ "$PENSTOCK_NODES" = 1 ]; then
    "$@" -d rxe0 -x 1 -F >/dev/null 2>&1 &
  fi
  sleep 2
  "$@" -d rxe0 -x 1 -F $server 2>/dev/null | grep -A1 '#bytes' | tail -n 1 | sed "s|^|perftest $name: |"
}

export LD_LIBRARY_PATH=/program/lib
if [ "$PENSTOCK_NODE" = 1 ]; then
  ./verbs_bench serve &
  serving=$!
  sleep 1
fi
round=0
while [ $round -lt "$rounds" ]; do
  round=$((round + 1))
  for size in 65536 1048576; do
    perftest "write: bytes, times, peak MB/s, mean MB/s, Mpps" ib_write_bw -s $size -n 100
    perftest "read: bytes, times, peak MB/s, mean MB/s, Mpps" ib_read_bw -s $size -n 100
  done
  perftest "send: bytes, times, and in us: least, most, typical, mean, deviation, 99 %, 99.9 %" ib_send_lat -s 64 -n 500
  if [ "$PENSTOCK_NODES" = 1 ] || [ "$PENSTOCK_NODE" = 2 ]; then
    ./verbs_bench call $server 3000 || exit 1
  fi
  # The other one waits in perftest.
done
if [ "$PENSTOCK_NODES" = 1 ] || [ "$PENSTOCK_NODE" = 2 ]; then
  ./verbs_bench late $server 200 || exit 1
  ./verbs_bench stop $server
fi
[ "$PENSTOCK_NODE" = 2 ] || wait $serving
