/* TLS connections and those who are not the other side: another certificate, none, other protocols,
 * and somebody in between who changes bytes. */
#include "test.h"

#include <openssl/ssl.h>

#include "tls-fixture.h"

/* ---- certificates ---- */

static const char not_expected[] = "the other side's certificate is not the one that is expected";
static const char not_accepted[] = "the other side does not accept this side's certificate";

/* A side that says it is `own` and expects `peer`, of these identities. */
static clu_tls_keys *side(int own, int peer) {
  static char secret[3][CLU_TLS_TEXT], certificate[3][CLU_TLS_TEXT];
  clu_tls_keys *k = NULL;
  clu_err e = {0, 0, ""};
  for (int i = 0; i < 3 && !secret[i][0]; i++)
    REQUIRE(clu_tls_make_identity(secret[i], certificate[i], &e) == CLU_OK);
  REQUIRE(clu_tls_keys_new(secret[own], certificate[peer], &k, &e) == CLU_OK);
  return k;
}

static void open_sides(clu_conn *s[2], clu_tls_keys *server, clu_tls_keys *client) {
  clu_tls_keys *k[2] = {server, client};
  clu_fd fd[2];
  clu_err e;
  REQUIRE(clu_os_pair(fd, &e) == CLU_OK);
  open_ends(s, k, fd);
  free_keys(k);
}

TEST(a_client_with_another_certificate_is_refused) {
  for (int how = 0; how < 3; how++) { /* in which way the client learns of it */
    clu_conn *s[2];
    int rc[2];
    char got[8] = "";
    size_t n;
    open_sides(s, side(0, 1), side(2, 0));
    shake_all(s, rc);
    CHECK_INT_EQ(rc[SERVER], CLU_PROTO);
    CHECK_STR_EQ(s[SERVER]->err.text, not_expected);
    CHECK_INT_EQ(clu_conn_write(s[SERVER], "secret", 6, &n), CLU_PROTO);
    CHECK_INT_EQ(rc[CLIENT], CLU_OK); /* TLS 1.3 does not wait for the other side's word */
    if (how == 1) clu_conn_close(s[SERVER]);
    if (how == 2) {
      int r;
      clu_conn_close(s[SERVER]);
      while ((r = clu_conn_write(s[CLIENT], "abc", 3, &n)) == CLU_OK) continue;
      CHECK_INT_EQ(r, CLU_PROTO);
    } else {
      CHECK_INT_EQ(clu_conn_read(s[CLIENT], got, sizeof got, &n), CLU_PROTO);
    }
    CHECK_STR_EQ(s[CLIENT]->err.text, not_accepted);
    if (how == 0) clu_conn_close(s[SERVER]);
    clu_conn_close(s[CLIENT]);
  }
}

TEST(a_server_with_another_certificate_is_refused) {
  clu_conn *s[2];
  int rc[2];
  open_sides(s, side(2, 1), side(1, 0));
  shake_all(s, rc);
  CHECK_INT_EQ(rc[CLIENT], CLU_PROTO);
  CHECK_STR_EQ(s[CLIENT]->err.text, not_expected);
  CHECK_INT_EQ(rc[SERVER], CLU_PROTO);
  CHECK_STR_EQ(s[SERVER]->err.text, not_accepted);
  close_ends(s);
}

/* It has both certificates, and lacks the key. What both sides show is no secret. */
TEST(a_certificate_without_its_key_is_of_no_use) {
  char own[2][CLU_TLS_TEXT], certificate[2][CLU_TLS_TEXT], mixed[2 * CLU_TLS_TEXT];
  clu_tls_keys *k;
  clu_err e;
  for (int i = 0; i < 2; i++) REQUIRE(clu_tls_make_identity(own[i], certificate[i], &e) == CLU_OK);
  memcpy(mixed, own[0], sizeof own[0]);
  memcpy(strstr(mixed, "-----BEGIN CERT"), certificate[1], strlen(certificate[1]) + 1);
  CHECK_INT_EQ(clu_tls_keys_new(mixed, certificate[1], &k, &e), CLU_PROTO);
}

/* ---- other clients, by OpenSSL itself ---- */

typedef struct other {
  SSL_CTX *ctx;
  SSL *ssl;
} other;

