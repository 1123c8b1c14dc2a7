/* What the socket doors share. A socket reaches C as an external pointer, as a light handle (a list
 * whose first element is one), or as one of R's connections of class "clutch_socket" or
 * "clutch_listener". */
#ifndef CLUTCH_GLUE_SOCKET_H
#define CLUTCH_GLUE_SOCKET_H

#include "core/net/socket.h"
#include "r/r-api.h"

/* The socket of `x`; raises where there is none, or it is closed and `open` is wanted. */
clu_sock *clu_socket_of(SEXP x, int open);
/* The descriptor of `x`, which may also be one of base R's socket connections. `*s` is NULL for
 * those. `*pending`: bytes are there that have been read ahead. `*listens`: it is a listener. */
clu_fd clu_socket_fd(SEXP x, clu_sock **s, int *pending, int *listens);
/* The socket of a connection of this package; NULL: `x` is none, or closed, or not opened yet.
 * `*base`: one of base R's. In r/socket/connection.c. */
clu_sock *clu_connection_socket(SEXP x, clu_fd *base_fd, int *pending, int *listens);
/* Takes the socket out of its external pointer; the caller owns it. NULL: it has none. */
clu_sock *clu_socket_release(SEXP pointer);

/* When a wait that begins now is over. `seconds` NaN or < 0: never. */
uint64_t clu_deadline(double seconds);
uint64_t clu_deadline_ns(int64_t ns);
/* What is left until then, at most the slice of 100 ms after which interrupts are looked at. */
int64_t clu_slice(uint64_t deadline);
/* Looks at R's interrupts and time limits, unless it has just done so; `undo(data)` runs before a jump. */
void clu_check_interrupt(void (*undo)(void *), void *data);
/* Waits for CLU_READ or CLU_WRITE. 0: the time is up. May jump as clu_check_interrupt() does. */
int clu_socket_ready(clu_sock *s, unsigned want, uint64_t deadline, void (*undo)(void *), void *data);
/* Raises the condition of a failure at a socket. `written`: bytes of the call that have gone, or < 0.
 * `s` may be NULL. Does not return. */
void clu_raise_socket(const clu_sock *s, const clu_err *e, double written);
/* The same for a time that is up. */
void clu_raise_timeout(const clu_sock *s, const char *what, double seconds, double written);

#endif
