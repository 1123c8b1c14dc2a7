/* The start over TCP: a session (this process) and nodes (forked), on 127.0.0.1. Nothing here
 * depends on who is quick: each case waits until what it is about has happened.
 * A test that includes this is linked with -Wl,--wrap=clu_os_connect_start. */
#ifndef CLUTCH_ACCEPTOR_FIXTURE_H
#define CLUTCH_ACCEPTOR_FIXTURE_H

#include "test.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "core/net/resolve.h"
#include "core/node/joiner.h"
#include "core/node/node-private.h"
#include "core/node/transports.h"
#include "core/node/acceptor.h"

#define MS 1000000
#define MOST 1000

static const unsigned char secret[CLU_SECRET] = "the secret of these tests is 32";

/* This is what the nodes tell of themselves, in shared memory. */
typedef struct telling {
  volatile int connects; /* begun */
  volatile int failed;   /* clu_join_cluster() did */
  volatile int code;
  char text[256];
} telling;
static telling *tell;

int __real_clu_os_connect_start(const clu_addr *to, int sb, int rb, clu_fd *fd, clu_err *e);
int __wrap_clu_os_connect_start(const clu_addr *to, int sb, int rb, clu_fd *fd, clu_err *e);
int __wrap_clu_os_connect_start(const clu_addr *to, int sb, int rb, clu_fd *fd, clu_err *e) {
  int rc = __real_clu_os_connect_start(to, sb, rb, fd, e);
  if (tell) __sync_fetch_and_add(&tell->connects, 1);
  return rc;
}

/* ---- the node ---- */

TEST_UNUSED static void node_main(int port, int rank, const unsigned char *s, uint64_t limit_ms) {
  clu_join j;
  clu_chan c;
  clu_msg m;
  clu_err e = {0, 0, ""};
  unsigned char pid[8];
  int rc;
  for (int i = 3; i < 4096; i++)
    close(i); /* a node is no fork of its session: a listener must not live on in it */
  memset(&j, 0, sizeof j);
  j.host = "127.0.0.1";
  j.port = port;
  j.secret = s;
  j.rank = (uint32_t)rank;
  j.deadline = clu_os_now() + limit_ms * MS;
  rc = clu_join_cluster(&j, &c, &m, &e);
  if (rc != CLU_OK) {
    tell->code = rc;
    strcpy(tell->text, e.text);
    __sync_fetch_and_add(&tell->failed, 1);
    _exit(3);
  }
  if (!m.body || m.body->size != 8 || memcmp(m.body->data, "settings", 8) != 0) _exit(4);
  clu_blob_unref(m.body);
  clu_os_set_blocking(c.fd, 1);
  clu_put64(pid, (uint64_t)getpid());
  clu_chan_send_bytes(&c, CLU_K_HELLO, 0, pid, 8, CLU_NO_FD);
  while (clu_chan_flush(&c) == CLU_AGAIN) continue;
  for (;;) {
    int r = clu_chan_next(&c, &m);
    if (r < 0) _exit(5);
    if (r == 0) {
      if ((rc = clu_chan_fill(&c)) != CLU_OK && rc != CLU_AGAIN) break;
      continue;
    }
    if (m.kind == CLU_K_DONE) break;
    if (m.kind == CLU_K_CALL) {
      clu_chan_send(&c, CLU_K_VALUE, m.seq, m.body, CLU_NO_FD);
      while (clu_chan_flush(&c) == CLU_AGAIN) continue;
    }
    clu_blob_unref(m.body);
  }
  clu_chan_fini(&c);
  _exit(0);
}

TEST_UNUSED static pid_t start_node(int port, int rank, const unsigned char *s, uint64_t limit_ms) {
  pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) node_main(port, rank, s, limit_ms);
  return pid;
}

TEST_UNUSED static void reap(pid_t pid, int want) {
  int status = -1;
  CHECK_SOON(waitpid(pid, &status, WNOHANG) == pid, 20000);
  CHECK(WIFEXITED(status));
  CHECK_INT_EQ(WEXITSTATUS(status), want);
}

/* ---- the session ---- */

static clu_session *session;
static clu_acceptor *acceptor;
static clu_node *nodes[MOST];
static int port;

TEST_UNUSED static void loopback(clu_addr *at, int p) {
  int n = 0;
  clu_addr all[CLU_MAX_ADDRS];
  clu_resolve *r = clu_resolve_start("127.0.0.1", p, NULL);
  REQUIRE(r && clu_resolve_wait(r, 0, all, &n, NULL) == CLU_OK && n > 0);
  *at = all[0];
  clu_resolve_free(r);
}

