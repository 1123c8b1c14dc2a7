#include "core/base/segment.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os-segment.h"

struct clu_segment {
  atomic_long refs;
  clu_fd fd[2]; /* to write to, to hand on; or CLU_NO_FD twice */
  uint64_t size;
  void *bytes;
  int writable;
  int lost;
  int is_again;
  int is_kept;
  uint64_t message, counted; /* so much of it is in the message with that number */
  uint64_t id[2];            /* of one that came from another process and is mapped; else 0 */
  clu_segment *next;         /* of the mapped ones with the same hash */
};

static atomic_long open_fds;
static atomic_long kept_fds; /* of these; of segments that came */
static long most_kept;       /* set before another thread begins */

/* ---- those that came and are mapped, by what the system tells them by ---- */

/* The lock is held for some ten instructions. A forked child finds it free: a fork by R's thread
 * takes the turn before (core/loop/turns.h), so that no other thread is here, and what another
 * thread forks runs nothing of ours. */
static clu_segment *mapped[64];
static atomic_flag mapped_in_use = ATOMIC_FLAG_INIT;

static clu_segment **mapped_from(const clu_segment *s) {
  while (atomic_flag_test_and_set_explicit(&mapped_in_use, memory_order_acquire)) continue;
  return &mapped[s->id[1] % (sizeof mapped / sizeof *mapped)];
}

static void remember(clu_segment *s) {
  clu_segment **all = mapped_from(s);
  for (clu_segment *o = *all; o && !s->is_again; o = o->next)
    s->is_again = o->id[0] == s->id[0] && o->id[1] == s->id[1];
  s->next = *all;
  *all = s;
  atomic_flag_clear_explicit(&mapped_in_use, memory_order_release);
}

static void forget(clu_segment *s) {
  clu_segment **at = mapped_from(s);
  while (*at && *at != s) at = &(*at)->next;
  if (*at) *at = s->next;
  atomic_flag_clear_explicit(&mapped_in_use, memory_order_release);
}

/* ---- one ---- */

static clu_segment *blank(void) {
  clu_segment *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  atomic_init(&s->refs, 1);
  s->fd[0] = s->fd[1] = CLU_NO_FD;
  return s;
}

static void close_fds(clu_segment *s) {
  if (s->fd[0] == CLU_NO_FD) return;
  clu_os_close(s->fd[0]);
  if (s->fd[1] != s->fd[0]) clu_os_close(s->fd[1]);
  s->fd[0] = s->fd[1] = CLU_NO_FD;
  atomic_fetch_sub(&open_fds, 1);
  if (s->is_kept) atomic_fetch_sub(&kept_fds, 1);
  s->is_kept = 0;
}

clu_segment *clu_segment_new(void) {
  clu_segment *s;
  int one;
  if (atomic_load(&open_fds) >= clu_os_most_fds() / 4) return NULL;
  s = blank();
  if (!s) return NULL;
  if (clu_os_segment_new(s->fd) != CLU_OK) {
    free(s);
    return NULL;
  }
  one = s->fd[0] == s->fd[1];
  clu_os_move_high(&s->fd[0], 128); /* R's own sockets want the low numbers */
  if (one)
    s->fd[1] = s->fd[0];
  else
    clu_os_move_high(&s->fd[1], 128);
  atomic_fetch_add(&open_fds, 1);
  return s;
}

int clu_segment_put(clu_segment *s, uint64_t at, const void *p, size_t n) {
  int rc = clu_os_segment_write(s->fd[0], at, p, n);
  if (rc == CLU_OK && at + n > s->size) s->size = at + n;
  return rc;
}

int clu_segment_append(clu_segment *s, const void *p, size_t n) {
  return clu_segment_put(s, s->size, p, n);
}

uint64_t clu_segment_align(clu_segment *s) {
  s->size = (s->size + CLU_SEGMENT_ALIGN - 1) / CLU_SEGMENT_ALIGN * CLU_SEGMENT_ALIGN;
  return s->size;
}

