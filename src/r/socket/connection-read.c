/* Reading of sockets as R's connections.
 *
 * A call that is given up (its time is up, Ctrl-C, a time limit) has taken nothing: everything it
 * had goes back. The call is the outermost frame of base or utils that was given the connection:
 * read.csv() takes lines by one function of C, pushes them back, and calls scan() twice. At the
 * first byte that is not known to belong to a call, reading_frames() finds that frame and has its
 * end told (ffi_connection_left()), so that all further bytes cost a comparison. What a call has
 * taken stays in the socket's buffer, [mark, pos), up to CLU_SOCK_KEEP; memory beyond the usual is
 * given back when the call is over. A call that has taken more goes on, but when it is given up the
 * connection is broken for reading: every further read is an error of class clutch_socket_broken.
 *
 * readBin() can read vectors of any size: those bytes are not kept twice, but taken back from the
 * vector.
 *
 * What R has pushed back itself when a call is over (a line that has no end yet, scan()'s last
 * character) moves to `front`, from which the next call reads: from R's own place it would go
 * without notice.
 *
 * Of readers outside of base and utils only what they had of the line, or of the one binary read,
 * goes back.
 */
#include "r/socket/connection.h"

#include <R_ext/Riconv.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the call that reads ---- */

/* All that has been handed out is not taken back any more. */
static void settle(conn *c) {
  clu_sock_keep(c->s);
  c->front_mark = c->front_at;
  c->kept = c->d;
  c->start = NULL;
  c->in_vector = c->head = 0;
  c->lost = 0;
}

void clu_con_forget(conn *c) {
  settle(c);
  c->reader = CLU_NOBODY;
  c->front_mark = c->front_at = c->front_n = 0;
}

/* More has been taken than is kept. */
static void lose(conn *c) {
  settle(c);
  c->lost = c->reader == CLU_A_CALL;
}

/* Bytes of the vector that are in the buffer as well */
static size_t also_in_buffer(const conn *c) { return c->s->pos - c->s->mark - c->head; }

/* The bytes that are in the vector only come back to the buffer, behind those that the call took
 * before. */
static int from_vector(conn *c) {
  size_t n = also_in_buffer(c);
  c->s->pos -= n;
  return clu_sock_unread(c->s, c->start, c->in_vector - n);
}

static void drop_pushed_back(Rconnection con) {
  for (int i = 0; i < con->nPushBack; i++) free(con->PushBack[i]);
  if (con->nPushBack > 0) free(con->PushBack);
  con->nPushBack = 0;
  con->posPushBack = 0;
  con->save = con->save2 = -1000;
}

/* The call is given up: everything it has taken goes back. A conversion begins anew there. */
static void undo(void *data) {
  conn *c = data;
  if (c->lost || (c->start && from_vector(c) != CLU_OK)) {
    c->s->torn = 1;
    return;
  }
  clu_sock_undo(c->s);
  c->start = NULL;
  c->in_vector = c->head = 0;
  if (!c->text_call) return;
  c->front_at = c->front_mark;
  if (c->reader == CLU_A_CALL)
    drop_pushed_back(c->con); /* there was nothing when it began to read */
  if (!c->con->inconv) return;
  c->d = c->kept;
  Riconv(c->con->inconv, NULL, NULL, NULL, NULL);
}

/* All that R has pushed back comes before what is left of the same. Without memory it stays where
 * it is. */
static void take_pushed_back(conn *c) {
  Rconnection con = c->con;
  size_t n = 0, left = c->front_n - c->front_at;
  int saved = con->save != -1000;
  char *p;
  for (int i = 0; i < con->nPushBack; i++) n += strlen(con->PushBack[i]);
  if (con->nPushBack > 0) n -= (size_t)con->posPushBack;
  if (!n && !saved) return;
  if (!clu_con_room(&c->front, &c->front_cap, n + 1 + left)) return;
  memmove(c->front + n + saved, c->front + c->front_at, left);
  p = c->front;
  for (int i = con->nPushBack - 1; i >= 0; i--) { /* the last is the next */
    const char *from = con->PushBack[i] + (i == con->nPushBack - 1 ? con->posPushBack : 0);
    size_t k = strlen(from);
    memcpy(p, from, k);
    p += k;
  }
  if (saved) *p = (char)con->save;
  drop_pushed_back(con);
  c->front_at = 0;
  c->front_n = n + saved + left;
}

/* A function that reads has been left; `whole`: the call is over. */
SEXP ffi_connection_left(SEXP handle, SEXP whole) {
  conn *c = R_ExternalPtrAddr(handle);
  if (!c || !c->s) return R_NilValue;
  c->reader = CLU_NOBODY;
  if (c->start && c->in_vector > also_in_buffer(c)) lose(c), c->lost = 1; /* the vector is gone */
  c->start = NULL;
  if (Rf_asLogical(whole) != TRUE) return R_NilValue;
  SETCDR(R_ExternalPtrProtected(handle), R_NilValue);
  if (c->text_call) take_pushed_back(c);
  settle(c);
  clu_sock_trim(c->s);
  return R_NilValue;
}

