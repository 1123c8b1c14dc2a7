#include "core/link/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/link/parts.h"

#define KEEP_SEGMENTS 10000000000u /* ns */
#define MANY_FDS 1000000           /* where there is no limit */
#define UNWRITTEN (256u << 10)     /* with so much to be written nothing more is taken */

static void conn_ready(void *self, unsigned ready);

void clu_proxy_raise_fds(void) {
  clu_limits l;
  clu_os_limits(&l);
  clu_os_raise_fds(l.fds_hard < 0 ? MANY_FDS : l.fds_hard);
}

/* ---- its life ---- */

static void arm(clu_proxy *r) {
  uint64_t due = clu_link_due(&r->link);
  if (r->sent && r->how.near) { /* those on their way were left by the last sweep */
    uint64_t used = r->sent->used > r->swept ? r->sent->used : r->swept;
    if (used + KEEP_SEGMENTS < due) due = used + KEEP_SEGMENTS;
  }
  if (r->is_dirty) due = 0;
  if (due == UINT64_MAX)
    clu_timer_cancel(&r->tick);
  else
    clu_timer_arm(r->loop, &r->tick, due);
}

static void drop_connection(clu_proxy *r, const char *why) {
  if (!r->conn) return;
  /* `why` may be the connection's; what the other side has said as its last word stays */
  if (why && !r->fatal && r->link.state != CLU_LINK_ENDED)
    snprintf(r->why, sizeof r->why, "%s", why);
  clu_loop_unwatch(r->loop, &r->watch);
  clu_conn_close(r->conn);
  r->conn = NULL;
  clu_link_cut(&r->link);
}

static void on_tick(void *self) {
  clu_proxy *r = self;
  uint64_t now = clu_os_now();
  if (clu_link_tick(&r->link, now) != CLU_OK) drop_connection(r, "the other side is silent");
  if (r->how.near && now > KEEP_SEGMENTS) {
    clu_proxy_forget_segments(r, now - KEEP_SEGMENTS);
    r->swept = now;
  }
  clu_proxy_touch(r);
}

clu_proxy *clu_proxy_new(clu_loop *l, const clu_proxy_options *how) {
  clu_proxy *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->loop = l;
  r->how = *how;
  if (!r->how.window) r->how.window = CLU_LINK_WINDOW;
  if (!r->how.segment_window) r->how.segment_window = CLU_SEGMENT_WINDOW;
  if (!r->how.segments_kept) r->how.segments_kept = CLU_SEGMENTS_KEPT;
  clu_timer_init(&r->tick, on_tick, r);
  clu_timer_init(&r->look, clu_proxy_on_look_time, r);
  clu_timer_init(&r->stacks, clu_proxy_on_stacks_time, r);
  if (clu_link_init(&r->link, how->near ? how->epoch : 0, r->how.window, how->beat) != CLU_OK) {
    free(r);
    return NULL;
  }
  return r;
}

void clu_proxy_free(clu_proxy *r) {
  if (!r) return;
  drop_connection(r, NULL);
  clu_timer_cancel(&r->tick);
  clu_timer_cancel(&r->look);
  clu_timer_cancel(&r->stacks);
  while (r->streams) {
    clu_link_stream *s = r->streams;
    r->streams = s->next;
    clu_link_stream_free(s);
  }
  clu_proxy_drop_segments(r);
  if (r->shared) clu_os_shared_free(r->shared, sizeof *r->shared);
  clu_link_fini(&r->link);
  free(r);
}

int clu_proxy_control(clu_proxy *r, clu_fd fd) {
  return clu_link_stream_new(r, 0, CLU_STREAM_CONTROL, fd) ? CLU_OK : CLU_NOMEM;
}

int clu_proxy_connect(clu_proxy *r, clu_conn *conn) {
  clu_proxy_touch(r);
  drop_connection(r, "the other side has connected anew");
  r->conn = conn;
  clu_link_connected(&r->link, clu_os_now());
  if (clu_loop_watch(r->loop, conn->fd, CLU_READ, conn_ready, r, &r->watch, NULL) != CLU_OK) {
    drop_connection(r, "the connection cannot be watched");
    return CLU_SYS;
  }
  return CLU_OK;
}

void clu_proxy_say_bye(clu_proxy *r, const char *why) {
  clu_link_say_bye(&r->link, why);
  clu_proxy_touch(r);
}

/* ---- records ---- */

