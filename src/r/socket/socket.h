/* The files of this folder share these. Each uses only those before it:
 *
 *   socket-error.c      failures as R conditions
 *   socket-args.c       arguments of those that open sockets
 *   find.c              from an R object to its socket
 *   socket-wait.c       waiting for readiness, writing all
 *   objects.c           entry points: one R object out and in
 *   transfer.c          entry points: bytes, readiness of several, the end
 *   socket-set.c        entry points: readiness of a set that is kept
 *   calling.c           which R function reads or writes
 *   connection-base.c, connection-read.c, connection-write.c, connection.c
 *                       sockets as R's connections
 *   open.c              entry points: sockets are made
 *   info.c              what sockets tell of themselves
 *
 * A socket reaches C as an external pointer, as a light handle (a list whose first element is one),
 * or as one of R's connections of class "clutch_socket" or "clutch_listener". The external pointer
 * owns the clu_sock until a connection takes it over (clu_socket_release()). Only what is said to
 * wait blocks: in slices, see r/base/wait.h.
 */
#ifndef CLUTCH_R_SOCKET_H
#define CLUTCH_R_SOCKET_H

#include "core/net/socket.h"
#include "r/base/r-api.h"
#include "r/base/wait.h"

/* ---- find.c ---- */

/* The external pointer of a handle; R_NilValue: `x` is none. */
SEXP clu_socket_pointer(SEXP x);
/* Tags of the external pointers of handles, and of those behind connections. */
SEXP clu_socket_tag(void);
SEXP clu_connection_tag(void);
/* Returns what a connection carries: the handle behind one of this package; of another one R's own
 * external pointer. R_NilValue: `x` has none. */
SEXP clu_handle_of(SEXP x);

/* The socket of `x`; raises where there is none, or it is closed and `open` is wanted. */
clu_sock *clu_socket_of(SEXP x, int open);
/* The descriptor of `x`, which may also be one of base R's socket connections. `*s` is NULL for
 * those. `*pending`: bytes are there that have been read ahead. `*listens`: it is a listener. */
clu_fd clu_socket_fd(SEXP x, clu_sock **s, int *pending, int *listens);
/* The socket of a connection of this package; NULL: `x` is none, or closed, or not opened yet.
 * `*base_fd` (may be NULL): the descriptor of one of base R's, CLU_NO_FD where it is none.
 * `*pending`, `*listens`: as above; unchanged where it is not so. */
clu_sock *clu_connection_socket(SEXP x, clu_fd *base_fd, int *pending, int *listens);
/* Takes the socket out of its external pointer; the caller owns it. NULL: it has none. */
clu_sock *clu_socket_release(SEXP pointer);

/* ---- socket-wait.c ---- */

/* Waits for CLU_READ or CLU_WRITE. 0: the time is up. May jump as clu_check_interrupt() does. */
int clu_socket_ready(clu_sock *s, unsigned want, uint64_t deadline, void (*undo)(void *),
                     void *data);
/* Writes all, and waits as the socket's timeout says, also where it has blocking = FALSE. Raises
 * what goes wrong. A write of which a part has gone is not interrupted for two seconds; then that
 * direction is shut down. */
void clu_socket_put_all(clu_sock *s, const void *from, size_t n);

/* ---- socket-error.c ---- */

/* Raises the condition of a failure at a socket. `written`: bytes of the call that have gone, or <
 * 0. `s` may be NULL. Does not return. */
void clu_raise_socket(const clu_sock *s, const clu_err *e, double written);
/* Does the same of a socket that could not be opened. `prefix`: what that made impossible, comes
 * before the text. `warn`: base R's warning, or NULL. */
void clu_raise_opening(const clu_sock *s, const clu_err *e, const char *prefix, const char *warn);
/* The failure of a time that is up. */
void clu_timed_out(clu_sock *s, const char *what, double seconds, double written, clu_err *e);
/* Raises that, and the one of a socket that is closed. */
void clu_raise_timeout(clu_sock *s, const char *what, double seconds, double written);
void clu_raise_closed(const clu_sock *s);
/* Raises clutch_socket_broken where a call that read was given up and had taken too much. */
void clu_raise_if_torn(const clu_sock *s);

/* ---- socket-args.c: each raises clutch_argument where an argument is of no use ---- */

/* socket_accept() and socket_connect() take these in common. The texts live until the entry point
 * returns. */
typedef struct {
  int blocking;
  const char *open, *encoding;
  int options[CLU_N_OPTS]; /* NA_INTEGER: the system's own value */
  double opening;          /* seconds that they may wait */
  double timeout;          /* of the socket that they return */
} clu_stream_args;

void clu_stream_args_of(clu_stream_args *to, SEXP blocking, SEXP open, SEXP encoding, SEXP timeout,
                        SEXP options);
NORET void clu_invalid(const char *name);
int clu_flag_arg(SEXP x, const char *name);
const char *clu_text_arg(SEXP x, const char *name);
int clu_port_arg(SEXP x, int least);
void clu_options_arg(SEXP x, int to[CLU_N_OPTS]);

#endif
