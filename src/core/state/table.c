#include <string.h>

#include "core/state/state-layout.h"

/* ---- what is mapped ---- */

/* So much of the window is mapped: as much again each time, at least 1 MB. */
static int reach(clu_state *s, state_window *w, uint64_t need) {
  uint64_t bytes = w->bytes ? w->bytes : UINT64_C(1) << 20;
  void *p;
  int rc;
  if (need <= w->bytes) return CLU_OK;
  if (need > w->most) return CLU_PROTO;
  while (bytes < need) bytes *= 2;
  if (bytes > w->most) bytes = w->most;
  if (bytes > SIZE_MAX / 2) return CLU_NOMEM;
  rc = clu_os_common_map(s->fd, w->at, (size_t)bytes, &p, NULL);
  if (rc != CLU_OK) return rc;
  if (w->p) clu_os_shared_free(w->p, (size_t)w->bytes);
  w->p = p;
  w->bytes = bytes;
  return CLU_OK;
}

/* The row of index `i`; NULL: it cannot be mapped. */
static table_row *row_at(clu_state *s, uint64_t i) {
  if (reach(s, &s->rows, (i + 1) * sizeof(table_row)) != CLU_OK) return NULL;
  return (table_row *)(void *)s->rows.p + i;
}

uint64_t clu_table_count(clu_state *s) {
  uint64_t n = atomic_load(&s->head->rows);
  return n > ROWS_MOST ? 0 : n;
}

uint64_t clu_table_changes(clu_state *s) { return atomic_load(&s->head->changes); }

/* ---- data ---- */

/* Copies the bytes behind all others: their place. With the mutex. */
static int put(clu_state *s, const void *bytes, size_t n, uint64_t *place) {
  uint64_t at = atomic_load(&s->head->data), next;
  int rc;
  if (at == 0) at = 8; /* no place is 0 */
  if (n > PLACE_MOST || at >= DATA_MOST || n > DATA_MOST - at) return CLU_LIMIT;
  rc = reach(s, &s->data, at + n);
  if (rc != CLU_OK) return rc;
  if (n) memcpy(s->data.p + at, bytes, n);
  next = at + (n + 7) / 8 * 8;
  atomic_store(&s->head->data, next);
  *place = at << PLACE_BITS | n;
  return CLU_OK;
}

static int get(clu_state *s, uint64_t place, const unsigned char **bytes, size_t *n) {
  uint64_t at = place >> PLACE_BITS;
  *bytes = NULL;
  *n = (size_t)(place & PLACE_MOST);
  if (place == 0) return CLU_OK;
  if (at + *n > atomic_load(&s->head->data)) return CLU_PROTO;
  if (reach(s, &s->data, at + *n) != CLU_OK) return CLU_NOMEM;
  *bytes = s->data.p + at;
  return CLU_OK;
}

/* The state is read before the places, which are there before it says so. The second place may move
 * the window: the first is looked up again. */
static int fill(clu_state *s, const table_row *r, uint64_t id, clu_row *out) {
  int rc, state = (int)atomic_load(&r->state);
  uint64_t place[2] = {atomic_load(&r->place[0]), atomic_load(&r->place[1])};
  out->id = id;
  out->state = state;
  out->changed = atomic_load(&r->changed);
  out->taker = (clu_pid)atomic_load(&r->taker);
  rc = get(s, place[0], &out->bytes[0], &out->n[0]);
  if (rc == CLU_OK) rc = get(s, place[1], &out->bytes[1], &out->n[1]);
  if (rc == CLU_OK) rc = get(s, place[0], &out->bytes[0], &out->n[0]);
  return rc;
}

int clu_table_row(clu_state *s, uint64_t id, clu_row *out) {
  table_row *r;
  if (id < 1 || id > clu_table_count(s)) return CLU_DEAD;
  if (!(r = row_at(s, id - 1))) return CLU_NOMEM;
  return fill(s, r, id, out);
}

/* ---- changes ---- */

/* A row says which change it has before it has it, and the table afterwards: who reads the table's
 * number first and then the rows sees all of the changes up to it. */
static void change(clu_state *s, table_row *r) {
  atomic_store(&r->changed, atomic_load(&s->head->changes) + 1);
}
static void changed(clu_state *s) { atomic_fetch_add(&s->head->changes, 1); }

/* A change that a process has died in has been made or not. Who looks for changes is told of one.
 */
static int begin(clu_state *s) {
  clu_pid before;
  int rc;
  state_look_who(s);
  rc = clu_os_mutex_take(&s->head->mutex, s->fd, TABLE_WAIT, s->holder, &before);
  if (rc != CLU_DEAD) return rc;
  changed(s);
  return CLU_OK;
}

static int end(clu_state *s, int rc) {
  clu_os_mutex_give(&s->head->mutex, s->fd, s->holder);
  return rc;
}

static void tell(clu_state *s) {
  atomic_fetch_add(&s->head->events, 1);
  if (atomic_load(&s->head->asleep)) clu_os_word_wake(&s->head->events, 1);
}

