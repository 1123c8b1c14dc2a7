/* This file has what of a stream has come from the other side, and is on its way to the local
 * descriptor. */
#include <stdlib.h>
#include <string.h>

#include "core/base/os-output.h"
#include "core/link/parts.h"

#define OUTPUT_AGAIN 20000000u /* ns: somebody else's file or terminal takes nothing now */

/* ---- records ---- */

static clu_link_stream_chunk *new_chunk(size_t n) {
  clu_link_stream_chunk *c = malloc(sizeof *c + n);
  if (c) memset(c, 0, sizeof *c);
  return c;
}

/* Returns what travels with the next bytes. */
static clu_link_stream_chunk *coming(clu_link_stream *s) {
  if (!s->coming) s->coming = new_chunk(0);
  return s->coming;
}

/* More than was granted could fill the memory of this side, and so could records without bytes. */
static int take_bytes(clu_link_stream *s, const clu_link_record *rec) {
  clu_link_stream_chunk *c;
  if (rec->n == 0) return CLU_PROTO;
  if (rec->n > s->may_take) {
    clu_proxy_give_up(s->proxy, CLU_PROTO,
                      "the other side has sent more on a stream than it was granted");
    return CLU_PROTO;
  }
  if (!(c = new_chunk(rec->n))) return CLU_NOMEM;
  s->may_take -= rec->n;
  if (s->coming) {
    memcpy(c, s->coming, sizeof *c);
    free(s->coming);
    s->coming = NULL;
  }
  c->n = rec->n;
  memcpy(c->bytes, rec->bytes, rec->n);
  if (s->last)
    s->last->next = c;
  else
    s->first = c;
  s->last = c;
  return CLU_OK;
}

static int take_credit(clu_link_stream *s, const clu_link_record *rec) {
  uint32_t more;
  if (rec->n != 4) return CLU_PROTO;
  more = clu_get32(rec->bytes);
  if (more > CLU_STREAM_CREDIT - s->may_send) {
    clu_proxy_give_up(s->proxy, CLU_PROTO,
                      "the other side grants more on a stream than it was sent");
    return CLU_PROTO;
  }
  s->may_send += more;
  s->readable = 1;
  return CLU_OK;
}

static int take_segment_credit(clu_link_stream *s, const clu_link_record *rec) {
  uint64_t n;
  if (rec->n != 8) return CLU_PROTO;
  n = clu_get64(rec->bytes);
  if (n > s->segments_there) {
    clu_proxy_give_up(s->proxy, CLU_PROTO,
                      "the other side grants more in segments on a stream than it was sent");
    return CLU_PROTO;
  }
  s->segments_there -= n;
  s->readable = 1;
  return CLU_OK;
}

/* A segment that could not be made here: the channel cannot go on. */
static int take_bring(clu_link_stream *s, const clu_link_record *rec) {
  clu_got_segment *g = rec->n == 8 ? clu_proxy_got(s->proxy, clu_get64(rec->bytes)) : NULL;
  clu_link_stream_chunk *c;
  if (!g || g->at < g->size) return CLU_PROTO;
  if (!(c = coming(s))) return CLU_NOMEM;
  if (c->npass == CLU_MAX_FDS) return CLU_PROTO;
  if (!g->segment) {
    clu_link_stream_end(s);
    return CLU_OK;
  }
  if (g->is_counted && g->counts_for == s->id) {
    g->is_counted = 0;
    s->announced--;
    c->segments += g->size;
  }
  c->of[c->npass] = clu_segment_ref(g->segment);
  c->pass[c->npass++] = clu_segment_fd(g->segment);
  return CLU_OK;
}

/* On the far side: a new stream, whose other end travels with the next byte of this one. */
static int take_open(clu_link_stream *s, uint64_t id, int kind, uint32_t slot) {
  clu_fd pair[2];
  clu_link_stream *opened;
  clu_link_stream_chunk *c;
  if (s->proxy->how.near || (kind != CLU_STREAM_DATA && kind != CLU_STREAM_OUTPUT) ||
      clu_link_stream_find(s->proxy, id))
    return CLU_PROTO;
  if (!(c = coming(s))) return CLU_NOMEM;
  if (c->npass == CLU_MAX_FDS) return CLU_PROTO;
  if (clu_os_pair(pair, NULL) != CLU_OK) return CLU_OK; /* the fork server says that it misses it */
  if (!(opened = clu_link_stream_new(s->proxy, id, kind, pair[0]))) {
    clu_os_close(pair[1]);
    return CLU_NOMEM;
  }
  if (slot < CLU_SLOTS) opened->slot = (int)slot;
  if (kind == CLU_STREAM_OUTPUT) clu_os_set_blocking(pair[1], 1);
  c->of[c->npass] = NULL;
  c->pass[c->npass++] = pair[1];
  return CLU_OK;
}

