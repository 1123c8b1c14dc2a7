/* The owner of simulated engines hears of events and does what they ask for. Here a run begins and
 * ends, too. */
#ifndef SIMULATED_OWNER_H
#define SIMULATED_OWNER_H

#include "simulated-engine.h"

/* ---- what the owner does about events ---- */

static void hear_deaths(int e) {
  while (clu_engine_deaths(W.t[e])) {
    clu_death d = clu_engine_death(W.t[e], 0);
    clu_engine_deaths_told(W.t[e], 1);
    totals.deaths++;
    totals.over += d.over_memory;
    HOLDS(d.index >= 0 && d.index < W.n && d.cause > 0);
    HOLDS(!d.over_memory || W.has_limits);
    HOLDS(d.killed != CLU_KILL_CORRUPT && d.killed != CLU_KILL_NO_MEMORY); /* no node has lied */
    HOLDS(W.room || (d.killed != CLU_KILL_YIELD && d.killed != CLU_KILL_NO_ROOM));
    totals.yields += d.killed == CLU_KILL_YIELD;
    totals.never += d.killed == CLU_KILL_NO_ROOM;
    if (!clu_engine_has_any(W.t[e], d.index) && !once_in(3)) come(e, d.index);
  }
}

/* Starts at a node whose end is somebody else's doing do not count. */
static void excuse(int e, int i) {
  const sim_node *s = W.nodes[e][i];
  for (int k = 0; k < W.n_works; k++)
    if (s && W.works[k].e == e && !W.works[k].released) W.works[k].excused++;
}

static void tell_ends(int e) {
  clu_engine_ask(W.t[e], clu_os_now() + 5000000);
  for (int i = 0; i < W.n; i++) {
    int counts = once_in(2);
    if (!clu_engine_is_unclear(W.t[e], i, 0)) continue;
    if (!counts) excuse(e, i);
    clu_engine_tell_end(W.t[e], i, counts);
  }
}

static void replace_absent(int e, uint64_t unless) {
  for (int i = 0; i < W.n; i++) {
    sim_node *s = W.nodes[e][i];
    if ((!s || !clu_engine_has_any(W.t[e], i)) && (!unless || once_in(unless))) come(e, i);
  }
}

static void handle(int e, int event, work *w) {
  size_t n;
  switch (event) {
  case CLU_EVENT_UNCLEAR: tell_ends(e); break;
  case CLU_EVENT_DEATHS: hear_deaths(e); break;
  case CLU_EVENT_NOTES:
    for (const clu_note *x = clu_engine_notes(W.t[e], &n); n > 0; n--, x++) {
      totals.cuts += x->what == CLU_NOTE_CUT;
      totals.idle += x->what == CLU_NOTE_IDLE;
    }
    clu_engine_notes_told(W.t[e]);
    break;
  case CLU_EVENT_RELAY:
    for (clu_task_job *j = clu_engine_next_unheard(W.t[e], NULL); j;
         j = clu_engine_next_unheard(W.t[e], j))
      take(clu_task_job_caller(j));
    break;
  case CLU_EVENT_NO_NODE:
    if (!once_in(3)) {
      replace_absent(e, 0);
    } else {
      w->lost_nodes = 1;
      clu_task_job_fail_pending(w->job, 1);
    }
    break;
  }
}

/* ---- begin and end ---- */

static int elements(void *job, uint64_t first, uint32_t n, int shares, clu_blob **body) {
  const work *w = job;
  unsigned char bytes[8];
  HOLDS(!W.is_away && !shares && first + n <= w->n && !w->bare);
  W.depth++;
  if (!W.calm && once_in(20)) W.steps_within(w->e);
  W.depth--;
  if (!W.calm && once_in(100)) {
    clu_blob_unref(*body);
    *body = NULL;
    return CLU_CANCELLED;
  }
  for (uint32_t k = 0; k < n; k++) {
    clu_put64(bytes, first + k);
    HOLDS(clu_blob_append(*body, bytes, 8) == 0);
  }
  return CLU_OK;
}

