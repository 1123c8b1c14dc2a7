/* A session, a link process, a host (a proxy with a fork server as in server-fixture.h), and
 * between the two proxies a proxy that cuts, holds and counts. All are processes of this machine.
 */
#ifndef LINK_FIXTURE_H
#define LINK_FIXTURE_H

#include "server-fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "core/link/far.h"
#include "core/link/near.h"
#include "core/net/tls.h"
#include "core/wire/handshake.h"

#define MS_NS 1000000ull

typedef struct proxy_state {
  volatile uint64_t to_host, to_session; /* bytes */
  volatile int cuts, hold, refuse;       /* asked for */
  volatile int done;                     /* cuts made */
} proxy_state;

typedef struct host_fixture {
  fixture f;
  clu_chan near; /* to the link process */
  pid_t near_pid, far_pid, proxy_pid;
  int port, proxy_port;
  proxy_state *proxy;
  uint64_t beat, reconnect;
  int tls;
  int starter; /* what starts a host reads here; 0: nothing does */
  char own[CLU_TLS_TEXT], certificate[CLU_TLS_TEXT]; /* of the host */
  char why[256];                                     /* of the last state that was told */
} host_fixture;

static const unsigned char link_secret[CLU_SECRET] = "the secret of these tests is 32";

/* ---- the proxy ---- */

TEST_UNUSED static int listen_here(int *port) {
  struct sockaddr_in at;
  socklen_t n = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  memset(&at, 0, sizeof at);
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 64) == 0);
  REQUIRE(getsockname(fd, (struct sockaddr *)&at, &n) == 0);
  *port = ntohs(at.sin_port);
  return fd;
}

