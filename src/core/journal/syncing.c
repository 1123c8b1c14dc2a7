#include "core/journal/syncing.h"

#include <stdlib.h>
#include <string.h>

#define OWNER 512                /* bytes of the file that is touched, at the most */
#define TOUCH_EVERY 10000000000u /* ns */

struct clu_journal_syncing {
  clu_journal_syncing *next; /* of those that were left */
  clu_fd fd;
  uint64_t every;
  char *touched;
  char owner[OWNER]; /* what that says */
  size_t nowner;
  clu_gate *gate; /* guards what follows */
  int wrote, ends, done, has_thread;
  clu_thread thread;
  clu_err error; /* of the disk; code CLU_OK: none */
};

/* Reads what the file `touched` says; 0 bytes: it is not there. */
static size_t what_it_says(const char *touched, char out[OWNER]) {
  clu_fd fd;
  uint64_t size = 0;
  if (clu_os_file_open(touched, CLU_FILE_READ, &fd, NULL) != CLU_OK) return 0;
  if (clu_os_file_size(fd, &size) != CLU_OK || size > OWNER) size = 0;
  if (size > 0 && clu_os_file_read(fd, 0, out, (size_t)size) != CLU_OK) size = 0;
  clu_os_file_close(fd);
  return (size_t)size;
}

static int is_ours(const clu_journal_syncing *s) {
  char now[OWNER];
  size_t n = what_it_says(s->touched, now);
  return n > 0 && n == s->nowner && memcmp(now, s->owner, n) == 0;
}

/* With the lock held, which is given up meanwhile. */
static void sync_now(clu_journal_syncing *s) {
  clu_err e = {0};
  s->wrote = 0;
  clu_gate_unlock(s->gate);
  clu_os_file_sync(s->fd, &e);
  clu_gate_lock(s->gate);
  if (e.code && !s->error.code) s->error = e;
}

static void run(void *data) {
  clu_journal_syncing *s = data;
  uint64_t synced = 0, touched = 0;
  clu_gate_lock(s->gate);
  while (!s->ends) {
    uint64_t now = clu_os_now(), wait = TOUCH_EVERY;
    if (s->touched && now - touched >= TOUCH_EVERY) {
      if (is_ours(s)) clu_os_file_touch(s->touched);
      touched = now;
    }
    if (s->wrote && s->every > 0 && s->every != UINT64_MAX) {
      uint64_t ago = now - synced;
      if (ago >= s->every) {
        synced = now;
        sync_now(s);
        continue;
      }
      if (s->every - ago < wait) wait = s->every - ago;
    }
    clu_gate_wait(s->gate, (int64_t)wait);
  }
  if (s->wrote && s->every > 0 && s->every != UINT64_MAX) sync_now(s);
  clu_os_file_close(s->fd);
  s->done = 1;
  clu_gate_unlock(s->gate);
}

static int start(clu_journal_syncing *s, clu_err *e) {
  int rc = clu_os_thread_start(run, s, &s->thread, e);
  s->has_thread = rc == CLU_OK;
  return rc;
}

/* Where it cannot be read now, as for want of a descriptor, it is known all the same whose it is.
 */
static void remember_owner(clu_journal_syncing *s, const char *owner) {
  if (!owner) {
    s->nowner = what_it_says(s->touched, s->owner);
  } else if (strlen(owner) <= OWNER) {
    s->nowner = strlen(owner);
    memcpy(s->owner, owner, s->nowner);
  }
}

clu_journal_syncing *clu_journal_syncing_new(clu_fd fd, uint64_t every, const char *touched,
                                             const char *owner) {
  clu_journal_syncing *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->fd = fd;
  s->every = every;
  s->gate = clu_gate_new();
  if (touched && (s->touched = malloc(strlen(touched) + 1))) {
    strcpy(s->touched, touched);
    remember_owner(s, owner);
  }
  if (s->gate && (!touched || (s->touched && start(s, NULL) == CLU_OK))) return s;
  if (s->gate) clu_gate_free(s->gate);
  free(s->touched);
  free(s);
  return NULL;
}

int clu_journal_syncing_wrote(clu_journal_syncing *s, clu_err *e) {
  int rc = CLU_OK, is_first;
  if (s->every == 0) return clu_os_file_sync(s->fd, e);
  clu_gate_lock(s->gate);
  is_first = !s->wrote;
  s->wrote = 1;
  if (!s->has_thread) {
    rc = start(s, e);
  } else if (is_first) {
    clu_gate_wake(s->gate);
  }
  if (s->error.code) {
    *e = s->error;
    rc = e->code;
  }
  clu_gate_unlock(s->gate);
  return rc;
}

static void release(clu_journal_syncing *s) {
  clu_gate_free(s->gate);
  free(s->touched);
  free(s);
}

/* These were left, and their threads have not been joined. */
static clu_journal_syncing *left;

void clu_journal_syncing_leave(clu_journal_syncing *s) {
  if (s->touched && is_ours(s)) clu_os_file_remove(s->touched);
  if (!s->has_thread) {
    clu_os_file_close(s->fd);
    release(s);
    return;
  }
  clu_gate_lock(s->gate);
  s->ends = 1;
  clu_gate_wake(s->gate);
  clu_gate_unlock(s->gate);
  s->next = left;
  left = s;
}

void clu_journal_syncing_settle(int wait) {
  clu_journal_syncing **at = &left;
  while (*at) {
    clu_journal_syncing *s = *at;
    int done;
    clu_gate_lock(s->gate);
    done = s->done;
    clu_gate_unlock(s->gate);
    if (!done && !wait) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    clu_os_thread_join(s->thread);
    release(s);
  }
}

/* Some thread may have been within the gate: its memory stays. */
void clu_journal_syncing_forget(clu_journal_syncing *s) {
  free(s->touched);
  free(s);
}

void clu_journal_syncing_forget_left(void) { left = NULL; }
