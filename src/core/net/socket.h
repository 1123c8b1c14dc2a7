/* One socket of this package's users: a connection or a listener, with its timeout, what has been
 * read ahead, counts, the last error and the way it ends.
 *
 * Nothing here waits unless it is told how long. Each function does one step and says what it came
 * to, so that the caller can look at the user's interrupts between two of them. A socket is owned
 * by whoever made it; all of them are on a list (clu_sock_next()). In a forked child a socket is
 * only ever closed: a shutdown would end the parent's connection, and the file of a listener is the
 * parent's.
 *
 * Every descriptor is non-blocking inside. Readiness can be wrong (another process took the
 * byte), so who waits goes on for the rest of the time. The end of a socket: shut down for
 * writing, read until the peer has finished, shut down for reading, close. Each step is tried
 * whatever the others returned.
 */
#ifndef CLUTCH_SOCK_H
#define CLUTCH_SOCK_H

#include "core/net/happy-eyeballs.h"
#include "core/net/resolve.h"
#include "core/base/os.h"

struct clu_sock;
/* Somebody who is told what becomes of a socket, in memory of its own. No function is called in a
 * forked child. */
typedef struct clu_sock_watch {
  void (*filled)(struct clu_sock_watch *w); /* bytes were put into its buffer */
  /* Its descriptor is about to be closed. The watch is no longer on the socket's list. */
  void (*closing)(struct clu_sock_watch *w);
  struct clu_sock *s; /* NULL: closed in a forked child */
  struct clu_sock_watch *next;
} clu_sock_watch;

typedef struct clu_sock {
  clu_fd fd; /* CLU_NO_FD: not open yet, or closed */
  int listening, blocking, closed, eof;
  int torn;           /* what a call has taken is lost: further reads would be out of step */
  int broken;         /* it was reset: the system says so once, and then speaks of an end */
  int shut;           /* CLU_READ, CLU_WRITE: what this side has shut down */
  int64_t timeout_ns; /* of silence; < 0: for ever */
  clu_pid owner;
  uint64_t born; /* clu_os_now() */
  uint64_t bytes_in, bytes_out, accepted;
  clu_addr local, peer;
  int backlog_asked, backlog_granted; /* < 0: the most; not known */
  int abort_at_close;                 /* linger of 0 seconds */
  int ending;                         /* the end has begun */
  size_t drained;
  int slot;   /* number of R's connection around it, -1: none */
  char *path; /* of a Unix-domain listener */
  uint64_t path_id[2];
  clu_err last;
  /* read ahead: [mark, pos) has been handed out and can be taken back, [pos, end) has not */
  unsigned char *in;
  size_t cap, mark, pos, end;
  /* NULL, or whether R's connection `around` it has taken characters that it has not handed out */
  int (*has_ahead)(const void *around);
  const void *around;
  clu_sock_watch *watches;
  /* while it connects */
  int send_buffer, receive_buffer;
  clu_resolve *resolve;
  clu_connector *connector;
  struct clu_sock *next, *before;
} clu_sock;

/* Bytes that are handed out stay to be taken back up to this many bytes. */
#define CLU_SOCK_KEEP (64u << 20)
/* Most that is read and thrown away from a peer that goes on sending while its socket is closed. */
#define CLU_SOCK_DRAIN (1u << 20)

/* NULL: not enough memory. */
clu_sock *clu_sock_new(void);
/* Ends it at once where it has not ended, and frees it. Accepts NULL. */
void clu_sock_free(clu_sock *s);
/* The list of all; NULL gives the first. */
clu_sock *clu_sock_next(const clu_sock *s);

void clu_sock_watch_begin(clu_sock *s, clu_sock_watch *w);
void clu_sock_watch_end(clu_sock_watch *w);

/* "here -> there", or the address of a listener; for messages. Returns `out`. */
const char *clu_sock_text(const clu_sock *s, char *out, size_t cap);

/* Listens at the first of `n` addresses that allows it. A path that no process listens at any more
 * is cleared first. `s->backlog_granted` is set. */
int clu_sock_listen(clu_sock *s, const clu_addr *at, int n, const char *path, const clu_listen *how,
                    clu_err *e);
/* The next connection of `l` becomes `s`, which has no descriptor yet. As clu_os_accept(), but a
 * limit on descriptors that can be raised is raised. */
int clu_sock_accept(clu_sock *l, clu_sock *s, clu_err *e);
/* A connection that was made elsewhere becomes `s`, which has no descriptor yet. */
void clu_sock_adopt(clu_sock *s, clu_fd fd);
/* Begins to connect `s`; then clu_sock_connect_step() until it does not say CLU_AGAIN. `host` as in
 * clu_resolve_start(); with `path` not NULL that instead. */
int clu_sock_connect(clu_sock *s, const char *host, int port, const char *path, int send_buffer,
                     int receive_buffer, clu_err *e);
int clu_sock_connect_step(clu_sock *s, int64_t wait_ns, clu_err *e);

/* Waits for CLU_READ or CLU_WRITE on it, at most `wait_ns`. CLU_OK: ready, or a signal came: try.
 */
int clu_sock_wait(clu_sock *s, unsigned want, int64_t wait_ns);
/* Reads once into the buffer. CLU_OK: there is more at [pos, end); CLU_AGAIN, CLU_EOF, CLU_RESET,
 * CLU_CLOSED... */
int clu_sock_fill(clu_sock *s, clu_err *e);
/* Reads straight to `out`, for large reads: only when nothing is in the buffer. CLU_OK: `*got` >
 * 0. */
int clu_sock_get(clu_sock *s, void *out, size_t n, size_t *got, clu_err *e);
/* Hands out up to `n` bytes that are there; returns how many. */
size_t clu_sock_take(clu_sock *s, void *out, size_t n);
/* All that has been handed out until now is not taken back any more. */
static inline void clu_sock_keep(clu_sock *s) { s->mark = s->pos; }
/* Takes back what has been handed out since then. */
static inline void clu_sock_undo(clu_sock *s) { s->pos = s->mark; }
/* Puts bytes back that were handed out and are no longer in the buffer: they come next again, and
 * what was handed out before them can still be taken back. CLU_OK, or CLU_NOMEM: they are lost. */
int clu_sock_unread(clu_sock *s, const void *data, size_t n);
/* Gives back memory that a large read took, if nothing is to be taken back. */
void clu_sock_trim(clu_sock *s);
/* Writes what the system takes. CLU_OK (`*put` > 0), CLU_AGAIN, CLU_RESET, CLU_CLOSED, ... */
int clu_sock_put(clu_sock *s, const void *data, size_t n, size_t *put, clu_err *e);
/* Ends one or both directions. */
int clu_sock_shutdown(clu_sock *s, unsigned how, clu_err *e);

/* One step of the orderly end: shut down for writing; read and throw away what the peer still
 * sends, until it has finished too, or has everything that was sent to it and is silent, or has
 * sent too much; shut down for reading; close. Each is tried whatever came of the one before.
 * Without the reading a close with unread bytes would reset the connection, and the peer could lose
 * what it has not read. CLU_OK: closed; CLU_AGAIN: call it again, or clu_sock_drop(). */
int clu_sock_end(clu_sock *s, int64_t wait_ns);
/* Does the same at once: what can be done without waiting is done, then the descriptor is
 * closed. */
void clu_sock_drop(clu_sock *s);

#endif
