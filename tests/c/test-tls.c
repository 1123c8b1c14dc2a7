/* TLS connections: two ends that know each other, bytes, and the end. */
#include "test.h"

#include <openssl/evp.h>

#include "tls-fixture.h"

#define MB ((size_t)1 << 20)

static unsigned char byte_at(size_t i) { return (unsigned char)((i * 2654435761u) >> 7); }

/* ---- keys ---- */

TEST(an_identity_is_text_and_each_is_another) {
  char own[2][CLU_TLS_TEXT], certificate[2][CLU_TLS_TEXT];
  clu_err e = {0, 0, ""};
  for (int i = 0; i < 2; i++) {
    CHECK_INT_EQ(clu_tls_make_identity(own[i], certificate[i], &e), CLU_OK);
    CHECK(strstr(own[i], "-----BEGIN PRIVATE KEY-----") == own[i]);
    CHECK(strstr(own[i], certificate[i]));
    CHECK(strstr(certificate[i], "-----BEGIN CERTIFICATE-----") == certificate[i]);
    CHECK(!strstr(certificate[i], "PRIVATE"));
  }
  CHECK(strcmp(own[0], own[1]) && strcmp(certificate[0], certificate[1]));
}

TEST(other_texts_are_refused) {
  char own[2][CLU_TLS_TEXT], certificate[2][CLU_TLS_TEXT], mixed[2 * CLU_TLS_TEXT];
  const char *wrong[] = {"", "nothing", certificate[0], mixed};
  clu_tls_keys *k = NULL;
  clu_err e = {0, 0, ""};
  for (int i = 0; i < 2; i++) REQUIRE(clu_tls_make_identity(own[i], certificate[i], &e) == CLU_OK);
  /* the key of the one and the certificate of the other */
  memcpy(mixed, own[0], sizeof own[0]);
  memcpy(strstr(mixed, "-----BEGIN CERT"), certificate[1], strlen(certificate[1]) + 1);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CHECK_INT_EQ(clu_tls_keys_new(wrong[i], certificate[1], &k, &e), CLU_PROTO);
    CHECK(strstr(e.text, "this is not a private key with its certificate") == e.text);
  }
  for (int i = 0; i < 2; i++) {
    CHECK_INT_EQ(clu_tls_keys_new(own[0], wrong[i], &k, &e), CLU_PROTO);
    CHECK(strstr(e.text, "this is not a certificate") == e.text);
  }
  CHECK(!k);
  CHECK_INT_EQ(ERR_peek_error(), 0);
  clu_tls_keys_free(NULL);
}

/* ---- bytes ---- */

TEST(bytes_go_both_ways) {
  clu_conn *s[2];
  char got[8];
  size_t n;
  up(s);
  for (int i = 0; i < 2; i++) {
    CHECK_INT_EQ(clu_conn_wants(s[i], CLU_READ), CLU_READ);
    CHECK_INT_EQ(clu_conn_wants(s[i], CLU_READ | CLU_WRITE), CLU_READ | CLU_WRITE);
    CHECK_INT_EQ(clu_conn_pending(s[i]), 0);
    CHECK_INT_EQ(clu_conn_read(s[i], got, sizeof got, &n), CLU_AGAIN);
    CHECK_INT_EQ(clu_conn_handshake(s[i]), CLU_OK); /* as often as one likes */
  }
  for (int i = 0; i < 3; i++) check_both_ways(s);
  close_ends(s);
}

TEST(a_read_says_whether_it_has_left_anything) {
  clu_conn *s[2];
  char got[8];
  size_t n;
  up(s);
  for (int k = 0; k < 2; k++) /* two records */
    CHECK_INT_EQ(clu_conn_write(s[SERVER], "abcdef", 6, &n), CLU_OK);
  CHECK_INT_EQ(clu_conn_read(s[CLIENT], got, 4, &n), CLU_OK);
  CHECK(!s[CLIENT]->is_dry); /* of the first record */
  CHECK_INT_EQ(clu_conn_read(s[CLIENT], got, sizeof got, &n), CLU_OK);
  CHECK_INT_EQ(n, 8);
  CHECK(s[CLIENT]->is_dry);
  CHECK_INT_EQ(clu_conn_read(s[CLIENT], got, sizeof got, &n), CLU_AGAIN);
  check_both_ways(s);
  CHECK(s[SERVER]->is_dry);
  CHECK_INT_EQ(clu_conn_finish(s[SERVER]), CLU_OK);
  CHECK_INT_EQ(clu_conn_read(s[CLIENT], got, sizeof got, &n), CLU_EOF);
  CHECK(!s[CLIENT]->is_dry);
  close_ends(s);
}

