/* The start over TCP: a master (this process) and nodes (forked), on 127.0.0.1. Nothing here
 * depends on who is quick: each case waits until what it is about has happened. */
// link: -Wl,--wrap=clu_os_connect_start -Wl,--wrap=clu_os_accept -Wl,--wrap=clu_os_peer_user
#include "posix/features.h"
#include "test.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "core/net/resolve.h"
#include "core/node/joiner.h"
#include "core/node/node-private.h"
#include "core/node/transports.h"
#include "core/node/acceptor.h"

#define MS 1000000
#define MANY 64
#define HOST (TEST_SANITIZED ? 200 : 1000)
#define MOST 1000

static const unsigned char secret[CLU_SECRET] = "the secret of these tests is 32";

/* What the nodes tell of themselves, in shared memory. */
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

static volatile int no_descriptors, accepts;
int __real_clu_os_accept(clu_fd l, clu_fd *fd, clu_addr *peer, clu_err *e);
int __wrap_clu_os_accept(clu_fd l, clu_fd *fd, clu_addr *peer, clu_err *e);
int __wrap_clu_os_accept(clu_fd l, clu_fd *fd, clu_addr *peer, clu_err *e) {
  accepts++;
  if (no_descriptors) return clu_fail(e, CLU_LIMIT, EMFILE, "no descriptor is free");
  return __real_clu_os_accept(l, fd, peer, e);
}

static int no_owners;
int __real_clu_os_peer_user(clu_fd fd);
int __wrap_clu_os_peer_user(clu_fd fd);
int __wrap_clu_os_peer_user(clu_fd fd) {
  return no_owners ? CLU_PEER_UNKNOWN : __real_clu_os_peer_user(fd);
}

/* ---- the node ---- */

static void node_main(int port, int rank, const unsigned char *s, uint64_t limit_ms) {
  clu_join j;
  clu_chan c;
  clu_msg m;
  clu_err e = {0, 0, ""};
  unsigned char pid[8];
  int rc;
  for (int i = 3; i < 4096; i++)
    close(i); /* a node is no fork of its master: a listener must not live on in it */
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

static pid_t start_node(int port, int rank, const unsigned char *s, uint64_t limit_ms) {
  pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) node_main(port, rank, s, limit_ms);
  return pid;
}

static void reap(pid_t pid, int want) {
  int status = -1;
  CHECK_SOON(waitpid(pid, &status, WNOHANG) == pid, 20000);
  CHECK(WIFEXITED(status));
  CHECK_INT_EQ(WEXITSTATUS(status), want);
}

/* ---- the master ---- */

static clu_session *session;
static clu_acceptor *acceptor;
static clu_node *nodes[MOST];
static int port;

static void loopback(clu_addr *at, int p) {
  int n = 0;
  clu_addr all[CLU_MAX_ADDRS];
  clu_resolve *r = clu_resolve_start("127.0.0.1", p, NULL);
  REQUIRE(r && clu_resolve_wait(r, 0, all, &n, NULL) == CLU_OK && n > 0);
  *at = all[0];
  clu_resolve_free(r);
}

