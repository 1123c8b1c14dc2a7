#include "r/tasks/task-budget.h"

#include <string.h>

#include "core/base/budget.h"

#define ASK_EVERY 5000000   /* ns between two looks for tokens, while there are too few */
#define KEEP 5000000        /* ns that tokens are kept without use */
#define LOOK_EVERY 20000000 /* ns between two looks of the thread at what is held */

static char folder[512]; /* where the tokens are */

static int need_of(const tasks *t) { return clu_sched_busy(t->sched) + clu_sched_wanted(t->sched); }

static void take(tasks *t, int need, uint64_t now) {
  int more = need - t->held - t->own;
  if (now - t->asked < ASK_EVERY) return;
  t->held += clu_budget_take(more, t->budget, folder);
  if (t->held + t->own < need) t->asked = now;
}

static void give(tasks *t, int need) {
  if (t->held <= need) return;
  clu_budget_give(t->held - need);
  t->held = need;
}

void clu_tasks_fit(tasks *t) {
  uint64_t now;
  int need, most;
  if (!t->budget) return;
  now = t->fitted = clu_os_now();
  need = need_of(t);
  if (need >= t->held) t->needed = now;
  if (need > t->held + t->own) take(t, need, now);
  /* a forked child has no thread that would give them back later */
  if (now - t->needed >= KEEP || clu_turn.no_thread) give(t, need);
  most = t->held + t->own;
  clu_sched_limit(t->sched, most > 0 ? most : 1);
}

int64_t clu_tasks_fit_wait(const tasks *t, int64_t wait) {
  int need;
  if (!t->budget || wait <= KEEP) return wait;
  need = need_of(t);
  return need == t->held || need == t->held + t->own ? wait : KEEP;
}

uint64_t clu_tasks_fit_due(const tasks *t) { return t->held > 0 ? t->fitted + LOOK_EVERY : 0; }

void clu_tasks_release(tasks *t) {
  if (t->budget) give(t, clu_sched_busy(t->sched));
}

/* ---- R ---- */

/* From now on it computes with tokens of a budget of `size`, which is under `under`; 0: without. */
SEXP ffi_tasks_budget(SEXP x, SEXP size, SEXP under) {
  tasks *t = clu_tasks_get(x);
  const char *path = CHAR(STRING_ELT(under, 0));
  int budget = Rf_asInteger(size);
  if (strlen(path) >= sizeof folder) budget = 0; /* what is too long for a path is no folder */
  if (budget > 0) strcpy(folder, path);
  if (budget == 0 && t->budget) give(t, 0);
  t->budget = budget;
  t->asked = 0;
  if (budget == 0) clu_sched_limit(t->sched, 0);
  return R_NilValue;
}

/* A map begins, for which `tokens` were taken. `own`: it is waited for by a task. Whether that was
 * so before, by another map around this one. */
SEXP ffi_tasks_map_begins(SEXP x, SEXP tokens, SEXP own) {
  tasks *t = clu_tasks_get(x);
  int before = t->own;
  if (!t->budget) {
    clu_budget_give(Rf_asInteger(tokens));
    return Rf_ScalarLogical(0);
  }
  t->held += Rf_asInteger(tokens);
  t->needed = clu_os_now();
  t->own = Rf_asLogical(own) == TRUE;
  return Rf_ScalarLogical(before);
}

/* `own`: what ffi_tasks_map_begins() has answered. */
SEXP ffi_tasks_map_ends(SEXP x, SEXP own) {
  tasks *t = clu_tasks_get(x);
  t->own = Rf_asLogical(own) == TRUE;
  clu_tasks_release(t);
  return R_NilValue;
}
