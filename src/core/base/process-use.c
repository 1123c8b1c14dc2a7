#include "core/base/process-use.h"

#include <string.h>

#include "core/base/os-machine.h"

#define WEIGHED_AFTER 2000000000u /* ns */
#define WEIGHED_ANYWAY 30000000000u
enum { MUCH = 512 << 10 }; /* bytes, by which an estimate may be wrong */

void clu_process_use_begin(clu_process_use *x, clu_pid pid) {
  memset(x, 0, sizeof *x);
  x->pid = pid;
  x->cpu = x->own = -1;
}

void clu_process_use_weigh(clu_process_use *x, uint64_t now) {
  x->then.anonymous = clu_os_process_anonymous(x->pid);
  x->own = x->then.own = clu_os_process_memory(x->pid, -1);
  x->then.given = x->given;
  x->weighed = now;
  x->is_due = 0;
}

clu_process_use *clu_process_use_first(clu_process_use *x, clu_process_use *y) {
  if (!x || !x->is_due) return y && y->is_due ? y : NULL;
  return y && y->is_due && y->weighed < x->weighed ? y : x;
}

static int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Without weighing it. */
static void estimate(clu_process_use *x, uint64_t now) {
  int64_t given = x->given - x->then.given;
  int64_t more = clu_os_process_anonymous(x->pid) - x->then.anonymous;
  int64_t shared = max(x->then.anonymous - x->then.own, 0), written = max(given - max(more, 0), 0);
  if (written > shared) written = shared;
  if (x->then.own >= 0) x->own = max(x->then.own + more + written, 0);
  if (x->then.own < 0 || now - x->weighed > WEIGHED_ANYWAY) x->is_due = 1;
}

void clu_process_use_look(clu_process_use *x, uint64_t ended, uint64_t now) {
  int64_t total = clu_os_process_cpu(x->pid, &x->given);
  uint64_t since = now - x->at;
  if (total < 0) {
    x->cpu = x->own = -1;
    x->at = now;
    x->is_due = 0;
    return;
  }
  if (!x->weighed)
    clu_process_use_weigh(x, now);
  else if (total != x->total || ended != x->ended || ended == UINT64_MAX)
    estimate(x, now);
  if (now - x->weighed >= WEIGHED_AFTER && x->given - x->then.given > MUCH) x->is_due = 1;
  if (x->at && since > 1000000) x->cpu = 1e6 * (double)(total - x->total) / (double)since;
  x->total = total;
  x->ended = ended;
  x->at = now;
}

int clu_process_use_turn(int n, uint64_t looked, uint64_t now) {
  double part = (double)(now - looked) / (double)CLU_USE_ALL_WITHIN;
  int k = part < 1 ? (int)(part * n) + 1 : n;
  if (!looked || k > n) k = n;
  return k > CLU_USE_FEW ? k : CLU_USE_FEW < n ? CLU_USE_FEW : n;
}