static void prepare(void) {
  tell = mmap(NULL, sizeof *tell, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(tell != MAP_FAILED);
  REQUIRE((session = clu_session_new(NULL)) != NULL);
}

static void open_acceptor(int at_port, int backlog, int n) {
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

static int missing(void) {
  clu_loop_pump(&session->loop, MS, NULL);
  return clu_acceptor_missing(acceptor);
}

static clu_acceptor_report report_now(void) {
  clu_acceptor_report r;
  missing();
  clu_acceptor_report_to(acceptor, &r);
  return r;
}

static void close_all(int n) {
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
static void call_all(int n) {
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
static int pending_peer(void) {
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

static void reset_it(int fd) {
  struct linger l = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
  close(fd);
}

/* The master speaks only when it is pumped: reads `n` bytes, pumping. 0 at the end of file. */
static size_t hear(int fd, void *p, size_t n) {
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
static void walk(int fd, clu_hs *r, int rank, int steps) {
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

/* ---- tests ---- */

TEST(nodes_arrive_compute_and_end) {
  pid_t pid[4];
  prepare();
  open_acceptor(0, -1, 4);
  for (int i = 0; i < 4; i++) pid[i] = start_node(port, i + 1, secret, 20000);
  CHECK_SOON(missing() == 0, 20000);
  for (int i = 0; i < 4; i++) CHECK_INT_EQ(nodes[i]->pid, pid[i]);
  call_all(4);
  close_all(4);
  for (int i = 0; i < 4; i++) reap(pid[i], 0);
}

TEST(nodes_that_were_started_before_the_master_listens) {
  clu_addr at;
  clu_listen how = {0, 0, 0};
  clu_fd fd;
  char host[CLU_ADDR_TEXT];
  int p;
  pid_t pid[2];
  prepare();
  loopback(&at, 0);
  REQUIRE(clu_os_listen(&at, &how, &fd, NULL, NULL) == CLU_OK); /* a port that is free */
  clu_os_local_addr(fd, &at);
  p = clu_os_addr_host(&at, host, sizeof host);
  clu_os_close(fd);
  for (int i = 0; i < 2; i++) pid[i] = start_node(p, i + 1, secret, 20000);
  CHECK_SOON(tell->connects >= 5, 10000); /* refused each time */
  open_acceptor(p, -1, 2);
  CHECK_SOON(missing() == 0, 20000);
  call_all(2);
  close_all(2);
  for (int i = 0; i < 2; i++) reap(pid[i], 0);
}

TEST(a_backlog_of_1_and_64_nodes) {
  pid_t pid[MANY];
  prepare();
  open_acceptor(0, 1, MANY);
  for (int i = 0; i < MANY; i++) pid[i] = start_node(port, i + 1, secret, 28000);
  CHECK_SOON(tell->connects >= MANY, 20000); /* all have begun, none was accepted */
  CHECK_SOON(missing() == 0, 28000);
  call_all(MANY);
  close_all(MANY);
  for (int i = 0; i < MANY; i++) reap(pid[i], 0);
}

TEST(a_thousand_nodes_and_a_backlog_of_128) {
  static pid_t pid[MOST];
  prepare();
  if (clu_os_raise_fds(MOST + 1500) != CLU_OK) SKIP("too few descriptors are allowed");
  open_acceptor(0, 128, HOST);
  for (int i = 0; i < HOST; i++) {
    pid[i] = start_node(port, i + 1, secret, 28000);
    if (i % 16 == 0) missing();
  }
  CHECK_SOON(missing() == 0, 28000);
  CHECK(report_now().accepted >= HOST);
  call_all(HOST);
  close_all(HOST);
  for (int i = 0; i < HOST; i++) reap(pid[i], 0);
}

TEST(a_connection_that_only_the_node_knows_of) {
  int on = 30, off = 0;
  clu_fd fds[64];
  int n = 0;
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  REQUIRE(clu_os_sockets(fds, 64, &n) == CLU_OK);
  /* established at the node, and not to be accepted before the node speaks, which it never does
   * first */
  for (int i = 0; i < n; i++)
    setsockopt((int)fds[i], IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof on);
  pid = start_node(port, 1, secret, 25000);
  CHECK_SOON((missing(), tell->connects >= 2), 10000); /* it gave up the first */
  for (int i = 0; i < n; i++)
    setsockopt((int)fds[i], IPPROTO_TCP, TCP_DEFER_ACCEPT, &off, sizeof off);
  CHECK_SOON(missing() == 0, 20000);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}

TEST(connections_that_only_the_master_knows_of) {
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  for (int i = 0; i < 10; i++) reset_it(pending_peer()); /* in the queue, and gone */
  for (int i = 0; i < 10; i++) close(pending_peer());
  pid = start_node(port, 1, secret, 20000);
  CHECK_SOON(missing() == 0, 20000);
  CHECK_SOON(report_now().pending == 0, 5000);
  CHECK(report_now().failed[CLU_HS_CLOSED] >= 10);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}

TEST(a_reset_by_the_node_at_each_step) {
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  for (int how = 0; how < 2; how++)
    for (int steps = 0; steps <= 4; steps++) {
      clu_hs r;
      int fd = pending_peer();
      walk(fd, &r, 1, steps);
      if (steps == 4) CHECK_SOON((missing(), nodes[0]->chan.fd != CLU_NO_FD), 5000);
      if (how)
        reset_it(fd);
      else
        close(fd);
      CHECK_SOON((missing(), report_now().pending == 0 && nodes[0]->chan.fd == CLU_NO_FD), 5000);
      CHECK_INT_EQ(nodes[0]->state, CLU_NODE_STARTING);
    }
  pid = start_node(port, 1, secret, 20000);
  CHECK_SOON(missing() == 0, 20000);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}

/* A master that goes away after each step: the node begins anew each time, and finds the true
 * one in the end. */
TEST(a_reset_by_the_master_at_each_step) {
  clu_addr at;
  clu_listen how = {0, 0, 0};
  clu_fd l, fd;
  char host[CLU_ADDR_TEXT];
  unsigned char nonce[CLU_NONCE], bytes[128];
  pid_t pid;
  prepare();
  loopback(&at, 0);
  how.backlog = 16;
  REQUIRE(clu_os_listen(&at, &how, &l, NULL, NULL) == CLU_OK);
  clu_os_local_addr(l, &at);
  port = clu_os_addr_host(&at, host, sizeof host);
  pid = start_node(port, 1, secret, 28000);
  for (int steps = 0; steps <= 4; steps++) {
    clu_hs r;
    CHECK_SOON(clu_os_accept(l, &fd, NULL, NULL) == CLU_OK, 15000);
    memset(nonce, steps, sizeof nonce);
    clu_hs_master(&r, secret, nonce, 1, UINT64_MAX);
    if (steps >= 1) CHECK(send((int)fd, r.out, r.out_left, MSG_NOSIGNAL) == CLU_HS_HELLO);
    if (steps >= 2) {
      clu_hs_written(&r, 1000);
      CHECK_INT_EQ(hear((int)fd, bytes, CLU_HS_RESPONSE), CLU_HS_RESPONSE);
      CHECK_INT_EQ(clu_hs_feed(&r, bytes, CLU_HS_RESPONSE), CLU_HS_PROVEN);
      if (steps == 2) bytes[0] = 0;
    }
    if (steps >= 3) {
      clu_hs_admit(&r, CLU_HS_ADMITTED);
      CHECK(send((int)fd, r.out, r.out_left, MSG_NOSIGNAL) == CLU_HS_VERDICT);
    }
    if (steps >= 4) CHECK_INT_EQ(hear((int)fd, bytes, CLU_HS_CONFIRM), CLU_HS_CONFIRM);
    reset_it((int)fd);
  }
  clu_os_close(l);
  open_acceptor(port, -1, 1);
  CHECK_SOON(missing() == 0, 20000);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}

TEST(pending_peers_get_nothing_and_disturb_nobody) {
  int silent, garbage, half, replay, wrong;
  clu_hs r, wrong_hs;
  unsigned char answer[CLU_HS_RESPONSE], bytes[512], nonce[CLU_NONCE] = {1};
  static const unsigned char guess[CLU_SECRET] = "a guess";
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  silent = pending_peer();
  garbage = pending_peer();
  CHECK(send(garbage, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35, MSG_NOSIGNAL) == 35);
  half = pending_peer();
  walk(half, &r, 1, 1);
  CHECK(send(half, r.out, 50, MSG_NOSIGNAL) == 50);
  replay = pending_peer();
  walk(replay, &r, 1, 2); /* a true one, recorded */
  memcpy(answer, r.response, sizeof answer);
  CHECK_INT_EQ(hear(replay, bytes, CLU_HS_VERDICT), CLU_HS_VERDICT);
  close(replay);
  replay = pending_peer();
  CHECK_INT_EQ(hear(replay, bytes, CLU_HS_HELLO), CLU_HS_HELLO);
  CHECK(send(replay, answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer);
  CHECK_INT_EQ(hear(replay, bytes, 1), 0); /* closed, without a word */
  wrong = pending_peer();
  clu_hs_node(&wrong_hs, guess, nonce, 1, 1, 0, UINT64_MAX);
  CHECK_INT_EQ(hear(wrong, bytes, CLU_HS_HELLO), CLU_HS_HELLO);
  clu_hs_feed(&wrong_hs, bytes, CLU_HS_HELLO);
  CHECK(send(wrong, wrong_hs.out, wrong_hs.out_left, MSG_NOSIGNAL) == CLU_HS_RESPONSE);
  CHECK_INT_EQ(hear(wrong, bytes, 1), 0);
  CHECK_INT_EQ(hear(garbage, bytes, sizeof bytes), CLU_HS_HELLO); /* the hello is all it ever got */
  pid = start_node(port, 1, secret, 20000);
  CHECK_SOON(missing() == 0, 20000);
  CHECK_INT_EQ(report_now().failed[CLU_HS_GARBAGE], 1);
  CHECK_INT_EQ(report_now().failed[CLU_HS_NO_PROOF], 2);
  CHECK_INT_EQ(report_now().pending, 2); /* the silent one and the half frame have time left */
  call_all(1);
  close_all(1);
  CHECK_INT_EQ(hear(silent, bytes, sizeof bytes) > CLU_HS_HELLO, 0);
  close(silent), close(garbage), close(half), close(replay), close(wrong);
  reap(pid, 0);
}

TEST(silence_costs_a_place_for_a_bounded_time) {
  int fd;
  unsigned char bytes[64];
  prepare();
  open_acceptor(0, -1, 1);
  fd = pending_peer();
  CHECK_SOON(report_now().pending == 1, 5000);
  CHECK_SOON(report_now().pending == 0, 15000); /* CLU_PENDING_PEER_NS */
  CHECK_INT_EQ(report_now().failed[CLU_HS_SILENT], 1);
  CHECK_INT_EQ(hear(fd, bytes, sizeof bytes), CLU_HS_HELLO);
  close(fd);
  close_all(1);
}

TEST(more_pending_peers_than_places_do_not_keep_a_node_out) {
  int fd[CLU_PENDING_PEERS + 44];
  pid_t pid;
  clu_acceptor_report r;
  prepare();
  open_acceptor(0, -1, 1);
  for (int i = 0; i < CLU_PENDING_PEERS + 44; i++) fd[i] = pending_peer();
  CHECK_SOON(report_now().pending == CLU_PENDING_PEERS, 5000);
  pid = start_node(port, 1, secret, 25000);
  CHECK_SOON(missing() == 0, 25000);
  r = report_now();
  CHECK(r.pending <= CLU_PENDING_PEERS);
  CHECK(r.crowded > 0);
  call_all(1);
  close_all(1);
  for (int i = 0; i < CLU_PENDING_PEERS + 44; i++) close(fd[i]);
  reap(pid, 0);
}

/* What they have sent is no answer, and does not keep them in their places. */
static void crowd_that_says(size_t n) {
  int fd[CLU_PENDING_PEERS + 44];
  static const unsigned char bytes[] = {'c', 'l', 'u', 't', 'c', 'h', CLU_HS_VERSION,
                                        2}; /* an ANSWER's */
  pid_t pid;
  clu_acceptor_report r;
  prepare();
  no_owners = 1;
  open_acceptor(0, -1, 1);
  for (int i = 0; i < CLU_PENDING_PEERS + 44; i++) {
    fd[i] = pending_peer();
    CHECK(send(fd[i], bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
  }
  CHECK_SOON((missing(), report_now().accepted >= CLU_PENDING_PEERS), 5000);
  pid = start_node(port, 1, secret, 25000);
  CHECK_SOON(missing() == 0, 25000);
  r = report_now();
  CHECK(r.crowded > 0);
  CHECK_INT_EQ(r.failed[CLU_HS_SILENT], 0); /* nobody has waited until their time was up */
  call_all(1);
  close_all(1);
  for (int i = 0; i < CLU_PENDING_PEERS + 44; i++) close(fd[i]);
  reap(pid, 0);
}

TEST(a_crowd_that_has_sent_one_byte_each_keeps_no_node_out) { crowd_that_says(1); }
TEST(a_crowd_that_has_sent_the_beginning_of_an_answer_keeps_no_node_out) { crowd_that_says(8); }

/* `n` connections of user `uid`, each with one byte said, until it is killed. */
static pid_t crowd_of(int n, uid_t uid) {
  int done[2];
  char c;
  pid_t pid;
  REQUIRE(pipe(done) == 0);
  REQUIRE((pid = fork()) >= 0);
  if (pid == 0) {
    struct rlimit r;
    for (int i = 3; i < 4096; i++)
      if (i != done[1]) close(i);
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) r.rlim_cur = r.rlim_max, setrlimit(RLIMIT_NOFILE, &r);
    if (setuid(uid) != 0) _exit(1);
    for (int i = 0; i < n; i++) send(pending_peer(), "c", 1, MSG_NOSIGNAL);
    if (write(done[1], "x", 1) != 1) _exit(2);
    for (;;) pause();
  }
  close(done[1]);
  clu_os_set_blocking(done[0], 0);
  CHECK_SOON((missing(), read(done[0], &c, 1) == 1),
             30000); /* the listener's queue may be shorter than the crowd */
  close(done[0]);
  return pid;
}

TEST(thousands_of_peers_of_another_user_take_no_place) {
  enum { CROWD = TEST_SANITIZED ? 1000 : 3000 };
  pid_t pid[6], crowd;
  clu_acceptor_report r;
  struct rlimit limit;
#if !defined(CLU_HAVE_SOCK_DIAG)
  SKIP("the system does not tell whose a connection is");
#endif
  if (geteuid() != 0) SKIP("needs root");
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < CROWD + 64)
    SKIP("needs descriptors");
  prepare();
  open_acceptor(0, -1, 6);
  crowd = crowd_of(CROWD, 65534);
  for (int i = 0; i < 6; i++) pid[i] = start_node(port, i + 1, secret, 25000);
  CHECK_SOON(missing() == 0, 25000);
  r = report_now();
  CHECK(r.crowded >= CROWD - CLU_PENDING_OTHERS - 64);
  CHECK(r.pending <= CLU_PENDING_OTHERS);
  CHECK_INT_EQ(r.failed[CLU_HS_SILENT], 0);
  call_all(6);
  close_all(6);
  kill(crowd, SIGKILL);
  waitpid(crowd, NULL, 0);
  for (int i = 0; i < 6; i++) reap(pid[i], 0);
}

TEST(whose_process_is_at_the_other_end) {
  int fd;
  clu_fd there;
  clu_addr at, peer;
  clu_listen how = {-1, 0, 0};
  clu_fd l;
  char host[CLU_ADDR_TEXT];
#if !defined(CLU_HAVE_SOCK_DIAG)
  SKIP("the system does not tell whose a connection is");
#endif
  loopback(&at, 0);
  REQUIRE(clu_os_listen(&at, &how, &l, NULL, NULL) == CLU_OK);
  clu_os_local_addr(l, &at);
  port = clu_os_addr_host(&at, host, sizeof host);
  fd = pending_peer();
  CHECK_SOON(clu_os_accept(l, &there, &peer, NULL) == CLU_OK, 5000);
#if defined(__linux__)
  CHECK_INT_EQ(clu_os_peer_user(there), CLU_PEER_OWN);
#endif
  CHECK_INT_EQ(clu_os_peer_user(l), CLU_PEER_UNKNOWN);
  close(fd);
  clu_os_close(there);
  clu_os_close(l);
}

TEST(a_master_that_was_stopped_for_longer_than_the_nodes_wait) {
  pid_t pid[3];
  prepare();
  open_acceptor(0, -1, 3);
  for (int i = 0; i < 3; i++) pid[i] = start_node(port, i + 1, secret, 25000);
  CHECK_SOON(tell->connects >= 9, 20000); /* each has given up two connections */
  CHECK_SOON(missing() == 0, 20000);
  CHECK(report_now().failed[CLU_HS_CLOSED] >= 6);
  call_all(3);
  close_all(3);
  for (int i = 0; i < 3; i++) reap(pid[i], 0);
}

/* The same, in the middle: the node has answered, and waits for the master's proof. */
TEST(a_master_that_was_stopped_in_the_middle_of_the_handshake) {
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  pid = start_node(port, 1, secret, 25000);
  CHECK_SOON(report_now().accepted >= 1, 10000); /* the hello has left, the answer is not read */
  CHECK_SOON(tell->connects >= 3, 20000);
  CHECK_SOON(missing() == 0, 20000);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}

TEST(a_listener_without_descriptors_pauses_and_does_not_spin) {
  pid_t pid;
  double end;
  prepare();
  open_acceptor(0, -1, 1);
  no_descriptors = 1;
  accepts = 0;
  pid = start_node(port, 1, secret, 20000);
  CHECK_SOON(report_now().pauses >= 3, 10000);
  end = test_ms() + 300;
  accepts = 0;
  while (test_ms() < end) missing();
  CHECK(accepts <= 10); /* about every 50 ms */
  no_descriptors = 0;
  CHECK_SOON(missing() == 0, 20000);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}

TEST(a_rank_is_taken_once) {
  pid_t pid, second, third;
  prepare();
  open_acceptor(0, -1, 2);
  pid = start_node(port, 1, secret, 20000);
  CHECK_SOON((missing(), nodes[0]->state == CLU_NODE_READY), 20000);
  second = start_node(port, 1, secret, 20000);
  CHECK_SOON((missing(), tell->failed == 1), 20000);
  CHECK_INT_EQ(tell->code, CLU_PROTO);
  CHECK(strstr(tell->text, "another process is the node of this number") != NULL);
  third = start_node(port, 7, secret, 20000);
  CHECK_SOON((missing(), tell->failed == 2), 20000);
  CHECK(strstr(tell->text, "no node of this number") != NULL);
  CHECK_INT_EQ(missing(), 1);
  call_all(1);
  close_all(2);
  reap(pid, 0);
  reap(second, 3);
  reap(third, 3);
}

TEST(a_node_without_the_secret_fails_and_says_why) {
  static const unsigned char guess[CLU_SECRET] = "a guess";
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  pid = start_node(port, 1, guess, 2000);
  CHECK_SOON((missing(), tell->failed == 1), 20000);
  CHECK_INT_EQ(tell->code, CLU_TIMEOUT);
  CHECK(report_now().failed[CLU_HS_NO_PROOF] >= 1);
  CHECK_INT_EQ(nodes[0]->state, CLU_NODE_STARTING);
  close_all(1);
  reap(pid, 3);
}

TEST(a_process_that_ends_before_it_joins_is_noticed) {
  clu_spawn s;
  clu_err e = {0, 0, ""};
  char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"exit 7", NULL};
  char folder[1024];
  prepare();
  open_acceptor(0, -1, 1);
  memset(&s, 0, sizeof s);
  s.file = argv[0];
  s.argv = argv;
  s.in = s.out = s.err = CLU_NO_FD;
  s.new_session = 1;
  REQUIRE(clu_os_make_temp("/tmp", folder, sizeof folder, &e) == CLU_OK);
  CHECK_INT_EQ(clu_node_start(nodes[0], &s, -1, folder, &e), CLU_OK);
  CHECK_SOON((missing(), nodes[0]->state == CLU_NODE_LOST), 10000);
  CHECK(clu_node_end_known(nodes[0]));
  CHECK_INT_EQ(nodes[0]->how.code, 7);
  CHECK(access(folder, F_OK) != 0);
  close_all(1);
}
