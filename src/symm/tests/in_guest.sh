#!/bin/sh
# In a guest (tools/verbs_guest.sh --add SYMM_PES --add THIS sh in_guest.sh): scenarios of PEs that count as of two or
# three nodes and reach one another by soft-RoCE, and only so.
export LD_LIBRARY_PATH=/program/lib PENSTOCK_RDMA=required
failed=0

# told CODE PES NODES SCENARIO: what a job must end with.
told() {
  PENSTOCK_JOB_NODES=$3 ./symm_pes "$2" "$4"
  code=$?
  if [ $code = "$1" ]; then
    echo "symm over soft-RoCE: $4 of $2 on $3: well"
  else
    echo "symm over soft-RoCE: $4 of $2 on $3: $code, not $1"
    failed=1
  fi
}

for scenario in ${1:-random bytes words signals variables rows active_sets computes by_themselves at_once threads strides \
  questions third}; do
  told 0 2 2 $scenario
done
for scenario in ${1:-random third at_once world}; do
  told 0 3 0,1,2 $scenario
  told 0 4 0,1,1,0 $scenario
done
# The last PE is killed, whose code is the job's.
for scenario in ${1:-in_put in_get in_quiet}; do
  told 137 2 2 $scenario
done
exit $failed
