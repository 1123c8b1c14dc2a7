/* A cluster of this machine that grows and shrinks with its work. It has numbers for all nodes that
 * there may be; those from `first` on are there while they are needed:
 *
 *   absent --tasks wait, and there is room--> starting --ready, and set up--> there
 *    ^  ^ '------ it could not start -----------'                              | |
 *    |  '-- idle for `idle_after`: told to end --------------------------------' |
 *    '--- it has died ------------------------------------------------------------'
 *
 * All of it is done by whoever has the turn, so also by the thread, while the session computes: a
 * request to the fork server needs no R, nor do the calls that set a new node up, which the caller
 * has made into bytes before. Only a fork server that has ended, or has been given the settings of
 * another cluster meanwhile, has to wait for the caller. A new node is the engine's until the
 * caller takes it behind its own handle.
 *
 * So many nodes are wanted that each has work for WORK_EACH, by the times that tasks have taken, or
 * are taking (clu_sched_desired()), while all that are there have something. No more are made than
 * what tasks take at their peak leaves memory for, and than there are tokens of cores, where these
 * count. That is looked at every LOOK_EVERY, and less often where there are many jobs.
 */
#include <stdlib.h>

#include "core/node/transports.h"
#include "core/tasks/engine-private.h"

#define LOOK_EVERY 20000000      /* ns between two looks whether there are enough */
#define LOOK_EACH 2000           /* ns more for each job and node: to look at one takes some 10 */
#define LOOKS 2                  /* in a row that have to find that more are wanted */
#define WORK_EACH 50000000       /* ns of work that are worth a node: one starts in 20 ms */
#define MOST_STARTING 8          /* or as many as are there */
#define START_LIMIT 60000000000u /* ns that one may take to start */
#define SHORT_LIFE 1000000000    /* ns; who dies sooner may have died of the start */
#define FIRST_PAUSE 1000000000   /* ns after one could not start, the first time and at most */
#define LAST_PAUSE 60000000000u
#define SHORT_IDLE 200000000 /* ns without work after which one ends where memory is short */
#define HOST "localhost"     /* as R names this machine */

/* ---- what the caller says ---- */

void clu_engine_set_growth(clu_engine *t, const clu_engine_growth *growth) {
  struct clu_engine_grow *g = &t->grow;
  clu_server *before = g->is.server;
  if (!before) {
    for (int i = growth->first; i < t->n; i++) t->nodes[i].is_absent = 1;
    g->pause = FIRST_PAUSE;
  }
  g->is = *growth;
  clu_server_ref(g->is.server);
  if (before) clu_server_unref(before);
  g->is_blocked = 0;
  g->due = 0;
}

static void drop_calls(struct clu_engine_grow *g) {
  for (size_t k = 0; k < g->ncalls; k++) clu_blob_unref(g->calls[k]);
  free(g->calls);
  g->calls = NULL;
  g->ncalls = 0;
}

void clu_engine_calls_begin(clu_engine *t) {
  drop_calls(&t->grow);
  t->grow.calls_missing = 1;
  clu_engine_end_starting(t);
}

int clu_engine_add_call(clu_engine *t, clu_blob *body) {
  struct clu_engine_grow *g = &t->grow;
  clu_blob **more = realloc(g->calls, (g->ncalls + 1) * sizeof *more);
  if (!more) return CLU_NOMEM;
  g->calls = more;
  g->calls[g->ncalls++] = clu_blob_ref(body);
  return CLU_OK;
}

void clu_engine_calls_end(clu_engine *t) { t->grow.calls_missing = 0; }

void clu_engine_end_growth(clu_engine *t) {
  struct clu_engine_grow *g = &t->grow;
  for (int i = 0; i < t->n; i++) t->nodes[i].is_starting = t->nodes[i].is_absent = 0;
  g->nstarting = g->waits = 0;
  if (g->is.server) clu_server_unref(g->is.server);
  g->is.server = NULL;
}

void clu_engine_growth_free(clu_engine *t) {
  for (int i = 0; t->nodes && i < t->n; i++)
    if (t->nodes[i].grown) clu_node_free(t->nodes[i].grown);
  drop_calls(&t->grow);
  clu_blob_unref(t->grow.failure);
  if (t->grow.is.server) clu_server_unref(t->grow.is.server);
}

int clu_engine_growth_is_blocked(const clu_engine *t) { return t->grow.is_blocked; }

clu_node *clu_engine_take_grown(clu_engine *t, int *index) {
  for (int i = 0; i < t->n; i++) {
    clu_node *nd = t->nodes[i].grown;
    if (!nd || t->nodes[i].is_starting) continue;
    t->nodes[i].grown = NULL;
    *index = i;
    return nd;
  }
  return NULL;
}

