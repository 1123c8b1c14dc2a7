/* Streams of a proxy, and what of them is on its way to the other side. */
#include <stdlib.h>
#include <string.h>

#include "core/base/os-output.h"
#include "core/link/parts.h"

enum { IN = CLU_LINK_MOST };

static void stream_ready(void *self, unsigned ready);
static void output_again(void *self);
static int forward(clu_link_stream *s, int all);

/* ---- its life ---- */

clu_link_stream *clu_link_stream_new(clu_proxy *r, uint64_t id, int kind, clu_fd fd) {
  clu_link_stream *s = calloc(1, sizeof *s), **at = &r->streams;
  int polled = kind == CLU_STREAM_OUTPUT && r->how.near;
  if (polled) fd = clu_os_output_own(fd);
  if (!s ||
      (!polled && (clu_os_set_blocking(fd, 0), clu_loop_watch(r->loop, fd, CLU_READ, stream_ready,
                                                              s, &s->watch, NULL) != CLU_OK))) {
    free(s);
    clu_os_close(fd);
    return NULL;
  }
  clu_timer_init(&s->again, output_again, s);
  s->proxy = r;
  s->id = id;
  s->kind = kind;
  s->fd = fd;
  s->is_polled = polled;
  s->slot = -1;
  s->may_send = s->may_take = CLU_STREAM_CREDIT;
  if (kind != CLU_STREAM_CONTROL && *at) { /* the control channel stays the first */
    s->next = (*at)->next;
    (*at)->next = s;
  } else {
    s->next = *at;
    *at = s;
  }
  return s;
}

static void free_chunk(clu_link_stream_chunk *c) {
  if (!c) return;
  for (int i = 0; i < c->npass; i++) {
    if (c->of[i])
      clu_segment_unref(c->of[i]);
    else
      clu_os_close(c->pass[i]);
  }
  free(c);
}

void clu_link_stream_pop_chunk(clu_link_stream *s) {
  clu_link_stream_chunk *c = s->first;
  s->first = c->next;
  if (!s->first) s->last = NULL;
  free_chunk(c);
}

void clu_link_stream_drop_chunks(clu_link_stream *s) {
  while (s->first) clu_link_stream_pop_chunk(s);
  free_chunk(s->coming);
  s->coming = NULL;
}

void clu_link_stream_close(clu_link_stream *s) {
  clu_timer_cancel(&s->again);
  clu_loop_unwatch(s->proxy->loop, &s->watch);
  if (s->fd != CLU_NO_FD) clu_os_close(s->fd);
  s->fd = CLU_NO_FD;
  for (int i = 0; i < s->nfds; i++)
    if (s->fds[i] != CLU_NO_FD) clu_os_close(s->fds[i]);
  s->nfds = 0;
  s->brings = 0;
  clu_link_stream_drop_chunks(s);
}

void clu_link_stream_free(clu_link_stream *s) {
  clu_link_stream_close(s);
  free(s->in);
  free(s);
}

void clu_link_stream_end(clu_link_stream *s) {
  if (s->fd == CLU_NO_FD) return;
  if (!s->closing) clu_link_send(&s->proxy->link, CLU_L_CLOSE, s->id, NULL, 0);
  clu_link_stream_close(s);
  clu_proxy_touch(s->proxy);
}

/* ---- from here to there ---- */

static clu_fd take_fd(clu_link_stream *s) {
  clu_fd fd = s->fds[0];
  memmove(s->fds, s->fds + 1, sizeof *s->fds * (size_t)--s->nfds);
  return fd;
}

enum { SPAWN_BYTES = 5 };