int clu_segment_read(const clu_segment *s, uint64_t at, void *p, size_t n) {
  return clu_os_segment_read(s->fd[0], at, p, n);
}

int clu_segment_seal(clu_segment *s) { return clu_os_segment_seal(s->fd); }

int clu_segment_map(clu_segment *s) {
  if (s->bytes) return CLU_OK;
  if (s->size > SIZE_MAX / 2) return CLU_NOMEM;
  if (clu_os_segment_map(s->fd[1], (size_t)s->size, &s->writable, &s->bytes) == CLU_OK)
    return CLU_OK;
  s->bytes = NULL;
  return CLU_NOMEM;
}

void clu_segments_keep_fds(void) { most_kept = clu_os_most_fds() / 8; }

/* It may be handed on later without being written again. */
static void keep_fd(clu_segment *s) {
  if (atomic_load(&kept_fds) >= most_kept) {
    close_fds(s);
    return;
  }
  clu_os_move_high(&s->fd[0], 128); /* as above */
  s->fd[1] = s->fd[0];
  s->is_kept = 1;
  atomic_fetch_add(&kept_fds, 1);
}

int clu_segments_any_kept(void) { return atomic_load(&kept_fds) > 0; }

int clu_segment_is_kept(const clu_segment *s) { return s->is_kept; }

void clu_segment_count(clu_segment *s, uint64_t message, uint64_t bytes) {
  if (s->message != message) s->counted = 0;
  s->message = message;
  s->counted += bytes;
}

uint64_t clu_segment_counted(const clu_segment *s, uint64_t message) {
  return s->message == message ? s->counted : 0;
}

clu_segment *clu_segment_receive(clu_fd fd, int *rc) {
  clu_segment *s = blank();
  *rc = s ? clu_os_segment_check(fd, &s->size) : CLU_NOMEM;
  if (*rc != CLU_OK) {
    free(s);
    clu_os_close(fd);
    return NULL;
  }
  s->fd[0] = s->fd[1] = fd;
  atomic_fetch_add(&open_fds, 1);
  if (clu_segment_map(s) != CLU_OK) return s; /* it is to be read */
  if (clu_os_segment_id(fd, s->id) == CLU_OK) remember(s);
  keep_fd(s);
  return s;
}

clu_segment *clu_segment_new_lost(void) {
  clu_segment *s = blank();
  if (s) s->lost = 1;
  return s;
}

int clu_segment_is_lost(const clu_segment *s) { return s->lost; }

int clu_segment_is_again(const clu_segment *s) { return s->is_again; }

uint64_t clu_segment_size(const clu_segment *s) { return s->size; }

unsigned char *clu_segment_bytes(const clu_segment *s, int *writable) {
  if (writable) *writable = s->writable;
  return s->bytes;
}

clu_fd clu_segment_fd(const clu_segment *s) { return s->fd[1]; }

clu_segment *clu_segment_ref(clu_segment *s) {
  atomic_fetch_add(&s->refs, 1);
  return s;
}

void clu_segment_unref(clu_segment *s) {
  if (!s || atomic_fetch_sub(&s->refs, 1) > 1) return;
  if (s->id[1]) forget(s);
  if (s->bytes) clu_os_segment_unmap(s->bytes, (size_t)s->size);
  close_fds(s);
  free(s);
}

void clu_segments_drop(clu_segments *list) {
  for (int i = 0; i < list->n; i++) clu_segment_unref(list->of[i]);
  list->n = 0;
}

uint64_t clu_segments_size(const clu_segments *list) {
  uint64_t sum = 0;
  for (int i = 0; i < list->n; i++) sum += clu_segment_size(list->of[i]);
  return sum;
}

int clu_segments_are_lost(const clu_segments *list) {
  return list && list->n > 0 && clu_segment_is_lost(list->of[0]);
}