clu_blob *clu_engine_take_failure(clu_engine *t) {
  clu_blob *b = t->grow.failure;
  t->grow.failure = NULL;
  return b;
}

/* ---- those that start ---- */

static void start_is_over(clu_engine *t, clu_task_node *at) {
  at->is_starting = 0;
  t->grow.nstarting--;
}

static void pause(struct clu_engine_grow *g, uint64_t now) {
  g->again = now + g->pause;
  g->pause = 2 * g->pause < LAST_PAUSE ? 2 * g->pause : LAST_PAUSE;
}

static void give_up(clu_engine *t, clu_task_node *at) {
  if (clu_node_is_open(at->grown)) clu_node_stop(at->grown, 0);
  clu_node_free(at->grown);
  at->grown = NULL;
  at->is_absent = 1;
  start_is_over(t, at);
}

void clu_engine_end_starting(clu_engine *t) {
  for (int i = 0; t->grow.nstarting > 0 && i < t->n; i++)
    if (t->nodes[i].is_starting) give_up(t, &t->nodes[i]);
}

static void start_failed(clu_engine *t, clu_task_node *at, uint64_t now) {
  give_up(t, at);
  pause(&t->grow, now);
  clu_engine_note(t, CLU_NOTE_NOT_GROWN, at->index, NULL, 0, 0);
}

/* What it has answered to the calls. */
static void take_answers(struct clu_engine_grow *g, clu_node *nd) {
  const clu_req *r;
  while ((r = clu_node_first(nd))) {
    int failed = r->kind == CLU_K_FAILED;
    clu_blob *b = clu_node_take_first(nd);
    if (failed && !g->failure)
      g->failure = b;
    else
      clu_blob_unref(b);
  }
  clu_node_drop_requests(nd);
}

static void take_part(clu_engine *t, clu_task_node *at, uint64_t now) {
  take_answers(&t->grow, at->grown);
  if (clu_engine_attach(t, at->index, at->grown) != CLU_ATTACHED) {
    start_failed(t, at, now);
    return;
  }
  start_is_over(t, at);
  at->came = now;
  t->grow.pause = FIRST_PAUSE;
  if (!t->grow.idle_due) t->grow.idle_due = now + t->grow.is.idle_after;
  clu_engine_note(t, CLU_NOTE_GROWN, at->index, NULL, 0, 0);
}

static void see_starting(clu_engine *t, uint64_t now) {
  for (int i = t->grow.is.first; t->grow.nstarting > 0 && i < t->n; i++) {
    clu_task_node *at = &t->nodes[i];
    if (!at->is_starting) continue;
    if (!clu_node_is_open(at->grown) || now - at->came > START_LIMIT)
      start_failed(t, at, now);
    else if (clu_node_is_ready(at->grown) && !clu_node_awaits(at->grown, 0))
      take_part(t, at, now);
  }
}

/* ---- more of them ---- */

static int is_death_untold(const clu_engine *t, int i) {
  for (size_t k = 0; k < t->deaths.n; k++)
    if (t->deaths.list[k].index == i) return 1;
  return 0;
}

/* Those that have died are gone once the caller has heard of it. */
static void see_dead(clu_engine *t, uint64_t now) {
  for (int i = t->grow.is.first; i < t->n; i++) {
    clu_task_node *at = &t->nodes[i];
    if (at->id || at->is_starting || at->is_absent || is_death_untold(t, i)) continue;
    at->is_absent = 1;
    if (now - at->came < SHORT_LIFE) pause(&t->grow, now);
  }
}

/* Whether its number is free. One that was told to end may need a moment. */
static int is_free(clu_task_node *at) {
  if (!at->is_absent || (at->grown && !clu_node_end_known(at->grown))) return 0;
  if (at->grown) clu_node_free(at->grown);
  at->grown = NULL;
  return 1;
}

static int start(clu_engine *t, clu_task_node *at, uint64_t now) {
  struct clu_engine_grow *g = &t->grow;
  clu_node *nd = NULL;
  int rc = clu_node_new_fork(g->is.server, g->is.kind, &nd, NULL);
  if (rc != CLU_OK) return 0;
  clu_node_set_rank(nd, at->index + 1);
  clu_node_show(nd, t->view, at->index, HOST);
  at->grown = nd;
  at->came = now;
  at->is_absent = 0;
  at->is_starting = 1;
  g->nstarting++;
  for (size_t k = 0; k < g->ncalls && rc == CLU_OK; k++)
    rc = clu_node_call(nd, g->calls[k], 0, 0, NULL);
  if (rc != CLU_OK) start_failed(t, at, now);
  return rc == CLU_OK;
}

