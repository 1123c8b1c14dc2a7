/* A fork server that is this program once more (see stub()), whose nodes answer calls in C, and a
 * session that pumps. The first byte of a call says what the node does with it. */
#ifndef SERVER_FIXTURE_H
#define SERVER_FIXTURE_H

#include "test.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "core/base/os-folders.h"
#include "core/node/transports.h"
#include "core/node/fork-private.h"
#include "core/supervisor/stay.h"
#include "core/supervisor/supervisor.h"

enum {
  ECHO = 'e',  /* the body is the answer */
  BIG = 'b',   /* u32: so many bytes */
  LATE = 'd',  /* u32: milliseconds, deaf to cancels, then as ECHO */
  SLEEP = 's', /* until it is cancelled */
  LOOP = 'l',  /* an endless loop */
  EXIT = 'x',  /* ends with the status in the second byte */
  CHILD = 'c', /* starts a process of its own and answers its pid */
  LEAVE = 'v', /* the same, in a session of its own and not its child any more */
  TWICE = '2', /* as ECHO, twice */
  SUM = 'g',   /* u64: the bytes of the segments that the call brings, added up, and how many */
  GIVE = 'G',  /* u32: a segment of so many bytes */
  TICK = 't',  /* has a signal every millisecond from now on */
  RING = 'r',  /* u32: puts so many records into its ring, and tells of them, as a node does */
  QUIET = 'q', /* the same, and does not tell; it answers after 2 s, or when it is cancelled */
  LAST = 'z',  /* the same, and ends at once */
  CALLS = 'k'  /* u32: tells which R calls it is in, so often, and is deaf then, until it is
                  cancelled */
};

/* ---- the node and the server ---- */

TEST_UNUSED static int no_task(int nudge) { return nudge & 0; }
TEST_UNUSED static void on_tick(int sig) { (void)sig; }

TEST_UNUSED static void tick(int on) {
  struct itimerval it = {{0, on ? 1000 : 0}, {0, on ? 1000 : 0}};
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = on_tick; /* no SA_RESTART */
  if (on) sigaction(SIGALRM, &a, NULL);
  setitimer(ITIMER_REAL, &it, NULL);
}

TEST_UNUSED static void reply(clu_chan *c, uint8_t kind, uint64_t seq, clu_blob *body) {
  int rc;
  if (clu_chan_send(c, kind, seq, body, CLU_NO_FD) != CLU_OK) _exit(90);
  while ((rc = clu_chan_flush(c)) == CLU_AGAIN) continue;
  if (rc != CLU_OK) _exit(91);
}

TEST_UNUSED static void reply_big(clu_chan *c, uint64_t seq, uint32_t n) {
  clu_blob *big = clu_blob_new(n);
  if (!big) _exit(92);
  memset(big->data, 'B', n);
  big->size = n;
  reply(c, CLU_K_VALUE, seq, big);
  clu_blob_unref(big);
}

TEST_UNUSED static void reply_pid(clu_chan *c, uint64_t seq, pid_t p) {
  unsigned char pid[8];
  clu_put64(pid, (uint64_t)p);
  clu_chan_send_bytes(c, CLU_K_VALUE, seq, pid, 8, CLU_NO_FD);
  while (clu_chan_flush(c) == CLU_AGAIN) continue;
}

TEST_UNUSED static void put_sum(unsigned char answer[16], const clu_segments *list) {
  uint64_t sum = 0, n = 0;
  for (int i = 0; list && i < list->n; i++) {
    const unsigned char *p = clu_segment_bytes(list->of[i], NULL);
    if (!p) _exit(89);
    n += clu_segment_size(list->of[i]);
    for (uint64_t k = 0; k < clu_segment_size(list->of[i]); k++) sum += p[k];
  }
  clu_put64(answer, sum);
  clu_put64(answer + 8, n);
}

TEST_UNUSED static void reply_sum(clu_chan *c, const clu_msg *m) {
  unsigned char answer[16];
  put_sum(answer, m->body->segments);
  clu_chan_send_bytes(c, CLU_K_VALUE, m->seq, answer, sizeof answer, CLU_NO_FD);
  while (clu_chan_flush(c) == CLU_AGAIN) continue;
}

TEST_UNUSED static clu_blob *blob_with_segment(uint32_t n, char what) {
  clu_segment *s = clu_segment_new();
  clu_blob *b = clu_blob_new(16);
  static unsigned char piece[65536];
  if (!s || !b) _exit(88);
  memset(piece, 3, sizeof piece);
  for (uint32_t done = 0, k; done < n; done += k) {
    k = n - done < sizeof piece ? n - done : (uint32_t)sizeof piece;
    if (clu_segment_append(s, piece, k) != CLU_OK) _exit(87);
  }
  if (clu_segment_seal(s) != CLU_OK || clu_blob_attach(b, s) < 0) _exit(86);
  b->data[0] = (unsigned char)what;
  clu_put32(b->data + 1, n);
  b->size = 5;
  return b;
}

