#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/base/process.h"
#include "core/mesh/bridge-layout.h"

/* ---- saying ---- */

void bridge_fail(clu_bridge *b) { clu_mesh_end(b->all); }

void bridge_say(clu_bridge *b, clu_bridge_text *t) {
  if (t->b)
    b->say(b->to, t->b);
  else
    bridge_fail(b);
  clu_blob_unref(t->b);
}

/* ---- what ranks of this host send ---- */

static void put_segment(clu_bridge_text *t, clu_segment *s) {
  uint64_t n = clu_segment_size(s);
  const unsigned char *p = clu_segment_bytes(s, NULL);
  size_t at = t->b ? t->b->size : 0;
  clu_bridge_bytes(t, p, (size_t)n); /* NULL makes room */
  if (p || n == 0 || !t->b || clu_segment_read(s, 0, t->b->data + at, (size_t)n) == CLU_OK) return;
  clu_blob_unref(t->b);
  t->b = NULL;
}

static void say_message(clu_bridge *b, const clu_message *x) {
  clu_bridge_text t;
  size_t ntag = strlen(x->tag);
  clu_bridge_begin(&t, CLU_BRIDGE_SEND);
  clu_bridge_number(&t, (uint64_t)x->from, 4);
  clu_bridge_number(&t, (uint64_t)x->nto, 4);
  for (int i = 0; i < x->nto; i++) clu_bridge_number(&t, x->to[i], 4);
  clu_bridge_number(&t, ntag, 1);
  clu_bridge_bytes(&t, x->tag, ntag);
  clu_bridge_number(&t, (uint64_t)x->segments.n, 1);
  for (int i = 0; i < x->segments.n; i++)
    clu_bridge_number(&t, clu_segment_size(x->segments.of[i]), 8);
  clu_bridge_number(&t, x->n, 8);
  if (t.b) clu_blob_reserve(t.b, x->n + (size_t)clu_segments_size(&x->segments));
  clu_bridge_bytes(&t, x->body, x->n);
  for (int i = 0; i < x->segments.n; i++) put_segment(&t, x->segments.of[i]);
  bridge_say(b, &t);
}

/* A message of which a part is lost is its sender's last, or nobody can do without it. */
void bridge_take_messages(clu_bridge *b) {
  clu_message *x;
  int rc;
  if (b->lead < 0) return;
  while ((rc = mesh_take_any(b->there[b->lead].m, &x)) == CLU_OK) {
    clu_rank_info is;
    clu_mesh_info(b->all, x->from, &is);
    if (!x->lost)
      say_message(b, x);
    else if (!clu_process_is_gone(is.pid))
      bridge_fail(b);
    clu_message_free(x);
  }
  if (rc != CLU_AGAIN) bridge_fail(b);
}

/* ---- what comes from elsewhere ---- */

clu_mesh *bridge_stand_in(clu_bridge *b, int rank) {
  stand_in *s = &b->there[rank];
  if (!s->m) s->m = mesh_stand_in(b->all, rank);
  return s->m;
}

/* The sender is to be told when that was taken. */
static int note_heavy(clu_bridge *b, int from, int to) {
  peer *p = &b->there[from].m->peers[to];
  rank_pair *more;
  if (atomic_load(&p->out->put_bytes) - p->acknowledged < MESH_TELL_FROM) return CLU_OK;
  for (size_t i = 0; i < b->nheavy; i++)
    if (b->heavy[i].from == from && b->heavy[i].to == to) return CLU_OK;
  if (!(more = clu_grow(b->heavy, &b->cap, b->nheavy + 1, sizeof *more))) return CLU_NOMEM;
  b->heavy = more;
  b->heavy[b->nheavy++] = (rank_pair){from, to};
  return CLU_OK;
}

/* CLU_AGAIN: there is no room. A message to who has gone is nobody's. */
static int hand_over(clu_bridge *b, int from, int to, const char *tag, clu_blob *body,
                     clu_sending *way) {
  int rc = clu_mesh_send(b->there[from].m, to, tag, body, way);
  if (rc == CLU_DEAD) return CLU_OK;
  if (rc == CLU_OK) return note_heavy(b, from, to);
  return rc == CLU_AGAIN ? CLU_AGAIN : CLU_NOMEM;
}

