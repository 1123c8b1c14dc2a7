#include "core/base/memory-turn.h"

#include "core/base/err.h"
#include "core/base/os-lock.h"

static struct {
  clu_fd fd;
  int is_taken, follows_forks;
} turn;

/* In a child that was forked: a copy that stays open would keep the parent's turn. */
static void after_fork(void) { clu_memory_turn_give(); }

int clu_memory_turn_take(const char *under, int i) {
  int rc;
  if (turn.is_taken) return 1;
  if (!turn.follows_forks && clu_os_after_fork(after_fork) != CLU_OK) return 1;
  turn.follows_forks = 1;
  rc = clu_os_lock_file(under, "clutch-memory", i, &turn.fd);
  if (rc == CLU_AGAIN) return 0;
  turn.is_taken = rc == CLU_OK;
  return 1;
}

void clu_memory_turn_give(void) {
  if (!turn.is_taken) return;
  turn.is_taken = 0;
  clu_os_close(turn.fd);
}

int clu_memory_turn_is_taken(void) { return turn.is_taken; }
