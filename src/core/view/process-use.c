#include "core/view/process-use.h"

#include <string.h>

#define WEIGHED_AFTER 2000000000u    /* ns */
#define WEIGHED_ANYWAY 120000000000u /* ns; where it was given pages since */
#define WEIGH_AT_MOST 20000000       /* ns at a time */
enum {
  MUCH = 2 << 20,   /* bytes, by which an estimate may be wrong */
  ONE_WEIGHS = 100, /* the part of its time that one process is weighed, at most */
  ALL_WEIGH = 1000  /* the part of the time that any is */
};

void clu_process_use_begin(clu_process_use *x, clu_pid pid) {
  memset(x, 0, sizeof *x);
  x->pid = pid;
  x->cpu = x->own = x->anonymous = -1;
}

static int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

/* Later estimates begin with what is known now. */
static void begin_with(clu_process_use *x, int64_t own, int64_t doubt) {
  x->own = x->then.own = own;
  x->then.anonymous = x->anonymous;
  x->then.given = x->pages.given;
  x->doubt = x->then.doubt = doubt;
}

void clu_process_use_weigh(clu_process_use *x, uint64_t now) {
  uint64_t began = clu_os_now();
  x->anonymous = clu_os_process_anonymous(x->pid);
  begin_with(x, clu_os_process_memory(x->pid, -1), 0);
  x->weighed = now;
  x->took = clu_os_now() - began;
  x->is_due = 0;
}

clu_process_use *clu_process_use_first(clu_process_use *x, clu_process_use *y) {
  if (!x || !x->is_due) return y && y->is_due ? y : NULL;
  return y && y->is_due && y->doubt > x->doubt ? y : x;
}

static void first_estimate(clu_process_use *x) {
  int64_t own;
  x->anonymous = clu_os_process_anonymous(x->pid);
  own = x->anonymous < 0 ? -1 : min(x->pages.given, x->anonymous);
  begin_with(x, own, own);
  x->is_due = 1;
}

/* It was given pages, or has freed some. `is_resized`: it has another number of them. */
static void estimate(clu_process_use *x, int is_resized) {
  int64_t given = x->pages.given - x->then.given, more, shared, written;
  if (is_resized) x->anonymous = clu_os_process_anonymous(x->pid);
  more = x->anonymous - x->then.anonymous;
  shared = max(x->then.anonymous - x->then.own, 0);
  written = max(given - max(more, 0), 0);
  x->doubt = x->then.doubt + written + max(-more, 0); /* what is new to it is its own */
  if (x->then.own >= 0) x->own = max(x->then.own + more + min(written, shared), 0);
}

static int is_doubtful(const clu_process_use *x, uint64_t since) {
  return x->doubt > MUCH && since >= WEIGHED_AFTER + ONE_WEIGHS * x->took;
}

void clu_process_use_look(clu_process_use *x, uint64_t now) {
  clu_process_pages pages, before = x->pages;
  int64_t total = clu_os_process_cpu(x->pid, &pages);
  uint64_t since = now - x->at;
  if (total < 0) {
    x->cpu = x->own = -1;
    x->at = now;
    x->is_due = 0;
    return;
  }
  x->pages = pages;
  if (!x->at) {
    first_estimate(x);
  } else if (pages.given != before.given || pages.resident != before.resident) {
    estimate(x, pages.resident != before.resident);
    if (x->then.own < 0 || now - x->weighed > WEIGHED_ANYWAY) x->is_due = 1;
  }
  if (is_doubtful(x, now - x->weighed)) x->is_due = 1;
  if (x->at && since > 1000000) x->cpu = 1e6 * (double)(total - x->total) / (double)since;
  x->total = total;
  x->at = now;
}

int clu_process_use_turn(int n, uint64_t looked, uint64_t now) {
  double part = (double)(now - looked) / (double)CLU_USE_ALL_WITHIN;
  int k = part < 1 ? (int)(part * n) + 1 : n;
  if (!looked || k > n) k = n;
  return k > CLU_USE_FEW ? k : CLU_USE_FEW < n ? CLU_USE_FEW : n;
}

int clu_weighing_may(clu_weighing *w, uint64_t now) {
  int64_t more = w->at ? (int64_t)((now - w->at) / ALL_WEIGH) : WEIGH_AT_MOST;
  w->left = min(w->left + more, WEIGH_AT_MOST);
  w->at = now;
  return w->left > 0;
}

void clu_weighing_spend(clu_weighing *w, uint64_t ns) { w->left -= (int64_t)ns; }