/* `like`: what it is; the text is kept where its body could not be read. */
static int keep_late(clu_bridge *b, int from, const late *like) {
  stand_in *s = &b->there[from];
  late *x = malloc(sizeof *x);
  if (!x) return CLU_NOMEM;
  *x = *like;
  if (x->body)
    clu_blob_ref(x->body);
  else
    clu_blob_ref(x->text);
  if (s->first)
    *s->end = x;
  else
    s->first = x;
  s->end = &x->next;
  b->has_late = 1;
  return CLU_OK;
}

static int is_waiting(const stand_in *s, int to) {
  for (const late *x = s->first; x; x = x->next)
    if (x->to == to) return 1;
  return 0;
}

static void free_late(late *x) {
  clu_blob_unref(x->body ? x->body : x->text);
  free(x);
}

void bridge_drop_late(stand_in *s) {
  while (s->first) {
    late *x = s->first;
    s->first = x->next;
    free_late(x);
  }
}

/* Makes the segments of a message anew. CLU_AGAIN: there are too many now. */
static int read_segments(clu_bridge_reader *r, clu_blob *body, const uint64_t *sizes, int n) {
  for (int i = 0; i < n; i++) {
    const unsigned char *p = clu_bridge_take_bytes(r, sizes[i]);
    clu_segment *s;
    if (!p) return CLU_PROTO;
    if (!(s = clu_segment_new())) return CLU_AGAIN;
    if (clu_segment_append(s, p, (size_t)sizes[i]) != CLU_OK || clu_segment_seal(s) != CLU_OK ||
        clu_blob_attach(body, s) < 0) {
      clu_segment_unref(s);
      return CLU_AGAIN;
    }
  }
  return CLU_OK;
}

/* CLU_OK, and the body is the caller's; CLU_AGAIN, CLU_PROTO, CLU_NOMEM. */
static int read_body(const clu_blob *text, size_t at, clu_blob **out) {
  clu_bridge_reader reader = {text->data + at, text->size - at, 0}, *r = &reader;
  uint64_t sizes[CLU_MAX_FDS], n, segments = clu_bridge_take(r, 1);
  int rc;
  const unsigned char *p;
  if (segments > CLU_MAX_FDS) return CLU_PROTO;
  for (uint64_t i = 0; i < segments; i++) sizes[i] = clu_bridge_take(r, 8);
  n = clu_bridge_take(r, 8);
  if (!(p = clu_bridge_take_bytes(r, n))) return CLU_PROTO;
  if (!(*out = clu_blob_new((size_t)n))) return CLU_NOMEM;
  rc = n && clu_blob_append(*out, p, (size_t)n) != 0 ? CLU_NOMEM : CLU_OK;
  if (rc == CLU_OK) rc = read_segments(r, *out, sizes, (int)segments);
  if (rc == CLU_OK) return rc;
  clu_blob_unref(*out);
  *out = NULL;
  return rc;
}

/* CLU_AGAIN: its segments cannot be made now. */
static int open_late(clu_bridge *b, late *x) {
  int rc;
  if (x->body) return CLU_OK;
  rc = read_body(x->text, x->at, &x->body);
  if (rc == CLU_OK) clu_blob_unref(x->text);
  if (rc == CLU_AGAIN) b->lacks = 1;
  return rc;
}

static int try_late(clu_bridge *b, int from, late *x) {
  int rc = b->blocked[x->to] == b->pass ? CLU_AGAIN : open_late(b, x);
  if (rc == CLU_OK) rc = hand_over(b, from, x->to, x->tag, x->body, &x->way);
  if (rc == CLU_AGAIN) b->blocked[x->to] = b->pass;
  return rc;
}

/* The messages of one pair keep their order. */
static void send_late_of(clu_bridge *b, int from) {
  stand_in *s = &b->there[from];
  late **at = &s->first, *x;
  b->pass++;
  while ((x = *at)) {
    int rc = try_late(b, from, x);
    if (rc == CLU_AGAIN) {
      at = &x->next;
      b->has_late = 1;
      continue;
    }
    if (rc != CLU_OK) bridge_fail(b);
    *at = x->next;
    free_late(x);
  }
  s->end = at;
}

/* Segments that were taken make room for others. */
static void let_go(clu_bridge *b) {
  for (int i = 0; i < b->count; i++)
    for (int k = 0; b->there[i].m && k < b->count; k++) mesh_let_go(&b->there[i].m->peers[k]);
}