/* Descriptor of a message on the control channel, of which all has come: it becomes a stream. */
static int open_stream(clu_link_stream *s, const clu_header *h) {
  clu_proxy *r = s->proxy;
  uint64_t id = h->kind == CLU_K_SPAWN ? h->seq : (uint64_t)1 << 63 | ++r->numbers;
  int kind = h->kind == CLU_K_SPAWN ? CLU_STREAM_DATA : CLU_STREAM_OUTPUT;
  const unsigned char *what = s->in + s->in_at + CLU_HEADER;
  unsigned char body[13];
  clu_fd fd;
  if (h->kind == CLU_K_SPAWN && h->len < SPAWN_BYTES) return CLU_PROTO;
  if (kind == CLU_STREAM_OUTPUT && h->total > 0) return CLU_OK; /* it is a file there */
  if (s->nfds == 0) return CLU_OK; /* none was free here: the fork server says that it misses it */
  if ((fd = take_fd(s)) == CLU_NO_FD) return CLU_OK; /* it was lost, see read_local() */
  if (clu_link_stream_find(r, id)) {
    clu_os_close(fd);
    return CLU_PROTO;
  }
  if (!clu_link_stream_new(r, id, kind, fd)) return CLU_NOMEM;
  clu_put64(body, s->id);
  body[8] = (unsigned char)kind;
  clu_put32(body + 9, h->kind == CLU_K_SPAWN ? clu_get32(what + 1) : CLU_SLOTS);
  return clu_link_send(&r->link, CLU_L_OPEN, id, body, sizeof body);
}

/* A node has ended: what it has said and left. 1: all is on its way; 0: later. */
static int settle_ended(clu_link_stream *s) {
  if (!forward(s, 1)) return 0;
  if (s->fd != CLU_NO_FD && s->message_left == 0) { /* a child of it may have the other end */
    int rc = clu_link_stream_send_results(s, UINT64_MAX, UINT64_MAX);
    if (rc == 0) return 0;
    if (rc < 0) clu_link_stream_end(s);
  }
  s->slot = -1; /* another's from now on */
  return 1;
}

/* Does what must happen before the header of a message of the control channel may leave. 1: it has;
 * 0: later; < 0: a negative code. */
static int before_control(clu_link_stream *s, const clu_header *h) {
  clu_proxy *r = s->proxy;
  clu_link_stream *other;
  unsigned char id[8];
  switch (h->kind) {
  case CLU_K_SPAWN:
  case CLU_K_OUTPUT:
  case CLU_K_ERRORS: return r->how.near ? (open_stream(s, h) == CLU_OK ? 1 : -CLU_PROTO) : 1;
  case CLU_K_READY:
    if (s->nfds == 0) return 1;
    if (clu_proxy_map(r, take_fd(s)) == CLU_OK) return 1; /* memory that only this host has */
    clu_proxy_give_up(r, CLU_NOMEM, "the memory of its nodes cannot be mapped there");
    return -CLU_NOMEM;
  case CLU_K_EXITED:
    other = clu_link_stream_find(r, h->seq);
    if (!other || other->kind != CLU_STREAM_DATA) return 1;
    if (!settle_ended(other)) return 0;
    clu_put64(id, h->seq);
    return clu_link_send(&r->link, CLU_L_AFTER, s->id, id, sizeof id) == CLU_OK ? 1 : -CLU_NOMEM;
  default: return 1;
  }
}

/* Does the same for the segments that a message of a node brings. */
static int before_data(clu_link_stream *s, const clu_header *h) {
  int rc = CLU_OK;
  if (s->brings == 0) {
    if (h->fds > 0 && s->nfds > 0 && s->fds[0] == CLU_NO_FD) return -CLU_LIMIT;
    if (h->fds > s->nfds || h->fds > CLU_MAX_FDS) return -CLU_PROTO;
    if (h->fds > 0 && s->segments_there >= s->proxy->how.segment_window) return 0;
    while (s->brings < h->fds) {
      clu_sent_segment *seg = clu_link_stream_segment(s, take_fd(s), &rc);
      if (!seg) return -rc;
      s->bring[s->brings++] = seg;
    }
  }
  for (int i = 0; i < s->brings; i++)
    if (s->bring[i]->at < s->bring[i]->size) return 0;
  for (int i = 0; i < s->brings; i++)
    if (s->bring[i]->is_lost) return -CLU_SYS;
  for (int i = 0; i < s->brings; i++) {
    unsigned char number[8];
    clu_put64(number, s->bring[i]->number);
    s->bring[i]->is_used_again = s->bring[i]->is_brought;
    s->bring[i]->is_brought = 1;
    s->bring[i]->used = clu_os_now();
    if (clu_link_send(&s->proxy->link, CLU_L_BRING, s->id, number, sizeof number) != CLU_OK)
      return -CLU_NOMEM;
  }
  s->brings = 0;
  if (!s->proxy->how.near) clu_proxy_forget_segments(s->proxy, UINT64_MAX);
  return 1;
}

