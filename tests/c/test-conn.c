/* Plain connections; those inside TLS are in test-tls.c. */
#include "test.h"

#include "core/net/conn.h"

static void pair(clu_conn *s[2]) {
  clu_fd fd[2];
  clu_err e;
  REQUIRE(clu_os_pair(fd, &e) == CLU_OK);
  for (int i = 0; i < 2; i++) REQUIRE(s[i] = clu_conn_plain(fd[i]));
}

TEST(bytes_go_both_ways_without_a_handshake) {
  clu_conn *s[2];
  size_t n;
  char got[8];
  pair(s);
  for (int i = 0; i < 2; i++) {
    CHECK_INT_EQ(clu_conn_handshake(s[i]), CLU_OK);
    CHECK_INT_EQ(clu_conn_read(s[i], got, sizeof got, &n), CLU_AGAIN);
    CHECK_INT_EQ(n, 0);
    CHECK_INT_EQ(clu_conn_write(s[i], "abc", 3, &n), CLU_OK);
    CHECK_INT_EQ(n, 3);
    CHECK_INT_EQ(clu_conn_flush(s[i]), CLU_OK);
    CHECK_INT_EQ(clu_conn_read(s[1 - i], got, sizeof got, &n), CLU_OK);
    CHECK_INT_EQ(n, 3);
    CHECK_MEM_EQ(got, "abc", 3);
    CHECK_INT_EQ(clu_conn_pending(s[1 - i]), 0);
  }
  CHECK_INT_EQ(clu_conn_wants(s[0], CLU_READ), CLU_READ);
  CHECK_INT_EQ(clu_conn_wants(s[0], CLU_READ | CLU_WRITE), CLU_READ | CLU_WRITE);
  clu_conn_close(s[0]);
  clu_conn_close(s[1]);
  clu_conn_close(NULL);
}

TEST(a_read_says_whether_it_has_left_anything) {
  clu_conn *s[2];
  size_t n;
  char got[8];
  pair(s);
  CHECK_INT_EQ(clu_conn_write(s[0], "abcdef", 6, &n), CLU_OK);
  CHECK_INT_EQ(clu_conn_read(s[1], got, 4, &n), CLU_OK);
  CHECK(!s[1]->is_dry);
  CHECK_INT_EQ(clu_conn_read(s[1], got, 4, &n), CLU_OK);
  CHECK_INT_EQ(n, 2);
  CHECK(s[1]->is_dry);
  CHECK_INT_EQ(clu_conn_read(s[1], got, 4, &n), CLU_AGAIN);
  CHECK(!s[1]->is_dry);
  clu_conn_close(s[0]);
  clu_conn_close(s[1]);
}

TEST(who_has_finished_still_reads) {
  clu_conn *s[2];
  size_t n;
  char got[8];
  pair(s);
  CHECK_INT_EQ(clu_conn_write(s[0], "last", 4, &n), CLU_OK);
  CHECK_INT_EQ(clu_conn_finish(s[0]), CLU_OK);
  CHECK_INT_EQ(clu_conn_read(s[1], got, sizeof got, &n), CLU_OK);
  CHECK_INT_EQ(n, 4);
  CHECK_INT_EQ(clu_conn_read(s[1], got, sizeof got, &n), CLU_EOF);
  CHECK_INT_EQ(clu_conn_write(s[1], "answer", 6, &n), CLU_OK);
  CHECK_INT_EQ(clu_conn_read(s[0], got, sizeof got, &n), CLU_OK);
  CHECK_INT_EQ(n, 6);
  clu_conn_close(s[0]);
  clu_conn_close(s[1]);
}

TEST(a_full_socket_is_said_and_takes_more_later) {
  clu_conn *s[2];
  static unsigned char block[65536];
  size_t n, in = 0, out = 0;
  int rc;
  pair(s);
  while ((rc = clu_conn_write(s[0], block, sizeof block, &n)) == CLU_OK) in += n;
  CHECK_INT_EQ(rc, CLU_AGAIN);
  CHECK_INT_EQ(n, 0);
  while ((rc = clu_conn_read(s[1], block, sizeof block, &n)) == CLU_OK) out += n;
  CHECK_INT_EQ(rc, CLU_AGAIN);
  CHECK_INT_EQ(in, out);
  CHECK_INT_EQ(clu_conn_write(s[0], block, 1, &n), CLU_OK);
  clu_conn_close(s[0]);
  clu_conn_close(s[1]);
}

TEST(a_failure_has_a_sentence_and_stays) {
  clu_conn *s[2];
  size_t n;
  char got[8];
  pair(s);
  clu_conn_close(s[1]);
  CHECK_INT_EQ(clu_conn_write(s[0], "abc", 3, &n), CLU_RESET);
  CHECK_STR_EQ(s[0]->err.text, "the connection was reset");
  CHECK_INT_EQ(clu_conn_read(s[0], got, sizeof got, &n), CLU_RESET);
  CHECK_INT_EQ(clu_conn_flush(s[0]), CLU_RESET);
  CHECK_INT_EQ(clu_conn_finish(s[0]), CLU_RESET);
  CHECK_INT_EQ(clu_conn_handshake(s[0]), CLU_RESET);
  CHECK_INT_EQ(clu_conn_wants(s[0], CLU_READ), 0);
  CHECK_INT_EQ(clu_conn_pending(s[0]), 1);
  clu_conn_close(s[0]);
}
