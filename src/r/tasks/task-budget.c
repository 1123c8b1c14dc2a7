#include "r/tasks/task-budget.h"

#include <string.h>

#include "core/base/budget.h"

#define ASK_EVERY 5000000   /* ns between two looks for tokens, while there are too few */
#define KEEP 5000000        /* ns that tokens are kept without use */
#define LOOK_EVERY 20000000 /* ns between two looks of the thread at what is held */

static char folder[512]; /* where the tokens are */

static int need_of(const tasks *t) { return clu_sched_busy(t->sched) + clu_sched_wanted(t->sched); }

static void take(tasks *t, int need, uint64_t now) {
  int more = need - t->cores.held - t->cores.own;
  if (now - t->cores.asked < ASK_EVERY) return;
  t->cores.held += clu_budget_take(more, t->cores.budget, folder);
  if (t->cores.held + t->cores.own < need) t->cores.asked = now;
}

static void give(tasks *t, int need) {
  if (t->cores.held <= need) return;
  clu_budget_give(t->cores.held - need);
  t->cores.held = need;
}

void clu_tasks_fit(tasks *t) {
  uint64_t now;
  int need, most;
  if (!t->cores.budget) return;
  now = t->cores.fitted = clu_os_now();
  need = need_of(t);
  if (need >= t->cores.held) t->cores.needed = now;
  if (need > t->cores.held + t->cores.own) take(t, need, now);
  /* a forked child has no thread that would give them back later */
  if (now - t->cores.needed >= KEEP || clu_turn.no_thread) give(t, need);
  most = t->cores.held + t->cores.own;
  clu_sched_limit(t->sched, most > 0 ? most : 1);
}

int64_t clu_tasks_fit_wait(const tasks *t, int64_t wait) {
  int need;
  if (!t->cores.budget || wait <= KEEP) return wait;
  need = need_of(t);
  return need == t->cores.held || need == t->cores.held + t->cores.own ? wait : KEEP;
}

uint64_t clu_tasks_fit_due(const tasks *t) {
  return t->cores.held > 0 ? t->cores.fitted + LOOK_EVERY : 0;
}

void clu_tasks_release(tasks *t) {
  if (t->cores.budget) give(t, clu_sched_busy(t->sched));
}

/* ---- R ---- */

/* From now on it computes with tokens of a budget of `size`, which is under `under`; 0: without. */
SEXP ffi_tasks_budget(SEXP x, SEXP size, SEXP under) {
  tasks *t = clu_tasks_get(x);
  const char *path = CHAR(STRING_ELT(under, 0));
  int budget = Rf_asInteger(size);
  if (strlen(path) >= sizeof folder) budget = 0; /* what is too long for a path is no folder */
  if (budget > 0) strcpy(folder, path);
  if (budget == 0 && t->cores.budget) give(t, 0);
  t->cores.budget = budget;
  t->cores.asked = 0;
  if (budget == 0) clu_sched_limit(t->sched, 0);
  return R_NilValue;
}

/* A map begins, for which `tokens` were taken. `own`: it is waited for by a task. Whether that was
 * so before, by another map around this one. */
SEXP ffi_tasks_map_begins(SEXP x, SEXP tokens, SEXP own) {
  tasks *t = clu_tasks_get(x);
  int before = t->cores.own;
  if (!t->cores.budget) {
    clu_budget_give(Rf_asInteger(tokens));
    return Rf_ScalarLogical(0);
  }
  t->cores.held += Rf_asInteger(tokens);
  t->cores.needed = clu_os_now();
  t->cores.own = Rf_asLogical(own) == TRUE;
  return Rf_ScalarLogical(before);
}

/* `own`: what ffi_tasks_map_begins() has answered. */
SEXP ffi_tasks_map_ends(SEXP x, SEXP own) {
  tasks *t = clu_tasks_get(x);
  t->cores.own = Rf_asLogical(own) == TRUE;
  clu_tasks_release(t);
  return R_NilValue;
}