TEST_UNUSED static void reply_segment(clu_chan *c, uint64_t seq, uint32_t n) {
  clu_blob *b = blob_with_segment(n, GIVE);
  reply(c, CLU_K_VALUE, seq, b);
  clu_blob_unref(b);
}

/* Records with their index, of different sizes, all with the number before this request's. */
TEST_UNUSED static void put_records(clu_chan *c, const clu_boot *b, uint64_t seq, uint32_t n,
                                    int tell) {
  for (uint32_t k = 0; k < n; k++) {
    size_t size = 24 + k * 7919u % 3000;
    unsigned char *p;
    while (!(p = clu_ring_room(b->ring, CLU_RING_MOST))) {
      clu_os_yield();
      if (tell && clu_ring_must_tell(b->ring)) reply(c, CLU_K_RESULTS_READY, 0, NULL);
    }
    memset(p, (int)k, size);
    clu_put64(p + 8, seq - 1);
    clu_put64(p + 16, k);
    clu_ring_publish(b->ring, size);
  }
  if (tell && clu_ring_must_tell(b->ring)) reply(c, CLU_K_RESULTS_READY, 0, NULL);
}

TEST_UNUSED static pid_t start_child(void) {
  pid_t p = fork();
  if (p == 0)
    for (;;) pause();
  return p;
}

/* In a session of its own, and no child of this process any more. */
TEST_UNUSED static pid_t leave_behind(void) {
  int p[2];
  pid_t child, left = 0;
  if (pipe(p) != 0) _exit(98);
  child = fork();
  if (child == 0) {
    left = fork();
    if (left == 0) {
      setsid();
      close(p[0]);
      close(p[1]);
      for (;;) pause();
    }
    if (write(p[1], &left, sizeof left) < 0) _exit(1);
    _exit(0);
  }
  if (read(p[0], &left, sizeof left) != (ssize_t)sizeof left) _exit(99);
  close(p[0]);
  close(p[1]);
  while (waitpid(child, NULL, 0) < 0) continue;
  return left;
}

TEST_UNUSED static void tell_calls(const clu_boot *b, uint64_t seq, uint32_t times) {
  clu_activity_begin(b->activity, seq, clu_os_now());
  while (*b->cancel != seq) {
    uint32_t question = times > 0 ? clu_stack_question(b->asked) : 0;
    if (question) times--;
    if (question) clu_stack_tell(b->asked, b->stack, question, seq, clu_os_now(), "f()\ng()", 7);
    clu_os_pause(2000000);
  }
  clu_activity_end(b->activity);
}

TEST_UNUSED static void serve_call(clu_chan *c, const clu_boot *b, clu_msg *m) {
  unsigned char what = m->body ? m->body->data[0] : ECHO;
  uint32_t n = m->body && m->body->size >= 5 ? clu_get32(m->body->data + 1) : 0;
  uint64_t end = clu_os_now() + n * (uint64_t)1000000;
  if (*b->cancel == m->seq) { /* it was cancelled before it began */
    reply(c, CLU_K_CANCELLED, m->seq, NULL);
    return;
  }
  switch (what) {
  case BIG: reply_big(c, m->seq, n); return;
  case LATE:
    while (clu_os_now() < end) clu_os_pause(1000000);
    break;
  case SLEEP:
    while (*b->cancel != m->seq) clu_os_pause(5000000);
    reply(c, CLU_K_CANCELLED, m->seq, NULL);
    return;
  case LOOP:
    for (volatile unsigned k = 0;; k++) continue;
  case EXIT: _exit(m->body->data[1]);
  case CHILD: reply_pid(c, m->seq, start_child()); return;
  case LEAVE: reply_pid(c, m->seq, leave_behind()); return;
  case SUM: reply_sum(c, m); return;
  case GIVE: reply_segment(c, m->seq, n); return;
  case TICK: tick(1); break;
  case RING: put_records(c, b, m->seq, n, 1); break;
  case QUIET:
    put_records(c, b, m->seq, n, 0);
    for (end = clu_os_now() + 2000000000; clu_os_now() < end && *b->cancel != m->seq;)
      clu_os_pause(5000000);
    break;
  case CALLS:
    tell_calls(b, m->seq, n);
    reply(c, CLU_K_CANCELLED, m->seq, NULL);
    return;
  case LAST: put_records(c, b, m->seq, n, 0); _exit(0);
  case TWICE: reply(c, CLU_K_VALUE, m->seq, m->body); break;
  }
  reply(c, CLU_K_VALUE, m->seq, m->body);
}

