/* Fork server and master together. The server is this program once more (see stub()): its nodes answer
 * calls in C. The first byte of a call says what the node does with it. */
#include "test.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "pool.h"
#include "supervisor.h"

enum {
  ECHO = 'e',   /* the body is the answer */
  BIG = 'b',    /* u32: so many bytes */
  LATE = 'd',   /* u32: milliseconds, deaf to cancels, then as ECHO */
  SLEEP = 's',  /* until it is cancelled */
  LOOP = 'l',   /* an endless loop */
  EXIT = 'x',   /* ends with the status in the second byte */
  CHILD = 'c',  /* starts a process of its own and answers its pid */
  TWICE = '2',  /* as ECHO, twice */
  TICK = 't'    /* has a signal every millisecond from now on */
};

/* ---- the node and the server ---- */

static int no_task(int nudge) { return nudge & 0; }
static void on_tick(int sig) { (void)sig; }

static void tick(int on) {
  struct itimerval it = {{0, on ? 1000 : 0}, {0, on ? 1000 : 0}};
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = on_tick; /* no SA_RESTART */
  if (on) sigaction(SIGALRM, &a, NULL);
  setitimer(ITIMER_REAL, &it, NULL);
}

static void reply(clu_chan *c, uint8_t kind, uint64_t seq, clu_blob *body) {
  int rc;
  if (clu_chan_send(c, kind, seq, body, CLU_NO_FD) != CLU_OK) _exit(90);
  while ((rc = clu_chan_flush(c)) == CLU_AGAIN) continue;
  if (rc != CLU_OK) _exit(91);
}

static void serve_call(clu_chan *c, const clu_birth *b, clu_msg *m) {
  unsigned char what = m->body ? m->body->data[0] : ECHO;
  uint32_t n = m->body && m->body->size >= 5 ? clu_get32(m->body->data + 1) : 0;
  clu_blob *big;
  if (*b->cancel == m->seq) { /* it came before the call began */
    reply(c, CLU_K_CANCELLED, m->seq, NULL);
    return;
  }
  switch (what) {
  case BIG:
    if (!(big = clu_blob_new(n))) _exit(92);
    memset(big->data, 'B', n);
    big->size = n;
    reply(c, CLU_K_VALUE, m->seq, big);
    clu_blob_unref(big);
    return;
  case LATE: {
    uint64_t end = clu_os_now() + n * (uint64_t)1000000;
    while (clu_os_now() < end) clu_os_pause(1000000);
    break;
  }
  case SLEEP:
    while (*b->cancel != m->seq) clu_os_pause(5000000);
    reply(c, CLU_K_CANCELLED, m->seq, NULL);
    return;
  case LOOP:
    for (volatile unsigned k = 0;; k++) continue;
  case EXIT:
    _exit(m->body->data[1]);
  case CHILD: {
    unsigned char pid[8];
    pid_t p = fork();
    if (p == 0)
      for (;;) pause();
    clu_put64(pid, (uint64_t)p);
    clu_chan_send_bytes(c, CLU_K_VALUE, m->seq, pid, 8, CLU_NO_FD);
    while (clu_chan_flush(c) == CLU_AGAIN) continue;
    return;
  }
  case TICK:
    tick(1);
    break;
  case TWICE:
    reply(c, CLU_K_VALUE, m->seq, m->body);
    break;
  }
  reply(c, CLU_K_VALUE, m->seq, m->body);
}

