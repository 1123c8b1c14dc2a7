/* Memory as a budget, with stub nodes: who is stopped, and goes on. */
// threads
// link: -Wl,--wrap=clu_os_process_anonymous -Wl,--wrap=clu_os_process_cpu
// link: -Wl,--wrap=clu_os_memory_bounds -Wl,--wrap=clu_os_memory_left
// link: -Wl,--wrap=clu_memory_share -Wl,--wrap=clu_memory_share_no_more
#include "engine-fixture.h"

#define MB ((int64_t)1 << 20)
#define FIRST_PID 4711

/* Bytes that nodes have, by process id; and what is left of LIMIT. */
#define LIMIT (1024 * MB)
static _Atomic int64_t has[MOST_NODES], left;
static _Atomic int goes[MOST_NODES]; /* these tasks may end */
static _Atomic int begun;            /* so many tasks have */

int64_t __wrap_clu_os_process_anonymous(clu_pid pid);
int64_t __wrap_clu_os_process_anonymous(clu_pid pid) { return atomic_load(&has[pid - FIRST_PID]); }

int64_t __wrap_clu_os_process_cpu(clu_pid pid, clu_process_pages *pages);
int64_t __wrap_clu_os_process_cpu(clu_pid pid, clu_process_pages *pages) {
  (void)pid;
  (void)pages;
  return -1;
}

/* Others may have part in it. */
static int is_shared, is_sharing;

int __wrap_clu_memory_share(const char *under, int i);
int __wrap_clu_memory_share(const char *under, int i) {
  (void)under;
  (void)i;
  is_sharing = 1;
  return 2;
}
void __wrap_clu_memory_share_no_more(void);
void __wrap_clu_memory_share_no_more(void) { is_sharing = 0; }

int __wrap_clu_os_memory_bounds(const char *root, clu_memory_bounds *out);
int __wrap_clu_os_memory_bounds(const char *root, clu_memory_bounds *out) {
  (void)root;
  memset(out, 0, sizeof *out);
  out->n = is_shared;
  out->at[0].limit = LIMIT;
  return CLU_OK;
}

int __wrap_clu_os_memory_left(const char *root, const clu_memory_bounds *b, clu_memory_left *out);
int __wrap_clu_os_memory_left(const char *root, const clu_memory_bounds *b, clu_memory_left *out) {
  (void)root;
  (void)b;
  memset(out, 0, sizeof *out);
  out->limit = LIMIT;
  out->left = atomic_load(&left);
  return CLU_OK;
}

static enum deed waits(uint64_t element, uint32_t attempt) {
  (void)attempt;
  atomic_fetch_add(&begun, 1);
  while (!atomic_load(&goes[element])) clu_os_pause(1000000);
  return WELL;
}

/* A signal takes its time: what it does in between is said by `goes`. */
static void hold(clu_node *nd, int held) {
  (void)nd;
  (void)held;
}

static int is_held(int i) {
  clu_engines_look_at_room(x.all, clu_os_now());
  return clu_engine_is_held(x.t, i);
}

static uint64_t answered(const plan *p) {
  clu_engine_take_rings(x.t);
  return clu_task_job_counts(p->job).answered;
}

TEST(a_node_that_has_answered_before_it_was_stopped_goes_on_beside_others) {
  clu_transport holds = stub_transport;
  plan p;
  int mine;
  holds.hold = hold;
  atomic_store(&left, LIMIT);
  up(2, waits);
  for (int i = 0; i < 2; i++) {
    x.nodes[i]->node.pid = FIRST_PID + i;
    x.nodes[i]->node.transport = &holds;
  }
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  plan_job(&p, 2, 0, 0);
  CHECK_INT_EQ(clu_engine_turn(x.t), CLU_OK);
  CHECK_INT_EQ(clu_task_job_counts(p.job).waiting, 0);
  CHECK_SOON(atomic_load(&begun) == 2, 20000); /* else a node that is stopped gives its task back */
  atomic_store(&has[0], 200 * MB);
  atomic_store(&has[1], 300 * MB);
  atomic_store(&left, 100 * MB);
  CHECK_SOON(is_held(1), 20000);
  CHECK(!clu_engine_is_held(x.t, 0));
  atomic_store(&goes[1], 1);
  CHECK_SOON(answered(&p) == 1, 20000);
  CHECK(!is_held(1));
  CHECK_INT_EQ(clu_sched_held(x.t->sched), 0);
  atomic_store(&goes[0], 1);
  CHECK(run(&p, UINT64_MAX));
  CHECK(is_each_once(&p));
  drop_job(&p);
  clu_turns_leave(&x.turns, mine);
  down();
}

static int has_no_open(void) {
  clu_engine_take_rings(x.t);
  return clu_engine_open(x.t) == 0;
}

TEST(sessions_beside_are_told_once_nobody_has_work) {
  plan p;
  int mine;
  is_shared = 1;
  atomic_store(&left, LIMIT / 2);
  up(2, waits);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  plan_job(&p, 2, 0, 0);
  CHECK_INT_EQ(clu_engine_turn(x.t), CLU_OK);
  clu_engines_look_at_room(x.all, clu_os_now());
  CHECK(is_sharing);
  atomic_store(&goes[0], 1);
  CHECK_SOON(answered(&p) == 1, 20000);
  CHECK(x.all->room.due > 1);
  atomic_store(&goes[1], 1);
  CHECK_SOON(has_no_open(), 20000);
  CHECK(x.all->room.due == 1); /* not only after the pause between two looks */
  CHECK(run(&p, UINT64_MAX));
  CHECK(!is_sharing);
  drop_job(&p);
  clu_turns_leave(&x.turns, mine);
  down();
}
