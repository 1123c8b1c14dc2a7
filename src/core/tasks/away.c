/* The thread's work while the owner of the turn is elsewhere: clu_engines_work() says what it is.
 */
#include "core/tasks/engine-private.h"

#define MOST_READ (256u << 20) /* bytes */
#define MOST_PUMPS 16          /* a turn: the owner may be waiting for it */
#define MEMORY_EVERY 20000000  /* ns between two looks at the memory of nodes */
/* ns that it waits when nothing happens, longer each time: of the results of quick tasks nodes do
 * not tell each time */
#define FIRST_WAIT 10000000
#define LAST_WAIT 50000000

/* ---- what has to be done ---- */

void clu_engines_back_at_once(clu_engines *all) { all->back_at_once = 1; }

/* Takes note that the owner comes back at once, if it has said so. */
static int take_urgent(void *self) {
  clu_engines *all = self;
  if (all->back_at_once) {
    all->back_at_once = 0;
    return all->turns->urgent;
  }
  if (all->first && clu_loop_writers(clu_session_loop(all->session))) return 1;
  if (clu_session_forwards(all->session)) return 1;
  for (const clu_engine *t = all->first; t; t = t->next)
    if (t->jobs.nbare &&
        (clu_session_may_forward(all->session) || t->jobs.nrestartable || t->jobs.nrecorded ||
         t->jobs.nheld || t->limits.bytes > 0 || clu_sched_is_urgent(t->sched)))
      return 1;
  return 0;
}

/* Bytes that were read since the owner was here. */
static uint64_t read_since(clu_engines *all) {
  uint64_t now = clu_session_received(all->session) + all->ring_bytes;
  if (all->entries != clu_turns_entries(all->turns)) {
    all->entries = clu_turns_entries(all->turns);
    all->before = now;
  }
  return now > all->before ? now - all->before : 0; /* some was not for this process */
}

/* The sooner of two times, of which 0 is never. */
static uint64_t sooner(uint64_t a, uint64_t b) { return !a || (b && b < a) ? b : a; }

static uint64_t due(void *self) {
  clu_engines *all = self;
  uint64_t first = clu_engines_idle_due(all);
  int knows = read_since(all) <= MOST_READ; /* what was answered */
  for (clu_engine *t = all->first; t; t = t->next) {
    if (knows) first = sooner(first, clu_sched_limit_due(t->sched));
    first = sooner(first, clu_engine_fit_due(t));
    first = sooner(first, clu_engine_hosts_due(t));
    first = sooner(first, clu_engine_growth_due(t));
  }
  return sooner(first, all->room.due);
}

/* ---- a turn of the thread ---- */

static void drive(clu_engine *t) {
  clu_engine_take_rings(t);
  clu_sched_away(t->sched, 1);
  clu_engine_see_deaths(t, 0);
  if (t->limits.bytes > 0) clu_engine_limit_memory(t);
  clu_engine_act(t, 1); /* CLU_OK: no batch needs the caller */
  clu_engine_take_endings(t);
  clu_sched_away(t->sched, 0);
  for (clu_task_job *j = t->jobs.nrecorded ? t->jobs.first : NULL; j; j = j->next)
    if (j->recording) clu_task_job_flush_journal(j);
}

static int64_t next_wait(const clu_engines *all, int64_t wait) {
  uint64_t now = clu_os_now();
  for (const clu_engine *t = all->first; t; t = t->next) {
    if (t->limits.bytes > 0 && wait > MEMORY_EVERY) wait = MEMORY_EVERY;
    wait = clu_engine_fit_wait(t, (int64_t)clu_sched_wait(t->sched, now, (uint64_t)wait));
    wait = clu_engine_growth_wait(t, now, wait);
  }
  wait = clu_engines_room_wait(all, now, wait);
  return clu_loop_until_timer(clu_session_loop(all->session), wait);
}

static int64_t work(void *self) {
  clu_engines *all = self;
  clu_loop *loop = clu_session_loop(all->session);
  int some = 0;
  clu_engines_end_idle(all);
  for (clu_engine *t = all->first; t; t = t->next) clu_engine_end_idle_hosts(t);
  /* what was answered cannot be known: no time limits */
  if (read_since(all) > MOST_READ) return -1;
  for (int k = 0; k < MOST_PUMPS && read_since(all) <= MOST_READ; k++) {
    if (clu_loop_pump(loop, 0, NULL) != CLU_OK) return -1;
    if (clu_loop_events(loop) == 0) break;
    some = 1;
  }
  clu_engines_see_room(all, clu_os_now());
  for (clu_engine *t = all->first; t; t = t->next) drive(t);
  if (!take_urgent(all)) return -1;
  if (some)
    all->wait = FIRST_WAIT;
  else
    all->wait = 2 * all->wait < LAST_WAIT ? 2 * all->wait : LAST_WAIT;
  return next_wait(all, all->wait);
}

clu_turns_work clu_engines_work(clu_engines *all) {
  clu_turns_work w = {take_urgent, due, work, clu_session_loop(all->session), all};
  if (!all->wait) all->wait = FIRST_WAIT;
  return w;
}
