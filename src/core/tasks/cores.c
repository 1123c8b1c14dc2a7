/* How many nodes of the session's own cluster compute at a time: as many as the session has tokens
 * of the budget of cores (core/base/budget.h), which all processes of the user share.
 *
 *   need    nodes that have something, and those that could get something
 *   held    tokens that the session has for this cluster
 *   own     1 while a task's map is waited for: the core of that task is free meanwhile
 *
 * Not more than held + own nodes have something, but always one may: so nobody waits for a token
 * that never comes. Tokens are taken when tasks wait for a node, and are given back when they were
 * of no use for some milliseconds, by the owner of the turn or the thread: who submits task after
 * task takes one for all of them.
 *
 * Besides, a session may be polite (option clutch.polite): then no more of its nodes compute than
 * there are cores that others leave free. Linux tells for how long some process had to wait for a
 * core: where that is more than a tenth of the time, one node less may compute, and where it is
 * less than a fortieth, one more. Other systems tell the load. And those that compute have the
 * lowest priority, and so has their session: others get a core at once.
 */
#include "core/base/budget.h"

#include <string.h>

#include "core/base/os-machine.h"
#include "core/tasks/engine-private.h"

#define ASK_EVERY 5000000      /* ns between two looks for tokens, while there are too few */
#define KEEP 5000000           /* ns that tokens are kept without use */
#define LOOK_EVERY 20000000    /* ns between two looks of the thread at what is held */
#define POLITE_EVERY 500000000 /* ns between two looks at what others leave free */
#define STALLED_MUCH 0.1       /* of the time some process had to wait for a core */
#define STALLED_LITTLE 0.025
#define LOWEST 19 /* nice value of nodes of a polite session */

static int need_of(const clu_engine *t) {
  return clu_sched_busy(t->sched) + clu_sched_wanted(t->sched);
}

static void take(clu_engine *t, int need, uint64_t now) {
  int more = need - t->cores.held - t->cores.own;
  if (now - t->cores.asked < ASK_EVERY) return;
  t->cores.held += clu_budget_take(more, t->cores.budget, t->cores.folder);
  if (t->cores.held + t->cores.own < need) t->cores.asked = now;
}

static void give(clu_engine *t, int need) {
  if (t->cores.held <= need) return;
  clu_budget_give(t->cores.held - need);
  t->cores.held = need;
}

/* ---- a polite session ---- */

static int busy_of(const clu_engine *t) {
  return t->cores.is_elsewhere ? 0 : clu_sched_busy(t->sched);
}

static int busy_of_all(const clu_engines *all) {
  int n = 0;
  for (const clu_engine *t = all->first; t; t = t->next) n += busy_of(t);
  return n;
}

int clu_polite_most(int before, int cores, int busy, double stalled, double load) {
  int most = before;
  if (stalled >= 0) {
    if (stalled > STALLED_MUCH) most = (busy < before ? busy : before) - 1;
    if (stalled < STALLED_LITTLE) most = before + 1;
  } else if (load >= 0) {
    double others = load - busy;
    most = cores - (int)(others > 0 ? others + 0.5 : 0);
  }
  if (most > cores) most = cores;
  return most > 1 ? most : 1;
}

static void look_at_others(clu_engines *all, uint64_t now) {
  struct clu_engines_polite *p = &all->polite;
  double took = 1e-3 * (double)(now - p->looked), share = -1;
  int64_t stalled;
  clu_machine machine = {.load = -1};
  if (p->looked && now - p->looked < POLITE_EVERY) return;
  stalled = clu_os_cpu_stalled();
  if (stalled < 0) clu_os_machine(&machine);
  if (stalled >= 0 && p->looked) share = (double)(stalled - p->stalled) / took;
  p->most = clu_polite_most(p->most, p->cores, busy_of_all(all), share, machine.load);
  p->stalled = stalled;
  p->looked = now;
}

/* How many nodes of this engine may compute; 0: any number. */
static int polite_most(clu_engine *t, uint64_t now) {
  int most;
  if (!t->all->polite.cores || t->cores.is_elsewhere) return 0;
  look_at_others(t->all, now);
  most = t->all->polite.most - (busy_of_all(t->all) - busy_of(t));
  return most > 1 ? most : 1;
}