int clu_link_stream_take(clu_link_stream *s, const clu_link_record *rec) {
  int rc = CLU_OK;
  switch (rec->type) {
  case CLU_L_OPEN: /* `s` is the stream that it travels with */
    rc = take_open(s, rec->stream, rec->bytes[8], clu_get32(rec->bytes + 9));
    break;
  case CLU_L_BYTES: rc = take_bytes(s, rec); break;
  case CLU_L_BRING: rc = take_bring(s, rec); break;
  case CLU_L_AFTER:
    if (rec->n != 8 || !coming(s)) return CLU_PROTO;
    coming(s)->after = clu_get64(rec->bytes);
    break;
  case CLU_L_CREDIT: rc = take_credit(s, rec); break;
  case CLU_L_SEGMENT_CREDIT: rc = take_segment_credit(s, rec); break;
  case CLU_L_CLOSE: s->closing = 1; break;
  }
  clu_proxy_touch(s->proxy);
  return rc;
}

/* ---- the local descriptor ---- */

static int write_chunk(clu_link_stream *s, clu_link_stream_chunk *c, size_t *put) {
  clu_iov iov;
  iov.base = c->bytes + c->at;
  iov.len = c->n - c->at;
  if (s->is_polled) return clu_os_output_write(s->fd, iov.base, iov.len, put);
  return clu_os_writev(s->fd, &iov, 1, c->at == 0 ? c->pass : NULL, c->at == 0 ? c->npass : 0, put);
}

static void pop_written(clu_link_stream *s) {
  s->written += s->first->n;
  clu_link_stream_pop_chunk(s);
}

static void tell_credit(clu_link_stream *s) {
  unsigned char n[4];
  if (s->written < CLU_STREAM_CREDIT / 4 || s->closing) return;
  clu_put32(n, (uint32_t)s->written);
  clu_link_send(&s->proxy->link, CLU_L_CREDIT, s->id, n, sizeof n);
  s->may_take += s->written;
  s->written = 0;
}

/* The segments of this chunk have been passed on, with its first byte. */
static void tell_segment_credit(clu_link_stream *s, clu_link_stream_chunk *c) {
  unsigned char n[8];
  if (c->segments == 0 || c->at == 0) return;
  s->segments_here -= c->segments;
  clu_put64(n, c->segments);
  c->segments = 0;
  if (!s->closing) clu_link_send(&s->proxy->link, CLU_L_SEGMENT_CREDIT, s->id, n, sizeof n);
}

/* Tells whether something else has to be written before. */
static int waits_for_other(const clu_link_stream *s, const clu_link_stream_chunk *c) {
  clu_link_stream *other = c->after ? clu_link_stream_find(s->proxy, c->after) : NULL;
  return other && other != s && other->fd != CLU_NO_FD && other->first;
}

/* Tells the same of the end of the control channel. */
static int waits_for_all(const clu_link_stream *s) {
  if (s->kind != CLU_STREAM_CONTROL) return 0;
  for (const clu_link_stream *other = s->proxy->streams; other; other = other->next)
    if (other != s && other->fd != CLU_NO_FD && other->first) return 1;
  return 0;
}

void clu_link_stream_write(clu_link_stream *s) {
  int rc = CLU_OK;
  s->wants_write = 0;
  while (s->fd != CLU_NO_FD && s->first && rc == CLU_OK) {
    clu_link_stream_chunk *c = s->first;
    size_t put = 0;
    if (waits_for_other(s, c)) return;
    rc = c->at < c->n ? write_chunk(s, c, &put) : CLU_OK;
    c->at += put;
    tell_segment_credit(s, c);
    if (rc == CLU_OK && c->at == c->n) pop_written(s);
  }
  if (s->fd == CLU_NO_FD) return;
  if (rc != CLU_OK && rc != CLU_AGAIN && s->kind != CLU_STREAM_OUTPUT) {
    /* the reader has gone; what it has said before may still be there */
    clu_link_stream_drop_chunks(s);
    s->readable = 1;
  } else if (rc != CLU_OK && rc != CLU_AGAIN) {
    while (s->first) pop_written(s); /* a file that is full, a closed terminal */
  }
  if (s->written) clu_link_stream_look_soon(s);
  tell_credit(s);
  s->wants_write = s->first && !s->is_polled;
  if (s->first && s->is_polled)
    clu_timer_arm(s->proxy->loop, &s->again, clu_os_now() + OUTPUT_AGAIN);
  if (!s->first && s->closing && !waits_for_all(s)) clu_link_stream_close(s);
}
