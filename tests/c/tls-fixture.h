/* Two ends of TLS in one process, with or without somebody in between. Included after test.h. */
#ifndef CLUTCH_TEST_TLS_FIXTURE_H
#define CLUTCH_TEST_TLS_FIXTURE_H

#include <openssl/err.h>

#include "core/net/tls.h"

enum { SERVER, CLIENT };

/* Two sides that know each other. */
TEST_UNUSED static void make_keys(clu_tls_keys *k[2]) {
  char own[2][CLU_TLS_TEXT], certificate[2][CLU_TLS_TEXT];
  clu_err e = {0, 0, ""};
  for (int i = 0; i < 2; i++) REQUIRE(clu_tls_make_identity(own[i], certificate[i], &e) == CLU_OK);
  for (int i = 0; i < 2; i++)
    REQUIRE(clu_tls_keys_new(own[i], certificate[1 - i], &k[i], &e) == CLU_OK);
}

/* Connections over these sockets. The keys stay the caller's. */
TEST_UNUSED static void open_ends(clu_conn *s[2], clu_tls_keys *k[2], const clu_fd fd[2]) {
  clu_err e = {0, 0, ""};
  REQUIRE(clu_conn_tls_server(fd[SERVER], k[SERVER], &s[SERVER], &e) == CLU_OK);
  REQUIRE(clu_conn_tls_client(fd[CLIENT], k[CLIENT], &s[CLIENT], &e) == CLU_OK);
}

/* The connections keep them as long as they need them. */
TEST_UNUSED static void free_keys(clu_tls_keys *k[2]) {
  clu_tls_keys_free(k[SERVER]);
  clu_tls_keys_free(k[CLIENT]);
}

TEST_UNUSED static void close_ends(clu_conn *s[2]) {
  clu_conn_close(s[SERVER]);
  clu_conn_close(s[CLIENT]);
  CHECK_INT_EQ(ERR_peek_error(), 0); /* others in the process use OpenSSL, too */
}

/* One step of each side's handshake. 1: there may be more to do. */
TEST_UNUSED static int shake(clu_conn *s[2], int rc[2]) {
  for (int i = 0; i < 2; i++) rc[i] = clu_conn_handshake(s[i]);
  return rc[SERVER] == CLU_AGAIN || rc[CLIENT] == CLU_AGAIN;
}

/* Both sides until they are done or can do no more. */
TEST_UNUSED static void shake_all(clu_conn *s[2], int rc[2]) {
  for (int i = 0; i < 20 && shake(s, rc); i++) continue;
}

/* Two that have shaken hands. */
TEST_UNUSED static void up_with(clu_conn *s[2], clu_tls_keys *k[2]) {
  clu_fd fd[2];
  clu_err e;
  int rc[2];
  REQUIRE(clu_os_pair(fd, &e) == CLU_OK);
  open_ends(s, k, fd);
  shake_all(s, rc);
  REQUIRE(rc[SERVER] == CLU_OK && rc[CLIENT] == CLU_OK);
}

TEST_UNUSED static void up(clu_conn *s[2]) {
  clu_tls_keys *k[2];
  make_keys(k);
  up_with(s, k);
  free_keys(k);
}

/* A text is written by one side, and arrives. */
TEST_UNUSED static void check_text(clu_conn *from, clu_conn *to, const char *text) {
  char got[256];
  size_t n = 0, len = strlen(text);
  CHECK_INT_EQ(clu_conn_write(from, text, len, &n), CLU_OK);
  CHECK_INT_EQ(n, len);
  CHECK_INT_EQ(clu_conn_read(to, got, sizeof got, &n), CLU_OK);
  CHECK_INT_EQ(n, len);
  CHECK_MEM_EQ(got, text, len);
}

TEST_UNUSED static void check_both_ways(clu_conn *s[2]) {
  check_text(s[SERVER], s[CLIENT], "from the one that was connected to");
  check_text(s[CLIENT], s[SERVER], "from the one that connected");
}

/* ---- somebody in between ---- */

/* Ends that are not connected to each other: `raw` are the other ends of their sockets. */
TEST_UNUSED static void open_apart_with(clu_conn *s[2], clu_fd raw[2], clu_tls_keys *k[2]) {
  clu_fd fd[2];
  clu_err e;
  for (int i = 0; i < 2; i++) {
    clu_fd p[2];
    REQUIRE(clu_os_pair(p, &e) == CLU_OK);
    fd[i] = p[0];
    raw[i] = p[1];
  }
  open_ends(s, k, fd);
}

TEST_UNUSED static void open_apart(clu_conn *s[2], clu_fd raw[2]) {
  clu_tls_keys *k[2];
  make_keys(k);
  open_apart_with(s, raw, k);
  free_keys(k);
}

TEST_UNUSED static size_t raw_read(clu_fd fd, void *p, size_t n) {
  clu_iov iov = {p, n};
  size_t got = 0;
  return clu_os_readv(fd, &iov, 1, &got, NULL, NULL) == CLU_OK ? got : 0;
}

TEST_UNUSED static void raw_write(clu_fd fd, const void *p, size_t n) {
  clu_iov iov = {(void *)(uintptr_t)p, n};
  size_t put = 0;
  CHECK_INT_EQ(clu_os_writev(fd, &iov, 1, NULL, 0, &put), CLU_OK);
  CHECK_INT_EQ(put, n);
}

/* Hands on what each side has sent, `step` bytes at the most. How much it was. */
TEST_UNUSED static size_t hand_on(const clu_fd raw[2], size_t step) {
  static unsigned char buf[65536];
  size_t sum = 0;
  for (int i = 0; i < 2; i++) {
    size_t n = raw_read(raw[i], buf, step < sizeof buf ? step : sizeof buf);
    if (n > 0) raw_write(raw[1 - i], buf, n);
    sum += n;
  }
  return sum;
}

TEST_UNUSED static void shake_apart(clu_conn *s[2], const clu_fd raw[2], size_t step) {
  int rc[2], more = 1;
  while (more) {
    more = shake(s, rc);
    if (hand_on(raw, step) > 0) more = 1;
  }
  REQUIRE(rc[SERVER] == CLU_OK && rc[CLIENT] == CLU_OK);
}

#endif
