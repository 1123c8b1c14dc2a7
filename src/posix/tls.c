/* TLS by OpenSSL's libssl, and the only file that uses it. Nothing here is our own cryptography.
 *
 * CLU_NO_LIBSSL (configure): there is none, or one without TLS 1.3. */
#include <string.h>

#include "core/base/os-tls.h"
#include "core/base/os.h"

#ifndef CLU_NO_LIBSSL

#include <limits.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/obj_mac.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#define READ_AHEAD (8 * (CLU_TLS_RECORD + 64)) /* bytes that one read of the socket may bring */
#define CHAIN_BYTES 8192                       /* most that a peer may show of certificates */

/* Each process has one list of OpenSSL's errors a thread, which other users of the library fill,
 * too: it is emptied before a call whose failure is looked up, and after it. */
static int failed(clu_err *e, int code, const char *what) {
  unsigned long why = ERR_peek_error();
  const char *text = why ? ERR_reason_error_string(why) : NULL;
  if (ERR_GET_REASON(why) == ERR_R_MALLOC_FAILURE) code = CLU_NOMEM;
  clu_fail(e, code, 0, "%s%s%s", what, text ? ": " : "", text ? text : "");
  ERR_clear_error();
  return code;
}

/* ---- identities ---- */

static EVP_PKEY *new_key(void) {
  EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
  EVP_PKEY *key = NULL;
  if (c && EVP_PKEY_keygen_init(c) == 1 &&
      EVP_PKEY_CTX_set_ec_paramgen_curve_nid(c, NID_X9_62_prime256v1) == 1 &&
      EVP_PKEY_keygen(c, &key) != 1)
    key = NULL;
  EVP_PKEY_CTX_free(c);
  return key;
}

static X509 *new_certificate(EVP_PKEY *key) {
  const long day = 86400;
  const unsigned char name[] = "clutch";
  X509 *x = X509_new();
  uint64_t serial = 0;
  X509_NAME *n = x ? X509_get_subject_name(x) : NULL;
  if (n && RAND_bytes((unsigned char *)&serial, sizeof serial) == 1 &&
      X509_set_version(x, 2) == 1 &&
      ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial >> 1) == 1 &&
      X509_gmtime_adj(X509_getm_notBefore(x), -day) &&
      X509_gmtime_adj(X509_getm_notAfter(x), 3650 * day) &&
      X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_ASC, name, -1, -1, 0) == 1 &&
      X509_set_issuer_name(x, n) == 1 && X509_set_pubkey(x, key) == 1 &&
      X509_sign(x, key, EVP_sha256()) > 0)
    return x;
  X509_free(x);
  return NULL;
}

/* Returns what was written to `b` as text. 1: done. */
static int text_of(BIO *b, char out[CLU_TLS_TEXT]) {
  char *p = NULL;
  long n = BIO_get_mem_data(b, &p);
  if (n < 0 || n >= CLU_TLS_TEXT) return 0;
  memcpy(out, p, (size_t)n);
  out[n] = 0;
  return 1;
}

static int make_identity(char own[CLU_TLS_TEXT], char certificate[CLU_TLS_TEXT], clu_err *e) {
  EVP_PKEY *key;
  X509 *x = NULL;
  BIO *a, *b; /* their memory is wiped when they are freed */
  int ok;
  ERR_clear_error();
  key = new_key();
  if (key) x = new_certificate(key);
  a = BIO_new(BIO_s_mem());
  b = BIO_new(BIO_s_mem());
  ok = x && a && b && PEM_write_bio_PrivateKey(a, key, NULL, NULL, 0, NULL, NULL) == 1 &&
       PEM_write_bio_X509(a, x) == 1 && PEM_write_bio_X509(b, x) == 1 && text_of(a, own) &&
       text_of(b, certificate);
  EVP_PKEY_free(key);
  X509_free(x);
  BIO_free(a);
  BIO_free(b);
  if (ok) return CLU_OK;
  OPENSSL_cleanse(own, CLU_TLS_TEXT);
  return failed(e, CLU_SYS, "no key for TLS can be made");
}

