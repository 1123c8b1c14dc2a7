#include "r/tasks/task-drive.h"

#include <stdlib.h>

#include "core/wire/task-message.h"
#include "r/tasks/memory-limit.h"
#include "r/tasks/task-budget.h"
#include "r/tasks/task-results.h"
#include "r/tasks/task-send.h"

/* ns to wait while quick tasks are done, or may be; longer each time nothing happens */
#define QUICK_SLICE 10000000
#define PUMP_EVERY 4       /* while it looks at the rings, sockets are asked each fourth time */
#define READ_EVERY 1000000 /* ns between two looks at the sockets while tasks are submitted */
/* awake for so many tasks at the most, and with so many nodes */
#define MOST_AWAITED 16
#define MOST_RINGS 128
/* of one turn: answers are to be read in between */
#define MOST_ACTIONS 256

/* ---- decisions are carried out ---- */

/* Whether a node has had its grace since its interrupt was there, and has not answered, as far as
 * its host knows: where the connection stood still, both may be on their way. */
static int is_overdue(clu_node *nd, task_node *at, uint64_t head) {
  if (clu_node_is_interrupted(nd)) return 0;
  if (at->asked == head) return 1;
  at->asked = head;
  return !clu_node_ask_signalled(nd);
}

void clu_tasks_act(tasks *t, int may_send) {
  int last =
      -1; /* the node whose messages were not flushed yet: those of one node leave together */
  if (clu_sched_deadline(t->sched) <= clu_os_now())
    clu_tasks_take_rings(t); /* who has answered is not late */
  clu_tasks_fit(t);
  for (int k = 0; k < MOST_ACTIONS; k++) {
    clu_action a;
    clu_node *nd;
    clu_sched_next(t->sched, clu_os_now(), &a);
    if (a.what == CLU_ACT_NONE) break;
    nd = clu_tasks_known_node(t, a.node); /* NULL: its finalizer came first, or it was replaced */
    if (a.what == CLU_ACT_SEND && (!may_send || !nd)) {
      clu_sched_unsent(t->sched, &a);
      break;
    }
    if (a.what == CLU_ACT_SEND) {
      if (last != a.node) clu_tasks_flush(t, last);
      last = a.node;
      if (a.attempt > 1) clu_tasks_note(t, TASK_NOTE_RETRY, last, a.user, a.first, a.attempt);
      clu_tasks_send(t, &a, last);
    } else if (nd && a.what == CLU_ACT_INTERRUPT) {
      clu_node_interrupt(nd, a.seq);
    } else if (nd && a.what == CLU_ACT_TAKE_BACK) {
      clu_node_take_back(nd, a.seq);
    } else if (nd && is_overdue(nd, &t->nodes[a.node], clu_sched_node_head(t->sched, a.node))) {
      clu_tasks_kill(nd, &t->nodes[a.node], TASK_KILL_NO_REACTION);
    } else if (nd) {
      clu_sched_unkilled(t->sched, &a);
    }
  }
  clu_tasks_flush(t, last);
}

/* ---- deaths ---- */

static int has_room_for_death(tasks *t) {
  size_t cap = 2 * t->deaths.cap;
  node_death *more;
  if (t->deaths.n < t->deaths.cap) return 1;
  more = realloc(t->deaths.list, cap * sizeof *more);
  if (!more) return 0;
  t->deaths.list = more;
  t->deaths.cap = cap;
  return 1;
}

/* What it was at. */
static void note_task(const tasks *t, node_death *d) {
  void *job;
  uint64_t task;
  d->job = d->element = NA_REAL;
  if (!clu_sched_node_current(t->sched, d->index, clu_sched_node_head(t->sched, d->index), &job,
                              &task))
    return;
  d->job = (double)((const task_job *)job)->number;
  d->element = clu_job_element(job, task);
}

static void see_death(tasks *t, task_node *at) {
  node_death *d = &t->deaths.list[t->deaths.n++];
  uint64_t memory;
  at->id = 0;
  if (at->node && clu_node_over_limit(at->node, &memory)) {
    at->over_memory = 1;
    at->memory = (int64_t)memory;
  }
  if (at->node) clu_node_drop_data(at->node);
  d->index = at->index;
  d->cause = ++t->deaths.causes;
  d->over_memory = at->over_memory;
  d->killed = at->killed;
  d->memory = (double)at->memory;
  d->at = clu_os_now();
  note_task(t, d);
  d->has_begun = clu_sched_node_lost(t->sched, at->index, d->cause,
                                     at->over_memory            ? CLU_RETRY_NONE
                                     : at->word == TASK_EXCUSED ? CLU_RETRY_FREE
                                                                : CLU_RETRY_COUNTED);
  clu_tasks_tell_all(t);
}

/* Whether all is known of its end that matters: one that had too much is not tried again, and what
 * one of another host had not begun is nobody's death. */
