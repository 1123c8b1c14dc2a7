/* A connection: bytes in both directions over one connected socket, plain or inside TLS 1.3. Who
 * sends frames over it does not know which.
 *
 * Nothing blocks. A connection is used so:
 *  - First clu_conn_handshake(), again and again while it answers CLU_AGAIN, each time when the
 *    descriptor is ready for what clu_conn_wants(s, 0) says. The caller's timer is its limit. How
 *    much a peer may send in it is limited here.
 *  - Then bytes. When the descriptor is readable: clu_conn_read() until `s->is_dry` or CLU_AGAIN.
 *    Who stops earlier asks clu_conn_pending(), for what is decrypted makes no descriptor
 * readable.
 *  - What clu_conn_write() has taken may still be in the connection's own memory (a few records of
 *    TLS). Then clu_conn_wants() has CLU_WRITE, and once the descriptor is writable
 *    clu_conn_flush() sends it. A write that answered CLU_AGAIN has taken nothing: the next one
 *    may bring other bytes.
 *  - clu_conn_finish() says that this side has sent all. The other side reads CLU_EOF then.
 *
 * Failure. After any code but CLU_OK, CLU_AGAIN and CLU_EOF the connection is of no more use,
 * answers the same from then on, and `s->err` has the reason as a sentence. CLU_RESET: the
 * connection was cut, by either side's end or on the way. A TCP connection that ends without TLS's
 * word for it is cut, too. CLU_PROTO: what came is not what the other side has sent, or the other
 * side is somebody else.
 *
 * Ownership. The connection owns its descriptor. In a forked child it may only be closed, which
 * sends nothing.
 */
#ifndef CLUTCH_CONN_H
#define CLUTCH_CONN_H

#include "core/base/err.h"
#include "core/base/os.h"

struct clu_conn;

/* A kind of connection: what clu_conn_handshake() and so on do, once it is known that it has not
 * failed. Each fills `s->err` where it fails. */
typedef struct clu_conn_kind {
  int (*handshake)(struct clu_conn *s);
  int (*read)(struct clu_conn *s, void *p, size_t n, size_t *got);
  int (*write)(struct clu_conn *s, const void *p, size_t n, size_t *put);
  int (*flush)(struct clu_conn *s);
  int (*finish)(struct clu_conn *s);
  unsigned (*wants)(const struct clu_conn *s, unsigned what);
  int (*pending)(const struct clu_conn *s);
  void (*fini)(struct clu_conn *s); /* frees what is not in clu_conn itself */
} clu_conn_kind;

typedef struct clu_conn {
  const clu_conn_kind *kind;
  clu_fd fd;
  clu_err err; /* of its failure; `err.code` is CLU_OK before */
  void *own;   /* the kind's */
  /* The last read has brought all that the descriptor had: what comes next makes it readable, also
   * its end. So nobody has to ask once more in vain. */
  int is_dry;
} clu_conn;

/* Over the connected socket `fd`, which it takes over. NULL: not enough memory. The ones inside TLS
 * are in core/net/tls.h. */
clu_conn *clu_conn_plain(clu_fd fd);
/* Frees it and closes the descriptor. Sends nothing: without clu_conn_finish() before, the other
 * side takes the connection for cut. Accepts NULL. */
void clu_conn_close(clu_conn *s);

/* CLU_OK: bytes may follow. With TLS the side that connects may learn only by its first read that
 * the other side does not accept its certificate. */
int clu_conn_handshake(clu_conn *s);
/* `n` > 0. CLU_OK (`*got` > 0), CLU_AGAIN, or CLU_EOF: the other side has finished. */
int clu_conn_read(clu_conn *s, void *p, size_t n, size_t *got);
/* `n` > 0. CLU_OK (`*put` > 0; the first `*put` bytes are on their way) or CLU_AGAIN. */
int clu_conn_write(clu_conn *s, const void *p, size_t n, size_t *put);
/* CLU_OK: nothing is left in the connection's own memory; or CLU_AGAIN. */
int clu_conn_flush(clu_conn *s);
/* Sends what is left, and then that this was all: nothing can be written any more, but still read.
 * CLU_OK, or CLU_AGAIN: once more when the descriptor is writable. */
int clu_conn_finish(clu_conn *s);
/* Says what to watch the descriptor for: CLU_READ, CLU_WRITE. `what` is what the caller would do.
 */
unsigned clu_conn_wants(const clu_conn *s, unsigned what);
/* 1: clu_conn_read() has something, or will say that it failed, whether or not the descriptor is
 * readable. */
int clu_conn_pending(const clu_conn *s);

#endif