TEST_UNUSED static void prepare(void) {
  tell = mmap(NULL, sizeof *tell, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(tell != MAP_FAILED);
  REQUIRE((session = clu_session_new(NULL)) != NULL);
}

TEST_UNUSED static void open_acceptor(int at_port, int backlog, int n) {
  clu_addr at;
  clu_err e = {0, 0, ""};
  clu_blob *b = clu_blob_new(8);
  int granted;
  loopback(&at, at_port);
  if (clu_acceptor_open(session, &at, backlog, secret, &acceptor, &granted, &port, &e) != CLU_OK)
    test_fail(__FILE__, __LINE__, "%s", e.text);
  REQUIRE(acceptor);
  clu_blob_append(b, "settings", 8);
  for (int i = 0; i < n; i++) {
    REQUIRE(clu_node_new_tcp(session, &nodes[i], &e) == CLU_OK);
    REQUIRE(clu_acceptor_expect(acceptor, nodes[i], i + 1, b) == CLU_OK);
  }
  clu_blob_unref(b);
}

TEST_UNUSED static int missing(void) {
  clu_loop_pump(&session->loop, MS, NULL);
  return clu_acceptor_missing(acceptor);
}

TEST_UNUSED static clu_acceptor_report report_now(void) {
  clu_acceptor_report r;
  missing();
  clu_acceptor_report_to(acceptor, &r);
  return r;
}

TEST_UNUSED static void close_all(int n) {
  clu_acceptor_free(acceptor);
  acceptor = NULL;
  for (int i = 0; i < n; i++) {
    clu_node_stop(nodes[i], 2000);
    clu_node_free(nodes[i]);
  }
  clu_session_free(session);
  munmap(tell, sizeof *tell);
  tell = NULL;
}

/* Each node answers a call. */
TEST_UNUSED static void call_all(int n) {
  for (int i = 0; i < n; i++) {
    clu_blob *b = clu_blob_new(4);
    clu_blob_append(b, "call", 4);
    CHECK_INT_EQ(clu_node_call(nodes[i], b, 0, -1, NULL), CLU_OK);
    clu_blob_unref(b);
  }
  for (int i = 0; i < n; i++) {
    const clu_req *r;
    CHECK_SOON(
        (clu_loop_pump(&session->loop, MS, NULL), (r = clu_node_first(nodes[i])) && r->arrival),
        5000);
    if ((r = clu_node_first(nodes[i])) && r->arrival) clu_blob_unref(clu_node_take_first(nodes[i]));
  }
}

/* A client of the tests: blocking, with 5 s for each read. */
TEST_UNUSED static int pending_peer(void) {
  struct sockaddr_in a;
  struct timeval limit = {5, 0};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  memset(&a, 0, sizeof a);
  a.sin_family = AF_INET;
  a.sin_port = htons((uint16_t)port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

TEST_UNUSED static void reset_it(int fd) {
  struct linger l = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
  close(fd);
}

/* The session speaks only when it is pumped: reads `n` bytes, pumping. 0 at the end of file. */
TEST_UNUSED static size_t hear(int fd, void *p, size_t n) {
  size_t have = 0;
  double end = test_ms() + 10000;
  while (have < n && test_ms() < end) {
    ssize_t k = recv(fd, (char *)p + have, n - have, MSG_DONTWAIT);
    if (k > 0) have += (size_t)k;
    if (k == 0 || (k < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) return have;
    if (acceptor) missing();
  }
  return have;
}

/* Goes through the first `steps` steps of the handshake as node `rank`: 1 it has heard the
 * HELLO, 2 it has answered, 3 it has heard the VERDICT, 4 it has sent its CONFIRM. */
TEST_UNUSED static void walk(int fd, clu_hs *r, int rank, int steps) {
  unsigned char bytes[128], nonce[CLU_NONCE];
  REQUIRE(clu_os_secret_bytes(nonce, sizeof nonce) == CLU_OK);
  clu_hs_node(r, secret, nonce, (uint32_t)rank, 99999, 0, UINT64_MAX);
  if (steps >= 1) {
    CHECK_INT_EQ(hear(fd, bytes, CLU_HS_HELLO), CLU_HS_HELLO);
    clu_hs_feed(r, bytes, CLU_HS_HELLO);
  }
  if (steps >= 2) {
    CHECK(send(fd, r->out, r->out_left, MSG_NOSIGNAL) == (ssize_t)r->out_left);
    clu_hs_written(r, r->out_left);
  }
  if (steps >= 3) {
    CHECK_INT_EQ(hear(fd, bytes, CLU_HS_VERDICT), CLU_HS_VERDICT);
    clu_hs_feed(r, bytes, CLU_HS_VERDICT);
  }
  if (steps >= 4) {
    CHECK_INT_EQ(r->state, CLU_HS_DONE);
    CHECK(send(fd, r->out, r->out_left, MSG_NOSIGNAL) == (ssize_t)r->out_left);
  }
}

#endif
