/* Jobs, and what is asked of a scheduler again and again in its tests. */
#ifndef CLUTCH_SCHEDULER_FIXTURE_H
#define CLUTCH_SCHEDULER_FIXTURE_H

#include "core/base/err.h"
#include "core/sched/scheduler.h"

static clu_action act;
static clu_ended end TEST_UNUSED;

TEST_UNUSED static clu_job *job(clu_sched *s, uint64_t n, uint32_t retries, uint32_t chunk,
                                uint64_t timeout) {
  clu_job_spec spec;
  memset(&spec, 0, sizeof spec);
  spec.n = n;
  spec.retries = retries;
  spec.chunk = chunk;
  spec.timeout_ns = timeout;
  return clu_job_new(s, &spec);
}

/* One that only these nodes may do, of `nodes`. */
TEST_UNUSED static clu_job *job_for(clu_sched *s, uint64_t n, int nodes, unsigned mask) {
  clu_job_spec spec;
  memset(&spec, 0, sizeof spec);
  spec.n = n;
  spec.nonly = nodes;
  spec.only = calloc((size_t)nodes, 1);
  REQUIRE(spec.only);
  for (int i = 0; i < nodes; i++) spec.only[i] = mask >> i & 1;
  return clu_job_new(s, &spec);
}

static int next_is(clu_sched *s, uint64_t now, int what) {
  clu_sched_next(s, now, &act);
  return act.what == what;
}

/* A send that has to come: to `node`, of `n` tasks from `first`. */
TEST_UNUSED static int sends(clu_sched *s, int i, uint64_t first, uint32_t n, uint64_t seq) {
  if (!next_is(s, 0, CLU_ACT_SEND) || act.node != i || act.first != first || act.n != n) return 0;
  return clu_sched_sent(s, &act, seq, 8 * n, 0) == CLU_OK;
}

#endif
