#include <stdlib.h>
#include <string.h>

#include "core/mesh/mesh-layout.h"

void clu_message_free(clu_message *m) {
  if (!m) return;
  clu_segments_drop(&m->segments);
  free(m->to);
  if (!m->apart) free(m->body);
  clu_segment_unref(m->apart);
  free(m);
}

void clu_mesh_drop_mail(clu_mesh *m) {
  while (m->mail) {
    clu_message *first = m->mail;
    m->mail = first->next;
    clu_message_free(first);
  }
  m->mail_end = &m->mail;
}

/* A message of `n` bytes, without memory for them. */
static clu_message *message_new(int from, const char *tag, size_t ntag, uint64_t n) {
  clu_message *m = n <= SIZE_MAX / 2 ? calloc(1, sizeof *m) : NULL;
  if (!m) return NULL;
  m->from = from;
  m->n = (size_t)n;
  memcpy(m->tag, tag, ntag);
  return m;
}

static void deliver(clu_mesh *m, clu_message *x) {
  *m->mail_end = x;
  m->mail_end = &x->next;
}

/* ---- from the ring to the mailbox ---- */

static void open_segments(clu_mesh *m, clu_message *x, const unsigned char *p, uint32_t n) {
  clu_pid pid = (clu_pid)atomic_load(&m->ranks[x->from].pid);
  for (uint32_t i = 0; i < n && !x->lost; i++) {
    uint64_t number;
    clu_segment *s = NULL;
    clu_fd fd;
    int rc;
    memcpy(&number, p + 8 * i, sizeof number);
    if (number <= INT32_MAX && clu_os_segment_of(pid, (clu_fd)number, &fd) == CLU_OK) {
      clu_os_move_high(&fd, 128);
      s = clu_segment_receive(fd, &rc);
    }
    if (s)
      x->segments.of[x->segments.n++] = s;
    else
      x->lost = 1;
  }
}

/* The last segment is the body: it is no part of what the body brings. */
static int take_apart(clu_message *x) {
  clu_segment *s;
  if (x->n > 0) return CLU_PROTO;
  if (x->lost) return CLU_OK;
  if (x->segments.n < 1) return CLU_PROTO;
  s = x->segments.of[--x->segments.n];
  x->n = (size_t)clu_segment_size(s);
  x->body = clu_segment_bytes(s, NULL);
  if (x->body) {
    x->apart = s;
    return CLU_OK;
  }
  x->body = malloc(x->n);
  if (x->body && clu_segment_read(s, 0, x->body, x->n) != CLU_OK) x->lost = 1;
  clu_segment_unref(s);
  return x->body ? CLU_OK : CLU_NOMEM;
}

/* The first record of a message; `*used` of its bytes are before the body. */
static int begin_message(clu_mesh *m, int from, const unsigned char *rec, size_t n, size_t *used) {
  record_head h;
  clu_message *x;
  int rc;
  memcpy(&h, rec, sizeof h);
  if (h.ntag > CLU_TAG_MOST || h.nsegments > CLU_MAX_FDS) return CLU_PROTO;
  if (h.nto > (uint32_t)m->count || !h.nto == !mesh_is_here(m, m->rank)) return CLU_PROTO;
  *used = sizeof h + h.ntag + 8 * h.nsegments + 4 * h.nto;
  if (*used > n) return CLU_PROTO;
  x = message_new(from, (const char *)rec + sizeof h, h.ntag, h.total);
  if (!x) return CLU_NOMEM;
  open_segments(m, x, rec + sizeof h + h.ntag, h.nsegments);
  if (h.nto && !(x->to = malloc(4 * (size_t)h.nto))) {
    clu_message_free(x);
    return CLU_NOMEM;
  }
  x->nto = (int)h.nto;
  if (h.nto) memcpy(x->to, rec + *used - 4 * h.nto, 4 * (size_t)h.nto);
  m->peers[from].partial = x;
  m->peers[from].got = m->peers[from].room = 0;
  if (!h.is_apart) return CLU_OK;
  rc = take_apart(x);
  m->peers[from].got = x->n;
  if (rc == CLU_OK) return rc;
  m->peers[from].partial = NULL; /* no later record completes it */
  clu_message_free(x);
  return rc;
}

static void forget_partial(peer *p) {
  clu_message_free(p->partial);
  p->partial = NULL;
}

/* Room for `need` bytes of the body. What a message says that it will have is not believed: twice
 * of what has come, at most. */
static int has_room(peer *p, size_t need) {
  clu_message *x = p->partial;
  size_t room = need < x->n / 2 ? 2 * need : x->n;
  unsigned char *body;
  if (need <= p->room) return 1;
  if (!(body = realloc(x->body, room))) return 0;
  x->body = body;
  p->room = room;
  return 1;
}

static int take_record(clu_mesh *m, int from, const unsigned char *rec, size_t n,
                       uint64_t *weight) {
  peer *p = &m->peers[from];
  record_head h;
  size_t used = sizeof h;
  int rc;
  memcpy(&h, rec, sizeof h);
  *weight = h.is_first ? h.weight : 0;
  if (!h.is_first == !p->partial) return CLU_PROTO;
  if (h.is_first && (rc = begin_message(m, from, rec, n, &used)) != CLU_OK) return rc;
  if (n - used > p->partial->n - p->got) return CLU_PROTO;
  if (n > used && !has_room(p, p->got + n - used)) {
    if (h.is_first) forget_partial(p); /* its first record is to be taken once more */
    return CLU_NOMEM;
  }
  if (n > used) memcpy(p->partial->body + p->got, rec + used, n - used);
  p->got += n - used;
  if (p->got == p->partial->n) {
    deliver(m, p->partial);
    p->partial = NULL;
  }
  return CLU_OK;
}

