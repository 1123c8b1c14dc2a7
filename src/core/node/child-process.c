#include "core/node/child-process.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/input.h"
#include "core/base/remove-folder.h"

static const uint64_t POLL_EVERY = 2000000; /* ns */

struct clu_child {
  clu_child *prev, *next;
  clu_children *set;
  clu_pid pid;
  int slot; /* -1: none */
  int detached, released, leaves;
  int ending, ended;
  int how_known;
  clu_exit how;
  uint64_t kill_at; /* UINT64_MAX: never; UINT64_MAX - 1: it was killed */
  char *folder;     /* removed after its end; may be NULL */
  clu_fd hold;      /* closed after its end; or CLU_NO_FD */
};

static void poll_ending(void *self);

static void let_go(clu_fd *hold) {
  if (*hold != CLU_NO_FD) clu_os_close(*hold);
  *hold = CLU_NO_FD;
}

void clu_children_init(clu_children *set, clu_loop *loop) {
  memset(set, 0, sizeof *set);
  set->loop = loop;
  clu_timer_init(&set->poll, poll_ending, set);
  set->shared_fd = CLU_NO_FD;
}

static void drop_slots(clu_children *set) {
  if (set->shared) {
    clu_os_shared_free(set->shared, sizeof *set->shared);
    clu_os_close(set->shared_fd);
  }
  free(set->used);
  set->shared = NULL;
  set->used = NULL;
  set->shared_fd = CLU_NO_FD;
}

void clu_children_fini(clu_children *set) {
  while (set->first) {
    clu_child *c = set->first;
    set->first = c->next;
    let_go(&c->hold);
    free(c->folder);
    free(c);
  }
  clu_timer_cancel(&set->poll);
  drop_slots(set);
  clu_children_init(set, set->loop);
}

int clu_child_slot(clu_children *set, int *slot, clu_fd *fd, clu_err *e) {
  if (!set->shared) {
    int rc = clu_shared_new(&set->shared, &set->shared_fd, e);
    if (rc != CLU_OK) {
      set->shared_fd = CLU_NO_FD;
      return rc;
    }
    set->n_shared++;
    set->used = calloc(CLU_SLOTS, 1);
    if (!set->used) {
      drop_slots(set);
      return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    }
  }
  if (set->n_used == CLU_SLOTS)
    return clu_fail(e, CLU_LIMIT, 0, "there are %d nodes already", CLU_SLOTS);
  for (*slot = 0; set->used[*slot];) ++*slot; /* the first ones have rings */
  set->used[*slot] = 1;
  clu_shared_reset(set->shared, *slot);
  set->n_used++;
  *fd = set->shared_fd;
  return CLU_OK;
}

uint64_t clu_child_memory(const clu_children *set) {
  return set->shared ? (uint64_t)set->n_shared << 32 | ((uint64_t)set->shared_fd + 1) : 0;
}

void clu_child_slot_free(clu_children *set, int slot) {
  if (slot < 0 || !set->used || !set->used[slot]) return;
  set->used[slot] = 0;
  if (--set->n_used == 0) drop_slots(set);
}

int clu_child_start(clu_children *set, const clu_spawn *spec, int slot, const char *folder,
                    clu_child **out, clu_err *e) {
  clu_child *c = calloc(1, sizeof *c);
  clu_fd hold = spec->hold ? *spec->hold : CLU_NO_FD;
  int rc = CLU_OK;
  if (c && folder) {
    c->folder = malloc(strlen(folder) + 1);
    if (c->folder) strcpy(c->folder, folder);
  }
  if (!c || (folder && !c->folder))
    rc = clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  else
    rc = clu_os_spawn(spec, &c->pid, e);
  if (rc != CLU_OK) {
    clu_child_slot_free(set, slot);
    if (folder) clu_remove_folder(folder);
    let_go(&hold);
    if (c) free(c->folder);
    free(c);
    return rc;
  }
  c->set = set;
  c->slot = slot;
  c->leaves = spec->leaves;
  c->hold = hold;
  c->kill_at = UINT64_MAX;
  c->next = set->first;
  if (c->next) c->next->prev = c;
  set->first = c;
  *out = c;
  return CLU_OK;
}

clu_pid clu_child_pid(const clu_child *c) { return c->pid; }
int clu_child_has_ended(const clu_child *c) { return c->ended; }

int clu_child_how(const clu_child *c, clu_exit *how) {
  if (c->how_known) *how = c->how;
  return c->how_known;
}

volatile uint64_t *clu_child_cancel(const clu_child *c) {
  return c->slot < 0 || !c->set->shared ? NULL : &c->set->shared->cancel[c->slot];
}

clu_claim *clu_child_claim(const clu_child *c) {
  return c->slot < 0 || !c->set->shared ? NULL : &c->set->shared->claim[c->slot];
}

clu_ring *clu_child_ring(const clu_child *c) {
  return c->slot < 0 || !c->set->shared ? NULL : clu_shared_ring(c->set->shared, c->slot);
}

clu_shared *clu_child_shared(const clu_child *c, int *slot) {
  *slot = c->slot;
  return c->slot < 0 ? NULL : c->set->shared;
}

void clu_child_detach(clu_child *c) {
  c->detached = 1;
  if (!c->ended) return;
  clu_child_slot_free(c->set, c->slot);
  c->slot = -1;
}

void clu_child_say(clu_child *c, const char *text, size_t n) {
  if (!c->ended && c->hold != CLU_NO_FD) (void)clu_input_add(c->hold, text, n);
}

static void drop(clu_child *c) {
  if (c->prev)
    c->prev->next = c->next;
  else
    c->set->first = c->next;
  if (c->next) c->next->prev = c->prev;
  let_go(&c->hold);
  free(c->folder);
  free(c);
}

int clu_child_reap(clu_child *c) {
  int rc;
  if (c->ended) return 1;
  rc = clu_os_reap(c->pid, !c->leaves, &c->how);
  if (rc == CLU_AGAIN) return 0;
  c->ended = 1;
  c->how_known = rc == CLU_OK; /* else somebody else has reaped it */
  if (c->ending) c->set->ending--;
  let_go(&c->hold);
  if (c->folder) clu_remove_folder(c->folder);
  if (c->detached) clu_child_detach(c);
  return 1;
}

void clu_child_end_by(clu_child *c, uint64_t at) {
  if (c->ended) return;
  if (!c->ending) {
    c->ending = 1;
    c->set->ending++;
  }
  clu_timer_arm_by(c->set->loop, &c->set->poll, clu_os_now());
  if (at < c->kill_at) c->kill_at = at;
  if (c->kill_at == 0) {
    clu_os_kill(c->pid, CLU_SIG_KILL, 1);
    c->kill_at = UINT64_MAX - 1;
  }
}

void clu_child_release(clu_child *c) {
  c->released = 1;
  clu_child_detach(c);
  if (c->ended) drop(c);
}

static void poll_ending(void *self) {
  clu_children *set = self;
  uint64_t now = clu_os_now();
  clu_child *next;
  for (clu_child *c = set->first; c; c = next) {
    next = c->next;
    if (!c->ending || c->ended) continue;
    if (clu_child_reap(c)) {
      if (c->released) drop(c);
    } else if (c->kill_at <= now) {
      clu_child_end_by(c, 0);
    }
  }
  if (set->ending) clu_timer_arm(set->loop, &set->poll, now + POLL_EVERY);
}