TEST_UNUSED static int connect_here(int port) {
  struct sockaddr_in at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  memset(&at, 0, sizeof at);
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons((uint16_t)port);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
    close(fd);
    return -1;
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

/* 0: the connection has ended. */
TEST_UNUSED static int pass_on(int from, int to, volatile uint64_t *count) {
  static char bytes[1 << 16];
  ssize_t n = read(from, bytes, sizeof bytes), done = 0;
  if (n <= 0) return 0;
  while (done < n) {
    ssize_t k = write(to, bytes + done, (size_t)(n - done));
    if (k <= 0) return 0;
    done += k;
  }
  *count += (uint64_t)n;
  return 1;
}

TEST_UNUSED static void proxy_main(int listener, int port, proxy_state *s) {
  enum { MOST = 16 };
  int host[MOST], session[MOST], n = 0;
  signal(SIGPIPE, SIG_IGN);
  for (;;) {
    struct pollfd p[1 + 2 * MOST];
    if (s->refuse && listener >= 0) {
      close(listener);
      listener = -1;
    }
    if (s->cuts > s->done) {
      while (n > 0) {
        close(host[--n]);
        close(session[n]);
      }
      s->done++;
    }
    p[0].fd = listener;
    p[0].events = s->hold ? 0 : POLLIN;
    for (int i = 0; i < 2 * n; i++) {
      p[1 + i].fd = s->hold ? -1 : i % 2 ? session[i / 2] : host[i / 2];
      p[1 + i].events = POLLIN;
      p[1 + i].revents = 0;
    }
    if (poll(p, (nfds_t)(1 + 2 * n), 2) <= 0) continue;
    for (int i = n - 1; i >= 0; i--) {
      int ok = 1;
      if (p[1 + 2 * i].revents) ok = pass_on(host[i], session[i], &s->to_session);
      if (ok && p[2 + 2 * i].revents) ok = pass_on(session[i], host[i], &s->to_host);
      if (ok) continue;
      close(host[i]);
      close(session[i]);
      host[i] = host[n - 1];
      session[i] = session[--n];
    }
    if ((p[0].revents & POLLIN) && n < MOST) {
      int a = accept(listener, NULL, NULL), b = a < 0 ? -1 : connect_here(port);
      if (b < 0) {
        if (a >= 0) close(a);
        continue;
      }
      host[n] = a;
      session[n++] = b;
    }
  }
}

/* ---- the other processes ---- */

TEST_UNUSED static void close_others(int keep) {
  for (int i = 3; i < 4096; i++)
    if (i != keep && i != test_log) close(i);
}

/* Why a host's proxy has ended: a file. */
TEST_UNUSED static void write_why(const host_fixture *h, const char *text) {
  char path[200];
  FILE *f;
  snprintf(path, sizeof path, "%s.why", h->f.tmp);
  if (!(f = fopen(path, "we"))) return;
  fputs(text, f);
  fclose(f);
}

/* It is removed. */
TEST_UNUSED static const char *take_why(const host_fixture *h) {
  static char text[400];
  char path[200];
  FILE *f;
  snprintf(path, sizeof path, "%s.why", h->f.tmp);
  text[0] = 0;
  if (!(f = fopen(path, "re"))) return text;
  if (!fgets(text, sizeof text, f)) text[0] = 0;
  fclose(f);
  unlink(path);
  return text;
}

TEST_UNUSED static void far_main(host_fixture *h, int port, uint32_t rank, const unsigned char *s,
                                 uint64_t connect_ms) {
  static const char *const hosts[] = {"127.0.0.1"};
  char *argv[] = {(char *)"stub", NULL}, *envp[256], env_tmp[100];
  clu_far_options how;
  clu_spawn spec;
  clu_fd pair[2];
  clu_err e = {0, 0, ""};
  int n = 0, rc;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  snprintf(env_tmp, sizeof env_tmp, "TEST_STUB_TMP=%s", h->f.tmp);
  for (char **p = clu_os_environ(); *p && n < 250; p++) envp[n++] = *p;
  envp[n++] = env_tmp;
  envp[n++] = (char *)"CLUTCH_MARK=00000000000000000000000000000000";
  envp[n] = NULL;
  if (clu_os_pair(pair, &e) != CLU_OK) _exit(70);
  memset(&spec, 0, sizeof spec);
  spec.file = "/proc/self/exe";
  spec.argv = argv;
  spec.envp = envp;
  spec.in = CLU_NO_FD;
  spec.out = 1;
  spec.err = 2;
  spec.keep = &pair[1];
  spec.nkeep = 1;
  spec.follow = 1;
  memset(&how, 0, sizeof how);
  if (clu_os_spawn(&spec, &how.server, &e) != CLU_OK) _exit(71);
  clu_os_close(pair[1]);
  how.hosts = hosts;
  how.nhosts = 1;
  how.port = port;
  how.rank = rank;
  how.secret = s;
  how.connect = connect_ms * MS_NS;
  how.beat = h->beat;
  how.reconnect = h->reconnect;
  how.own = h->tls ? h->own : NULL;
  how.certificate = h->certificate;
  how.control = pair[0];
  how.starter = h->starter > 0 ? h->starter : CLU_NO_FD;
  rc = clu_far_serve(&how, &e);
  if (rc != CLU_OK && getenv("TEST_SAY")) fprintf(stderr, "far: %s\n", e.text);
  if (rc != CLU_OK) write_why(h, e.text);
  _exit(rc == CLU_OK ? 0 : 1);
}

TEST_UNUSED static pid_t start_far(host_fixture *h, int port, uint32_t rank, const unsigned char *s,
                                   uint64_t connect_ms) {
  pid_t p = fork();
  REQUIRE(p >= 0);
  if (p == 0) {
    close_others(h->starter > 0 ? h->starter : -1);
    far_main(h, port, rank, s, connect_ms);
  }
  return p;
}

TEST_UNUSED static void start_near(host_fixture *h) {
  clu_fd pair[2];
  clu_err e;
  unsigned char body[CLU_SECRET + 24 + 2 * CLU_TLS_TEXT];
  size_t n = CLU_SECRET + 24;
  int listener = listen_here(&h->port);
  REQUIRE(clu_os_pair(pair, &e) == CLU_OK);
  h->near_pid = fork();
  REQUIRE(h->near_pid >= 0);
  if (h->near_pid == 0) {
    close_others((int)pair[1]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(clu_near_serve(pair[1], &e) == CLU_OK ? 0 : 1);
  }
  clu_os_close(pair[1]);
  fcntl(listener, F_SETFL, O_NONBLOCK);
  REQUIRE(clu_chan_init(&h->near, pair[0], 1 << 20, CLU_TAKES_FDS) == CLU_OK);
  memcpy(body, link_secret, CLU_SECRET);
  clu_put64(body + CLU_SECRET, 5);
  clu_put64(body + CLU_SECRET + 8, h->beat);
  clu_put64(body + CLU_SECRET + 16, h->reconnect);
  if (h->tls) {
    char own[CLU_TLS_TEXT], there[CLU_TLS_TEXT];
    REQUIRE(clu_tls_make_identity(own, h->certificate, &e) == CLU_OK);
    REQUIRE(clu_tls_make_identity(h->own, there, &e) == CLU_OK);
    memcpy(body + n, own, strlen(own) + 1);
    n += strlen(own) + 1;
    memcpy(body + n, there, strlen(there) + 1);
    n += strlen(there) + 1;
  }
  clu_chan_send_bytes(&h->near, CLU_K_LISTEN, 0, body, n, listener);
  CHECK_SOON(clu_chan_flush(&h->near) == CLU_OK, 1000);
}

/* The host of this rank: a fork server for the session. */
TEST_UNUSED static clu_server *add_host(host_fixture *h, uint32_t rank) {
  clu_server *s;
  clu_fd pair[2];
  clu_err e;
  REQUIRE(clu_os_pair(pair, &e) == CLU_OK);
  REQUIRE(clu_server_connect(h->f.session, pair[0], &s, &e) == CLU_OK);
  clu_chan_send_bytes(&h->near, CLU_K_HOST, rank, NULL, 0, pair[1]);
  CHECK_SOON(clu_chan_flush(&h->near) == CLU_OK, 1000);
  return s;
}

TEST_UNUSED static void start_proxy(host_fixture *h) {
  int listener = listen_here(&h->proxy_port);
  h->proxy =
      mmap(NULL, sizeof *h->proxy, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(h->proxy != MAP_FAILED);
  h->proxy_pid = fork();
  REQUIRE(h->proxy_pid >= 0);
  if (h->proxy_pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_others(listener);
    proxy_main(listener, h->port, h->proxy);
  }
  close(listener);
}

TEST_UNUSED static void host_up_by(host_fixture *h, int tls, int nodes, uint64_t beat_ms,
                                   uint64_t reconnect_ms) {
  clu_err e;
  memset(h, 0, sizeof *h);
  h->tls = tls;
  h->beat = beat_ms * MS_NS;
  h->reconnect = reconnect_ms * MS_NS;
  strcpy(h->f.tmp, "/tmp/clutch-test-XXXXXX");
  REQUIRE(mkdtemp(h->f.tmp));
  REQUIRE((h->f.session = clu_session_new(&e)) != NULL);
  start_near(h);
  start_proxy(h);
  h->f.s = add_host(h, 1);
  h->far_pid = start_far(h, h->proxy_port, 1, link_secret, 10000);
  PUMP(&h->f, h->f.s->state != CLU_SERVER_STARTING);
  REQUIRE(h->f.s->state == CLU_SERVER_READY);
  for (h->f.n = 0; h->f.n < nodes; h->f.n++)
    REQUIRE(clu_node_new_host(h->f.s, 0, &h->f.nd[h->f.n], &e) == CLU_OK);
  PUMP(&h->f, all_in(&h->f, CLU_NODE_READY));
  REQUIRE(all_in(&h->f, CLU_NODE_READY));
}

TEST_UNUSED static void host_up_with(host_fixture *h, int nodes, uint64_t beat_ms,
                                     uint64_t reconnect_ms) {
  host_up_by(h, 0, nodes, beat_ms, reconnect_ms);
}

TEST_UNUSED static void host_up(host_fixture *h, int nodes) {
  host_up_with(h, nodes, 10000, 300000);
}

TEST_UNUSED static void end_process(pid_t *p, int expect_status) {
  int status = 0;
  if (*p <= 0) return;
  CHECK_SOON(waitpid(*p, &status, WNOHANG) == *p, 20000);
  if (expect_status >= 0) CHECK(WIFEXITED(status) && WEXITSTATUS(status) == expect_status);
  *p = 0;
}

TEST_UNUSED static void end_proxy(host_fixture *h) {
  if (h->proxy_pid > 0) kill(h->proxy_pid, SIGKILL);
  end_process(&h->proxy_pid, -1);
  if (h->proxy) munmap(h->proxy, sizeof *h->proxy);
  h->proxy = NULL;
}

/* The session ends, and so do all. */
TEST_UNUSED static void host_down(host_fixture *h) {
  clu_chan_fini(&h->near);
  end_process(&h->near_pid, 0);
  end_process(&h->far_pid, -1);
  take_why(h);
  end_proxy(h);
  CHECK_SOON(all_gone(&h->f), 3000);
  down(&h->f);
}

/* Returns what the link process says of the host: its state, and counts. */
TEST_UNUSED static int host_state(host_fixture *h, uint32_t rank, uint64_t counts[3]) {
  double end = test_ms() + 3000;
  int state = -1;
  clu_msg m;
  clu_chan_send(&h->near, CLU_K_HOST_STATE, rank, NULL, CLU_NO_FD);
  while (state < 0 && test_ms() < end) {
    clu_chan_flush(&h->near);
    clu_chan_fill(&h->near);
    while (clu_chan_next(&h->near, &m) == 1) {
      if (m.kind == CLU_K_HOST_STATE && m.seq == rank && m.body && m.body->size >= 25) {
        state = m.body->data[0];
        for (int i = 0; counts && i < 3; i++) counts[i] = clu_get64(m.body->data + 1 + 8 * i);
        if (m.body->size >= 33)
          snprintf(h->why, sizeof h->why, "%.*s", (int)m.body->size - 33, m.body->data + 33);
      }
      clu_blob_unref(m.body);
    }
    test_pause();
  }
  return state;
}

TEST_UNUSED static void expect_sum(host_fixture *h, clu_node *nd, uint64_t n) {
  clu_blob *b;
  PUMP(&h->f, has_answer(nd) || !clu_node_is_open(nd));
  if (!CHECK(has_answer(nd))) return;
  b = clu_node_take_first(nd);
  if (CHECK(b && b->size == 16)) {
    CHECK_INT_EQ(clu_get64(b->data), 3 * n);
    CHECK_INT_EQ(clu_get64(b->data + 8), n);
  }
  clu_blob_unref(b);
}

/* ---- a handshake by hand ---- */

TEST_UNUSED static void read_all(int fd, unsigned char *p, size_t n) {
  while (n > 0) {
    ssize_t k = read(fd, p, n);
    REQUIRE(k > 0);
    p += k;
    n -= (size_t)k;
  }
}

TEST_UNUSED static void say_out(int fd, clu_hs *hs) {
  REQUIRE(write(fd, hs->out, hs->out_left) == (ssize_t)hs->out_left);
  clu_hs_written(hs, hs->out_left);
}

#endif