TEST(a_handshake_says_what_it_waits_for) {
  clu_conn *s[2];
  clu_fd raw[2];
  open_apart(s, raw);
  CHECK_INT_EQ(clu_conn_handshake(s[SERVER]), CLU_AGAIN);
  CHECK_INT_EQ(clu_conn_wants(s[SERVER], 0), CLU_READ);
  CHECK_INT_EQ(clu_conn_wants(s[SERVER], CLU_WRITE), CLU_READ); /* writing has to wait */
  CHECK_INT_EQ(clu_conn_handshake(s[CLIENT]), CLU_AGAIN);
  CHECK_INT_EQ(clu_conn_wants(s[CLIENT], 0), CLU_READ);
  shake_apart(s, raw, 1 << 16);
  CHECK_INT_EQ(clu_conn_wants(s[SERVER], 0), 0);
  close_ends(s);
  clu_os_close(raw[0]);
  clu_os_close(raw[1]);
}

TEST(who_writes_or_reads_at_once_shakes_hands_by_it) {
  clu_conn *s[2];
  clu_tls_keys *k[2];
  clu_fd fd[2];
  clu_err e;
  char got[8];
  size_t n, m = 0;
  int rc;
  make_keys(k);
  REQUIRE(clu_os_pair(fd, &e) == CLU_OK);
  open_ends(s, k, fd);
  free_keys(k);
  while ((rc = clu_conn_write(s[CLIENT], "early", 5, &n)) == CLU_AGAIN)
    CHECK_INT_EQ(clu_conn_read(s[SERVER], got, sizeof got, &m), CLU_AGAIN);
  CHECK_INT_EQ(rc, CLU_OK);
  CHECK_INT_EQ(clu_conn_read(s[SERVER], got, sizeof got, &m), CLU_OK);
  CHECK_INT_EQ(m, 5);
  close_ends(s);
}

TEST(each_byte_may_come_for_itself) {
  for (size_t step = 1; step < 40; step += step < 8 ? 1 : 13) {
    clu_conn *s[2];
    clu_fd raw[2];
    unsigned char got[600];
    size_t n, sum = 0;
    open_apart(s, raw);
    shake_apart(s, raw, step);
    for (size_t k = 1; k <= 30; k++) {
      unsigned char p[30];
      for (size_t i = 0; i < k; i++) p[i] = byte_at(sum + i);
      CHECK_INT_EQ(clu_conn_write(s[CLIENT], p, k, &n), CLU_OK);
      CHECK_INT_EQ(n, k);
      sum += k;
    }
    for (size_t off = 0; off < sum;) {
      int rc = clu_conn_read(s[SERVER], got, 1 + off % 5, &n);
      for (size_t i = 0; i < n; i++) CHECK_INT_EQ(got[i], byte_at(off + i));
      off += n;
      if (rc == CLU_AGAIN) {
        CHECK_INT_EQ(clu_conn_pending(s[SERVER]), 0);
        if (!CHECK(hand_on(raw, step) > 0)) break;
      } else if (!CHECK_INT_EQ(rc, CLU_OK)) {
        break;
      }
    }
    close_ends(s);
    clu_os_close(raw[0]);
    clu_os_close(raw[1]);
  }
}

TEST(what_is_decrypted_and_not_read_is_pending) {
  clu_conn *s[2];
  char got[4];
  size_t n;
  up(s);
  CHECK_INT_EQ(clu_conn_write(s[0], "abcdef", 6, &n), CLU_OK);
  CHECK_INT_EQ(clu_conn_read(s[1], got, 4, &n), CLU_OK);
  CHECK_INT_EQ(n, 4);
  CHECK_INT_EQ(clu_conn_pending(s[1]), 1);
  CHECK_INT_EQ(clu_conn_read(s[1], got, 4, &n), CLU_OK);
  CHECK_INT_EQ(n, 2);
  CHECK_INT_EQ(clu_conn_pending(s[1]), 0);
  close_ends(s);
}

/* Bytes that repeat after an odd number of them, so that each place has its own for long. */
enum { PERIOD = 65521 };
static unsigned char pattern[2 * PERIOD + 2 * 65537];

/* Sends `total` bytes in pieces of `piece`, which the other side reads in pieces of its own; both
 * take turns whenever one can do no more. */