TEST_UNUSED static void stub_node(const clu_boot *b) {
  unsigned char pid[8];
  char file[1100];
  clu_chan c;
  int fd;
  snprintf(file, sizeof file, "%s/file", b->tmp); /* so that the folder is not empty */
  if (getenv("TEST_STUB_NO_FOLDER") == NULL) {
    if (clu_os_make_folder(b->tmp, NULL) != CLU_OK) _exit(92);
    if ((fd = open(file, O_CREAT | O_WRONLY, 0600)) < 0) _exit(93);
    close(fd);
  }
  clu_os_set_blocking(b->fd, 1);
  if (clu_chan_init(&c, b->fd, INT64_MAX, CLU_TAKES_SEGMENTS) != CLU_OK) _exit(94);
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
        clu_boot_await_end(b);
        _exit(97);
      }
      continue;
    }
    if (m.kind == CLU_K_DONE) _exit(0);
    if (m.kind == CLU_K_CALL) serve_call(&c, b, &m);
    clu_blob_unref(m.body);
  }
}

/* The answer to settings that bring segments is the sum of their bytes. */
TEST_UNUSED static void answer_settings(clu_supervisor *sv, const clu_msg *m) {
  unsigned char sum[16];
  if (m->body && m->body->segments) {
    put_sum(sum, m->body->segments);
    clu_supervisor_answer(sv, CLU_K_APPLIED, m->seq, sum, sizeof sum);
  } else {
    clu_supervisor_answer(sv, CLU_K_APPLIED, m->seq, "no", m->body ? 2 : 0);
  }
}

/* A server that stays at this path for a second: 1: another session has come. */
TEST_UNUSED static int stub_stays(clu_supervisor *sv, clu_sv_options *how, const char *path) {
  static clu_stay stay;
  clu_fd signals;
  clu_pid session;
  clu_err e;
  const char *brief = getenv("TEST_STUB_BRIEF"); /* else for longer than any test takes */
  int rc = clu_stay_offer(&stay, path, &e);
  if (rc != CLU_OK || clu_os_watch_start(&signals, &e) != CLU_OK) _exit(82);
  clu_supervisor_fini(sv);
  clu_os_follow_nobody();
  rc = clu_stay_await(&stay, signals, clu_os_now() + (brief ? 1u : 60u) * 1000000000ull,
                      &how->control, &session);
  clu_stay_end(&stay);
  clu_os_watch_end();
  return rc == CLU_OK;
}

__attribute__((constructor)) static void stub(void) {
  const char *tmp = getenv("TEST_STUB_TMP"), *idle = getenv("TEST_STUB_IDLE_MS");
  const char *stays = getenv("TEST_STUB_STAY");
  static clu_supervisor sv;
  clu_sv_options how;
  char *none[] = {NULL};
  clu_err e;
  if (!tmp) return;
  signal(SIGINT, SIG_IGN);
  how.control = 3;
  how.tmp = tmp;
  how.exec = none;
  how.idle_ns = idle ? (uint64_t)atoi(idle) * 1000000u : 0;
again:
  if (clu_supervisor_init(&sv, &how, &e) != CLU_OK) _exit(80);
  clu_supervisor_answer(&sv, CLU_K_READY, 0, "ready", 5);
  if (getenv("TEST_STUB_OOM")) clu_supervisor_count_oom(&sv, getenv("TEST_STUB_OOM"));
  for (;;) {
    clu_sv_event ev;
    if (clu_supervisor_serve(&sv, &ev, &e) != CLU_OK) _exit(81);
    if (ev.what == CLU_SV_CHILD) {
      stub_node(&ev.node);
    } else if (ev.what == CLU_SV_END) {
      if (stays && ev.why == CLU_SV_LEFT && stub_stays(&sv, &how, stays)) goto again;
      clu_supervisor_fini(&sv);
      _exit(0);
    } else {
      answer_settings(&sv, &ev.msg);
      clu_blob_unref(ev.msg.body);
    }
  }
}

/* ---- the session ---- */

#define MAX_NODES 64

typedef struct fixture {
  clu_session *session;
  clu_server *s;
  clu_node *nd[MAX_NODES];
  int n;
  char tmp[64];
} fixture;

