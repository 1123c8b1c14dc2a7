#include "core/link/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/link/parts.h"

#define KEEP_SEGMENTS 10000000000u /* ns */
#define MANY_FDS 1000000           /* where there is no limit */
#define UNWRITTEN (256u << 10)     /* with so much to be written nothing more is taken */

static void conn_ready(void *self, unsigned ready);

void clu_relay_raise_fds(void) {
  clu_limits l;
  clu_os_limits(&l);
  clu_os_raise_fds(l.fds_hard < 0 ? MANY_FDS : l.fds_hard);
}

/* ---- its life ---- */

static void arm(clu_relay *r) {
  uint64_t due = clu_link_due(&r->link);
  if (r->sent && r->how.near) {
    uint64_t then = r->sent->used + KEEP_SEGMENTS;
    if (then < due) due = then;
  }
  if (r->is_dirty) due = 0;
  if (due == UINT64_MAX)
    clu_timer_cancel(&r->tick);
  else
    clu_timer_arm(r->loop, &r->tick, due);
}

static void drop_connection(clu_relay *r, const char *why) {
  if (!r->conn) return;
  if (why && !r->fatal) snprintf(r->why, sizeof r->why, "%s", why); /* it may be the connection's */
  clu_loop_unwatch(r->loop, &r->watch);
  clu_stream_close(r->conn);
  r->conn = NULL;
  clu_link_cut(&r->link);
}

static void on_tick(void *self) {
  clu_relay *r = self;
  uint64_t now = clu_os_now();
  if (clu_link_tick(&r->link, now) != CLU_OK) drop_connection(r, "the other side is silent");
  if (r->how.near && now > KEEP_SEGMENTS) clu_relay_forget_segments(r, now - KEEP_SEGMENTS);
  clu_relay_touch(r);
}

clu_relay *clu_relay_new(clu_loop *l, const clu_relay_options *how) {
  clu_relay *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->loop = l;
  r->how = *how;
  if (!r->how.window) r->how.window = CLU_LINK_WINDOW;
  if (!r->how.segment_window) r->how.segment_window = CLU_SEGMENT_WINDOW;
  if (!r->how.segments_kept) r->how.segments_kept = CLU_SEGMENTS_KEPT;
  clu_timer_init(&r->tick, on_tick, r);
  clu_timer_init(&r->look, clu_relay_on_look_time, r);
  clu_timer_init(&r->stacks, clu_relay_on_stacks_time, r);
  if (clu_link_init(&r->link, how->near ? how->epoch : 0, r->how.window, how->beat) != CLU_OK) {
    free(r);
    return NULL;
  }
  return r;
}

void clu_relay_free(clu_relay *r) {
  if (!r) return;
  drop_connection(r, NULL);
  clu_timer_cancel(&r->tick);
  clu_timer_cancel(&r->look);
  clu_timer_cancel(&r->stacks);
  while (r->lanes) {
    clu_lane *s = r->lanes;
    r->lanes = s->next;
    clu_lane_free(s);
  }
  clu_relay_drop_segments(r);
  if (r->shared) clu_os_shared_free(r->shared, sizeof *r->shared);
  clu_link_fini(&r->link);
  free(r);
}

int clu_relay_control(clu_relay *r, clu_fd fd) {
  return clu_lane_new(r, 0, CLU_LANE_CONTROL, fd) ? CLU_OK : CLU_NOMEM;
}

int clu_relay_connect(clu_relay *r, clu_stream *conn) {
  clu_relay_touch(r);
  drop_connection(r, "the other side has connected anew");
  r->conn = conn;
  clu_link_connected(&r->link, clu_os_now());
  if (clu_loop_watch(r->loop, conn->fd, CLU_READ, conn_ready, r, &r->watch, NULL) != CLU_OK) {
    drop_connection(r, "the connection cannot be watched");
    return CLU_SYS;
  }
  return CLU_OK;
}

void clu_relay_say_bye(clu_relay *r, const char *why) {
  clu_link_say_bye(&r->link, why);
  clu_relay_touch(r);
}