static void through(clu_conn *from, clu_conn *to, size_t total, size_t piece) {
  static unsigned char p[65537], q[65537];
  size_t sent = 0, come = 0, put, got, bad = 0, agains = 0;
  for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = byte_at(i % PERIOD);
  while (come < total) {
    int rc = CLU_OK;
    while (sent < total && rc == CLU_OK) {
      size_t n = total - sent < piece ? total - sent : piece;
      memcpy(p, pattern + sent % PERIOD, n);
      rc = clu_conn_write(from, p, n, &put);
      sent += put;
      agains += rc == CLU_AGAIN;
      if (rc == CLU_AGAIN) CHECK(clu_conn_wants(from, 0) & CLU_WRITE);
      memset(p, 0, n); /* what was not taken need not stay as it is */
    }
    if (sent == total) clu_conn_flush(from);
    while ((rc = clu_conn_read(to, q, 1 + sent % sizeof q, &got)) == CLU_OK) {
      bad += memcmp(q, pattern + come % PERIOD, got) != 0;
      come += got;
    }
    if (!CHECK_INT_EQ(rc, CLU_AGAIN)) break;
  }
  CHECK_INT_EQ(bad, 0);
  CHECK_INT_EQ(come, total);
  CHECK_INT_EQ(clu_conn_flush(from), CLU_OK);
  if (total > 10 * MB) CHECK(agains > 0);
}

TEST(much_goes_through_in_pieces_of_all_sizes) {
  static const size_t pieces[] = {1, 1000, 16383, 16384, 16385, 65535, 65536, 65537};
  clu_conn *s[2];
  up(s);
  for (int i = 0; i < 8; i++)
    through(s[i & 1], s[1 - (i & 1)], i == 0 ? 3000 : 2 * MB + 17, pieces[i]);
  close_ends(s);
}

TEST(a_hundred_megabytes_go_through) {
  clu_conn *s[2];
  up(s);
  through(s[CLIENT], s[SERVER], 100 * MB, 65536);
  check_both_ways(s);
  close_ends(s);
}

/* ---- the end ---- */

TEST(who_has_finished_still_reads) {
  for (int i = 0; i < 2; i++) {
    clu_conn *s[2], *a, *b;
    char got[8];
    size_t n;
    up(s);
    a = s[i], b = s[1 - i];
    CHECK_INT_EQ(clu_conn_write(a, "last", 4, &n), CLU_OK);
    CHECK_INT_EQ(clu_conn_finish(a), CLU_OK);
    CHECK_INT_EQ(clu_conn_finish(a), CLU_OK);
    CHECK_INT_EQ(clu_conn_read(b, got, sizeof got, &n), CLU_OK);
    CHECK_INT_EQ(n, 4);
    for (int k = 0; k < 2; k++) CHECK_INT_EQ(clu_conn_read(b, got, sizeof got, &n), CLU_EOF);
    CHECK_INT_EQ(b->err.code, CLU_OK);
    check_text(b, a, "answer");
    CHECK_INT_EQ(clu_conn_finish(b), CLU_OK);
    CHECK_INT_EQ(clu_conn_read(a, got, sizeof got, &n), CLU_EOF);
    CHECK_INT_EQ(clu_conn_write(a, "more", 4, &n), CLU_CLOSED);
    CHECK_STR_EQ(a->err.text, "it is closed on this side");
    close_ends(s);
  }
}

TEST(an_end_that_is_not_said_is_a_cut) {
  clu_conn *s[2];
  char got[8];
  size_t n;
  up(s);
  CHECK_INT_EQ(clu_conn_write(s[0], "last", 4, &n), CLU_OK);
  clu_conn_close(s[0]);
  CHECK_INT_EQ(clu_conn_read(s[1], got, sizeof got, &n), CLU_OK); /* what came before is there */
  CHECK_INT_EQ(n, 4);
  for (int i = 0; i < 2; i++) CHECK_INT_EQ(clu_conn_read(s[1], got, 8, &n), CLU_RESET);
  CHECK_STR_EQ(s[1]->err.text, "the connection was cut: it ended without TLS's word for it");
  CHECK_INT_EQ(clu_conn_write(s[1], "a", 1, &n), CLU_RESET);
  CHECK_INT_EQ(clu_conn_finish(s[1]), CLU_RESET);
  clu_conn_close(s[1]);
}

TEST(who_writes_to_nobody_is_told_and_gets_no_signal) {
  clu_conn *s[2];
  size_t n;
  int rc;
  up(s);
  clu_conn_close(s[0]);
  while ((rc = clu_conn_write(s[1], "abc", 3, &n)) == CLU_OK) continue;
  CHECK_INT_EQ(rc, CLU_RESET);
  CHECK(s[1]->err.text[0]);
  clu_conn_close(s[1]);
}