static int is_end_clear(const tasks *t, task_node *at, int may_wait) {
  if (!at->node || (t->limits.bytes == 0 && !clu_node_is_relayed(at->node))) return 1;
  if (may_wait) clu_await_reason(at->node);
  if (may_wait || clu_node_end_known(at->node)) return 1;
  if (!at->closed) at->closed = clu_os_now();
  return clu_os_now() - at->closed > 1000000000;
}

/* Whether R has to say what it has ended of: who manages its host may have ended it, by
 * CLU_SIG_TERM, CLU_SIG_KILL or with the host. */
static int needs_word(const tasks *t, task_node *at) {
  clu_node_status st;
  uint64_t memory;
  if (!t->deaths.asks || !at->node || at->word != TASK_NO_WORD || at->killed || at->over_memory)
    return 0;
  if (clu_node_over_limit(at->node, &memory)) return 0;
  clu_node_status_of(at->node, &st);
  return !st.how_known ||
         (st.how.by_signal && (st.how.code == CLU_SIG_TERM || st.how.code == CLU_SIG_KILL));
}

/* Who cannot be reached, and who can again. */
static void see_cuts(tasks *t) {
  uint64_t now;
  if (t->deaths.cuts == clu_session_cuts(clu_the_session)) return;
  t->deaths.cuts = clu_session_cuts(clu_the_session);
  now = clu_os_now();
  for (int i = 0; i < t->n; i++) {
    task_node *at = &t->nodes[i];
    int cut = at->node && clu_node_is_cut(at->node);
    if (!at->node) continue;
    clu_sched_node_cut(t->sched, i, cut != CLU_IS_REACHED, now);
    if (cut == at->cut) continue;
    if (cut != CLU_HAS_SAID_BYE) /* that is no cut: its end is told */
      clu_tasks_note(t, cut == CLU_IS_CUT ? TASK_NOTE_CUT : TASK_NOTE_RESUME, i, NULL, 0, 0);
    at->cut = cut;
  }
}

void clu_tasks_see_deaths(tasks *t, int may_wait) {
  see_cuts(t);
  if (!t->deaths.may_be) return; /* in each turn: not a look at each node */
  t->deaths.may_be = 0; /* not behind the loop: while it waits for one end, another may come */
  t->deaths.unclear = 0;
  for (int i = 0; i < t->n; i++) {
    task_node *at = &t->nodes[i];
    if (!at->id || (at->node && clu_node_is_open(at->node))) continue;
    if (!is_end_clear(t, at, may_wait)) {
      t->deaths.may_be = 1;
      continue;
    }
    if (needs_word(t, at)) {
      t->deaths.unclear = t->deaths.may_be = 1;
      continue;
    }
    if (!has_room_for_death(t)) { /* next time: R has to hear of it */
      t->deaths.may_be = 1;
      return;
    }
    see_death(t, at);
  }
}

/* ---- one step ---- */

/* Whether R is to ask about a host that is cut off. */
static int asks_about_cut(const tasks *t) {
  if (!t->deaths.asks || clu_os_now() < t->deaths.ask_again) return 0;
  for (int i = 0; i < t->n; i++)
    if (t->nodes[i].id && t->nodes[i].node && clu_node_is_cut(t->nodes[i].node)) return 1;
  return 0;
}

/* What R has to do now: its name, or NULL: nothing. `known`: failures of the job of which R has
 * heard. */
static const char *what_to_do(const tasks *t, const task_job *j, size_t known) {
  if (t->deaths.unclear || asks_about_cut(t)) return "unclear";
  if (t->deaths.n) return "deaths";
  if (t->notes.n) return "notes";
  if (t->jobs.unheard) return "relay";
  if (!j) return NULL;
  if (j->relays.first && !j->is_hearing) return "relay";
  if (j->nfailures > known) return "failed";
  if (!j->job || clu_job_left(j->job) == 0) return "done";
  if (!clu_job_has_node(t->sched, j->job)) return "no_node";
  return NULL;
}

/* Whether so little is with the nodes that an answer to it is worth to be waited for awake. Not so
 * where many nodes are at work, which need the processors themselves, nor where there are so many
 * that to look at all their rings takes longer than to be woken. */
static int few_out(const tasks *t, const task_job *j) {
  uint64_t out, most;
  if (t->n > MOST_RINGS) return 0;
  if (!j || !j->job) return 1;
  out = clu_job_left(j->job) - clu_job_waiting(j->job);
  most = 2 * (uint64_t)clu_sched_nodes_up(t->sched);
  return out <= (most < MOST_AWAITED ? most : MOST_AWAITED);
}

typedef struct waiting {
  uint64_t deadline;
  uint64_t checked; /* when interrupts were, the last time */
  uint64_t spin_end;
  int64_t quick; /* the next slice while tasks are quick: of their results the node does not tell
                    each time */
} waiting;