/* Pumps until it is true, at most 15 s. */
#define PUMP(r, cond)                                                                    \
  do {                                                                                   \
    double pump_end = test_ms() + 15000;                                                 \
    int pump_ok;                                                                         \
    clu_err pump_e;                                                                      \
    while (!(pump_ok = !!(cond)) && test_ms() < pump_end)                                \
      if (!CHECK(clu_loop_pump(&(r)->session->loop, 5000000, &pump_e) == CLU_OK)) break; \
    if (!pump_ok) test_fail(__FILE__, __LINE__, "not true within 15 s: %s", #cond);      \
  } while (0)

TEST_UNUSED static void up_with(fixture *r, const char *more) {
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
  envp[n++] = (char *)"CLUTCH_MARK=00000000000000000000000000000000"; /* see orphans.h */
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
  REQUIRE((r->session = clu_session_new(&e)) != NULL);
  REQUIRE(clu_server_start(r->session, &s, &r->s, &e) == CLU_OK);
  PUMP(r, r->s->state != CLU_SERVER_STARTING);
  REQUIRE(r->s->state == CLU_SERVER_READY);
  REQUIRE(r->s->ready && r->s->ready->size == 5 && memcmp(r->s->ready->data, "ready", 5) == 0);
}

TEST_UNUSED static int all_in(fixture *r, int state) {
  for (int i = 0; i < r->n; i++)
    if (r->nd[i]->state != state || r->nd[i]->pid == 0) return 0;
  return 1;
}

TEST_UNUSED static void up(fixture *r, int nodes) {
  clu_err e;
  up_with(r, NULL);
  for (r->n = 0; r->n < nodes; r->n++)
    REQUIRE(clu_node_new_fork(r->s, 0, &r->nd[r->n], &e) == CLU_OK);
  PUMP(r, all_in(r, CLU_NODE_READY));
  REQUIRE(all_in(r, CLU_NODE_READY));
  CHECK_INT_EQ(r->s->live, nodes);
}

TEST_UNUSED static int entries(const char *dir) {
  DIR *d = opendir(dir);
  struct dirent *entry;
  int n = 0;
  if (!d) return -1;
  while ((entry = readdir(d))) n += entry->d_name[0] != '.';
  closedir(d);
  return n;
}

TEST_UNUSED static void down(fixture *r) {
  for (int i = 0; i < r->n; i++)
    if (r->nd[i]) clu_node_free(r->nd[i]);
  if (r->s->state != CLU_SERVER_ENDED) clu_server_close(r->s);
  CHECK_SOON(clu_server_reap(r->s), 10000);
  clu_server_unref(r->s);
  CHECK(r->session->nodes == NULL && r->session->servers == NULL);
  clu_session_free(r->session);
  CHECK_SOON(entries(r->tmp) <= 0, 20000);
  clu_os_remove_tree(r->tmp);
}

/* The letter that the system has for what a process does; 0: there is no such process. */
TEST_UNUSED static char state_of(clu_pid pid) {
  char path[64], text[512], *end;
  FILE *f;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  if (!(f = fopen(path, "re"))) return 0;
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  end = strrchr(text, ')');
  return end ? end[2] : 0;
}

/* Ended; the orphans of a dead server are reaped only after the test. */
TEST_UNUSED static int gone(clu_pid pid) {
  char state = state_of(pid);
  return !state || state == 'Z' || state == 'X';
}

TEST_UNUSED static int all_gone(fixture *r) {
  for (int i = 0; i < r->n; i++)
    if (!gone(r->nd[i]->pid)) return 0;
  return 1;
}

TEST_UNUSED static void call(clu_node *nd, char what, uint32_t number, size_t n, uint64_t owner) {
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

TEST_UNUSED static int has_answer(clu_node *nd) {
  return clu_node_first(nd) && clu_node_first(nd)->arrival;
}

/* Takes the answer, which has to be the echo of that call. */
TEST_UNUSED static void expect_echo(fixture *r, clu_node *nd, char what, uint32_t number,
                                    size_t n) {
  const clu_req *q;
  clu_blob *b;
  PUMP(r, has_answer(nd) || !clu_node_is_open(nd));
  q = clu_node_first(nd);
  if (!CHECK(q && q->arrival)) return;
  CHECK_INT_EQ(q->kind, CLU_K_VALUE);
  CHECK_INT_EQ(q->tag, number);
  b = clu_node_take_first(nd);
  if (CHECK(b && b->size == n)) {
    int same = b->data[0] == (unsigned char)what && (n < 5 || clu_get32(b->data + 1) == number);
    for (size_t i = n < 5 ? 1 : 5; i < n; i++)
      same &= b->data[i] == (unsigned char)((i * 2654435761u + number) >> 7);
    CHECK(same);
  }
  clu_blob_unref(b);
}

TEST_UNUSED static void echo_all(fixture *r, int except) {
  for (int i = 0; i < r->n; i++)
    if (i != except) call(r->nd[i], ECHO, (uint32_t)(1000 + i), 1000, 1);
  for (int i = 0; i < r->n; i++)
    if (i != except) expect_echo(r, r->nd[i], ECHO, (uint32_t)(1000 + i), 1000);
}

TEST_UNUSED static void pump_for(fixture *r, double ms) {
  double end = test_ms() + ms;
  clu_err e;
  while (test_ms() < end) clu_loop_pump(&r->session->loop, 5000000, &e);
}

#endif
