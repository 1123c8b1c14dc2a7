/* The port's part of TLS: the protocol itself, without a socket. core/net/tls.c brings the bytes.
 *
 * TLS 1.3 only, both sides with a certificate, no resumption, no early data. No function blocks.
 * Those that can fail return CLU_PROTO, CLU_NOMEM or CLU_SYS then, with the reason in `e`.
 */
#ifndef CLUTCH_OS_TLS_H
#define CLUTCH_OS_TLS_H

#include <stddef.h>

#include "core/base/err.h"

#define CLU_TLS_TEXT 2048    /* room for one side's texts */
#define CLU_TLS_RECORD 16384 /* most bytes of one record */

/* One side's keys: its own, and the other side's certificate. References are counted. */
typedef struct clu_tls_keys clu_tls_keys;
/* One connection. */
typedef struct clu_tls clu_tls;

/* Where its encrypted bytes come from and go to. */
typedef struct clu_tls_io {
  void *data;
  /* CLU_OK (`*got` > 0), CLU_AGAIN, or what has ended it: anything but CLU_EOF */
  int (*take)(void *data, void *p, size_t n, size_t *got);
  /* Takes all of it: CLU_OK, or CLU_NOMEM */
  int (*put)(void *data, const void *p, size_t n);
} clu_tls_io;

typedef struct clu_tls_port {
  /* See clu_tls_make_identity() and clu_tls_keys_new() in core/net/tls.h. */
  int (*make_identity)(char own[CLU_TLS_TEXT], char certificate[CLU_TLS_TEXT], clu_err *e);
  int (*keys_new)(const char *own, const char *peer, clu_tls_keys **out, clu_err *e);
  void (*keys_free)(clu_tls_keys *k);

  /* `server`: the side that was connected to. Keeps a reference to `k`. */
  int (*open)(clu_tls_keys *k, int server, const clu_tls_io *io, clu_tls **out, clu_err *e);
  void (*close)(clu_tls *t); /* accepts NULL; sends nothing */

  /* Each of these may also return CLU_AGAIN, when take() has said so; or the code by which take()
   * or put() has ended it, and `e` is as it was. After a failure, what tells the other side of it
   * has been put. */
  int (*handshake)(clu_tls *t, clu_err *e);
  /* At most one record. CLU_OK (`*got` > 0), or CLU_EOF: the other side says that this is all. */
  int (*read)(clu_tls *t, void *p, size_t n, size_t *got, clu_err *e);
  int (*write)(clu_tls *t, const void *p, size_t n, clu_err *e); /* n <= CLU_TLS_RECORD */
  int (*finish)(clu_tls *t, clu_err *e); /* says to the other side that this was all */
  /* 1: there are bytes that were taken and not read; they may be less than a record. */
  int (*pending)(const clu_tls *t);
} clu_tls_port;

/* NULL: there is no TLS, on Windows and where the package was built without OpenSSL's libssl. */
const clu_tls_port *clu_os_tls(void);

#endif