static void stub_node(const clu_birth *b) {
  unsigned char pid[8];
  char file[1100];
  clu_chan c;
  int fd;
  snprintf(file, sizeof file, "%s/file", b->tmp); /* so that the folder is not empty */
  if ((fd = open(file, O_CREAT | O_WRONLY, 0600)) < 0) _exit(93);
  close(fd);
  clu_os_set_blocking(b->fd, 1);
  if (clu_chan_init(&c, b->fd, INT64_MAX, 0) != CLU_OK) _exit(94);
  clu_os_on_int(no_task);
  clu_put64(pid, (uint64_t)getpid());
  clu_chan_send_bytes(&c, CLU_K_HELLO, 0, pid, 8, CLU_NO_FD);
  if (clu_chan_flush(&c) != CLU_OK) _exit(95);
  for (;;) {
    clu_msg m;
    int r = clu_chan_next(&c, &m);
    if (r < 0) _exit(96);
    if (r == 0) {
      int rc = clu_chan_fill(&c);
      if (rc != CLU_OK && rc != CLU_AGAIN) {
        clu_node_await_end(b);
        _exit(97);
      }
      continue;
    }
    if (m.kind == CLU_K_DONE) _exit(0);
    if (m.kind == CLU_K_CALL) serve_call(&c, b, &m);
    clu_blob_unref(m.body);
  }
}

__attribute__((constructor)) static void stub(void) {
  const char *tmp = getenv("TEST_STUB_TMP"), *idle = getenv("TEST_STUB_IDLE_MS"),
             *quiet = getenv("TEST_STUB_QUIET_MS");
  static clu_supervisor sv;
  char *none[] = {NULL};
  clu_err e;
  if (!tmp) return;
  signal(SIGINT, SIG_IGN);
  if (clu_supervisor_init(&sv, 3, getppid(), tmp, none, idle ? (uint64_t)atoi(idle) * 1000000u : 0, &e) != CLU_OK)
    _exit(80);
  if (quiet) sv.quiet_ns = (uint64_t)atoi(quiet) * 1000000u;
  clu_supervisor_answer(&sv, CLU_K_READY, 0, "ready", 5);
  for (;;) {
    clu_sv_event ev;
    if (clu_supervisor_serve(&sv, &ev, &e) != CLU_OK) _exit(81);
    if (ev.what == CLU_SV_CHILD) {
      stub_node(&ev.node);
    } else if (ev.what == CLU_SV_QUIET) {
      clu_supervisor_answer(&sv, CLU_K_APPLIED, 1000, NULL, 0);
    } else if (ev.what == CLU_SV_END) {
      clu_supervisor_fini(&sv);
      _exit(0);
    } else {
      clu_supervisor_answer(&sv, CLU_K_APPLIED, ev.msg.seq, "no", ev.msg.body ? 2 : 0);
      clu_blob_unref(ev.msg.body);
    }
  }
}

/* ---- the master ---- */

#define MAX_NODES 64

typedef struct rig {
  clu_loop l;
  clu_server *s;
  clu_node *nd[MAX_NODES];
  int n;
  char tmp[64];
} rig;

