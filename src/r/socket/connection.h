/* The files of sockets as R's connections share these. */
#ifndef CLUTCH_R_SOCKET_CON_H
#define CLUTCH_R_SOCKET_CON_H

#include "core/base/object-end.h"
#include "r/socket/socket.h"

#include <stdarg.h>

#include <R_ext/Connections.h>

#if R_CONNECTIONS_VERSION != 1
#error "another version of R's connections"
#endif

typedef struct {
  char raw[32]; /* bytes that have come and are not converted: at most one character, or all up to a
                   newline */
  int raw_n;
  char out[128]; /* converted and not handed out: [at, n) */
  int at, n;
  enum { NO_BOM, BOM_16, BOM_8 } bom; /* still to be found */
  int bad;                            /* invalid input: nothing more comes, as in R */
} decoder;

/* The reader is: not known; somebody whose calls are not followed, up to the end of a line; a call.
 */
enum { CLU_NOBODY, CLU_A_LINE, CLU_A_CALL };

typedef struct {
  Rconnection con;
  clu_sock *s;
  SEXP handle; /* its protected value: the opener, then a weak reference to the frame of the call
                  that reads; as tag what clu_kept() keeps */
  decoder d, kept; /* kept: as it was at s->mark */
  char *text, *conv;
  size_t text_cap, conv_cap;
  char init_out[25]; /* what an encoding begins with */
  size_t init_n;
  /* the call that reads: see r/socket/connection-read.c */
  int reader;        /* CLU_NOBODY, ... */
  int text_call;     /* it reads characters */
  int vector;        /* it is readBin(): what it reads goes to one vector, block behind block */
  int lost;          /* a part of what it has taken can not be put back */
  const char *start; /* of that vector, or NULL; */
  size_t in_vector;  /* bytes that went there, */
  size_t head;       /* and those that the call had taken before */
  char *front; /* characters that R has pushed back: they come first. [front_mark, front_at) have
                  been handed out */
  size_t front_cap, front_mark, front_at, front_n;
  int corked;         /* an object is being serialized: see r/socket/connection-write.c */
  clu_object_end end; /* of it */
  unsigned char *held;
  size_t held_n;
  uint64_t out_before; /* bytes that had left when it began */
} conn;

/* ---- connection-base.c ---- */

/* Raises that it is not open. */
void clu_raise_not_open(Rconnection con);
static inline conn *clu_conn_of(Rconnection con) {
  conn *c = con->private;
  if (!c || !c->s) clu_raise_not_open(con);
  return c;
}
/* Room for `n` bytes in memory that lasts as long as the connection, so that a jump does not lose
 * it. 0: none. */
int clu_con_room(char **p, size_t *cap, size_t n);

/* ---- calling.c ---- */

/* The value of a variable of this package, which keeps it. */
SEXP clu_package_value(const char *name);
/* .Call(name, handle, argument) of an entry point of this package, for clu_on_exit(). */
SEXP clu_own_call(const char *name, SEXP handle, SEXP argument);
/* The frame of the function whose call of C this is; the workspace: there is none. */
SEXP clu_calling_frame(void);
/* Tells whether this frame of base is that of unserialize(), which no function of base or utils
 * calls. */
int clu_unserializes(SEXP frame);
/* Tells whether it is that of readBin(). */
int clu_reads_vector(SEXP frame);
/* It is a call of a function of base. */
int clu_is_base_frame(SEXP frame);
/* It is one of serialize() or saveRDS(), by the names of their arguments. */
int clu_serializes(SEXP frame);
/* Tells whether that will call no R code, nor C code of others, and fails for want of memory
 * only. */
int clu_serializes_alone(SEXP frame);
/* Tells whether the function whose call of C this is was not called by one that has a connection,
 * too. */
int clu_called_for_itself(void);
/* R objects that are made once for a connection: a list, with R_NilValue for what is not yet. */
enum { CLU_ON_EXIT_UNCORK, CLU_ON_EXIT_LEFT_PART, CLU_ON_EXIT_LEFT, CLU_SUMMARY, CLU_N_KEPT };
SEXP clu_kept(SEXP handle);
/* When the function of `frame` is left, the call that `make(handle)` returns is made. It is kept
 * at `which`. */
void clu_on_exit(SEXP frame, SEXP handle, SEXP (*make)(SEXP handle), int which);

/* ---- connection.c ---- */

typedef struct {
  const char *description, *class, *open, *encoding;
  int blocking;
} clu_connection_args;

/* A connection around `s`, which it owns when this returns. With `s` NULL, `opener` makes a handle
 * when it is opened. Raises; also R's own error where its table of connections is full. */
SEXP clu_connection_new(clu_sock *s, const clu_connection_args *a, SEXP opener);

/* ---- connection-read.c, connection-write.c: R's callbacks. They wait as the connection's timeout
 * says, and may jump ---- */

/* Nobody reads: for a socket that is new to the connection. */
void clu_con_forget(conn *c);
int clu_con_fgetc(Rconnection con);
size_t clu_con_read(void *to, size_t size, size_t n, Rconnection con);
size_t clu_con_write(const void *from, size_t size, size_t n, Rconnection con);
int clu_con_vfprintf(Rconnection con, const char *format, va_list ap);

#endif
