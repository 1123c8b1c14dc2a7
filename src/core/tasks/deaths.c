/* Deaths of nodes: how they are seen, what of them has to be known, and who is told. */
#include <stdio.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/tasks/engine-private.h"

static int reserve_death(clu_engine *t) {
  clu_death *more = clu_grow(t->deaths.list, &t->deaths.cap, t->deaths.n + 1, sizeof *more);
  if (more) t->deaths.list = more;
  return more != NULL;
}

/* Says in the record of a death what the node was at. */
static void note_task(const clu_engine *t, clu_death *d) {
  void *job;
  uint64_t task;
  d->job = d->element = 0;
  if (!clu_sched_node_current(t->sched, d->index, clu_sched_node_head(t->sched, d->index), &job,
                              &task))
    return;
  d->job = ((const clu_task_job *)job)->number;
  d->element = clu_task_job_element(job, task);
}

static void see_death(clu_engine *t, clu_task_node *at) {
  clu_death *d = &t->deaths.list[t->deaths.n++];
  uint64_t memory;
  at->id = 0;
  if (at->node && clu_node_over_limit(at->node, &memory)) {
    at->over_memory = 1;
    at->memory = (int64_t)memory;
  }
  d->copy[0] = 0;
  if (at->node && clu_node_last_copy(at->node))
    snprintf(d->copy, sizeof d->copy, "%s", clu_node_last_copy(at->node));
  if (at->node) clu_node_drop_data(at->node);
  d->index = at->index;
  d->cause = ++t->deaths.causes;
  d->over_memory = at->over_memory;
  d->killed = at->killed;
  d->memory = (uint64_t)at->memory;
  d->room = at->killed == CLU_KILL_YIELD || at->killed == CLU_KILL_NO_ROOM
                ? (uint64_t)t->all->room.is.limit
                : 0;
  d->at = clu_os_now();
  note_task(t, d);
  d->has_begun =
      clu_sched_node_lost(t->sched, at->index, d->cause,
                          at->over_memory || at->killed == CLU_KILL_NO_ROOM ? CLU_RETRY_NONE
                          : at->excuse == CLU_EXCUSED                       ? CLU_RETRY_FREE
                                                                            : CLU_RETRY_COUNTED);
  clu_engine_tell_all(t);
}

/* Finds out what matters of its end, which takes a second at most, and returns whether it is known:
 * one that had too much is not tried again, and what one of another host had not begun is nobody's
 * death. */
static int settle_end(const clu_engine *t, clu_task_node *at, int may_wait) {
  if (!at->node || (t->limits.bytes == 0 && !clu_node_is_proxied(at->node))) return 1;
  if (may_wait) clu_node_await_end(at->node);
  if (may_wait || clu_node_end_known(at->node)) return 1;
  if (!at->closed) at->closed = clu_os_now();
  return clu_os_now() - at->closed > 1000000000;
}

/* Whether the caller has to say what it has ended of: who manages its host may have ended it, by
 * CLU_SIG_TERM, CLU_SIG_KILL or with the host. */
static int caller_has_to_tell(const clu_engine *t, clu_task_node *at) {
  clu_node_status st;
  uint64_t memory;
  if (!t->deaths.asks || !at->node || at->excuse != CLU_EXCUSE_UNKNOWN || at->killed ||
      at->over_memory)
    return 0;
  if (clu_node_over_limit(at->node, &memory)) return 0;
  clu_node_status_of(at->node, &st);
  return !st.how_known ||
         (st.how.by_signal && (st.how.code == CLU_SIG_TERM || st.how.code == CLU_SIG_KILL));
}

/* Tells the scheduler which nodes cannot be reached, and which can again. */
static void see_cuts(clu_engine *t) {
  uint64_t now;
  if (t->deaths.cuts == clu_session_cuts(t->all->session)) return;
  t->deaths.cuts = clu_session_cuts(t->all->session);
  now = clu_os_now();
  for (int i = 0; i < t->n; i++) {
    clu_task_node *at = &t->nodes[i];
    int cut = at->node ? clu_node_is_cut(at->node) : CLU_IS_REACHED;
    if (!at->node) continue;
    clu_sched_node_cut(t->sched, i, cut != CLU_IS_REACHED, now);
    if (cut == at->cut) continue;
    if (cut != CLU_HAS_SAID_BYE) /* that is no cut: its end is told */
      clu_engine_note(t, cut == CLU_IS_CUT ? CLU_NOTE_CUT : CLU_NOTE_RESUME, i, NULL, 0, 0);
    at->cut = cut;
  }
}

void clu_engine_see_deaths(clu_engine *t, int may_wait) {
  see_cuts(t);
  if (!t->deaths.may_be) return; /* in each turn: not a look at each node */
  t->deaths.may_be = 0; /* not behind the loop: while it waits for one end, another may come */
  t->deaths.unclear = 0;
  for (int i = 0; i < t->n; i++) {
    clu_task_node *at = &t->nodes[i];
    if (!at->id || (at->node && clu_node_is_open(at->node))) continue;
    if (!settle_end(t, at, may_wait)) {
      t->deaths.may_be = 1;
      continue;
    }
    if (caller_has_to_tell(t, at)) {
      t->deaths.unclear = t->deaths.may_be = 1;
      continue;
    }
    if (!reserve_death(t)) { /* next time: the caller has to hear of it */
      t->deaths.may_be = 1;
      return;
    }
    see_death(t, at);
  }
}

/* ---- what the caller says and hears ---- */

int clu_engine_asks(const clu_engine *t) {
  if (t->deaths.unclear) return 1;
  if (!t->deaths.asks || clu_os_now() < t->deaths.ask_again) return 0;
  for (int i = 0; i < t->n; i++)
    if (t->nodes[i].id && t->nodes[i].node && clu_node_is_cut(t->nodes[i].node)) return 1;
  return 0;
}

void clu_engine_ask(clu_engine *t, uint64_t again) {
  t->deaths.asks = 1;
  t->deaths.ask_again = again;
}

int clu_engine_is_unclear(const clu_engine *t, int i, int cut) {
  const clu_task_node *at = &t->nodes[i];
  if (!at->id || !at->node || at->excuse != CLU_EXCUSE_UNKNOWN) return 0;
  return cut ? clu_node_is_cut(at->node) : !clu_node_is_open(at->node);
}

void clu_engine_tell_end(clu_engine *t, int i, int counts) {
  t->nodes[i].excuse = counts ? CLU_NOT_EXCUSED : CLU_EXCUSED;
  t->deaths.may_be = 1;
}

size_t clu_engine_deaths(const clu_engine *t) { return t->deaths.n; }
clu_death clu_engine_death(const clu_engine *t, size_t k) { return t->deaths.list[k]; }

void clu_engine_deaths_told(clu_engine *t, size_t n) {
  memmove(t->deaths.list, t->deaths.list + n, (t->deaths.n - n) * sizeof *t->deaths.list);
  t->deaths.n -= n;
}