int mesh_drain(clu_mesh *m, int from) {
  pair_ring *r = mesh_pair(m, from, m->rank);
  const unsigned char *rec;
  size_t n;
  if (!r) return CLU_NOMEM;
  while ((rec = mesh_peek(r, &n))) {
    uint64_t weight;
    int rc = take_record(m, from, rec, n, &weight);
    if (rc != CLU_OK) return rc;
    mesh_took(r, weight);
    if (atomic_load(&r->wants_room) && atomic_exchange(&r->wants_room, 0)) mesh_notify(m, from);
  }
  return n ? CLU_PROTO : CLU_OK;
}

/* A bit is taken back before its ring is read: what comes later sets it again. */
static int drain_one(clu_mesh *m, int from) {
  _Atomic uint64_t *word = m->pending + (size_t)m->rank * mesh_words(m->count) + from / 64;
  uint64_t bit = UINT64_C(1) << from % 64;
  int rc;
  if (!(atomic_load(word) & bit)) return CLU_OK;
  atomic_fetch_and(word, ~bit);
  rc = mesh_drain(m, from);
  if (rc != CLU_OK) atomic_fetch_or(word, bit);
  return rc;
}

static int drain_all(clu_mesh *m, int *who) {
  _Atomic uint64_t *words = m->pending + (size_t)m->rank * mesh_words(m->count);
  int rc = CLU_OK;
  for (int w = 0; w < (m->count + 63) / 64; w++) {
    if (!atomic_load(&words[w])) continue;
    for (int i = 64 * w; i < m->count && i < 64 * (w + 1) && rc == CLU_OK; i++) {
      if (i == m->rank) continue;
      rc = drain_one(m, i);
      if (rc != CLU_OK) *who = i;
    }
  }
  return rc;
}

/* Where others come and go, what they have sent before comes first. */
int mesh_mail_own(clu_mesh *m, const char *tag, clu_blob *body) {
  clu_message *x = message_new(m->rank, tag, strlen(tag), body->size);
  int who;
  if (!x) return CLU_NOMEM;
  if (body->size && !(x->body = malloc(body->size))) {
    free(x);
    return CLU_NOMEM;
  }
  if (body->size) memcpy(x->body, body->data, body->size);
  for (int i = 0; body->segments && i < body->segments->n; i++)
    x->segments.of[x->segments.n++] = clu_segment_ref(body->segments->of[i]);
  if (atomic_load(&m->head->is_open)) drain_all(m, &who); /* what is damaged is told later */
  deliver(m, x);
  return CLU_OK;
}

int mesh_take_any(clu_mesh *m, clu_message **out) {
  int who, rc = m->mail ? CLU_OK : drain_all(m, &who);
  *out = m->mail;
  if (rc != CLU_OK || !m->mail) return rc != CLU_OK ? rc : CLU_AGAIN;
  m->mail = m->mail->next;
  if (!m->mail) m->mail_end = &m->mail;
  (*out)->next = NULL;
  return CLU_OK;
}

/* ---- what is wanted ---- */

static int has_tag(const clu_message *x, const char *tag) {
  return tag ? strcmp(x->tag, tag) == 0 : x->tag[0] != CLU_TAG_HIDDEN;
}

static clu_message **find(clu_mesh *m, int from, const char *tag) {
  for (clu_message **at = &m->mail; *at; at = &(*at)->next)
    if ((from < 0 || (*at)->from == from) && has_tag(*at, tag)) return at;
  return NULL;
}

/* Tells whether no message of `from` will come but what is there: -1, or who is gone. Of any: all
 * others are, or one of them was not to be; where ranks come and go others may always come. */
static int gone(const clu_mesh *m, int from) {
  int left = 0, last = -1;
  if (from == m->rank || (from < 0 && atomic_load(&m->head->is_open))) return -1;
  if (from >= 0) return atomic_load(&m->ranks[from].state) > CLU_RANK_HERE ? from : -1;
  for (int i = 0; i < m->count; i++) {
    uint32_t state = atomic_load(&m->ranks[i].state);
    if (i == m->rank) continue;
    if (state > CLU_RANK_ENDED) return i;
    if (state <= CLU_RANK_HERE) left = 1;
    last = i;
  }
  return left ? -1 : last;
}

int clu_mesh_has_mail(const clu_mesh *m) {
  const _Atomic uint64_t *words = m->pending + (size_t)m->rank * mesh_words(m->count);
  for (const clu_message *x = m->mail; x; x = x->next)
    if (has_tag(x, NULL)) return 1;
  for (int w = 0; w < (m->count + 63) / 64; w++)
    if (atomic_load(&words[w])) return 1;
  return 0;
}

int clu_mesh_receive(clu_mesh *m, int from, const char *tag, int look, clu_message **out,
                     int *who) {
  clu_message **at = find(m, from, tag);
  int rc = CLU_OK, nobody = -1;
  *who = from;
  if (!at) {
    nobody = gone(m, from); /* before its ring is read for the last time */
    if (from < 0)
      rc = drain_all(m, who);
    else if (from != m->rank)
      rc = drain_one(m, from);
    if (rc != CLU_OK) return rc;
    at = find(m, from, tag);
  }
  if (!at) {
    *who = nobody >= 0 ? mesh_named(m, nobody) : -1;
    return nobody >= 0 ? CLU_DEAD : CLU_AGAIN;
  }
  *out = *at;
  if (look) return CLU_OK;
  *at = (*out)->next;
  if (!*at) m->mail_end = at;
  (*out)->next = NULL;
  return CLU_OK;
}
