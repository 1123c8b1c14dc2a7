/* One turn of an engine: the scheduler is asked for a decision, it is carried out, and the
 * scheduler is told. And the wait between two turns. */
#include "core/wire/task-message.h"
#include "core/tasks/engine-private.h"

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

/* Asks its host whether a node has answered, and returns whether it has had its grace since its
 * interrupt was there and has not, as far as the host knows: where the connection stood still, both
 * may be on their way. */
static int ask_overdue(clu_node *nd, clu_task_node *at, uint64_t head) {
  if (clu_node_is_interrupted(nd)) return 0;
  if (at->asked == head) return 1;
  at->asked = head;
  return !clu_node_ask_signalled(nd);
}

/* Returns whether its interrupt waits until it has done something else, or did so less than the
 * grace ago. */
static int is_put_off(const clu_engine *t, const clu_node *nd) {
  uint64_t until = clu_node_put_off_until(nd);
  return until == UINT64_MAX || (until && clu_os_now() < until + clu_sched_grace(t->sched));
}

int clu_engine_act(clu_engine *t, int may_send) {
  /* the node whose messages were not flushed yet: those of one node leave together */
  int last = -1, rc = CLU_OK;
  if (clu_sched_deadline(t->sched) <= clu_os_now())
    clu_engine_take_rings(t); /* who has answered is not late */
  clu_engine_see_growth(t, clu_os_now());
  clu_engine_fit(t);
  for (int k = 0; k < MOST_ACTIONS && rc == CLU_OK; k++) {
    clu_action a;
    clu_node *nd;
    clu_sched_next(t->sched, clu_os_now(), &a);
    if (a.what == CLU_ACT_NONE) break;
    nd = clu_engine_node(t, a.node); /* NULL: it was freed, or replaced */
    if (a.what != CLU_ACT_SEND) clu_task_node_go_on(&t->nodes[a.node]);
    if (a.what == CLU_ACT_SEND && (!may_send || !nd)) {
      clu_sched_unsent(t->sched, &a);
      break;
    }
    if (a.what == CLU_ACT_SEND) {
      if (last != a.node) clu_engine_flush(t, last);
      last = a.node;
      if (a.attempt > 1) clu_engine_note(t, CLU_NOTE_RETRY, last, a.user, a.first, a.attempt);
      rc = clu_engine_send(t, &a);
      clu_engines_room_begin(t->all, clu_os_now());
    } else if (nd && a.what == CLU_ACT_INTERRUPT) {
      clu_node_interrupt(nd, a.seq);
    } else if (nd && a.what == CLU_ACT_TAKE_BACK) {
      clu_node_take_back(nd, a.seq);
    } else if (nd && is_put_off(t, nd)) {
      clu_sched_unkilled(t->sched, &a);
      clu_sched_interrupt_arrived(t->sched, a.node, clu_os_now());
    } else if (nd && ask_overdue(nd, &t->nodes[a.node], clu_sched_node_head(t->sched, a.node))) {
      clu_task_node_kill(nd, &t->nodes[a.node], CLU_KILL_NO_REACTION);
    } else if (nd) {
      clu_sched_unkilled(t->sched, &a);
    }
  }
  clu_engine_flush(t, last);
  return rc;
}

/* ---- one turn ---- */

int clu_engine_turn(clu_engine *t) {
  int rc;
  clu_engine_see_deaths(t, 1);
  clu_engine_limit_memory(t);
  clu_engines_see_room(t->all, clu_os_now());
  clu_engine_renew_idle(t);
  rc = clu_engine_act(t, 1);
  if (rc == CLU_OK) clu_engine_take_endings(t);
  if (t->jobs.nrecorded) clu_engine_flush_journals(t, 0);
  return rc;
}

int clu_engine_event(const clu_engine *t, const clu_task_job *j, size_t known) {
  if (clu_engine_asks(t)) return CLU_EVENT_UNCLEAR;
  if (t->deaths.n) return CLU_EVENT_DEATHS;
  if (t->notes.n) return CLU_EVENT_NOTES;
  if (t->jobs.unheard) return CLU_EVENT_RELAY;
  if (!j) return CLU_EVENT_NONE;
  if (j->relays.first && !j->is_hearing) return CLU_EVENT_RELAY;
  if (j->nfailures > known) return CLU_EVENT_FAILED;
  if (!j->job || clu_job_left(j->job) == 0) return CLU_EVENT_DONE;
  if (clu_task_job_has_much(j)) return CLU_EVENT_READY;
  if (!clu_job_has_node(t->sched, j->job)) return CLU_EVENT_NO_NODE;
  return CLU_EVENT_NONE;
}

/* ---- between two turns ---- */

static int pump(clu_engine *t, int64_t wait, clu_err *e) {
  return clu_loop_pump(clu_session_loop(t->all->session), wait, e);
}
static int pump_events(const clu_engine *t) {
  return clu_loop_events(clu_session_loop(t->all->session));
}