/* ---- records ---- */

/* Of a stream that has ended here meanwhile: nobody wants it. */
static int take(clu_relay *r, const clu_link_record *rec) {
  clu_lane *s;
  switch (rec->type) {
  case CLU_L_SEGMENT:
  case CLU_L_PIECE:
  case CLU_L_FORGET: return clu_relay_take_segment(r, rec);
  case CLU_L_OPEN:
    if (rec->n != 13) return CLU_PROTO;
    s = clu_lane_find(r, clu_get64(rec->bytes));
    return s && s->fd != CLU_NO_FD ? clu_lane_take(s, rec) : CLU_OK;
  case CLU_L_ASK: return r->how.near || rec->n ? CLU_PROTO : clu_relay_tell_use(r, rec->stream);
  case CLU_L_USE: return r->how.near ? clu_relay_take_use(r, rec) : CLU_PROTO;
  case CLU_L_ASK_STACK: return r->how.near ? CLU_PROTO : clu_relay_tell_stack(r, rec);
  case CLU_L_STACK: return r->how.near ? clu_relay_take_stack(r, rec) : CLU_PROTO;
  case CLU_L_BYE:
    snprintf(r->why, sizeof r->why, "%.*s", (int)rec->n, (const char *)rec->bytes);
    return CLU_OK;
  default:
    if (rec->type == CLU_L_CLOSE && rec->stream == 0) r->link.say_ack = 1; /* it waits for that */
    s = clu_lane_find(r, rec->stream);
    return s && s->fd != CLU_NO_FD ? clu_lane_take(s, rec) : CLU_OK;
  }
}

/* ---- the connection ---- */

/* What has come is of no use, and so is the connection; with `for_good` the link. */
static void refuse(clu_relay *r, int code, int for_good) {
  char why[sizeof r->why];
  if (r->link.other_version)
    snprintf(why, sizeof why,
             "the other side speaks version %u of the protocol between hosts, and this one version "
             "%d: install the same version of package clutch on both",
             r->link.other_version, CLU_LINK_VERSION);
  else
    snprintf(why, sizeof why, "what came over the connection: %s", clu_code_text(code));
  if (for_good || r->link.other_version) clu_relay_give_up(r, code, why);
  drop_connection(r, why);
}

/* 1: there may be more. */
static int read_connection(clu_relay *r) {
  clu_link_record rec;
  size_t room, got = 0;
  unsigned char *to = clu_link_in(&r->link, &room);
  int rc = room ? clu_stream_read(r->conn, to, room, &got) : CLU_OK, taken = CLU_OK, more;
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
  clu_relay *r = self;
  clu_relay_touch(r);
  if (ready & CLU_READ)
    for (int k = 0; k < 16 && r->conn && read_connection(r); k++) continue;
}

static void write_connection(clu_relay *r) {
  int rc = CLU_OK;
  while (r->conn && rc == CLU_OK) {
    size_t n, put = 0;
    const unsigned char *p = clu_link_out(&r->link, &n);
    if (n == 0) break;
    rc = clu_stream_write(r->conn, p, n, &put);
    if (put) clu_link_written(&r->link, put, clu_os_now());
  }
  if (r->conn && rc == CLU_OK) rc = clu_stream_flush(r->conn);
  if (rc != CLU_OK && rc != CLU_AGAIN) drop_connection(r, r->conn->err.text);
  if (r->conn) {
    unsigned what = CLU_READ | (rc == CLU_AGAIN ? CLU_WRITE : 0);
    clu_loop_interest(r->loop, r->watch, clu_stream_wants(r->conn, what), NULL);
  }
}

/* ---- a turn ---- */

