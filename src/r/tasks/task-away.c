#include "r/tasks/task-away.h"

#include "r/tasks/memory-limit.h"
#include "r/tasks/task-budget.h"
#include "r/tasks/task-drive.h"
#include "r/tasks/task-hosts.h"
#include "r/tasks/task-results.h"

#define MOST_READ (256u << 20) /* bytes */
#define MOST_PUMPS 16          /* a turn: R's thread may be waiting for it */
#define GRACE_MS 2000          /* that an idle node has to end */
#define MEMORY_EVERY 20000000  /* ns between two looks at the memory of nodes */
/* ns that it waits when nothing happens, longer each time: of the results of quick tasks nodes do
 * not tell each time */
#define FIRST_WAIT 10000000
#define LAST_WAIT 50000000

static tasks *all;

/* ---- what has to be done ---- */

static int back_at_once;
void clu_tasks_back_at_once(void) { back_at_once = 1; }

static int is_urgent(void *unused) {
  (void)unused;
  if (back_at_once) {
    back_at_once = 0;
    return clu_turn.urgent;
  }
  if (all && clu_loop_writers(clu_session_loop(clu_the_session))) return 1;
  for (const tasks *t = all; t; t = t->next)
    if (t->jobs.nbare &&
        (t->jobs.nrestartable || t->limits.bytes > 0 || clu_sched_is_urgent(t->sched)))
      return 1;
  return 0;
}

/* Bytes that were read since R's thread was here. */
static uint64_t read_since(void) {
  static uint64_t entries, before;
  uint64_t now = clu_session_received(clu_the_session) + clu_tasks_ring_bytes();
  if (entries != clu_turns_entries(&clu_turn)) {
    entries = clu_turns_entries(&clu_turn);
    before = now;
  }
  return now - before;
}

/* ---- nodes that nobody needs ---- */

static int is_in_use(const tasks *t) {
  if (t->jobs.nbare || t->jobs.nmaps) return 1;
  for (int i = 0; i < t->n; i++)
    if (t->nodes[i].node && clu_node_busy(t->nodes[i].node)) return 1;
  return 0;
}

/* When the first cluster has been idle for as long as it may. */
static uint64_t idle_due(void) {
  uint64_t first = 0, now = 0;
  for (tasks *t = all; t; t = t->next) {
    if (!t->idle.after || t->idle.is_idle) continue;
    if (!now) now = clu_os_now();
    if (is_in_use(t)) t->idle.used = now;
    if (!first || t->idle.used + t->idle.after < first) first = t->idle.used + t->idle.after;
  }
  return first;
}

static uint64_t due(void *unused) {
  uint64_t first = idle_due();
  (void)unused;
  for (tasks *t = all; t; t = t->next) {
    uint64_t fit = clu_tasks_fit_due(t), host = clu_hosts_due(t);
    if (fit && (!first || fit < first)) first = fit;
    if (host && (!first || host < first)) first = host;
  }
  return first;
}

/* It has nothing, and gets nothing more: for the scheduler it is not there from now on, although it
 * may take a while to end. That is no death. */
static void end_node(tasks *t, task_node *at) {
  if (!at->node || !clu_node_takes_work(at->node)) return;
  clu_node_stop(at->node, GRACE_MS);
  clu_node_drop_data(at->node);
  clu_sched_node_lost(t->sched, at->index, 0, CLU_RETRY_NONE);
  at->id = 0;
  at->idle = 1;
}

static void end_idle(void) {
  uint64_t first = idle_due(), now = first ? clu_os_now() : 0;
  if (!first || first > now) return;
  for (tasks *t = all; t; t = t->next) {
    if (!t->idle.after || t->idle.is_idle || t->idle.used + t->idle.after > now) continue;
    t->idle.is_idle = 1;
    clu_tasks_note(t, TASK_NOTE_IDLE, -1, NULL, 0, 0);
    for (int i = 0; i < t->n; i++) end_node(t, &t->nodes[i]);
  }
}

/* ---- a turn of the thread: no R in here ---- */

static void drive(tasks *t) {
  clu_tasks_take_rings(t);
  clu_sched_away(t->sched, 1);
  clu_tasks_see_deaths(t, 0);
  if (t->limits.bytes > 0) clu_tasks_limit_memory(t);
  clu_tasks_act(t, 1);
  clu_tasks_take_endings(t);
  clu_sched_away(t->sched, 0);
}

static int64_t next_wait(int64_t wait) {
  uint64_t now = clu_os_now();
  for (const tasks *t = all; t; t = t->next) {
    if (t->limits.bytes > 0 && wait > MEMORY_EVERY) wait = MEMORY_EVERY;
    wait = clu_tasks_fit_wait(t, (int64_t)clu_sched_wait(t->sched, now, (uint64_t)wait));
  }
  return clu_loop_until_timer(clu_session_loop(clu_the_session), wait);
}

static int64_t work(void *unused) {
  static int64_t wait = FIRST_WAIT;
  int some = 0;
  end_idle();
  for (tasks *t = all; t; t = t->next) clu_hosts_end_idle(t);
  if (read_since() > MOST_READ) return -1; /* what was answered cannot be known: no time limits */
  for (int k = 0; k < MOST_PUMPS && read_since() <= MOST_READ; k++) {
    if (clu_pump(0, NULL) != CLU_OK) return -1;
    if (clu_pump_events() == 0) break;
    some = 1;
  }
  for (tasks *t = all; t; t = t->next) drive(t);
  if (!is_urgent(unused)) return -1;
  wait = some ? FIRST_WAIT : 2 * wait < LAST_WAIT ? 2 * wait : LAST_WAIT;
  return next_wait(wait);
}

/* ---- which tasks ---- */

int clu_tasks_drive_always(tasks *t) {
  if (clu_session_set_work(is_urgent, due, work) != CLU_OK) return CLU_NOMEM;
  t->next = all;
  all = t;
  return CLU_OK;
}

void clu_tasks_drive_none(void) { all = NULL; }

void clu_tasks_drive_no_more(tasks *t) {
  tasks **at = &all;
  while (*at && *at != t) at = &(*at)->next;
  if (*at) *at = t->next;
}
