/* Connections inside TLS 1.3. Each side has a key and a certificate, made for one cluster, and
 * accepts exactly the other's: there is no authority, and no name or date is looked at.
 *
 * Somebody else who connects is told no more than this side's certificate, may send
 * CLU_TLS_HANDSHAKE bytes, and makes this side compute one key exchange and two signatures; what it
 * has of memory goes with clu_conn_close(). A changed, repeated, missing or displaced byte ends
 * the connection.
 *
 * CLU_UNSUPPORTED where the package was built without libssl, and on Windows.
 */
#ifndef CLUTCH_TLS_H
#define CLUTCH_TLS_H

#include "core/base/os-tls.h"
#include "core/net/conn.h"

/* A side may send so many bytes before it is known who it is. */
#define CLU_TLS_HANDSHAKE 16384

/* A new key pair (EC, P-256) with a certificate that it has signed itself, as PEM: `own` has the
 * private key and the certificate, `certificate` only the latter, for the other side. The caller
 * wipes `own`. */
int clu_tls_make_identity(char own[CLU_TLS_TEXT], char certificate[CLU_TLS_TEXT], clu_err *e);
/* The keys that one side needs for its connections: `own` as above, and the one certificate that
 * the other side must have. CLU_PROTO: a text is not what it should be. The texts are not needed
 * any longer.
 */
int clu_tls_keys_new(const char *own, const char *peer, clu_tls_keys **out, clu_err *e);
/* Accepts NULL. The key is wiped when no connection needs it any more. (OpenSSL 3.0 itself leaves
 * copies in freed memory when it reads a key from a text.) */
void clu_tls_keys_free(clu_tls_keys *k);

/* Over the connected socket `fd`, which the connection takes over with CLU_OK; else it stays the
 * caller's. The server is the side that was connected to. `k` may be freed
 * before the connection. Small messages need CLU_OPT_NODELAY, as on a plain socket. */
int clu_conn_tls_server(clu_fd fd, clu_tls_keys *k, clu_conn **out, clu_err *e);
int clu_conn_tls_client(clu_fd fd, clu_tls_keys *k, clu_conn **out, clu_err *e);

#endif