/* Node `i` is there, in place of the one that was, if any. */
static void come(int e, int i) {
  sim_node *old = W.nodes[e][i];
  int before = once_in(2) || (old && clu_node_is_open(&old->node));
  int kind = old ? old->kind : (int)dice(3);
  sim_node *s;
  if (old && before) {
    W.nodes[e][i] = NULL;
    clu_node_read_all(&old->node); /* else what it has answered is lost with it */
    clu_node_free(&old->node);
  }
  s = W.nodes[e][i] = sim_node_new(W.session, kind, ++W.serials);
  HOLDS(clu_engine_attach(W.t[e], i, &s->node) == CLU_ATTACHED);
  HOLDS(clu_engine_has(W.t[e], i, &s->node));
  if (old && !before) clu_node_free(&old->node);
}

/* The host of an engine has cores, and units of each kind. */
static void has_resources(int e) {
  static const char *const units[SIM_KINDS] = {"0,1,2", "0"};
  static const int host_of[NODES];
  uint32_t cores = (uint32_t)W.cores;
  clu_resources r = {1, SIM_KINDS, sim_kinds, &cores, units, host_of};
  HOLDS(clu_engine_set_resources(W.t[e], &r) == CLU_OK);
}

/* Nobody stands still, or is cut off, from now on. */
static void calm_down(int e) {
  for (int i = 0; i < W.n; i++) {
    sim_node *s = W.nodes[e][i];
    if (!s) continue;
    s->frozen = 0;
    if (s->cut == CLU_IS_CUT) {
      s->cut = CLU_IS_REACHED;
      W.session->cuts++;
    }
  }
}

static void on_signal(int sig) {
  say_seed();
  signal(sig, SIG_DFL);
  raise(sig);
}

static void begin(uint64_t seed) {
  static const clu_engine_caller caller = {elements};
  memset(&W, 0, sizeof W);
  sim_seed = seed;
  sim_now = 1000000000;
  dice_state = 2 * seed + 1;
  for (int k = 0; k < 10; k++) dice(2);
  signal(SIGABRT, on_signal);
  signal(SIGSEGV, on_signal);
  signal(SIGALRM, on_signal);
  alarm((unsigned)test_seconds() - 3);
  clu_slab_leave();
  HOLDS(W.session = clu_session_new(NULL));
  HOLDS(W.all = clu_engines_new(W.session, &W.turns, &caller));
  W.away = clu_engines_work(W.all);
  W.n_engines = 1 + once_in(3);
  W.n = 1 + (int)dice(NODES);
  W.has_limits = once_in(2);
  W.room = once_in(2) ? (100 + dice(1000)) << 20 : 0;
  W.cores = once_in(3) ? 0 : 1 + (int)dice(NODES);
  for (int e = 0; e < W.n_engines; e++) {
    HOLDS(W.t[e] = clu_engine_new(W.all, W.n, 5000000, 100));
    clu_engine_drive_always(W.t[e]);
    if (once_in(2)) clu_engine_ask(W.t[e], 0);
    if (W.cores) has_resources(e);
    for (int i = 0; i < W.n; i++) come(e, i);
  }
}

static void end(void) {
  int first = once_in(2);
  for (int round = 0; round < 2; round++) {
    for (int e = 0; e < W.n_engines && round != first; e++) clu_engine_free(W.t[e]);
    for (int k = 0; k < W.n_works && round == first; k++)
      if (!W.works[k].released) clu_task_job_release(W.works[k].job);
  }
  HOLDS(W.tokens == 0);
  for (int e = 0; e < W.n_engines; e++)
    for (int i = 0; i < W.n; i++)
      if (W.nodes[e][i]) clu_node_free(&W.nodes[e][i]->node);
  for (int k = 0; k < W.n_works; k++) free(W.works[k].tasks);
  clu_engines_free(W.all);
  HOLDS(clu_session_is_empty(W.session));
  clu_session_free(W.session);
  alarm(0);
}

#endif
