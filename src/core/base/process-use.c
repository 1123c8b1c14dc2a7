#include "core/base/process-use.h"

#include <string.h>

#include "core/base/os-machine.h"

static const uint64_t WEIGHED_AFTER = 2000000000u;
enum { MUCH = 4 << 20 };

void clu_process_use_begin(clu_process_use *x, clu_pid pid) {
  memset(x, 0, sizeof *x);
  x->pid = pid;
  x->cpu = x->own = -1;
}

static void weigh(clu_process_use *x, uint64_t now) {
  int64_t resident = clu_os_process_resident(x->pid);
  int64_t more = resident > x->resident ? resident - x->resident : x->resident - resident;
  if (x->weighed && more < MUCH && now - x->weighed < WEIGHED_AFTER) return;
  x->own = clu_os_process_memory(x->pid, -1);
  x->resident = resident;
  x->weighed = now;
}

void clu_process_use_look(clu_process_use *x, uint64_t ended, uint64_t now) {
  int64_t total = clu_os_process_cpu(x->pid);
  uint64_t since = now - x->at;
  if (total < 0) {
    x->cpu = x->own = -1;
    x->at = now;
    return;
  }
  if (!x->at || total != x->total || ended != x->ended || ended == UINT64_MAX) weigh(x, now);
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
