#include "core/state/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/state/state-layout.h"

static clu_state *all; /* what this process has */

static uint64_t size_of(int kind) {
  return kind == CLU_STATE_TABLE ? DATA_AT + DATA_MOST : HEAD_BYTES;
}

static void unmap(const state_window *w) {
  if (w->p) clu_os_shared_free(w->p, (size_t)w->bytes);
}

static void destroy(clu_state *s) {
  if (s->head) clu_os_shared_free(s->head, HEAD_BYTES);
  unmap(&s->rows);
  unmap(&s->data);
  if (s->fd != CLU_NO_FD) clu_os_close(s->fd);
  free(s);
}

static clu_state *blank(int kind, clu_err *e) {
  clu_state *s = calloc(1, sizeof *s);
  if (!s) {
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    return NULL;
  }
  s->refs = 1;
  s->kind = kind;
  s->fd = CLU_NO_FD;
  s->holder = clu_os_getpid();
  s->rows = (state_window){NULL, ROWS_AT, 0, ROWS_MOST * sizeof(table_row)};
  s->data = (state_window){NULL, DATA_AT, 0, DATA_MOST};
  return s;
}

static int map_head(clu_state *s, clu_err *e) {
  void *p;
  int rc = clu_os_common_map(s->fd, 0, HEAD_BYTES, &p, e);
  if (rc == CLU_OK) s->head = p;
  return rc;
}

static void keep(clu_state *s) {
  s->next = all;
  all = s;
}

/* A name is the path, and a number by which another object at that path is known as such. */
static int make(clu_state *s, const char *folder, clu_err *e) {
  char path[CLU_STATE_NAME - 40];
  int rc = clu_os_random(s->id, sizeof s->id);
  if (rc != CLU_OK) return clu_fail(e, rc, 0, "there are no random bytes");
  rc = clu_os_common_new(size_of(s->kind), folder, &s->fd, path, sizeof path, e);
  if (rc != CLU_OK) return rc;
  s->maker = clu_os_getpid();
  snprintf(s->name, sizeof s->name, "%016llx%016llx:%s", (unsigned long long)s->id[0],
           (unsigned long long)s->id[1], path);
  rc = map_head(s, e);
  if (rc == CLU_OK) rc = clu_os_mutex_new(&s->head->mutex, e);
  if (rc != CLU_OK) {
    clu_os_common_remove(path);
    return rc;
  }
  s->head->kind = (uint64_t)s->kind;
  s->head->id[0] = s->id[0];
  s->head->id[1] = s->id[1];
  s->head->magic = STATE_MAGIC;
  return CLU_OK;
}

int clu_state_new(int kind, const char *folder, clu_state **out, clu_err *e) {
  clu_state *s = blank(kind, e);
  int rc = s ? make(s, folder, e) : CLU_NOMEM;
  if (rc != CLU_OK) {
    if (s) destroy(s);
    return rc;
  }
  keep(s);
  *out = s;
  return CLU_OK;
}

const char *clu_state_name(const clu_state *s) { return s->name; }

void *clu_state_room(clu_state *s) {
  return (unsigned char *)s->head + HEAD_BYTES - CLU_STATE_ROOM;
}

/* The path in a name; NULL: it is none. */
static const char *parse(const char *name, uint64_t id[2]) {
  unsigned long long a, b;
  int n = 0;
  if (strlen(name) >= CLU_STATE_NAME) return NULL;
  if (sscanf(name, "%16llx%16llx:%n", &a, &b, &n) != 2 || n != 33) return NULL;
  id[0] = a;
  id[1] = b;
  return name + n;
}

static int join(clu_state *s, const char *name, clu_err *e) {
  const char *path = parse(name, s->id);
  int rc;
  if (!path) return clu_fail(e, CLU_PROTO, 0, "this is no name of shared state");
  memcpy(s->name, name, strlen(name) + 1);
  rc = clu_os_common_open(path, size_of(s->kind), &s->fd, e);
  if (rc == CLU_OK) rc = map_head(s, e);
  if (rc != CLU_OK) return rc;
  clu_os_move_high(&s->fd, 128);
  if (s->head->magic == STATE_MAGIC && s->head->kind == (uint64_t)s->kind &&
      s->head->id[0] == s->id[0] && s->head->id[1] == s->id[1])
    return CLU_OK;
  return clu_fail(e, CLU_PROTO, 0, "the shared memory is of another object");
}

/* The one that was asked for last comes first. */
clu_state *clu_state_find(const char *name, int kind) {
  for (clu_state **at = &all; *at; at = &(*at)->next) {
    clu_state *s = *at;
    if (s->kind != kind || strcmp(s->name, name) != 0) continue;
    *at = s->next;
    keep(s);
    return s;
  }
  return NULL;
}

int clu_state_open(const char *name, int kind, clu_state **out, clu_err *e) {
  clu_state *s = clu_state_find(name, kind);
  int rc;
  if (s) {
    s->refs++;
    *out = s;
    return CLU_OK;
  }
  s = blank(kind, e);
  rc = s ? join(s, name, e) : CLU_NOMEM;
  if (rc != CLU_OK) {
    if (s) destroy(s);
    return rc;
  }
  keep(s);
  *out = s;
  return CLU_OK;
}

void state_look_who(clu_state *s) {
  clu_pid me = clu_os_getpid();
  if (s->holder == me) return;
  s->holder = me;
  s->depth = 0;
}

void clu_state_free(clu_state *s) {
  if (!s) return;
  s->refs--;
  state_end_unused(s);
}

void state_end_unused(clu_state *s) {
  clu_state **at = &all;
  uint64_t id[2];
  state_look_who(s);
  if (s->refs > 0 || s->depth > 0) return;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  if (s->maker == clu_os_getpid()) clu_os_common_remove(parse(s->name, id));
  destroy(s);
}