static other other_client(clu_fd fd, int version) {
  other o;
  REQUIRE(o.ctx = SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(o.ctx, TLS1_VERSION);
  SSL_CTX_set_max_proto_version(o.ctx, version);
  SSL_CTX_set_cipher_list(o.ctx, "ALL:@SECLEVEL=0");
  REQUIRE(o.ssl = SSL_new(o.ctx));
  REQUIRE(SSL_set_fd(o.ssl, (int)fd) == 1);
  SSL_set_connect_state(o.ssl);
  return o;
}

static void other_close(other o) {
  SSL_free(o.ssl);
  SSL_CTX_free(o.ctx);
  ERR_clear_error();
}

/* Checks what the server says to a client of its own making. */
static void check_other(int version, const char *why) {
  clu_tls_keys *k[2];
  clu_conn *s;
  clu_fd fd[2];
  clu_err e;
  other o;
  int rc = CLU_AGAIN;
  char got[8];
  make_keys(k);
  REQUIRE(clu_os_pair(fd, &e) == CLU_OK);
  REQUIRE(clu_conn_tls_server(fd[0], k[SERVER], &s, &e) == CLU_OK);
  o = other_client(fd[1], version);
  for (int i = 0; i < 10 && rc == CLU_AGAIN; i++) {
    SSL_do_handshake(o.ssl);
    rc = clu_conn_handshake(s);
  }
  CHECK_INT_EQ(rc, CLU_PROTO);
  CHECK_STR_EQ(s->err.text, why);
  CHECK(SSL_read(o.ssl, got, sizeof got) <= 0); /* nothing but the alert */
  clu_conn_close(s);
  other_close(o);
  clu_os_close(fd[1]);
  clu_tls_keys_free(k[0]);
  clu_tls_keys_free(k[1]);
}

TEST(an_older_tls_is_refused) {
  check_other(TLS1_2_VERSION, "the other side does not speak TLS 1.3");
  check_other(TLS1_1_VERSION, "the other side does not speak TLS 1.3");
}

TEST(a_client_without_a_certificate_is_refused) {
  check_other(TLS1_3_VERSION, "the other side has no certificate");
}

/* ---- what is not TLS ---- */

static void check_garbage(const void *p, size_t n, const char *why) {
  for (int as_server = 0; as_server < 2; as_server++) {
    clu_tls_keys *k[2];
    clu_conn *s;
    clu_fd fd[2];
    clu_err e;
    int rc;
    make_keys(k);
    REQUIRE(clu_os_pair(fd, &e) == CLU_OK);
    if (as_server)
      REQUIRE(clu_conn_tls_server(fd[0], k[0], &s, &e) == CLU_OK);
    else
      REQUIRE(clu_conn_tls_client(fd[0], k[0], &s, &e) == CLU_OK);
    if (n > 0) raw_write(fd[1], p, n);
    clu_os_shutdown(fd[1], CLU_WRITE);
    while ((rc = clu_conn_handshake(s)) == CLU_OK) continue;
    CHECK(rc == CLU_PROTO || rc == CLU_RESET);
    if (!CHECK(strstr(s->err.text, why))) test_note(__FILE__, __LINE__, "%s", s->err.text);
    clu_conn_close(s);
    clu_os_close(fd[1]);
    clu_tls_keys_free(k[0]);
    clu_tls_keys_free(k[1]);
  }
}

TEST(what_is_not_tls_is_refused) {
  static unsigned char zeros[20000];
  check_garbage("GET / HTTP/1.0\r\n\r\n", 18, "what came is not TLS 1.3");
  check_garbage("SSH-2.0-OpenSSH_9.2p1\r\n", 23, "what came is not TLS 1.3");
  check_garbage(zeros, sizeof zeros, "what came is not TLS 1.3");
  check_garbage("\x16\x03\x01", 3, "the connection ended in the TLS handshake");
  check_garbage("", 0, "the connection ended in the TLS handshake");
}

/* ---- somebody who takes memory ---- */

static size_t held; /* bytes that OpenSSL has allocated */
static void *count_malloc(size_t n, const char *f, int l) {
  size_t *p = malloc(n + 16);
  (void)f, (void)l;
  if (!p) return NULL;
  *p = n;
  held += n;
  return p + 2;
}
static void count_free(void *p, const char *f, int l) {
  size_t *q = p;
  (void)f, (void)l;
  if (!p) return;
  held -= q[-2];
  free(q - 2);
}
static void *count_realloc(void *p, size_t n, const char *f, int l) {
  void *q = count_malloc(n, f, l);
  size_t *old = p;
  if (p && q) memcpy(q, p, old[-2] < n ? old[-2] : n);
  if (q || n == 0) count_free(p, f, l);
  return q;
}

/* A client hello of `n` bytes, cut into records, by somebody who never comes to an end. */
static size_t put_hello(unsigned char *out, size_t n) {
  size_t at = 0, sent = 0;
  while (sent < n) {
    size_t k = n - sent < 16000 ? n - sent : 16000;
    unsigned char head[5] = {22, 3, 1, (unsigned char)(k >> 8), (unsigned char)k};
    memcpy(out + at, head, 5);
    memset(out + at + 5, 7, k);
    if (sent == 0) {
      unsigned char hello[4] = {1, (unsigned char)((n - 4) >> 16), (unsigned char)((n - 4) >> 8),
                                (unsigned char)(n - 4)};
      memcpy(out + at + 5, hello, 4);
    }
    at += 5 + k;
    sent += k;
  }
  return at;
}

TEST(who_has_proven_nothing_holds_little_memory) {
  static unsigned char hello[140000];
  clu_tls_keys *k[2];
  clu_conn *s[50];
  clu_fd fd[50][2];
  clu_err e;
  size_t n = put_hello(hello, 130000), before, most = 0;
  REQUIRE(CRYPTO_set_mem_functions(count_malloc, count_realloc, count_free) == 1);
  make_keys(k);
  before = held;
  for (int i = 0; i < 50; i++) {
    size_t parts[] = {n, 16384, 16383, 5000, 5};
    size_t part = parts[i % 5];
    REQUIRE(clu_os_pair(fd[i], &e) == CLU_OK);
    REQUIRE(clu_conn_tls_server(fd[i][0], k[0], &s[i], &e) == CLU_OK);
    raw_write(fd[i][1], hello, part);
    while (clu_conn_handshake(s[i]) == CLU_OK) continue;
    CHECK_INT_EQ(s[i]->err.code, part >= 16384 ? CLU_PROTO : CLU_OK);
    if (part >= 16384)
      CHECK_STR_EQ(s[i]->err.text, "the other side sent more than a TLS handshake has");
    most = held - before > most ? held - before : most;
  }
  if (!CHECK(most / 50 < 200000)) test_note(__FILE__, __LINE__, "%zu bytes each", most / 50);
  for (int i = 0; i < 50; i++) {
    clu_conn_close(s[i]);
    clu_os_close(fd[i][1]);
  }
  CHECK(held <= before + 4096); /* but for what the library sets up once */
  clu_tls_keys_free(k[0]);
  clu_tls_keys_free(k[1]);
}

TEST(a_quiet_connection_holds_little_memory) {
  enum { N = 20 };
  clu_tls_keys *k[2];
  clu_conn *s[N][2];
  size_t before = 0, n;
  static char block[300000];
  REQUIRE(CRYPTO_set_mem_functions(count_malloc, count_realloc, count_free) == 1);
  for (int i = 0; i < N; i++) {
    make_keys(k);
    if (i == 1) before = held; /* what the first one sets up once is left out */
    up_with(s[i], k);
    free_keys(k);
    check_both_ways(s[i]);
    CHECK_INT_EQ(clu_conn_write(s[i][0], block, sizeof block, &n), CLU_OK);
    while (clu_conn_read(s[i][1], block, sizeof block, &n) == CLU_OK) continue;
  }
  n = (held - before) / (2 * (N - 1));
  if (!CHECK(n < 50000)) test_note(__FILE__, __LINE__, "%zu bytes each end", n);
  for (int i = 0; i < N; i++) close_ends(s[i]);
}

/* ---- somebody in between ---- */

static const char changed[] =
    "what came was changed on the way, repeated, left out or out of order";

/* Two that have shaken hands by way of `raw`, and a message of the client's on its way: its records
 * (that is, ten of them) are in `p`. How many bytes. */
static size_t intercept(clu_conn *s[2], clu_fd raw[2], unsigned char *p, size_t room, int count) {
  size_t n, sum = 0;
  open_apart(s, raw);
  shake_apart(s, raw, 65536);
  for (int i = 0; i < count; i++) {
    char text[32];
    snprintf(text, sizeof text, "message %d", i);
    CHECK_INT_EQ(clu_conn_write(s[CLIENT], text, strlen(text), &n), CLU_OK);
    sum += n;
  }
  n = raw_read(raw[CLIENT], p, room);
  CHECK_INT_EQ(n, sum + (size_t)count * (5 + 1 + 16)); /* header, kind, tag */
  return n;
}

static size_t record(const unsigned char *p) { return 5 + ((size_t)p[3] << 8 | p[4]); }

/* The server gets `n` bytes: it reads `good` messages, and then has a reason to end it. */
static void check_refused(clu_conn *s[2], clu_fd raw[2], const void *p, size_t n, int good) {
  char got[32];
  size_t k, come = 0;
  int rc;
  raw_write(raw[SERVER], p, n);
  while ((rc = clu_conn_read(s[SERVER], got, sizeof got, &k)) == CLU_OK) come += k;
  CHECK_INT_EQ(rc, CLU_PROTO);
  CHECK(strstr(s[SERVER]->err.text, changed) == s[SERVER]->err.text);
  CHECK_INT_EQ(come, good * 9);
  CHECK_INT_EQ(clu_conn_write(s[SERVER], "abc", 3, &k), CLU_PROTO);
}

/* The other side hears of it. */
static void check_told(clu_conn *s[2], clu_fd raw[2]) {
  char got[32];
  size_t k;
  hand_on(raw, 65536);
  CHECK_INT_EQ(clu_conn_read(s[CLIENT], got, sizeof got, &k), CLU_PROTO);
  CHECK(strstr(s[CLIENT]->err.text, "the other side has ended TLS: ") == s[CLIENT]->err.text);
}

static void end_between(clu_conn *s[2], clu_fd raw[2]) {
  close_ends(s);
  clu_os_close(raw[0]);
  clu_os_close(raw[1]);
}

TEST(a_changed_byte_ends_it) {
  clu_conn *s[2];
  clu_fd raw[2];
  unsigned char p[400];
  for (size_t at = 0; at < 31; at++) { /* each byte of a record but the upper one of its length */
    size_t n = intercept(s, raw, p, sizeof p, 1);
    CHECK_INT_EQ(n, 31);
    if (at == 3 || at == 4) { /* a longer record has not come yet: it waits for more, in vain */
      p[4] -= 1;
      at = 4;
    } else {
      p[at] ^= 1;
    }
    check_refused(s, raw, p, n, 0);
    if (at > 4) check_told(s, raw);
    end_between(s, raw);
  }
}

TEST(a_record_that_is_longer_than_any_ends_it) {
  clu_conn *s[2];
  clu_fd raw[2];
  unsigned char p[400];
  size_t n = intercept(s, raw, p, sizeof p, 1);
  p[3] = 255;
  check_refused(s, raw, p, n, 0);
  end_between(s, raw);
}

TEST(repeated_records_end_it) {
  clu_conn *s[2];
  clu_fd raw[2];
  unsigned char p[400];
  size_t n = intercept(s, raw, p, sizeof p, 1);
  memcpy(p + n, p, n);
  check_refused(s, raw, p, 2 * n, 1);
  check_told(s, raw);
  end_between(s, raw);
}

TEST(left_out_records_end_it) {
  clu_conn *s[2];
  clu_fd raw[2];
  unsigned char p[400];
  size_t n = intercept(s, raw, p, sizeof p, 3), a = record(p), b = record(p + a);
  memmove(p + a, p + a + b, n - a - b);
  check_refused(s, raw, p, n - b, 1);
  check_told(s, raw);
  end_between(s, raw);
}

TEST(records_in_another_order_end_it) {
  clu_conn *s[2];
  clu_fd raw[2];
  unsigned char p[400], q[400];
  size_t n = intercept(s, raw, p, sizeof p, 2), a = record(p);
  memcpy(q, p + a, n - a);
  memcpy(q + n - a, p, a);
  check_refused(s, raw, q, n, 0);
  check_told(s, raw);
  end_between(s, raw);
}

TEST(added_bytes_end_it) {
  clu_conn *s[2];
  clu_fd raw[2];
  unsigned char p[400];
  size_t n = intercept(s, raw, p, sizeof p, 1);
  memmove(p + 1, p, n);
  p[0] = 23;
  check_refused(s, raw, p, n + 1, 0);
  end_between(s, raw);
}

TEST(what_this_side_sent_does_not_come_back) {
  clu_conn *s[2];
  clu_fd raw[2];
  unsigned char p[400];
  size_t n;
  open_apart(s, raw);
  shake_apart(s, raw, 65536);
  CHECK_INT_EQ(clu_conn_write(s[SERVER], "message 0", 9, &n), CLU_OK);
  n = raw_read(raw[SERVER], p, sizeof p);
  check_refused(s, raw, p, n, 0);
  end_between(s, raw);
}

TEST(records_of_another_connection_do_not_fit) {
  clu_conn *s[2], *t[2];
  clu_fd raw[2], other_raw[2];
  unsigned char p[400], q[400];
  size_t n = intercept(s, raw, p, sizeof p, 1);
  intercept(t, other_raw, q, sizeof q, 1);
  check_refused(t, other_raw, p, n, 0);
  end_between(s, raw);
  end_between(t, other_raw);
}

/* Wherever the connection is cut, it is not taken for an end. */
TEST(a_cut_within_a_record_is_a_cut) {
  clu_conn *s[2];
  clu_fd raw[2];
  unsigned char p[400];
  char got[32];
  for (size_t cut = 0; cut <= 62; cut += cut < 32 ? 1 : 15) {
    size_t n = intercept(s, raw, p, sizeof p, 2), k, come = 0;
    int rc;
    CHECK_INT_EQ(n, 62);
    if (cut > 0) raw_write(raw[SERVER], p, cut);
    clu_os_shutdown(raw[SERVER], CLU_WRITE);
    while ((rc = clu_conn_read(s[SERVER], got, sizeof got, &k)) == CLU_OK) come += k;
    CHECK_INT_EQ(rc, CLU_RESET);
    CHECK_STR_EQ(s[SERVER]->err.text, "the connection was cut: it ended without TLS's word for it");
    CHECK_INT_EQ(come, cut / 31 * 9);
    end_between(s, raw);
  }
}

/* Both shake hands, and byte number `at` of all that they send meanwhile is changed. 1: there was
 * such a byte. */
static int shake_changed(clu_conn *s[2], clu_fd raw[2], size_t at, int rc[2]) {
  static unsigned char p[65536];
  size_t seen = 0;
  int did = 0;
  for (int idle = 0; idle < 2;) {
    size_t before = seen;
    shake(s, rc);
    for (int i = 0; i < 2; i++) {
      size_t n = raw_read(raw[i], p, sizeof p);
      if (at >= seen && at < seen + n) {
        p[at - seen] ^= 0x20;
        did = 1;
      }
      seen += n;
      if (n > 0) raw_write(raw[1 - i], p, n);
    }
    idle = seen == before ? idle + 1 : 0;
  }
  return did;
}

/* One byte after the other is changed in what the two say before they agree. */
TEST(a_changed_byte_in_the_handshake_ends_it) {
  clu_tls_keys *k[2];
  size_t at = 0;
  int did = 1;
  make_keys(k);
  for (; did; at += 5) {
    clu_conn *s[2];
    clu_fd raw[2];
    int rc[2];
    char got[8];
    size_t n;
    open_apart_with(s, raw, k);
    if ((did = shake_changed(s, raw, at, rc))) {
      /* one waits for what does not come, and its caller's time ends it; nobody takes it for agreed
       */
      CHECK(rc[SERVER] != CLU_OK);
      if (rc[CLIENT] == CLU_OK) rc[CLIENT] = clu_conn_read(s[CLIENT], got, sizeof got, &n);
      CHECK(rc[CLIENT] != CLU_OK);
      for (int i = 0; i < 2; i++) CHECK((rc[i] != CLU_AGAIN) == (s[i]->err.text[0] != 0));
    }
    end_between(s, raw);
  }
  CHECK(at > 1000);
  free_keys(k);
}
