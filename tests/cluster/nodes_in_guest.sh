#!/bin/sh
# In three guests with soft-RoCE (tools/verbs_guest.sh --nodes 3): three nodes of a cluster whose bytes go by RDMA,
# while one is killed, a cable is pulled and large packets are lost. Every byte is verified after each.
# The others do what the first one says, in files that it serves over HTTP.
export LD_LIBRARY_PATH=/program/lib HOME=/tmp TMPDIR=/tmp
readonly FIRST=10.77.0.1 SHARE=/tmp/share
readonly DIR=/tmp/node$PENSTOCK_NODE HERE=10.77.0.$PENSTOCK_NODE:9180
readonly OPTIONS="-b --shards 1 --rdma trusted --capacity 200MiB"
cd /program || exit 1

fail() {
  echo "FAILED: $*"
  tail -n 30 "$DIR/agent.log"
  say end
  sleep 2
  exit 1
}

# until SECONDS COMMAND...: asks again until it succeeds.
until_done() {
  local seconds=$1 begun
  shift
  begun=$(cut -d. -f1 /proc/uptime)
  until "$@"; do
    [ $(($(cut -d. -f1 /proc/uptime) - begun)) -lt "$seconds" ] || return 1
    usleep 300000
  done
}

get() { wget -q -O - "http://$FIRST:8080/$1" 2>/dev/null; }
pid_of_node() { sed -n 's/^.*"pid": *\([0-9]*\).*$/\1/p' "$1"; }

# --- the others ---

read_order() {
  order=$(get order)
  [ -n "$order" ] && [ "$order" != "$last" ]
}

follow() {
  until_done 200 get invitation >/tmp/invitation || fail "no invitation came"
  ./penstock join "$(cat /tmp/invitation)" "$DIR" --listen "$HERE" $OPTIONS || fail "join"
  last=
  while until_done 400 read_order; do
    last=$order
    # NUMBER NODE VERB
    set -- $order
    [ "$2" = "$PENSTOCK_NODE" ] || [ "$2" = all ] || continue
    echo "ordered: $order"
    case $3 in
      kill)
        ./penstock status "$DIR" --json >/tmp/status
        kill -9 "$(pid_of_node /tmp/status)"
        ;;
      up) ./penstock up "$DIR" $OPTIONS >/dev/null || fail "up" ;;
      cut)
        ip link set eth0 down
        sleep 12
        ip link set eth0 up
        ;;
      end) exit 0 ;;
    esac
  done
  fail "no order came"
}

# --- the first ---

orders=0
say() {
  orders=$((orders + 1))
  [ "$PENSTOCK_NODE" != 1 ] || echo "$orders $1 $2" >$SHARE/order
}

# state_is GUEST STATE: nodes are numbered as they join, so a guest's is known by where it listens.
state_is() { ./penstock nodes "$DIR" | grep -q "10\.77\.0\.$1:9180 .* $2 "; }
all_up() { [ "$(./penstock nodes "$DIR" | grep -c ' up ')" = 3 ]; }
whole() { [ "$(./penstock cluster "$DIR" --json | sed -n 's/^ *"partial": *\([0-9]*\).*/\1/p')" = 0 ]; }
ways_by_rdma() { ./penstock status "$DIR" --json | grep -c '"device": "rxe0"'; }
by_rdma() { [ "$(ways_by_rdma)" -ge "$1" ]; }
by_none() { [ "$(ways_by_rdma)" = 0 ]; }

make_tree() {
  mkdir -p "$1"
  for i in 1 2 3 4; do dd if=/dev/urandom of="$1/f$i" bs=64k count=40 2>/dev/null; done
}

# write NAME: a new tree goes in, in the background.
write() {
  make_tree "/tmp/trees/$1"
  ./penstock import "/tmp/trees/$1" "$DIR:/$1" >"/tmp/$1.log" 2>&1 &
  writer=$!
}
written() {
  wait "$writer" || { cat "/tmp/$1.log"; fail "import of $1"; }
  ./penstock verify "/tmp/trees/$1" "$DIR:/$1" >"/tmp/$1.log" 2>&1 || { cat "/tmp/$1.log"; fail "verify of $1"; }
  echo "verified: $1, $(ways_by_rdma) ways by RDMA"
}

lead() {
  mkdir -p $SHARE /tmp/trees
  ./penstock up "$DIR" --listen "$HERE" --cache 0 $OPTIONS >/dev/null || fail "up"
  ./penstock token create "$DIR" --uses 2 --json | sed -n 's/^ *"invitation": *"\([^"]*\)".*/\1/p' >/tmp/invitation
  mv /tmp/invitation $SHARE/
  httpd -p 8080 -h $SHARE
  until_done 200 all_up || fail "the others do not join"
  until_done 100 ./penstock set "$DIR:/" --copies 2 >/dev/null || fail "no table of copies"
  write calm && written calm
  until_done 120 by_rdma_with_writes 2 || fail "not all goes by RDMA: $(./penstock status "$DIR" | grep rdma)"
  ./penstock status "$DIR" | grep rdma

  write killed
  say 2 kill
  until_done 60 state_is 2 missing || fail "node 2 is not missed"
  written killed
  say 2 up
  until_done 120 all_up || fail "node 2 does not come back"
  until_done 120 whole || fail "copies are not whole again"
  write back && written back
  until_done 60 by_rdma 2 || fail "node 2 is not called by RDMA again"

  write cut
  say 3 cut
  written cut
  until_done 120 all_up || fail "node 3 does not come back"
  until_done 120 whole || fail "copies are not whole again"
  write joined && written joined

  # Large packets are lost from now on, small ones and TCP's get through.
  ip link set eth0 mtu 1500
  write narrow && written narrow
  until_done 60 by_tcp_with_writes || fail "calls are said to go by RDMA, where large packets are lost"
  ./penstock status "$DIR" | grep rdma
  ip link set eth0 mtu 4200
  until_done 120 by_rdma_with_writes 1 || fail "RDMA is not used again"

  for tree in calm killed back cut joined narrow; do
    ./penstock verify "/tmp/trees/$tree" "$DIR:/$tree" >/tmp/verify.log 2>&1 || { cat /tmp/verify.log; fail "verify of $tree"; }
  done
  echo "all verified"
  grep -E "rails|verbs" "$DIR/agent.log" | tail -n 20
  say all end
  sleep 3
  ./penstock down "$DIR" >/dev/null || fail "down"
}

# What way a call goes is found out when there is something to say.
write_again() {
  again=$((${again:-0} + 1))
  write "again$again"
  written "again$again"
}
by_tcp_with_writes() { write_again && by_none; }
by_rdma_with_writes() { by_rdma "$1" || { write_again && by_rdma "$1"; }; }

if [ "$PENSTOCK_NODE" = 1 ]; then lead; else follow; fi