/* ---- keys ---- */

struct clu_tls_keys {
  long refs;
  SSL_CTX *ctx;
  BIO_METHOD *method;
  unsigned char peer[32]; /* SHA-256 of the certificate that the other side must have */
};

struct clu_tls {
  SSL *ssl;
  clu_tls_keys *keys;
  clu_tls_io io;
  int ended;      /* the code by which `io` ended it, in this call */
  int agreed;     /* the handshake is done */
  int unexpected; /* the other side's certificate is not the expected one */
};

static int digest_of(const X509 *x, unsigned char out[32]) {
  unsigned n = 32;
  return X509_digest(x, EVP_sha256(), out, &n) == 1 && n == 32;
}

/* In place of OpenSSL's own check of a chain. That the other side has the key of the certificate,
 * the handshake itself makes sure. */
static int verify_certificate(X509_STORE_CTX *c, void *unused) {
  const SSL *ssl = X509_STORE_CTX_get_ex_data(c, SSL_get_ex_data_X509_STORE_CTX_idx());
  clu_tls *t = SSL_get_app_data(ssl);
  const X509 *x = X509_STORE_CTX_get0_cert(c);
  unsigned char digest[32];
  (void)unused;
  if (x && digest_of(x, digest) && CRYPTO_memcmp(digest, t->keys->peer, 32) == 0) return 1;
  t->unexpected = 1;
  X509_STORE_CTX_set_error(c, X509_V_ERR_CERT_UNTRUSTED);
  return 0;
}

static int no_password(char *out, int n, int writing, void *data) {
  (void)out, (void)n, (void)writing, (void)data;
  return 0;
}

static X509 *read_certificate(const char *text) {
  const char *begin = strstr(text, "-----BEGIN CERTIFICATE"); /* else it reads the key, too */
  BIO *b = BIO_new_mem_buf(begin ? begin : text, -1);
  X509 *x = b ? PEM_read_bio_X509(b, NULL, no_password, NULL) : NULL;
  BIO_free(b);
  return x;
}

static int use_own(SSL_CTX *c, const char *text) {
  BIO *b = BIO_new_mem_buf(text, -1);
  EVP_PKEY *key = b ? PEM_read_bio_PrivateKey(b, NULL, no_password, NULL) : NULL;
  X509 *x = read_certificate(text);
  int ok = key && x && SSL_CTX_use_certificate(c, x) == 1 && SSL_CTX_use_PrivateKey(c, key) == 1 &&
           SSL_CTX_check_private_key(c) == 1;
  EVP_PKEY_free(key);
  X509_free(x);
  BIO_free(b);
  return ok;
}

static int use_peer(clu_tls_keys *k, const char *text) {
  X509 *x = read_certificate(text);
  int ok = x && digest_of(x, k->peer);
  X509_free(x);
  return ok;
}