static int server_fits(const struct clu_engine_grow *g) {
  clu_server_status st;
  if (!clu_server_is_ready(g->is.server)) return 0;
  clu_server_status_of(g->is.server, &st);
  return st.applied == g->is.settings;
}

/* Whether it is known what memory is left beside the tasks at hand, or nobody asks for that. */
static int room_is_known(const clu_engine *t) {
  const struct clu_engines_room *r = &t->all->room;
  return r->looked || r->most < 0 || (r->found && r->is.limit == 0);
}

/* How many more are wanted, and may be made. */
static int wanted(clu_engine *t, uint64_t now) {
  struct clu_engine_grow *g = &t->grow;
  int up = clu_sched_nodes_up(t->sched), have = up + g->nstarting, most, more;
  double desired;
  g->waits = have < g->is.most && clu_sched_some_wait(t->sched);
  if (!g->waits || now < g->again || clu_sched_busy(t->sched) < up) return 0;
  if (!room_is_known(t)) return 0;
  desired = clu_sched_desired(t->sched, now, WORK_EACH);
  if (desired > g->is.most) desired = g->is.most;
  more = (int)desired - have;
  most = (up > MOST_STARTING ? up : MOST_STARTING) - g->nstarting;
  if (more > most) more = most;
  /* the first tasks of a job take longer than those that follow */
  g->looks = more > 0 ? g->looks + 1 : 0;
  if (g->looks < LOOKS) return 0;
  /* those that start have no task yet */
  more = clu_sched_room_for(t->sched, more + g->nstarting, clu_engine_room_seen(t)) - g->nstarting;
  return more > 0 ? clu_engine_cores_for(t, more + g->nstarting) - g->nstarting : 0;
}

static void start_some(clu_engine *t, int n, uint64_t now) {
  struct clu_engine_grow *g = &t->grow;
  g->is_blocked = n > 0 && (g->calls_missing || !server_fits(g));
  if (g->is_blocked) return;
  for (int i = g->is.first; i < t->n && n > 0; i++) {
    if (!is_free(&t->nodes[i])) continue;
    n--;
    if (start(t, &t->nodes[i], now)) continue;
    pause(g, now);
    return;
  }
}

/* ---- less of them ---- */

/* Where memory is short, what nodes without work have is of use to others. */
static uint64_t idle_limit(const clu_engine *t) {
  uint64_t most = t->grow.is.idle_after;
  return t->all->room.is.is_short && most > SHORT_IDLE ? SHORT_IDLE : most;
}

/* Since when it has nothing to do; UINT64_MAX: it has. */
static uint64_t idle_since(const clu_engine *t, const clu_task_node *at) {
  uint64_t since = clu_sched_node_idle_since(t->sched, at->index);
  if (since == UINT64_MAX || (at->node && clu_node_busy(at->node))) return UINT64_MAX;
  return since > at->came ? since : at->came;
}

static void end_idle(clu_engine *t, uint64_t now) {
  struct clu_engine_grow *g = &t->grow;
  uint64_t due = 0, limit = idle_limit(t);
  if (!g->idle_due || (now < g->idle_due && limit == g->is.idle_after)) return;
  for (int i = g->is.first; i < t->n; i++) {
    clu_task_node *at = &t->nodes[i];
    uint64_t since = at->id ? idle_since(t, at) : 0;
    if (!at->id) continue;
    if (since > now) since = now;
    if (since + limit <= now && clu_engine_end_node(t, at)) {
      at->is_absent = 1;
      clu_engine_note(t, CLU_NOTE_SHRUNK, i, NULL, 0, 0);
    } else if (!due || since + g->is.idle_after < due) {
      due = since + g->is.idle_after;
    }
  }
  g->idle_due = due;
}

/* ---- all of it ---- */

void clu_engine_look_at_growth(clu_engine *t, uint64_t now) {
  struct clu_engine_grow *g = &t->grow;
  see_starting(t, now);
  if (now >= g->idle_due) end_idle(t, now);
  if (now < g->due) return;
  if (t->all->room.is.is_short) end_idle(t, now);
  see_dead(t, now);
  start_some(t, wanted(t, now), now);
  g->due = now + LOOK_EVERY + LOOK_EACH * (t->jobs.n + (size_t)t->n);
}

uint64_t clu_engine_growth_due(const clu_engine *t) {
  const struct clu_engine_grow *g = &t->grow;
  if (!g->is.server) return 0;
  return g->nstarting && (!g->idle_due || g->due < g->idle_due) ? g->due : g->idle_due;
}