/* Nobody wants a record of a stream that has ended here meanwhile. */
static int take(clu_proxy *r, const clu_link_record *rec) {
  clu_link_stream *s;
  switch (rec->type) {
  case CLU_L_SEGMENT:
  case CLU_L_PIECE:
  case CLU_L_FORGET: return clu_proxy_take_segment(r, rec);
  case CLU_L_OPEN:
    if (rec->n != 13) return CLU_PROTO;
    s = clu_link_stream_find(r, clu_get64(rec->bytes));
    return s && s->fd != CLU_NO_FD ? clu_link_stream_take(s, rec) : CLU_OK;
  case CLU_L_ASK: return r->how.near || rec->n ? CLU_PROTO : clu_proxy_tell_use(r, rec->stream);
  case CLU_L_USE: return r->how.near ? clu_proxy_take_use(r, rec) : CLU_PROTO;
  case CLU_L_ASK_STACK: return r->how.near ? CLU_PROTO : clu_proxy_tell_stack(r, rec);
  case CLU_L_STACK: return r->how.near ? clu_proxy_take_stack(r, rec) : CLU_PROTO;
  case CLU_L_BYE:
    snprintf(r->why, sizeof r->why, "%.*s", (int)rec->n, (const char *)rec->bytes);
    return CLU_OK;
  default:
    if (rec->type == CLU_L_CLOSE && rec->stream == 0) r->link.say_ack = 1; /* it waits for that */
    s = clu_link_stream_find(r, rec->stream);
    return s && s->fd != CLU_NO_FD ? clu_link_stream_take(s, rec) : CLU_OK;
  }
}

/* ---- the connection ---- */

/* The bytes that have come are of no use, and so is the connection; with `for_good` the link. */
static void refuse(clu_proxy *r, int code, int for_good) {
  char why[sizeof r->why];
  if (r->link.other_version)
    snprintf(why, sizeof why,
             "the other side speaks version %u of the protocol between hosts, and this one version "
             "%d: install the same version of package clutch on both",
             r->link.other_version, CLU_LINK_VERSION);
  else
    snprintf(why, sizeof why, "what came over the connection: %s", clu_code_text(code));
  if (for_good || r->link.other_version) clu_proxy_give_up(r, code, why);
  drop_connection(r, why);
}

/* 1: there may be more. */
static int read_connection(clu_proxy *r) {
  clu_link_record rec;
  size_t room, got = 0;
  unsigned char *to = clu_link_in(&r->link, &room);
  int rc = room ? clu_conn_read(r->conn, to, room, &got) : CLU_OK, taken = CLU_OK, more;
  if (got) clu_link_read(&r->link, got, clu_os_now());
  while (taken == CLU_OK && (more = clu_link_next(&r->link, &rec)) == 1) taken = take(r, &rec);
  if (taken != CLU_OK) {
    refuse(r, taken, 1); /* it counts as received: it would be left out */
    return 0;
  }
  if (more < 0) {
    refuse(r, -more, more == -CLU_DEAD && !r->how.near);
    return 0;
  }
  if (rc == CLU_OK) return got == 0 || !r->conn->is_dry;
  if (rc == CLU_AGAIN) return 0;
  drop_connection(r,
                  rc == CLU_EOF ? "the other side has closed the connection" : r->conn->err.text);
  return 0;
}

static void conn_ready(void *self, unsigned ready) {
  clu_proxy *r = self;
  clu_proxy_touch(r);
  if (ready & CLU_READ)
    for (int k = 0; k < 16 && r->conn && read_connection(r); k++) continue;
}

static void write_connection(clu_proxy *r) {
  int rc = CLU_OK;
  while (r->conn && rc == CLU_OK) {
    size_t n, put = 0;
    const unsigned char *p = clu_link_out(&r->link, &n);
    if (n == 0) break;
    rc = clu_conn_write(r->conn, p, n, &put);
    if (put) clu_link_written(&r->link, put, clu_os_now());
  }
  if (r->conn && rc == CLU_OK) rc = clu_conn_flush(r->conn);
  if (rc != CLU_OK && rc != CLU_AGAIN) drop_connection(r, r->conn->err.text);
  if (r->conn) {
    unsigned what = CLU_READ | (rc == CLU_AGAIN ? CLU_WRITE : 0);
    clu_loop_interest(r->loop, r->watch, clu_conn_wants(r->conn, what), NULL);
  }
}

/* ---- a turn ---- */