/* How long to wait at most. */
static int64_t next_wait(waiting *w, const tasks *t, const task_job *j, uint64_t now) {
  int64_t wait = CLU_SLICE;
  if (j && clu_job_time(j->job) < CLU_QUICK) {
    wait = w->quick;
    w->quick = 2 * w->quick < CLU_SLICE ? 2 * w->quick : CLU_SLICE;
  }
  /* 0 when the scheduler's deadline has passed since it was asked */
  wait = clu_tasks_fit_wait(t, (int64_t)clu_sched_wait(t->sched, now, (uint64_t)wait));
  return (uint64_t)wait > w->deadline - now ? (int64_t)(w->deadline - now) : wait;
}

static clu_spins spins;

/* Looks at rings and sockets, awake, until something has come or `end`. Whether anything has. */
static int watch(tasks *t, uint64_t end) {
  int any = 0;
  clu_tasks_look(t, 1);
  for (unsigned k = 0; !any; k++) {
    any = clu_tasks_take_rings(t);
    if (any || clu_os_now() >= end) break;
    if (k % PUMP_EVERY == 0) any = clu_pump(0, NULL) != CLU_OK || clu_pump_events() > 0;
    if (!any) clu_spin_yield(&spins);
  }
  clu_tasks_look(t, 0);
  any |= clu_tasks_take_rings(t);
  clu_spin_ended(&spins, any);
  return any;
}

/* Waits until something comes, a slice at most. An interrupt of the user's jumps out: nothing is
 * held here. */
static void wait_for_news(waiting *w, tasks *t, const task_job *j, uint64_t now) {
  clu_err e = {0, 0, ""};
  int64_t wait = 0;
  int events;
  /* an answer that comes soon is here before a sleeper would be awake */
  if (now < w->spin_end && few_out(t, j)) {
    events = watch(t, w->spin_end < w->deadline ? w->spin_end : w->deadline);
  } else {
    wait = next_wait(w, t, j, now);
    if (clu_pump(wait, &e) != CLU_OK) clu_raise_err(&e);
    events = clu_pump_events();
  }
  if (events > 0) {
    if (w->spin_end) w->spin_end = clu_os_now() + CLU_SPIN;
    w->quick = QUICK_SLICE;
  }
  if ((events == 0 && wait > 0) || now - w->checked > CLU_SLICE / 4) {
    clu_tasks_take_rings(t); /* one node may not have told, while others do all the time */
    clu_check_interrupt_now(NULL, NULL);
    w->checked = clu_os_now();
  }
}

const char *clu_tasks_work(tasks *t, task_job *j, uint64_t deadline, size_t known) {
  waiting w = {deadline, clu_os_now(), 0, QUICK_SLICE};
  w.spin_end = clu_may_spin() && clu_spin_pays(&spins) ? w.checked + CLU_SPIN : 0;
  clu_pump(0, NULL); /* also with no time at all, what has come is seen */
  clu_tasks_take_rings(t);
  for (;;) {
    const char *what;
    uint64_t now;
    clu_tasks_see_deaths(t, 1);
    clu_tasks_limit_memory(t);
    clu_tasks_act(t, 1);
    clu_tasks_take_endings(t);
    if (j) clu_job_take_results(j, R_ExternalPtrProtected(j->self));
    if (j && clu_job_is_incomplete(j)) clu_raise("memory", "not enough memory for the results");
    what = what_to_do(t, j, known);
    if (what) return what;
    now = clu_os_now();
    if (now >= w.deadline) return "time_up";
    clu_tasks_look_at_memory(t, now);
    wait_for_news(&w, t, j, now);
  }
}

/* Works for at most `seconds`, or until there is something to be done about `job` (may be NULL), of
 * whose failures `known` are known to R. What there is to be done: see clu_tasks_work(). */
SEXP ffi_tasks_step(SEXP x, SEXP job, SEXP seconds, SEXP known) {
  tasks *t = clu_tasks_get(x);
  task_job *j = job == R_NilValue ? NULL : clu_job_get(job);
  return Rf_mkString(clu_tasks_work(t, j, clu_in_seconds(seconds), (size_t)Rf_asReal(known)));
}

/* ---- in passing ---- */

/* Whether what nodes say has to be read from their sockets now: of some of them all comes that way.
 */
static int is_time_to_read(const tasks *t, uint64_t now) {
  return now - t->drive.read > READ_EVERY || t->rings.not_all;
}

void clu_tasks_pass(tasks *t) {
  uint64_t now = clu_os_now();
  if (is_time_to_read(t, now)) {
    t->drive.read = now;
    clu_pump(0, NULL);
    clu_tasks_see_deaths(t, 1);
  }
  clu_tasks_take_rings(t);
  clu_tasks_limit_memory(t);
  clu_tasks_look_at_memory(t, now);
  clu_tasks_act(t, 1);
  clu_tasks_take_endings(t);
}
