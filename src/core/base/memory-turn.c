#include "core/base/memory-turn.h"

#include "core/base/err.h"
#include "core/base/os-lock.h"

static const char *FOLDER = "clutch-memory";

static struct {
  clu_fd fd;
  int is_taken;
} turn;

static struct {
  clu_fd fd;
  int number, slot, is_taken;
} share;

/* In a child that was forked: a copy that stays open would keep what the parent has. */
static void after_fork(void) {
  clu_memory_turn_give();
  clu_memory_share_no_more();
}

static int follow_forks(void) {
  static int follows;
  if (!follows) follows = clu_os_after_fork(after_fork) == CLU_OK;
  return follows;
}

/* ---- how many are at work ---- */

/* Locks of turns come first. */
static int lock_slot(const char *under, int i, int slot, clu_fd *fd) {
  return clu_os_lock_file(under, FOLDER, CLU_MEMORY_NUMBERS + i * CLU_MEMORY_SHARERS + slot, fd);
}

/* 0: there are no such locks. Where all are taken this session has none. */
static int take_slot(const char *under, int i) {
  for (int slot = 0; slot < CLU_MEMORY_SHARERS; slot++) {
    int rc = lock_slot(under, i, slot, &share.fd);
    if (rc == CLU_AGAIN) continue;
    if (rc != CLU_OK) return 0;
    share.number = i;
    share.slot = slot;
    share.is_taken = 1;
    return 1;
  }
  return 1;
}

int clu_memory_share(const char *under, int i) {
  int n = 0;
  if (!follow_forks()) return 1;
  if (share.is_taken && share.number != i) clu_memory_share_no_more();
  if (!share.is_taken && !take_slot(under, i)) return 1;
  for (int slot = 0; slot < CLU_MEMORY_SHARERS; slot++) {
    clu_fd fd;
    int rc = share.is_taken && slot == share.slot ? CLU_AGAIN : lock_slot(under, i, slot, &fd);
    if (rc == CLU_OK) clu_os_close(fd);
    n += rc == CLU_AGAIN;
  }
  return n > 0 ? n : 1;
}

void clu_memory_share_no_more(void) {
  if (!share.is_taken) return;
  share.is_taken = 0;
  clu_os_close(share.fd);
}

/* ---- whose turn it is ---- */

int clu_memory_turn_take(const char *under, int i) {
  int rc;
  if (turn.is_taken) return 1;
  if (!follow_forks()) return 1;
  rc = clu_os_lock_file(under, FOLDER, i, &turn.fd);
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