/* .Call(ffi_connection_left, handle, whole) */
static SEXP left_call(SEXP handle, int whole) {
  SEXP flag = PROTECT(Rf_ScalarLogical(whole));
  SEXP call = clu_own_call("ffi_connection_left", handle, flag);
  UNPROTECT(1);
  return call;
}

static SEXP left_whole(SEXP handle) { return left_call(handle, 1); }
static SEXP left_part(SEXP handle) { return left_call(handle, 0); }

static void tell_end(conn *c, SEXP frame, int whole) {
  if (whole)
    clu_on_exit(frame, c->handle, left_whole, CLU_ON_EXIT_LEFT);
  else
    clu_on_exit(frame, c->handle, left_part, CLU_ON_EXIT_LEFT_PART);
}

/* The frame of the function that reads; or, where that is a part of another call, a list of its
 * frame and the one of that call; or NULL: the calls of this reader are not followed. */
static SEXP reading_frames(void) {
  static SEXP call;
  SEXP frame = PROTECT(clu_calling_frame());
  if (clu_is_base_frame(frame) && (clu_unserializes(frame) || clu_called_for_itself())) {
    UNPROTECT(1);
    return frame;
  }
  UNPROTECT(1);
  if (!call) {
    R_PreserveObject(call = Rf_lang1(R_NilValue));
    SETCAR(call, clu_package_value("reading_frames"));
  }
  return Rf_eval(call, R_BaseEnv);
}

/* Nobody is known to read: who is it? */
static void begins(conn *c, int text) {
  SEXP frames, leaf, outer = R_NilValue, place = R_ExternalPtrProtected(c->handle);
  clu_raise_if_torn(c->s);
  frames = PROTECT(reading_frames());
  c->text_call = text;
  if (frames == R_NilValue) {
    settle(c);
    SETCDR(place, R_NilValue);
    c->reader = text ? CLU_A_LINE : CLU_NOBODY;
    UNPROTECT(1);
    return;
  }
  leaf = frames;
  if (TYPEOF(frames) == VECSXP) {
    leaf = VECTOR_ELT(frames, 0);
    outer = VECTOR_ELT(frames, 1);
  }
  if (outer == R_NilValue) {
    settle(c);
    SETCDR(place, R_NilValue);
  } else if (CDR(place) == R_NilValue || R_WeakRefKey(CDR(place)) != outer) {
    settle(c);
    SETCDR(place, R_MakeWeakRef(outer, R_NilValue, R_NilValue, FALSE));
    tell_end(c, outer, 1);
  }
  tell_end(c, leaf, outer == R_NilValue);
  c->vector = clu_reads_vector(leaf);
  c->reader = CLU_A_CALL;
  UNPROTECT(1);
}

/* ---- bytes ---- */

/* 1: there are bytes. 0: the end, or with incomplete set nothing now. */
static int more(Rconnection con, conn *c) {
  clu_sock *s = c->s;
  uint64_t deadline = 0;
  con->incomplete = FALSE;
  if (c->start && s->pos == s->end)
    s->pos = s->end = s->mark + c->head; /* they are in the vector */
  if (c->lost || s->pos - s->mark > CLU_SOCK_KEEP) lose(c);
  for (;;) {
    clu_err e = {0, 0, ""};
    int rc = s->pos < s->end ? CLU_OK : clu_sock_fill(s, &e);
    if (rc == CLU_OK) {
      clu_check_interrupt(undo, c);
      return 1;
    }
    if (rc == CLU_EOF) return 0;
    if (rc != CLU_AGAIN) {
      undo(c);
      clu_raise_socket(s, &e, -1);
    }
    if (!con->blocking) {
      con->incomplete = TRUE;
      return 0;
    }
    if (!deadline) deadline = clu_deadline_ns(s->timeout_ns);
    if (!clu_socket_ready(s, CLU_READ, deadline, undo, c)) {
      undo(c);
      clu_raise_timeout(
          s, s->torn ? "what the call had taken is lost; nothing has come" : "nothing has come",
          (double)s->timeout_ns / 1e9, -1);
    }
  }
}

/* Passes over a byte order mark. 0: it may be one, and not all of it is here. */
static int past_bom(decoder *d, int at_end) {
  static const unsigned char marks[3][4] = {"", "\xff\xfe", "\xef\xbb\xbf"};
  int n = d->bom == BOM_16 ? 2 : 3;
  int same = 0;
  while (same < n && same < d->raw_n && (unsigned char)d->raw[same] == marks[d->bom][same]) same++;
  if (same == d->raw_n && same < n && !at_end) return 0;
  if (same == n) {
    d->raw_n -= n;
    memmove(d->raw, d->raw + n, (size_t)d->raw_n);
  }
  d->bom = NO_BOM;
  return 1;
}