TEST(a_forked_child_closes_without_a_word) {
  clu_conn *s[2];
  pid_t pid;
  int status = 0;
  up(s);
  check_both_ways(s);
  if ((pid = fork()) == 0) {
    close_ends(s);
    _exit(0);
  }
  CHECK_INT_EQ(waitpid(pid, &status, 0), pid);
  CHECK_INT_EQ(status, 0);
  check_both_ways(s);
  close_ends(s);
}

TEST(what_cannot_be_sent_yet_is_sent_before_the_end) {
  clu_conn *s[2];
  unsigned char *p = calloc(1, MB);
  size_t n, sum = 0, come = 0;
  int rc;
  REQUIRE(p);
  up(s);
  while (clu_conn_write(s[0], p, MB, &n) == CLU_OK) sum += n;
  CHECK_INT_EQ(clu_conn_finish(s[0]), CLU_AGAIN);
  CHECK_INT_EQ(clu_conn_wants(s[0], CLU_READ), CLU_READ | CLU_WRITE);
  do {
    while ((rc = clu_conn_read(s[1], p, MB, &n)) == CLU_OK) come += n;
    if (rc == CLU_AGAIN) clu_conn_finish(s[0]);
  } while (rc == CLU_AGAIN);
  CHECK_INT_EQ(rc, CLU_EOF);
  CHECK_INT_EQ(come, sum);
  CHECK_INT_EQ(clu_conn_finish(s[0]), CLU_OK);
  free(p);
  close_ends(s);
}

/* ---- what stays in memory ---- */

static unsigned char scalar[2][32]; /* the private key's number, and the same from its other end */
static int found;

static int has_scalar(const unsigned char *p, size_t n) {
  for (size_t i = 0; i + 32 <= n; i++)
    if (memcmp(p + i, scalar[0], 32) == 0 || memcmp(p + i, scalar[1], 32) == 0) return 1;
  return 0;
}

/* OpenSSL's memory, each piece with its size before it. */
static void *sized_malloc(size_t n, const char *f, int l) {
  size_t *p = malloc(n + 16);
  (void)f, (void)l;
  if (!p) return NULL;
  *p = n;
  return p + 2;
}

static void looking_free(void *p, const char *f, int l) {
  size_t *q = p;
  (void)f, (void)l;
  if (!p) return;
  found += has_scalar(p, q[-2]);
  free(q - 2);
}

static void *looking_realloc(void *p, size_t n, const char *f, int l) {
  size_t *old = p, *q = n > 0 ? sized_malloc(n, f, l) : NULL;
  if (p && q) memcpy(q, p, old[-2] < n ? old[-2] : n);
  if (q || n == 0) looking_free(p, f, l);
  return q;
}

/* The 32 bytes after the tag and length that they have in PKCS #8. */
static void find_scalar(const char *own) {
  static const unsigned char before[] = {2, 1, 1, 4, 32};
  unsigned char der[512];
  char text[512];
  size_t n = 0;
  const char *p = strchr(own, '\n'), *end = strstr(own, "\n-----END");
  int len;
  for (; p < end; p++)
    if (*p != '\n') text[n++] = *p;
  len = EVP_DecodeBlock(der, (const unsigned char *)text, (int)n);
  for (int i = 0; i + 37 < len; i++)
    if (memcmp(der + i, before, 5) == 0)
      for (int k = 0; k < 32; k++) scalar[0][k] = scalar[1][31 - k] = der[i + 5 + k];
}

TEST(no_private_key_is_left_when_the_keys_are_freed) {
  char own[2][CLU_TLS_TEXT], certificate[2][CLU_TLS_TEXT];
  static const unsigned char zeros[32];
  clu_tls_keys *k[2];
  clu_conn *s[2];
  clu_err e;
  REQUIRE(CRYPTO_set_mem_functions(sized_malloc, looking_realloc, looking_free) == 1);
  for (int i = 0; i < 2; i++) REQUIRE(clu_tls_make_identity(own[i], certificate[i], &e) == CLU_OK);
  find_scalar(own[0]);
  CHECK(memcmp(scalar[0], zeros, 32) != 0);
  for (int i = 0; i < 2; i++)
    REQUIRE(clu_tls_keys_new(own[i], certificate[1 - i], &k[i], &e) == CLU_OK);
  found = 0; /* OpenSSL 3.0 leaves copies where it reads PEM */
  up_with(s, k);
  check_both_ways(s);
  free_keys(k);
  CHECK(clu_conn_pending(s[0]) == 0);
  close_ends(s);
  CHECK_INT_EQ(found, 0);
  looking_free(memcpy(sized_malloc(32, "", 0), scalar[0], 32), "",
               0); /* it would have been found */
  CHECK_INT_EQ(found, 1);
}
