/* What the scheduler costs by itself: nanoseconds a task, with N stub nodes that answer at once, in
 * turn.
 *
 *   scheduler N TASKS CHUNK      (CHUNK 0: as measured times say; stub tasks take 1 us)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/sched/scheduler.h"

typedef struct {
  uint64_t first, n; /* numbers of the tasks it has been sent and not answered, as a range: they
                        leave in order */
  clu_claim claim;
} stub;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 10;
  uint64_t tasks = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000, done = 0, virtual_ns = 1;
  clu_sched *sched = clu_sched_new(1000000000);
  stub *stubs = calloc((size_t)n, sizeof *stubs);
  clu_job_spec spec;
  clu_action a;
  double t;
  memset(&spec, 0, sizeof spec);
  spec.n = tasks;
  spec.chunk = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
  for (int i = 0; i < n; i++) {
    stubs[i].first = 1;
    clu_sched_node_up(sched, i, &stubs[i].claim);
  }
  t = now();
  clu_job_new(sched, &spec);
  for (int i = 0; done < tasks; i = (i + 1) % n) {
    clu_ended out;
    for (;;) {
      stub *to;
      clu_sched_next(sched, virtual_ns, &a);
      if (a.what != CLU_ACT_SEND) break;
      to = &stubs[a.node];
      clu_sched_sent(sched, &a, to->first + to->n, 50 * a.n, virtual_ns);
      to->n += a.n;
    }
    virtual_ns += 1000;
    for (; stubs[i].n > 0; stubs[i].n--, stubs[i].first++)
      if (clu_claim_start(&stubs[i].claim, stubs[i].first) &&
          clu_sched_answer(sched, i, stubs[i].first, 0, 1000, virtual_ns, &out) == 1)
        done++;
  }
  t = now() - t;
  printf("%.1f\n", 1e9 * t / (double)tasks);
  clu_sched_free(sched);
  free(stubs);
  return 0;
}