static void forward_streams(clu_proxy *r) {
  for (clu_link_stream *s = r->streams; s; s = s->next) {
    if (clu_link_unwritten(&r->link) >= UNWRITTEN && s != r->streams) break;
    if (s->readable) clu_link_stream_forward(s);
  }
  /* the next time another one is the first behind the control channel */
  if (r->streams && r->streams->next && r->streams->next->next) {
    clu_link_stream *first = r->streams->next, *last = first;
    while (last->next) last = last->next;
    r->streams->next = first->next;
    last->next = first;
    first->next = NULL;
  }
}

/* In the order of the list, but the control channel last: it may wait for others. */
static void write_streams(clu_proxy *r) {
  if (!r->streams) return;
  for (clu_link_stream *s = r->streams->next; s; s = s->next)
    if (s->first || s->closing) clu_link_stream_write(s);
  if (r->streams->first || r->streams->closing) clu_link_stream_write(r->streams);
}

static int control_has_ended(const clu_proxy *r) {
  return r->streams && r->streams->kind == CLU_STREAM_CONTROL && r->streams->fd == CLU_NO_FD;
}

static void settle_streams(clu_proxy *r) {
  clu_link_stream **at = &r->streams, *s;
  int some_ended = 0;
  while ((s = *at)) {
    if (s->fd == CLU_NO_FD && s->kind != CLU_STREAM_CONTROL) {
      *at = s->next;
      clu_link_stream_free(s);
      some_ended = 1;
      continue;
    }
    clu_loop_interest(r->loop, s->watch,
                      (s->readable ? 0 : CLU_READ) | (s->wants_write ? CLU_WRITE : 0), NULL);
    at = &s->next;
  }
  if (some_ended && r->sent) clu_proxy_forget_unawaited(r);
}

static int may_take_more(const clu_proxy *r) {
  return clu_link_unwritten(&r->link) < UNWRITTEN && clu_link_room(&r->link) > 0;
}

int clu_proxy_is_due(const clu_proxy *r) { return r->is_dirty; }

int clu_proxy_turn(clu_proxy *r) {
  for (int k = 0; r->is_dirty && k < 64; k++) {
    size_t before = clu_link_unwritten(&r->link);
    uint64_t queued = r->link.queued;
    r->is_dirty = 0;
    write_streams(r);
    forward_streams(r);
    while (may_take_more(r) && clu_proxy_send_piece(r)) r->is_dirty = 1;
    write_connection(r);
    /* what has left makes room for more */
    if (clu_link_unwritten(&r->link) < before || r->link.queued != queued) r->is_dirty = 1;
  }
  if (r->link.out_of_memory) clu_proxy_give_up(r, CLU_NOMEM, clu_code_text(CLU_NOMEM));
  settle_streams(r);
  /* there is no event for what it has in its own memory: the next turn follows at once */
  if (r->conn && clu_conn_pending(r->conn)) conn_ready(r, CLU_READ);
  arm(r);
  return r->fatal ? CLU_DEAD : CLU_OK;
}

/* The connection may have in its own memory what it has taken. */
static int has_left(const clu_proxy *r) {
  return r->link.side_at == r->link.side_n &&
         !(r->conn && (clu_conn_wants(r->conn, 0) & CLU_WRITE));
}

int clu_proxy_is_behind(const clu_proxy *r) {
  if (r->link.state == CLU_LINK_ENDED) return 0; /* nobody reads, nor acknowledges */
  return r->link.tail > r->link.head || r->link.say_bye == 1 || !has_left(r);
}

void clu_proxy_status_of(const clu_proxy *r, clu_proxy_status *out) {
  memset(out, 0, sizeof *out);
  if (r->fatal || r->link.state == CLU_LINK_ENDED || control_has_ended(r))
    out->state = CLU_PROXY_ENDED;
  else if (r->link.state == CLU_LINK_UP)
    out->state = CLU_PROXY_UP;
  else
    out->state = r->link.cuts > 0 ? CLU_PROXY_CUT : CLU_PROXY_WAITING;
  out->connected = r->conn != NULL;
  out->has_said_bye = r->link.say_bye == 2 && has_left(r);
  out->bytes_in = r->link.bytes_in;
  out->bytes_out = r->link.bytes_out;
  out->cuts = r->link.cuts;
  out->why = r->why;
  if (!r->fatal && r->link.state != CLU_LINK_ENDED && control_has_ended(r) && r->streams->closing)
    out->why = "its fork server has ended";
}