/* Pumps until it is true, at most 15 s. */
#define PUMP(r, cond)                                                                   \
  do {                                                                                  \
    double pump_end = test_ms() + 15000;                                                \
    int pump_ok;                                                                        \
    clu_err pump_e;                                                                     \
    while (!(pump_ok = !!(cond)) && test_ms() < pump_end)                               \
      if (!CHECK(clu_loop_pump(&(r)->l, 5000000, &pump_e) == CLU_OK)) break;            \
    if (!pump_ok) test_fail(__FILE__, __LINE__, "not true within 15 s: %s", #cond);     \
  } while (0)

static void up_with(rig *r, const char *more) {
  char *argv[] = {(char *)"stub", NULL}, *envp[256], env_tmp[100];
  clu_spawn s;
  clu_err e;
  int n = 0;
  memset(r, 0, sizeof *r);
  strcpy(r->tmp, "/tmp/clutch-test-XXXXXX");
  REQUIRE(mkdtemp(r->tmp));
  snprintf(env_tmp, sizeof env_tmp, "TEST_STUB_TMP=%s", r->tmp);
  for (char **p = clu_os_environ(); *p && n < 250; p++) envp[n++] = *p;
  envp[n++] = env_tmp;
  if (more) envp[n++] = (char *)more;
  envp[n] = NULL;
  memset(&s, 0, sizeof s);
  s.file = "/proc/self/exe";
  s.argv = argv;
  s.envp = envp;
  s.in = CLU_NO_FD;
  s.out = 1;
  s.err = 2;
  s.new_session = 1;
  REQUIRE(clu_loop_init(&r->l, &e) == CLU_OK);
  REQUIRE(clu_server_start(&r->l, &s, &r->s, &e) == CLU_OK);
  PUMP(r, r->s->state != CLU_SERVER_STARTING);
  REQUIRE(r->s->state == CLU_SERVER_READY);
  REQUIRE(r->s->ready && r->s->ready->size == 5 && memcmp(r->s->ready->data, "ready", 5) == 0);
}

static int all_in(rig *r, int state) {
  for (int i = 0; i < r->n; i++)
    if (r->nd[i]->state != state || r->nd[i]->pid == 0) return 0;
  return 1;
}

static void up(rig *r, int nodes) {
  clu_err e;
  up_with(r, NULL);
  for (r->n = 0; r->n < nodes; r->n++) REQUIRE(clu_node_spawn(r->s, 0, &r->nd[r->n], &e) == CLU_OK);
  PUMP(r, all_in(r, CLU_NODE_READY));
  REQUIRE(all_in(r, CLU_NODE_READY));
  CHECK_INT_EQ(r->s->live, nodes);
}

static int entries(const char *dir) {
  DIR *d = opendir(dir);
  struct dirent *entry;
  int n = 0;
  if (!d) return -1;
  while ((entry = readdir(d))) n += entry->d_name[0] != '.';
  closedir(d);
  return n;
}

static void down(rig *r) {
  for (int i = 0; i < r->n; i++)
    if (r->nd[i]) clu_node_free(r->nd[i]);
  if (r->s->state != CLU_SERVER_ENDED) clu_server_close(r->s);
  CHECK_SOON(clu_server_reap(r->s), 10000);
  clu_server_unref(r->s);
  CHECK(r->l.nodes == NULL && r->l.servers == NULL);
  clu_loop_fini(&r->l);
  CHECK_SOON(entries(r->tmp) <= 0, 5000);
  clu_os_remove_tree(r->tmp);
}

/* Ended; the orphans of a dead server are reaped only after the test. */
static int gone(clu_pid pid) {
  char path[64], text[512], *end;
  FILE *f;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  if (!(f = fopen(path, "re"))) return 1;
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  end = strrchr(text, ')');
  return !end || end[2] == 'Z' || end[2] == 'X';
}

static int all_gone(rig *r) {
  for (int i = 0; i < r->n; i++)
    if (!gone(r->nd[i]->pid)) return 0;
  return 1;
}

static void call(clu_node *nd, char what, uint32_t number, size_t n, uint64_t owner) {
  clu_blob *b = clu_blob_new(n);
  clu_err e;
  REQUIRE(b);
  for (size_t i = 0; i < n; i++) b->data[i] = (unsigned char)((i * 2654435761u + number) >> 7);
  b->size = n;
  b->data[0] = (unsigned char)what;
  if (n >= 5) clu_put32(b->data + 1, number);
  REQUIRE(clu_node_call(nd, b, owner, (int)number, &e) == CLU_OK);
  clu_blob_unref(b);
}

static int has_answer(clu_node *nd) { return clu_node_first(nd) && clu_node_first(nd)->arrival; }

/* Takes the answer, which has to be the echo of that call. */
static void expect_echo(rig *r, clu_node *nd, char what, uint32_t number, size_t n) {
  clu_req *q;
  clu_blob *b;
  PUMP(r, has_answer(nd) || nd->state > CLU_NODE_READY);
  q = clu_node_first(nd);
  if (!CHECK(q && q->arrival)) return;
  CHECK_INT_EQ(q->kind, CLU_K_VALUE);
  CHECK_INT_EQ(q->tag, number);
  b = clu_node_take(nd, q);
  if (CHECK(b && b->size == n)) {
    int same = b->data[0] == (unsigned char)what && (n < 5 || clu_get32(b->data + 1) == number);
    for (size_t i = n < 5 ? 1 : 5; i < n; i++)
      same &= b->data[i] == (unsigned char)((i * 2654435761u + number) >> 7);
    CHECK(same);
  }
  clu_blob_unref(b);
}

static void echo_all(rig *r, int except) {
  for (int i = 0; i < r->n; i++)
    if (i != except) call(r->nd[i], ECHO, (uint32_t)(1000 + i), 1000, 1);
  for (int i = 0; i < r->n; i++)
    if (i != except) expect_echo(r, r->nd[i], ECHO, (uint32_t)(1000 + i), 1000);
}

static void pump_for(rig *r, double ms) {
  double end = test_ms() + ms;
  clu_err e;
  while (test_ms() < end) clu_loop_pump(&r->l, 5000000, &e);
}

/* ---- births and calls ---- */

TEST(twenty_nodes_answer) {
  rig r;
  up(&r, 20);
  for (int i = 0; i < 20; i++) {
    CHECK(r.nd[i]->pid > 0 && !gone(r.nd[i]->pid));
    CHECK_INT_EQ(getpgid((pid_t)r.nd[i]->pid), r.nd[i]->pid);
    for (int j = 0; j < i; j++) CHECK(r.nd[i]->pid != r.nd[j]->pid);
  }
  CHECK_INT_EQ(entries(r.tmp), 20);
  for (int k = 0; k < 5; k++) echo_all(&r, -1);
  CHECK_INT_EQ(r.nd[0]->done, 5);
  down(&r);
}

TEST(large_calls_go_to_all_at_once) {
  rig r;
  up(&r, 4);
  for (int i = 0; i < 4; i++) call(r.nd[i], ECHO, (uint32_t)i, ((size_t)5 << 20) + (size_t)i, 1);
  for (int i = 0; i < 4; i++) expect_echo(&r, r.nd[i], ECHO, (uint32_t)i, ((size_t)5 << 20) + (size_t)i);
  down(&r);
}

TEST(requests_wait_in_line) {
  rig r;
  up(&r, 2);
  for (uint32_t i = 0; i < 200; i++) call(r.nd[i % 2], ECHO, i, 5 + i * 37, 1);
  for (uint32_t i = 0; i < 200; i++) expect_echo(&r, r.nd[i % 2], ECHO, i, 5 + i * 37);
  CHECK(clu_node_first(r.nd[0]) == NULL);
  down(&r);
}

TEST(a_call_may_come_before_the_node_does) {
  rig r;
  clu_err e;
  up(&r, 0);
  REQUIRE(clu_node_spawn(r.s, 0, &r.nd[0], &e) == CLU_OK);
  r.n = 1;
  call(r.nd[0], ECHO, 3, 50, 1);
  expect_echo(&r, r.nd[0], ECHO, 3, 50);
  down(&r);
}

TEST(settings_are_answered) {
  rig r;
  up(&r, 0);
  CHECK_INT_EQ(clu_server_send(r.s, CLU_K_SETTINGS, 7, "", 0, CLU_NO_FD), CLU_OK);
  PUMP(&r, r.s->answered == 7);
  down(&r);
}

TEST(sixty_nodes_come_and_go) {
  rig r;
  up(&r, 60);
  for (int i = 0; i < 60; i += 2) {
    clu_node_free(r.nd[i]);
    r.nd[i] = NULL;
  }
  PUMP(&r, entries(r.tmp) == 30);
  for (int i = 1; i < 60; i += 2) call(r.nd[i], ECHO, (uint32_t)i, 10, 1);
  for (int i = 1; i < 60; i += 2) expect_echo(&r, r.nd[i], ECHO, (uint32_t)i, 10);
  CHECK_INT_EQ(r.s->live, 30);
  down(&r);
}

/* ---- ends ---- */

TEST(a_killed_node_is_dead_and_the_others_answer) {
  rig r;
  clu_err e;
  up(&r, 20);
  call(r.nd[7], SLEEP, 0, 5, 1);
  for (int i = 0; i < 20; i++)
    if (i != 7) call(r.nd[i], LATE, 50, 1000, 1);
  kill((pid_t)r.nd[7]->pid, SIGKILL);
  for (int i = 0; i < 20; i++)
    if (i != 7) expect_echo(&r, r.nd[i], LATE, 50, 1000);
  PUMP(&r, r.nd[7]->how_known);
  CHECK_INT_EQ(r.nd[7]->state, CLU_NODE_DEAD);
  CHECK_INT_EQ(r.nd[7]->how.by_signal, 1);
  CHECK_INT_EQ(r.nd[7]->how.code, SIGKILL);
  CHECK(clu_node_first(r.nd[7]) && !clu_node_first(r.nd[7])->arrival);
  CHECK(gone(r.nd[7]->pid));
  CHECK_INT_EQ(r.s->live, 19);
  CHECK_INT_EQ(clu_node_call(r.nd[7], NULL, 1, 0, &e), CLU_DEAD);
  echo_all(&r, 7);
  PUMP(&r, entries(r.tmp) == 19);
  CHECK_INT_EQ(r.s->state, CLU_SERVER_READY);
  down(&r);
}

TEST(the_exit_status_of_a_node_is_told) {
  rig r;
  clu_blob *b = clu_blob_new(2);
  clu_err e;
  up(&r, 2);
  REQUIRE(b);
  clu_blob_append(b, "x\x2a", 2);
  REQUIRE(clu_node_call(r.nd[0], b, 1, 0, &e) == CLU_OK);
  clu_blob_unref(b);
  PUMP(&r, r.nd[0]->how_known);
  CHECK_INT_EQ(r.nd[0]->state, CLU_NODE_DEAD);
  CHECK_INT_EQ(r.nd[0]->how.by_signal, 0);
  CHECK_INT_EQ(r.nd[0]->how.code, 42);
  echo_all(&r, 0);
  down(&r);
}

/* The master looks only when all has happened: as much as the socket holds has to be there. */
TEST(answers_given_before_the_end_count) {
  rig r;
  int size = 0, n, missing = 0;
  socklen_t len = sizeof size;
  double end;
  up(&r, 1);
  getsockopt((int)r.nd[0]->chan.fd, SOL_SOCKET, SO_SNDBUF, &size, &len);
  n = size * 4 / 5 / 4400; /* what the kernel counts for 3724 bytes is some more */
  for (int i = 0; i < n; i++) call(r.nd[0], BIG, 3700, 5, 1);
  call(r.nd[0], EXIT, 0, 5, 1);
  end = test_ms() + 3000;
  while (!gone(r.nd[0]->pid) && test_ms() < end) test_pause();
  if (!gone(r.nd[0]->pid)) test_note(__FILE__, __LINE__, "%d answers do not fit into the socket", n);
  PUMP(&r, r.nd[0]->how_known);
  for (int i = 0; i < n; i++) missing += !r.nd[0]->reqs[i].arrival;
  CHECK_INT_EQ(missing, 0);
  down(&r);
}

TEST(what_a_node_started_ends_with_it) {
  rig r;
  clu_req *q;
  clu_blob *b;
  clu_pid pid;
  up(&r, 1);
  call(r.nd[0], CHILD, 0, 5, 1);
  PUMP(&r, has_answer(r.nd[0]));
  q = clu_node_first(r.nd[0]);
  REQUIRE(q && q->body && q->body->size == 8);
  b = clu_node_take(r.nd[0], q);
  pid = (clu_pid)clu_get64(b->data);
  clu_blob_unref(b);
  CHECK(!gone(pid));
  kill((pid_t)r.nd[0]->pid, SIGKILL);
  PUMP(&r, r.nd[0]->how_known);
  CHECK_SOON(gone(pid), 5000);
  down(&r);
}

TEST(nodes_stop_within_their_grace) {
  rig r;
  up(&r, 20);
  for (int i = 0; i < 20; i++) clu_node_stop(r.nd[i], 10000);
  PUMP(&r, all_in(&r, CLU_NODE_STOPPED) && r.nd[0]->how_known);
  for (int i = 0; i < 20; i++) {
    PUMP(&r, r.nd[i]->how_known);
    CHECK_INT_EQ(r.nd[i]->how.by_signal, 0);
    CHECK_INT_EQ(r.nd[i]->how.code, 0);
    CHECK(gone(r.nd[i]->pid));
  }
  CHECK_INT_EQ(r.s->live, 0);
  PUMP(&r, entries(r.tmp) <= 0);
  down(&r);
}

TEST(a_node_in_an_endless_loop_is_killed_after_its_grace) {
  rig r;
  double from;
  up(&r, 2);
  call(r.nd[0], LOOP, 0, 5, 1);
  pump_for(&r, 50);
  from = test_ms();
  clu_node_stop(r.nd[0], 300);
  PUMP(&r, r.nd[0]->how_known);
  CHECK(test_ms() - from >= 295);
  CHECK_INT_EQ(r.nd[0]->state, CLU_NODE_STOPPED);
  CHECK_INT_EQ(r.nd[0]->how.by_signal, 1);
  CHECK_INT_EQ(r.nd[0]->how.code, SIGKILL);
  echo_all(&r, 0);
  down(&r);
}

TEST(without_grace_it_is_killed_at_once) {
  rig r;
  up(&r, 2);
  call(r.nd[0], LOOP, 0, 5, 1);
  pump_for(&r, 50);
  clu_node_stop(r.nd[0], 0);
  PUMP(&r, r.nd[0]->how_known);
  CHECK_INT_EQ(r.nd[0]->state, CLU_NODE_STOPPED);
  CHECK_INT_EQ(r.nd[0]->how.code, SIGKILL);
  echo_all(&r, 0);
  down(&r);
}

TEST(without_the_master_all_is_gone_within_two_seconds) {
  rig r;
  up(&r, 20);
  for (int i = 0; i < 20; i++) {
    if (i % 3 == 0) call(r.nd[i], LOOP, 0, 5, 1);
    if (i % 3 == 1) call(r.nd[i], SLEEP, 0, 5, 1);
  }
  pump_for(&r, 50);
  CHECK_INT_EQ(entries(r.tmp), 20);
  clu_server_close(r.s); /* what the system does when the master ends */
  CHECK_SOON(all_gone(&r) && entries(r.tmp) <= 0 && clu_server_reap(r.s), 2000);
  CHECK_INT_EQ(r.s->how.by_signal, 0);
  CHECK_INT_EQ(r.s->how.code, 0);
  for (int i = 0; i < 20; i++) CHECK_INT_EQ(r.nd[i]->state, CLU_NODE_DEAD);
  down(&r);
}

TEST(without_the_server_all_is_gone) {
  rig r;
  up(&r, 20);
  for (int i = 0; i < 20; i += 2) call(r.nd[i], LOOP, 0, 5, 1);
  pump_for(&r, 50);
  kill((pid_t)r.s->pid, SIGKILL);
  PUMP(&r, r.s->state == CLU_SERVER_ENDED);
  CHECK_SOON(clu_server_reap(r.s), 5000);
  CHECK_INT_EQ(r.s->how.by_signal, 1);
  CHECK_INT_EQ(r.s->how.code, SIGKILL);
  for (int i = 0; i < 20; i++) CHECK_INT_EQ(r.nd[i]->state, CLU_NODE_DEAD);
  CHECK_SOON(all_gone(&r) && entries(r.tmp) <= 0, 5000);
  down(&r);
}

TEST(a_server_that_is_asked_to_end_does) {
  rig r;
  up(&r, 3);
  kill((pid_t)r.s->pid, SIGTERM);
  PUMP(&r, r.s->state == CLU_SERVER_ENDED);
  CHECK_SOON(all_gone(&r) && clu_server_reap(r.s), 5000);
  down(&r);
}

TEST(an_idle_server_says_goodbye) {
  rig r;
  up_with(&r, "TEST_STUB_IDLE_MS=200");
  PUMP(&r, r.s->state == CLU_SERVER_ENDED);
  CHECK_INT_EQ(r.s->bye, 1);
  CHECK_SOON(clu_server_reap(r.s), 5000);
  down(&r);
}

TEST(a_server_is_told_once_that_it_is_quiet_and_not_while_it_has_nodes) {
  rig r;
  clu_err e;
  double end;
  up_with(&r, "TEST_STUB_QUIET_MS=100");
  REQUIRE(clu_node_spawn(r.s, 0, &r.nd[0], &e) == CLU_OK);
  r.n = 1;
  for (end = test_ms() + 300; test_ms() < end;) clu_loop_pump(&r.l, 5000000, &e);
  CHECK_INT_EQ(r.s->answered, 0);
  clu_node_stop(r.nd[0], 0);
  PUMP(&r, r.s->answered == 1000);
  r.s->answered = 0;
  for (end = test_ms() + 300; test_ms() < end;) clu_loop_pump(&r.l, 5000000, &e);
  CHECK_INT_EQ(r.s->answered, 0);
  down(&r);
}

TEST(a_server_that_has_ended_gives_no_node) {
  rig r;
  clu_node *nd = NULL;
  clu_err e;
  int before;
  up(&r, 0);
  clu_server_close(r.s);
  before = test_count_fds();
  CHECK_INT_EQ(clu_node_spawn(r.s, 0, &nd, &e), CLU_DEAD);
  CHECK(nd == NULL);
  CHECK_INT_EQ(test_count_fds(), before);
  down(&r);
}

/* ---- cancels ---- */

TEST(a_cancelled_request_leaves_the_node_in_step) {
  rig r;
  up(&r, 2);
  for (uint32_t k = 0; k < 20; k++) {
    call(r.nd[0], SLEEP, k, 5, 1);
    pump_for(&r, k % 4 ? 0 : 20);
    CHECK(clu_node_in_step(r.nd[0]));
    clu_node_cancel(r.nd[0], 1);
    CHECK(!clu_node_in_step(r.nd[0]));
    CHECK(clu_node_first(r.nd[0]) == NULL);
    PUMP(&r, clu_node_in_step(r.nd[0]));
    CHECK_INT_EQ(r.nd[0]->nreqs, 0);
    call(r.nd[0], ECHO, k, 100, 2);
    expect_echo(&r, r.nd[0], ECHO, k, 100);
  }
  echo_all(&r, -1);
  down(&r);
}

TEST(a_late_answer_is_never_taken) {
  rig r;
  up(&r, 1);
  for (uint32_t k = 0; k < 5; k++) {
    call(r.nd[0], LATE, 100 + k, 100, 1);
    pump_for(&r, 20);
    clu_node_cancel(r.nd[0], 1);
    call(r.nd[0], ECHO, k, 100, 2); /* at once: behind the stale one */
    CHECK(!has_answer(r.nd[0]));
    expect_echo(&r, r.nd[0], ECHO, k, 100);
    PUMP(&r, clu_node_in_step(r.nd[0]));
    CHECK_INT_EQ(r.nd[0]->nreqs, 0);
  }
  CHECK_INT_EQ(r.nd[0]->done, 5);
  down(&r);
}

TEST(what_is_half_written_is_withdrawn) {
  rig r;
  up(&r, 1);
  call(r.nd[0], SLEEP, 0, 5, 1);
  pump_for(&r, 20);
  call(r.nd[0], ECHO, 1, (size_t)12 << 20, 2); /* more than the sockets hold */
  call(r.nd[0], ECHO, 2, (size_t)5 << 20, 2);
  CHECK(clu_chan_pending(&r.nd[0]->chan));
  clu_node_cancel(r.nd[0], 2);
  CHECK_INT_EQ(r.nd[0]->nreqs, 1);
  call(r.nd[0], ECHO, 3, 100, 3);
  clu_node_cancel(r.nd[0], 1);
  expect_echo(&r, r.nd[0], ECHO, 3, 100);
  PUMP(&r, clu_node_in_step(r.nd[0]));
  CHECK_INT_EQ(r.nd[0]->done, 1);
  CHECK_INT_EQ(r.nd[0]->state, CLU_NODE_READY);
  CHECK_INT_EQ(r.s->state, CLU_SERVER_READY);
  down(&r);
}

TEST(a_stale_request_behind_one_that_counts_is_given_up_when_it_is_its_turn) {
  rig r;
  up(&r, 1);
  call(r.nd[0], LATE, 100, 50, 1);
  call(r.nd[0], SLEEP, 0, 5, 2);
  pump_for(&r, 20);
  clu_node_cancel(r.nd[0], 2);
  expect_echo(&r, r.nd[0], LATE, 100, 50);
  PUMP(&r, clu_node_in_step(r.nd[0]));
  down(&r);
}

TEST(a_row_of_requests_is_cancelled_one_by_one) {
  rig r;
  up(&r, 1);
  for (int i = 0; i < 10; i++) call(r.nd[0], SLEEP, 0, 5, 1);
  pump_for(&r, 20);
  clu_node_cancel(r.nd[0], 0);
  PUMP(&r, clu_node_in_step(r.nd[0]));
  CHECK_INT_EQ(r.nd[0]->nreqs, 0);
  echo_all(&r, -1);
  down(&r);
}

/* ---- signals ---- */

TEST(a_storm_of_signals_changes_no_byte) {
  rig r;
  up(&r, 2);
  for (int i = 0; i < 2; i++) { /* in the nodes, too, whose descriptors block */
    call(r.nd[i], TICK, 0, 5, 1);
    expect_echo(&r, r.nd[i], TICK, 0, 5);
  }
  tick(1); /* takes the place of the harness's alarm; the runner has its own clock */
  for (uint32_t k = 0; k < 100; k++) {
    for (uint32_t i = 0; i < 2; i++) call(r.nd[i], ECHO, 2 * k + i, 100000, 1);
    for (uint32_t i = 0; i < 2; i++) expect_echo(&r, r.nd[i], ECHO, 2 * k + i, 100000);
  }
  for (uint32_t i = 0; i < 2; i++) call(r.nd[i], ECHO, i, (size_t)5 << 20, 1);
  for (uint32_t i = 0; i < 2; i++) expect_echo(&r, r.nd[i], ECHO, i, (size_t)5 << 20);
  tick(0);
  alarm(TEST_SECONDS);
  down(&r);
}

TEST(a_second_answer_is_nobodys) {
  rig r;
  up(&r, 1);
  call(r.nd[0], TWICE, 1, 100, 1);
  pump_for(&r, 50); /* both have come */
  expect_echo(&r, r.nd[0], TWICE, 1, 100);
  echo_all(&r, -1);
  CHECK_INT_EQ(r.nd[0]->done, 2);
  down(&r);
}

TEST(a_slot_belongs_to_one_process_until_that_has_ended) {
  rig r;
  clu_err e;
  clu_node *old, *young;
  up(&r, 3);
  for (int i = 0; i < 3; i++) {
    CHECK_INT_EQ(r.nd[i]->slot, i);
    CHECK(clu_node_claim(r.nd[i]) == &r.s->shared->claim[i] && clu_node_ring(r.nd[i]) == &r.s->shared->ring[i]);
  }
  old = r.nd[1];
  atomic_store(clu_node_claim(old), 77);
  kill((pid_t)old->pid, SIGSTOP);
  clu_node_stop(old, 20); /* it cannot hear that */
  clu_node_lose(old);
  REQUIRE(clu_node_spawn(r.s, 0, &young, &e) == CLU_OK);
  CHECK_INT_EQ(young->slot, 3); /* the other one may still write to its own */
  PUMP(&r, young->state == CLU_NODE_READY && old->how_known);
  clu_node_free(young);
  REQUIRE(clu_node_spawn(r.s, 0, &young, &e) == CLU_OK);
  CHECK_INT_EQ(young->slot, 1);
  CHECK_INT_EQ(clu_claim_look(clu_node_claim(young)), 0);
  PUMP(&r, young->state == CLU_NODE_READY);
  clu_node_free(young);
  down(&r);
}