/* The system's own settings of OpenSSL may allow less than its defaults, and more. */
static int set_up(SSL_CTX *c) {
  SSL_CTX_set_options(c, SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
#ifdef SSL_OP_IGNORE_UNEXPECTED_EOF
  SSL_CTX_clear_options(c, SSL_OP_IGNORE_UNEXPECTED_EOF);
#endif
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(c, CHAIN_BYTES);
  SSL_CTX_set_read_ahead(c, 1);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  SSL_CTX_set_cert_verify_callback(c, verify_certificate, NULL);
  return SSL_CTX_set_num_tickets(c, 0) == 1 &&
         SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(
             c, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") == 1;
}

/* ---- bytes for OpenSSL ---- */

static int bio_read(BIO *b, char *p, size_t n, size_t *got) {
  clu_tls *t = BIO_get_data(b);
  int rc;
  BIO_clear_retry_flags(b);
  *got = 0;
  rc = t->io.take(t->io.data, p, n, got);
  if (rc == CLU_OK) return 1;
  if (rc == CLU_AGAIN)
    BIO_set_retry_read(b);
  else
    t->ended = rc;
  return 0;
}

static int bio_write(BIO *b, const char *p, size_t n, size_t *done) {
  clu_tls *t = BIO_get_data(b);
  int rc = t->io.put(t->io.data, p, n);
  BIO_clear_retry_flags(b);
  *done = rc == CLU_OK ? n : 0;
  if (rc != CLU_OK) t->ended = rc;
  return rc == CLU_OK;
}

static long bio_ctrl(BIO *b, int what, long n, void *p) {
  (void)b, (void)n, (void)p;
  return what == BIO_CTRL_FLUSH;
}

static BIO_METHOD *new_method(void) {
  BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "clutch");
  if (m && BIO_meth_set_read_ex(m, bio_read) == 1 && BIO_meth_set_write_ex(m, bio_write) == 1 &&
      BIO_meth_set_ctrl(m, bio_ctrl) == 1)
    return m;
  BIO_meth_free(m);
  return NULL;
}

/* OpenSSL wipes a private key when it frees it. */
static void keys_free(clu_tls_keys *k) {
  if (!k || --k->refs > 0) return;
  SSL_CTX_free(k->ctx);
  BIO_meth_free(k->method);
  OPENSSL_clear_free(k, sizeof *k);
}

static int keys_new(const char *own, const char *peer, clu_tls_keys **out, clu_err *e) {
  clu_tls_keys *k;
  int code = CLU_OK;
  ERR_clear_error();
  k = OPENSSL_zalloc(sizeof *k);
  if (!k) return failed(e, CLU_NOMEM, "not enough memory");
  k->refs = 1;
  k->method = new_method();
  k->ctx = SSL_CTX_new(TLS_method());
  if (!k->method || !k->ctx || !set_up(k->ctx))
    code = failed(e, CLU_SYS, "TLS 1.3 cannot be used here");
  else if (!use_own(k->ctx, own))
    code = failed(e, CLU_PROTO, "this is not a private key with its certificate");
  else if (!use_peer(k, peer))
    code = failed(e, CLU_PROTO, "this is not a certificate");
  if (code != CLU_OK) {
    keys_free(k);
    return code;
  }
  *out = k;
  return CLU_OK;
}

/* ---- one connection ---- */

static int tls_new(clu_tls_keys *k, int server, const clu_tls_io *io, clu_tls **out, clu_err *e) {
  clu_tls *t;
  BIO *b;
  ERR_clear_error();
  t = OPENSSL_zalloc(sizeof *t);
  b = BIO_new(k->method);
  if (!t || !b || !(t->ssl = SSL_new(k->ctx)) || SSL_set_app_data(t->ssl, t) != 1) {
    BIO_free(b);
    if (t) SSL_free(t->ssl);
    OPENSSL_free(t);
    return failed(e, CLU_NOMEM, "not enough memory");
  }
  k->refs++;
  t->keys = k;
  t->io = *io;
  BIO_set_data(b, t);
  BIO_set_init(b, 1);
  SSL_set_bio(t->ssl, b, b);
  if (server)
    SSL_set_accept_state(t->ssl);
  else
    SSL_set_connect_state(t->ssl);
  *out = t;
  return CLU_OK;
}

static void tls_free(clu_tls *t) {
  if (!t) return;
  SSL_free(t->ssl);
  keys_free(t->keys);
  OPENSSL_free(t);
}

/* The other side has said why it ends the connection: TLS's number of it. */
static void told(int alert, const char *text, clu_err *e) {
  switch (alert) {
  case SSL3_AD_BAD_CERTIFICATE:
  case TLS1_AD_UNKNOWN_CA:
  case TLS13_AD_CERTIFICATE_REQUIRED:
    clu_fail(e, CLU_PROTO, 0, "the other side does not accept this side's certificate");
    return;
  case TLS1_AD_PROTOCOL_VERSION:
    clu_fail(e, CLU_PROTO, 0, "the other side does not speak TLS 1.3");
    return;
  default: clu_fail(e, CLU_PROTO, 0, "the other side has ended TLS: %s", text);
  }
}

/* A failure of TLS itself. */
static int broken(const clu_tls *t, clu_err *e) {
  unsigned long why = ERR_peek_error();
  const char *text = why ? ERR_reason_error_string(why) : NULL;
  int reason = ERR_GET_REASON(why);
  if (!text) text = "no reason";
  if (reason == ERR_R_MALLOC_FAILURE) return failed(e, CLU_NOMEM, "TLS");
  if (t->unexpected)
    clu_fail(e, CLU_PROTO, 0, "the other side's certificate is not the one that is expected");
  else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    clu_fail(e, CLU_PROTO, 0, "the other side has no certificate");
  else if (reason == SSL_R_UNSUPPORTED_PROTOCOL)
    clu_fail(e, CLU_PROTO, 0, "the other side does not speak TLS 1.3");
  else if (reason >= SSL_AD_REASON_OFFSET)
    told(reason - SSL_AD_REASON_OFFSET, text, e);
  else if (!t->agreed)
    clu_fail(e, CLU_PROTO, 0, "what came is not TLS 1.3, or was changed on the way: %s", text);
  else
    clu_fail(e, CLU_PROTO, 0,
             "what came was changed on the way, repeated, left out or out of order: %s", text);
  ERR_clear_error();
  return CLU_PROTO;
}

/* Says what a call of OpenSSL that returned `rc` came to. */
static int outcome(clu_tls *t, int rc, clu_err *e) {
  int what;
  if (rc > 0) return CLU_OK;
  what = SSL_get_error(t->ssl, rc);
  if (t->ended) {
    ERR_clear_error();
    return t->ended;
  }
  if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE) return CLU_AGAIN;
  if (what == SSL_ERROR_ZERO_RETURN) return CLU_EOF;
  return broken(t, e);
}