static void forward_lanes(clu_relay *r) {
  for (clu_lane *s = r->lanes; s; s = s->next) {
    if (clu_link_unwritten(&r->link) >= UNWRITTEN && s != r->lanes) break;
    if (s->readable) clu_lane_forward(s);
  }
  /* the next time another one is the first behind the control channel */
  if (r->lanes && r->lanes->next && r->lanes->next->next) {
    clu_lane *first = r->lanes->next, *last = first;
    while (last->next) last = last->next;
    r->lanes->next = first->next;
    last->next = first;
    first->next = NULL;
  }
}

/* In the order of the list, but the control channel last: it may wait for others. */
static void write_lanes(clu_relay *r) {
  if (!r->lanes) return;
  for (clu_lane *s = r->lanes->next; s; s = s->next)
    if (s->first || s->closing) clu_lane_write(s);
  if (r->lanes->first || r->lanes->closing) clu_lane_write(r->lanes);
}

static int control_has_ended(const clu_relay *r) {
  return r->lanes && r->lanes->kind == CLU_LANE_CONTROL && r->lanes->fd == CLU_NO_FD;
}

static void settle_lanes(clu_relay *r) {
  clu_lane **at = &r->lanes, *s;
  int some_ended = 0;
  while ((s = *at)) {
    if (s->fd == CLU_NO_FD && s->kind != CLU_LANE_CONTROL) {
      *at = s->next;
      clu_lane_free(s);
      some_ended = 1;
      continue;
    }
    clu_loop_interest(r->loop, s->watch,
                      (s->readable ? 0 : CLU_READ) | (s->wants_write ? CLU_WRITE : 0), NULL);
    at = &s->next;
  }
  if (some_ended && r->sent) clu_relay_forget_unawaited(r);
}

static int may_take_more(const clu_relay *r) {
  return clu_link_unwritten(&r->link) < UNWRITTEN && clu_link_room(&r->link) > 0;
}

int clu_relay_is_due(const clu_relay *r) { return r->is_dirty; }

int clu_relay_turn(clu_relay *r) {
  for (int k = 0; r->is_dirty && k < 64; k++) {
    size_t before = clu_link_unwritten(&r->link);
    uint64_t queued = r->link.queued;
    r->is_dirty = 0;
    write_lanes(r);
    forward_lanes(r);
    while (may_take_more(r) && clu_relay_send_piece(r)) r->is_dirty = 1;
    write_connection(r);
    /* what has left makes room for more */
    if (clu_link_unwritten(&r->link) < before || r->link.queued != queued) r->is_dirty = 1;
  }
  if (r->link.out_of_memory) clu_relay_give_up(r, CLU_NOMEM, clu_code_text(CLU_NOMEM));
  settle_lanes(r);
  /* there is no event for what it has in its own memory: the next turn follows at once */
  if (r->conn && clu_stream_pending(r->conn)) conn_ready(r, CLU_READ);
  arm(r);
  return r->fatal ? CLU_DEAD : CLU_OK;
}

int clu_relay_is_behind(const clu_relay *r) {
  if (r->link.state == CLU_LINK_ENDED) return 0; /* nobody reads, nor acknowledges */
  return r->link.tail > r->link.head || r->link.say_bye == 1 || r->link.side_at < r->link.side_n;
}

void clu_relay_status_of(const clu_relay *r, clu_relay_status *out) {
  memset(out, 0, sizeof *out);
  if (r->fatal || r->link.state == CLU_LINK_ENDED || control_has_ended(r))
    out->state = CLU_RELAY_ENDED;
  else if (r->link.state == CLU_LINK_UP)
    out->state = CLU_RELAY_UP;
  else
    out->state = r->link.cuts > 0 ? CLU_RELAY_CUT : CLU_RELAY_WAITING;
  out->connected = r->conn != NULL;
  out->has_said_bye = r->link.say_bye == 2 && r->link.side_at == r->link.side_n;
  out->bytes_in = r->link.bytes_in;
  out->bytes_out = r->link.bytes_out;
  out->cuts = r->link.cuts;
  out->why = r->why;
  if (!r->fatal && r->link.state != CLU_LINK_ENDED && control_has_ended(r) && r->lanes->closing)
    out->why = "its fork server has ended";
}