static int needs(const clu_link_stream *s, const clu_header *h) {
  const clu_ring *ring = clu_link_stream_ring(s);
  if (s->message_left > 0) return 0; /* not its first frame */
  return s->kind == CLU_STREAM_CONTROL || h->fds > 0 || clu_link_stream_tells_of_ring(s, h) ||
         (ring && clu_ring_used(ring));
}

/* A header is next. 1: it may leave, 0: it must wait, < 0: a negative code. */
static int before_header(clu_link_stream *s, const clu_header *h) {
  int rc = 1;
  if (s->head_done || !needs(s, h)) return 1;
  if (s->kind == CLU_STREAM_CONTROL)
    rc = before_control(s, h);
  else if (clu_link_stream_tells_of_ring(s, h)) /* it is read when nothing is left in the socket */
    clu_ring_heard(clu_link_stream_ring(s));
  else if ((rc = clu_link_stream_send_results(s, h->seq, UINT64_MAX)) == 1)
    rc = before_data(s, h);
  s->head_done = rc == 1;
  return rc;
}

/* More of this message is needed than its header. */
static int is_short(const clu_link_stream *s, const clu_header *h, size_t have) {
  size_t want = h->kind == CLU_K_SPAWN && s->message_left == 0 && s->kind == CLU_STREAM_CONTROL
                    ? SPAWN_BYTES
                    : 0;
  return have - CLU_HEADER < (want < h->len ? want : h->len);
}

/* How many bytes from in_at on may be sent as they are; `*rc`: why not more, as before_header(). */
static size_t measure(clu_link_stream *s, int *rc) {
  size_t run = 0, have = s->in_n - s->in_at;
  size_t most = have < s->may_send ? have : (size_t)s->may_send;
  *rc = 1;
  if (s->kind == CLU_STREAM_OUTPUT) return most;
  while (run < most) {
    clu_header h;
    if (s->frame_left > 0) {
      size_t n = s->frame_left < most - run ? (size_t)s->frame_left : most - run;
      run += n;
      s->frame_left -= n;
      continue;
    }
    if (most - run < CLU_HEADER) break;
    if (clu_header_get(s->in + s->in_at + run, &h) != CLU_OK ||
        (s->message_left > 0 && h.len > s->message_left)) {
      *rc = -CLU_PROTO;
      break;
    }
    if (is_short(s, &h, most - run)) break;
    if (run > 0 && !s->head_done && needs(s, &h)) break; /* what is before it leaves first */
    if ((*rc = before_header(s, &h)) != 1) break;
    s->head_done = 0;
    if (s->message_left == 0 &&
        clu_link_stream_tells_of_ring(s, &h)) { /* nothing is before it: it stays here */
      s->in_at += CLU_HEADER;
      most = s->in_n - s->in_at < s->may_send ? s->in_n - s->in_at : (size_t)s->may_send;
      continue;
    }
    if (h.kind == CLU_K_HELLO && s->slot >= 0) s->has_said = 1;
    if (s->message_left == 0) s->message_left = h.total;
    s->message_left = h.flags & CLU_ABORT ? 0 : s->message_left - h.len;
    s->frame_left = h.len;
    run += CLU_HEADER;
  }
  return run;
}

/* There may be thousands of streams, of which few have something. */
static void free_in(clu_link_stream *s) {
  free(s->in);
  s->in = NULL;
  s->in_at = s->in_n = 0;
}