/* Whether so little is with the nodes that an answer to it is worth to be waited for awake. Not so
 * where many nodes are at work, which need the processors themselves, nor where there are so many
 * that to look at all their rings takes longer than to be woken. */
static int few_out(const clu_engine *t, const clu_task_job *j) {
  uint64_t out, most;
  if (t->n > MOST_RINGS) return 0;
  if (!j || !j->job) return 1;
  out = clu_job_left(j->job) - clu_job_waiting(j->job);
  most = 2 * (uint64_t)clu_sched_nodes_up(t->sched);
  return out <= (most < MOST_AWAITED ? most : MOST_AWAITED);
}

/* How long to wait at most. */
static int64_t next_wait(clu_engine_wait *w, clu_engine *t, const clu_task_job *j, uint64_t now) {
  int64_t wait = CLU_SLICE;
  if (j && clu_job_time(j->job) < CLU_QUICK) {
    wait = w->quick;
    w->quick = 2 * w->quick < CLU_SLICE ? 2 * w->quick : CLU_SLICE;
  }
  /* 0 when the scheduler's deadline has passed since it was asked */
  wait = clu_engine_fit_wait(t, (int64_t)clu_sched_wait(t->sched, now, (uint64_t)wait));
  if (t->jobs.nrecorded) wait = clu_engine_flush_journals(t, wait);
  wait = clu_engines_room_wait(t->all, now, wait);
  wait = clu_engine_growth_wait(t, now, wait);
  return (uint64_t)wait > w->deadline - now ? (int64_t)(w->deadline - now) : wait;
}

/* Looks at rings and sockets, awake, until something has come or `end`. Whether anything has. */
static int watch(clu_engine *t, uint64_t end) {
  int any = 0;
  clu_engine_look(t, 1);
  for (unsigned k = 0; !any; k++) {
    any = clu_engine_take_rings(t);
    if (any || clu_os_now() >= end) break;
    if (k % PUMP_EVERY == 0) any = pump(t, 0, NULL) != CLU_OK || pump_events(t) > 0;
    if (!any) clu_spin_yield(&t->all->spins);
  }
  clu_engine_look(t, 0);
  any |= clu_engine_take_rings(t);
  clu_spin_ended(&t->all->spins, any);
  return any;
}

void clu_engine_wait_begin(clu_engine_wait *w, clu_engine *t, uint64_t deadline, int may_spin) {
  w->deadline = deadline;
  w->interrupts = 0;
  w->checked = clu_os_now();
  w->quick = QUICK_SLICE;
  w->spin_end = may_spin && clu_spin_pays(&t->all->spins) ? w->checked + CLU_SPIN : 0;
  pump(t, 0, NULL); /* also with no time at all, what has come is seen */
  clu_engine_take_rings(t);
}

int clu_engine_await(clu_engine_wait *w, clu_engine *t, const clu_task_job *j, clu_err *e) {
  uint64_t now = clu_os_now();
  int64_t wait = 0;
  int events, rc;
  w->interrupts = 0;
  if (now >= w->deadline) return CLU_TIMEOUT;
  clu_engine_look_at_memory(t, now);
  /* an answer that comes soon is here before a sleeper would be awake */
  if (now < w->spin_end && few_out(t, j)) {
    events = watch(t, w->spin_end < w->deadline ? w->spin_end : w->deadline);
  } else {
    wait = next_wait(w, t, j, now);
    if ((rc = pump(t, wait, e)) != CLU_OK) return rc;
    events = pump_events(t);
  }
  if (events > 0) {
    if (w->spin_end) w->spin_end = clu_os_now() + CLU_SPIN;
    w->quick = QUICK_SLICE;
  }
  if ((events == 0 && wait > 0) || now - w->checked > CLU_SLICE / 4) {
    clu_engine_take_rings(t); /* one node may not have told, while others do all the time */
    w->interrupts = 1;
    w->checked = clu_os_now();
  }
  return CLU_OK;
}

/* ---- in passing ---- */

/* Whether what nodes say has to be read from their sockets now: of some of them all comes that way.
 */
static int is_time_to_read(const clu_engine *t, uint64_t now) {
  return now - t->turns.read > READ_EVERY || t->rings.not_all;
}

int clu_engine_pass(clu_engine *t) {
  uint64_t now = clu_os_now();
  int rc;
  if (is_time_to_read(t, now)) {
    t->turns.read = now;
    pump(t, 0, NULL);
    clu_engine_see_deaths(t, 1);
  }
  clu_engine_take_rings(t);
  clu_engine_limit_memory(t);
  clu_engine_look_at_memory(t, now);
  clu_engines_see_room(t->all, now);
  rc = clu_engine_act(t, 1);
  if (rc == CLU_OK) clu_engine_take_endings(t);
  return rc;
}