/* Converts what is there, waiting for at least one more byte. 0: none comes. */
static int decode(Rconnection con, conn *c) {
  decoder *d = &c->d;
  clu_sock *s = c->s;
  const char *in = d->raw;
  char *out = d->out;
  size_t in_n, out_n = sizeof d->out, rc;
  int there;
  if (d->bad) return 0;
  there = s->pos < s->end || more(con, c);
  /* what looked like the beginning of a byte order mark was all that came */
  if (!there && (con->incomplete || d->bom == NO_BOM || !d->raw_n)) return 0;
  while (s->pos < s->end && d->raw_n < 25) {
    char b = (char)s->in[s->pos++];
    d->raw[d->raw_n++] = b;
    if (b == '\n' || b == '\r') break; /* what follows belongs to the next call */
  }
  if (d->bom != NO_BOM && !past_bom(d, !there)) return 1;
  in_n = (size_t)d->raw_n;
  errno = 0;
  rc = Riconv(con->inconv, &in, &in_n, &out, &out_n);
  d->at = 0;
  d->n = (int)(sizeof d->out - out_n);
  memmove(d->raw, in, in_n);
  d->raw_n = (int)in_n;
  if (rc == (size_t)-1 && errno != EINVAL && errno != E2BIG) {
    Riconv(con->inconv, NULL, NULL, NULL, NULL);
    d->raw_n = 0;
    d->bad = 1;
    Rf_warning("invalid input found on input connection '%s'", con->description);
  }
  return 1;
}

static int next_byte(Rconnection con, conn *c) {
  decoder *d = &c->d;
  clu_sock *s = c->s;
  if (c->front_at < c->front_n) return (unsigned char)c->front[c->front_at++];
  if (!con->inconv) return s->pos < s->end || more(con, c) ? s->in[s->pos++] : -1;
  while (d->at == d->n)
    if (!decode(con, c)) return -1;
  return (unsigned char)d->out[d->at++];
}

int clu_con_fgetc(Rconnection con) {
  conn *c = clu_conn_of(con);
  int byte;
  if (c->reader == CLU_NOBODY) begins(c, 1);
  byte = next_byte(con, c);
  if (c->reader == CLU_A_LINE &&
      (byte == '\n' || byte < 0)) { /* at the end R pushes back what there was of the line */
    settle(c);
    c->reader = CLU_NOBODY;
  }
  return byte;
}

/* readBin() reads in blocks of that many items, one behind the other. */
#define BLOCK 8096
#define LARGE 32768 /* bytes that are not worth a copy */

/* Where a binary read goes: further into a vector that lasts as long as the call, to a new one, or
 * to memory that is used again. To whoever reads without a call it lasts as long as the read. */
static void aim(conn *c, const char *to, size_t want, int block) {
  if (c->start && to == c->start + c->in_vector) return;
  if (c->start && c->in_vector > also_in_buffer(c)) {
    lose(c);
    c->lost = 1;
  }
  c->start = c->reader != CLU_A_CALL || (c->vector && (block || want >= LARGE)) ? to : NULL;
  c->in_vector = 0;
  c->head = c->s->pos - c->s->mark;
}

/* The part of an item that has come stays until the rest does. */
static void give_back(conn *c, const char *to, size_t part) {
  size_t in = c->start ? also_in_buffer(c) : c->s->pos - c->s->mark;
  if (in > part) in = part;
  c->s->pos -= in;
  clu_sock_unread(c->s, to, part - in);
  if (c->start) c->in_vector -= part;
}

size_t clu_con_read(void *to, size_t size, size_t n, Rconnection con) {
  conn *c = clu_conn_of(con);
  clu_sock *s = c->s;
  size_t want = size * n, got = 0, part;
  if (!want) return 0;
  con->incomplete = FALSE;
  if (c->reader != CLU_A_CALL) begins(c, 0);
  if (want <= 8 && want <= s->end - s->pos &&
      !c->start) { /* unserialize() asks for one number after the other */
    memcpy(to, s->in + s->pos, want);
    s->pos += want;
    return n;
  }
  aim(c, to, want, n == BLOCK);
  for (;;) {
    size_t k = clu_sock_take(s, (char *)to + got, want - got);
    got += k;
    if (c->start) c->in_vector += k;
    if (!k && want - got >= LARGE && (c->start || c->lost)) {
      clu_err e = {0, 0, ""};
      int rc;
      if (c->start) s->pos = s->end = s->mark + c->head; /* they are in the vector */
      rc = clu_sock_get(s, (char *)to + got, want - got, &k, &e);
      if (rc == CLU_OK) {
        got += k;
        if (c->start) c->in_vector += k;
        clu_check_interrupt(undo, c);
        continue;
      }
      if (rc != CLU_AGAIN && rc != CLU_EOF) { /* the system tells it once */
        undo(c);
        clu_raise_socket(s, &e, -1);
      }
    }
    if (got == want || !more(con, c)) break;
  }
  part = got % size;
  give_back(c, (const char *)to + got - part, part);
  if (c->reader == CLU_NOBODY) settle(c);
  return got / size;
}