void clu_task_node_give_way(clu_task_node *at, int gives_way) {
  clu_node *nd = at->node;
  int before;
  if (!nd || !clu_node_is_ready(nd) || !clu_node_clock_is_ours(nd) || clu_node_is_proxied(nd))
    return;
  /* nodes that had that session may have ended meanwhile */
  clu_os_renice_session(clu_node_pid(nd), gives_way ? LOWEST : 0);
  if (at->gives_way == gives_way) return;
  /* where the session has no rights to raise it again it stays as it is */
  if (clu_os_renice(clu_node_pid(nd), gives_way ? LOWEST : at->nice, &before) != 0) return;
  if (gives_way) at->nice = before;
  at->gives_way = gives_way;
}

static void all_give_way(const clu_engines *all, int give_way) {
  for (clu_engine *t = all->first; t; t = t->next)
    for (int i = 0; i < t->n; i++)
      if (t->nodes[i].id) clu_task_node_give_way(&t->nodes[i], give_way);
}

void clu_engines_set_polite(clu_engines *all, int polite) {
  struct clu_engines_polite *p = &all->polite;
  if (!polite == !p->cores) return;
  memset(p, 0, sizeof *p);
  p->ever = 1;
  if (polite) p->cores = p->most = clu_os_cores();
  all_give_way(all, polite != 0);
  if (polite) return;
  for (clu_engine *t = all->first; t; t = t->next)
    if (!t->cores.budget) clu_sched_limit(t->sched, 0);
}

/* ---- the limit ---- */

static void limit(clu_engine *t, int most, uint64_t now) {
  int polite = polite_most(t, now);
  clu_sched_limit(t->sched, polite && (!most || polite < most) ? polite : most);
}

void clu_engine_fit(clu_engine *t) {
  uint64_t now;
  int need, most;
  if (!t->cores.budget) {
    if (t->all->polite.cores) limit(t, 0, clu_os_now());
    return;
  }
  now = t->cores.fitted = clu_os_now();
  need = need_of(t);
  if (need >= t->cores.held) t->cores.needed = now;
  if (need > t->cores.held + t->cores.own) take(t, need, now);
  /* a forked child has no thread that would give them back later */
  if (now - t->cores.needed >= KEEP || t->all->turns->no_thread) give(t, need);
  most = t->cores.held + t->cores.own;
  limit(t, most > 0 ? most : 1, now);
}

int64_t clu_engine_fit_wait(const clu_engine *t, int64_t wait) {
  int need;
  if (!t->cores.budget || wait <= KEEP) return wait;
  need = need_of(t);
  return need == t->cores.held || need == t->cores.held + t->cores.own ? wait : KEEP;
}

uint64_t clu_engine_fit_due(const clu_engine *t) {
  return t->cores.held > 0 ? t->cores.fitted + LOOK_EVERY : 0;
}

int clu_engine_cores_for(clu_engine *t, int n) {
  int polite = polite_most(t, clu_os_now()), left = polite - clu_sched_busy(t->sched);
  int idle = t->cores.held + t->cores.own - clu_sched_busy(t->sched), got;
  if (polite && left < n) n = left > 0 ? left : 0;
  if (!t->cores.budget || n == 0) return n;
  if (idle < 0) idle = 0;
  if (idle >= n) return n;
  got = clu_budget_take(n - idle, t->cores.budget, t->cores.folder);
  clu_budget_give(got);
  return idle + got;
}

static void release(clu_engine *t) {
  if (t->cores.budget) give(t, clu_sched_busy(t->sched));
}

void clu_engine_set_budget(clu_engine *t, int size, const char *folder) {
  size_t n = strlen(folder) + 1;
  if (n > sizeof t->cores.folder) size = 0; /* what is too long for a path is no folder */
  if (size > 0) memcpy(t->cores.folder, folder, n);
  if (size == 0 && t->cores.budget) give(t, 0);
  t->cores.budget = size;
  t->cores.asked = 0;
  if (size == 0) clu_sched_limit(t->sched, 0);
}

int clu_engine_map_begins(clu_engine *t, int tokens, int own) {
  int before = t->cores.own;
  if (!t->cores.budget) {
    clu_budget_give(tokens);
    return 0;
  }
  t->cores.held += tokens;
  t->cores.needed = clu_os_now();
  t->cores.own = own;
  return before;
}

void clu_engine_map_ends(clu_engine *t, int own) {
  t->cores.own = own;
  release(t);
}