void bridge_send_late(clu_bridge *b) {
  if (!b->has_late) return;
  if (b->lacks) let_go(b);
  b->has_late = b->lacks = 0;
  for (int i = 0; i < b->count; i++)
    if (b->there[i].first) send_late_of(b, i);
}

typedef struct letter {
  int from, nto;
  const unsigned char *to; /* 4 bytes each */
  char tag[CLU_TAG_MOST + 1];
} letter;

static int read_head(clu_bridge *b, clu_bridge_reader *r, letter *x) {
  const unsigned char *tag;
  uint64_t n;
  memset(x, 0, sizeof *x);
  x->from = clu_bridge_take_rank(r, b->count);
  n = clu_bridge_take(r, 4);
  x->to = n <= (uint64_t)b->count ? clu_bridge_take_bytes(r, 4 * n) : NULL;
  x->nto = (int)n;
  n = clu_bridge_take(r, 1);
  tag = n <= CLU_TAG_MOST ? clu_bridge_take_bytes(r, n) : NULL;
  if (r->is_bad || !x->to || !tag || mesh_is_here(b->all, x->from)) return CLU_PROTO;
  memcpy(x->tag, tag, n);
  return CLU_OK;
}

int bridge_heard_message(clu_bridge *b, clu_bridge_reader *r, clu_blob *text) {
  letter x;
  late like = {.text = text};
  int rc = read_head(b, r, &x), is_read;
  if (rc == CLU_OK && !bridge_stand_in(b, x.from)) rc = CLU_NOMEM;
  if (rc != CLU_OK) return rc;
  memcpy(like.tag, x.tag, sizeof like.tag);
  like.at = text->size - r->n;
  rc = read_body(text, like.at, &like.body);
  is_read = rc == CLU_OK;
  if (rc == CLU_AGAIN) rc = CLU_OK;
  for (int i = 0; rc == CLU_OK && i < x.nto; i++) {
    uint64_t to = clu_bytes_get(x.to + 4 * i, 4);
    if (to >= (uint64_t)b->count) rc = CLU_PROTO;
    if (rc != CLU_OK || !mesh_is_here(b->all, (int)to)) continue; /* another host's */
    like.to = (int)to;
    like.way = (clu_sending){0};
    rc = !is_read || is_waiting(&b->there[x.from], like.to)
             ? CLU_AGAIN
             : hand_over(b, x.from, like.to, x.tag, like.body, &like.way);
    if (rc == CLU_AGAIN) rc = keep_late(b, x.from, &like);
  }
  if (!is_read && rc == CLU_OK) b->lacks = 1;
  clu_blob_unref(like.body);
  return rc;
}

int bridge_heard_taken(clu_bridge *b, clu_bridge_reader *r) {
  int to = clu_bridge_take_rank(r, b->count), from = clu_bridge_take_rank(r, b->count);
  uint64_t bytes = clu_bridge_take(r, 8);
  pair_ring *count;
  if (r->is_bad || b->lead < 0 || mesh_is_here(b->all, to) || !mesh_is_here(b->all, from))
    return CLU_PROTO;
  if (!bridge_stand_in(b, to) || !(count = mesh_pair(b->there[to].m, from, to))) return CLU_NOMEM;
  atomic_fetch_add(&count->taken_away, bytes);
  if (atomic_load(&count->wants_room_away) && atomic_exchange(&count->wants_room_away, 0))
    mesh_notify(b->all, from);
  return CLU_OK;
}

void bridge_say_taken(clu_bridge *b) {
  for (size_t i = 0; i < b->nheavy;) {
    rank_pair x = b->heavy[i];
    peer *p = &b->there[x.from].m->peers[x.to];
    uint64_t taken;
    clu_bridge_text t;
    atomic_store(&p->out->wants_room, 1);
    taken = atomic_load(&p->out->taken_bytes) - p->acknowledged;
    if (taken >= MESH_TELL_FROM) {
      p->acknowledged += taken;
      clu_bridge_begin(&t, CLU_BRIDGE_TAKEN);
      clu_bridge_number(&t, (uint64_t)x.to, 4);
      clu_bridge_number(&t, (uint64_t)x.from, 4);
      clu_bridge_number(&t, taken, 8);
      bridge_say(b, &t);
    }
    if (atomic_load(&p->out->put_bytes) - p->acknowledged < MESH_TELL_FROM)
      b->heavy[i] = b->heavy[--b->nheavy];
    else
      i++;
  }
}
