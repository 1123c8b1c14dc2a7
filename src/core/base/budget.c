#include "core/base/budget.h"

#include "core/base/os-lock.h"

static struct {
  clu_fd fd[CLU_BUDGET_MOST];
  int n;
  int follows_forks;
} held;

/* In a child that was forked: a copy that stays open would keep the parent's token. */
static void after_fork(void) {
  for (int i = 0; i < held.n; i++) clu_os_close(held.fd[i]);
  held.n = 0;
}

int clu_budget_take(int n, int of, const char *under) {
  int got = 0;
  if (!held.follows_forks && clu_os_after_fork(after_fork) != CLU_OK) return n;
  held.follows_forks = 1;
  for (int i = 0; i < of && got < n && held.n < CLU_BUDGET_MOST; i++) {
    clu_fd fd;
    int rc = clu_os_lock_file(under, "clutch-cores", i, &fd);
    if (rc == CLU_AGAIN) continue;
    if (rc != CLU_OK) {
      clu_budget_give(got);
      return n;
    }
    held.fd[held.n++] = fd;
    got++;
  }
  return got;
}

void clu_budget_give(int n) {
  for (; n > 0 && held.n > 0; n--) clu_os_close(held.fd[--held.n]);
}

int clu_budget_held(void) { return held.n; }