static void begin(clu_tls *t) {
  ERR_clear_error();
  t->ended = 0;
}

static int handshake(clu_tls *t, clu_err *e) {
  int rc;
  begin(t);
  rc = outcome(t, SSL_do_handshake(t->ssl), e);
  if (rc == CLU_OK && !t->agreed) {
    t->agreed = 1;
    SSL_set_default_read_buffer_len(t->ssl, READ_AHEAD); /* not for those who may be anybody */
  }
  return rc;
}

static int tls_read(clu_tls *t, void *p, size_t n, size_t *got, clu_err *e) {
  int rc;
  begin(t);
  rc = SSL_read(t->ssl, p, n < INT_MAX ? (int)n : INT_MAX);
  *got = rc > 0 ? (size_t)rc : 0;
  return outcome(t, rc, e);
}

static int tls_write(clu_tls *t, const void *p, size_t n, clu_err *e) {
  begin(t);
  return outcome(t, SSL_write(t->ssl, p, (int)n), e);
}

static int finish(clu_tls *t, clu_err *e) {
  int rc;
  begin(t);
  rc = SSL_shutdown(t->ssl); /* 0: the other side has not said so yet */
  return rc == 0 ? CLU_OK : outcome(t, rc, e);
}

static int pending(const clu_tls *t) { return SSL_has_pending(t->ssl); }

const clu_tls_port *clu_os_tls(void) {
  static const clu_tls_port port = {make_identity, keys_new, keys_free, tls_new, tls_free,
                                    handshake,     tls_read, tls_write, finish,  pending};
  return &port;
}

#else

const clu_tls_port *clu_os_tls(void) { return NULL; }

#endif