static int append(clu_state *s, const void *bytes, size_t n, uint64_t *id) {
  uint64_t i = atomic_load(&s->head->rows), place;
  table_row *r;
  int rc;
  if (i >= ROWS_MOST) return CLU_LIMIT;
  if (!(r = row_at(s, i))) return CLU_NOMEM;
  rc = put(s, bytes, n, &place);
  if (rc != CLU_OK) return rc;
  change(s, r);
  atomic_store(&r->place[0], place);
  atomic_store(&r->state, CLU_ROW_OPEN);
  atomic_store(&s->head->rows, i + 1);
  changed(s);
  *id = i + 1;
  return CLU_OK;
}

int clu_table_append(clu_state *s, const void *bytes, size_t n, uint64_t *id) {
  int rc = begin(s);
  if (rc != CLU_OK) return rc;
  rc = end(s, append(s, bytes, n, id));
  if (rc == CLU_OK) tell(s);
  return rc;
}

/* The first row that is open, from where the search begins. */
static table_row *first_open(clu_state *s, uint64_t *i) {
  uint64_t n = clu_table_count(s);
  table_row *r;
  for (*i = atomic_load(&s->head->first_open); *i < n; ++*i)
    if (!(r = row_at(s, *i)) || atomic_load(&r->state) == CLU_ROW_OPEN) return r;
  return NULL;
}

static int pop(clu_state *s, clu_row *out) {
  uint64_t i;
  table_row *r = first_open(s, &i);
  int rc;
  if (!r) return i < clu_table_count(s) ? CLU_NOMEM : CLU_AGAIN;
  rc = fill(s, r, i + 1, out);
  if (rc != CLU_OK) return rc;
  change(s, r);
  atomic_store(&r->taker, (uint64_t)s->holder);
  atomic_store(&r->state, CLU_ROW_TAKEN);
  atomic_store(&s->head->first_open, i + 1);
  changed(s);
  out->state = CLU_ROW_TAKEN;
  out->taker = s->holder;
  return CLU_OK;
}

int clu_table_pop(clu_state *s, clu_row *out) {
  int rc = begin(s);
  return rc == CLU_OK ? end(s, pop(s, out)) : rc;
}

static int set(clu_state *s, uint64_t id, const void *bytes, size_t n) {
  table_row *r;
  uint64_t place;
  int rc;
  if (id < 1 || id > clu_table_count(s)) return CLU_DEAD;
  if (!(r = row_at(s, id - 1))) return CLU_NOMEM;
  rc = put(s, bytes, n, &place);
  if (rc != CLU_OK) return rc;
  change(s, r);
  atomic_store(&r->place[1], place);
  atomic_store(&r->state, CLU_ROW_DONE);
  changed(s);
  return CLU_OK;
}

int clu_table_set(clu_state *s, uint64_t id, const void *bytes, size_t n) {
  int rc = begin(s);
  return rc == CLU_OK ? end(s, set(s, id, bytes, n)) : rc;
}

static void open_again(clu_state *s, table_row *r, uint64_t i) {
  if (i < atomic_load(&s->head->first_open)) atomic_store(&s->head->first_open, i);
  change(s, r);
  atomic_store(&r->state, CLU_ROW_OPEN);
  atomic_store(&r->taker, 0);
  changed(s);
}

int clu_table_give_back(clu_state *s, uint64_t id) {
  table_row *r;
  int rc = begin(s);
  if (rc != CLU_OK) return rc;
  r = id < 1 || id > clu_table_count(s) ? NULL : row_at(s, id - 1);
  if (r && atomic_load(&r->state) == CLU_ROW_TAKEN) open_again(s, r, id - 1);
  end(s, CLU_OK);
  tell(s);
  return CLU_OK;
}

static int reopen(clu_state *s, int (*is_gone)(clu_pid), uint64_t *n) {
  uint64_t count = clu_table_count(s);
  for (uint64_t i = 0; i < count; i++) {
    table_row *r = row_at(s, i);
    if (!r) return CLU_NOMEM;
    if (atomic_load(&r->state) != CLU_ROW_TAKEN) continue;
    if (!is_gone((clu_pid)atomic_load(&r->taker))) continue;
    open_again(s, r, i);
    ++*n;
  }
  return CLU_OK;
}

int clu_table_reopen(clu_state *s, int (*is_gone)(clu_pid), uint64_t *n) {
  int rc = begin(s);
  *n = 0;
  if (rc != CLU_OK) return rc;
  rc = end(s, reopen(s, is_gone, n));
  for (uint64_t i = 0; i < *n; i++) tell(s);
  return rc;
}

/* ---- waiting ---- */

uint32_t clu_table_events(clu_state *s) { return atomic_load(&s->head->events); }

void clu_table_wait(clu_state *s, uint32_t events, uint64_t ns) {
  atomic_fetch_add(&s->head->asleep, 1);
  clu_os_word_wait(&s->head->events, events, ns);
  atomic_fetch_sub(&s->head->asleep, 1);
}