/* Reads more. 1: there is some; 0: nothing now; < 0: it has ended. */
static int read_local(clu_link_stream *s) {
  clu_fd fds[CLU_MAX_FDS];
  clu_iov iov;
  size_t got = 0;
  int n = 0, rc;
  if (s->in_at > 0) {
    memmove(s->in, s->in + s->in_at, s->in_n - s->in_at);
    s->in_n -= s->in_at;
    s->in_at = 0;
  }
  if (s->in_n == IN) return 0;
  if (s->nfds > 3 * CLU_MAX_FDS) return -1; /* they belong to no message that is here */
  if (!s->in && !(s->in = malloc(IN))) return -1;
  iov.base = s->in + s->in_n;
  iov.len = IN - s->in_n;
  rc = clu_os_readv(s->fd, &iov, 1, &got, s->kind == CLU_STREAM_OUTPUT ? NULL : fds, &n);
  for (int i = 0; i < n; i++) s->fds[s->nfds++] = fds[i];
  if (n < 0) s->fds[s->nfds++] = CLU_NO_FD; /* else others' would take their place */
  s->is_dry = rc == CLU_OK && n == 0 && got < iov.len;
  s->in_n += got;
  if (s->in_n == 0) free_in(s);
  return rc == CLU_OK ? 1 : rc == CLU_AGAIN ? 0 : -1;
}

static int send_run(clu_link_stream *s, size_t n) {
  int rc = clu_link_send(&s->proxy->link, CLU_L_BYTES, s->id, s->in + s->in_at, n);
  s->in_at += n;
  s->may_send -= n;
  return rc;
}

/* The end of the control channel is told when all is told that nodes have still said. */
static int forward_others(const clu_link_stream *s) {
  for (clu_link_stream *other = s->proxy->streams; other; other = other->next)
    if (other != s && other->kind == CLU_STREAM_DATA && !forward(other, 1)) return 0;
  return 1;
}

/* Tells whether a look at the socket would most likely be in vain, and what is in the ring need not
 * be looked at either. What is there nevertheless makes it readable again. */
static int is_enough(const clu_link_stream *s) {
  const clu_ring *ring = clu_link_stream_ring(s);
  return s->is_dry && !s->ended && !(ring && clu_ring_used(ring));
}

static int forward(clu_link_stream *s, int all) {
  while (s->fd != CLU_NO_FD && !s->is_polled) {
    const clu_ring *ring = clu_link_stream_ring(s);
    uint64_t upto;
    int rc, more;
    size_t run;
    if (clu_link_room(&s->proxy->link) == 0) return 0;
    run = measure(s, &rc);
    if (run > 0 && send_run(s, run) != CLU_OK) rc = -CLU_NOMEM;
    if (rc < 0) {
      clu_link_stream_end(s);
      return 1;
    }
    if (rc == 0) return 0;
    if (run > 0) continue;
    if (s->may_send < CLU_HEADER + SPAWN_BYTES) return 0;
    if (s->ended) { /* what is left is part of a header */
      if (s->kind == CLU_STREAM_CONTROL && !forward_others(s)) return 0;
      if (!s->message_left && clu_link_stream_send_results(s, UINT64_MAX, UINT64_MAX) == 0)
        return 0;
      clu_link_stream_end(s);
      return 1;
    }
    if (!all && is_enough(s)) {
      s->readable = s->is_dry = 0;
      if (s->in_at == s->in_n) free_in(s);
      return 1;
    }
    upto = ring ? clu_ring_written(ring) : 0;
    if ((more = read_local(s)) < 0) s->ended = 1;
    if (more == 0 && (rc = clu_link_stream_forward_ring(s, upto)) == 0) return 0;
    if (rc < 0) clu_link_stream_end(s);
    if (rc < 0 || more == 0) {
      s->readable = 0;
      return 1;
    }
  }
  return 1;
}

int clu_link_stream_forward(clu_link_stream *s) { return forward(s, 0); }

/* ---- events ---- */

static void stream_ready(void *self, unsigned ready) {
  clu_link_stream *s = self;
  if (ready & CLU_READ) s->readable = 1;
  clu_proxy_touch(s->proxy);
}

static void output_again(void *self) {
  clu_link_stream *s = self;
  clu_proxy_touch(s->proxy);
}
