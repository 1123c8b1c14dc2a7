/* Many hosts with many nodes, on the core alone: the session (its nodes, channels and engine),
 * the link process, and stub hosts, whose nodes answer at once. There is no R, and no ssh.
 *
 *   hosts-model HOSTS NODES TASKS    nodes of each host; tasks in all
 *   hosts-model scheduler NODES TASKS  the scheduler alone, with nodes of other hosts
 *
 * The stub hosts are real as far as the proxy: each connects by TLS and has a control channel and a
 * stream for each node. They are spread over processes, as each has its limit of descriptors.
 * Prints lines "what value".
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <dirent.h>

#include "core/base/addr.h"
#include "core/link/near.h"
#include "core/link/proxy.h"
#include "core/link/shake.h"
#include "core/loop/channel-watch.h"
#include "core/net/tls.h"
#include "core/node/fork-server.h"
#include "core/node/transports.h"
#include "core/tasks/engine.h"
#include "core/wire/task-message.h"

#define BEAT 60000000000 /* ns: a machine that has much else to do is not silent */
enum { HOSTS_A_PROCESS = 100, BYTES_A_TASK = 8, RECORD = CLU_RING_RESULT_HEAD + 8 };

static unsigned char secret[CLU_SECRET] = "a secret of thirty-two bytes is ";
static char own[2][CLU_TLS_TEXT], certificate[2][CLU_TLS_TEXT];
static int hosts, nodes;
static clu_addr here;

static void must(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "hosts-model: %s\n", what);
  exit(1);
}

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- stub hosts ---- */

typedef struct stub {
  struct host *host;
  clu_chan chan;
  clu_watch_id watch;
} stub;

typedef struct host {
  clu_loop *loop;
  clu_proxy *proxy;
  stub control, *nodes;
  int n;
} host;

static void answer_tasks(stub *s, const clu_msg *m) {
  const unsigned char *head = m->body->data;
  uint32_t n = clu_get32(head + 8);
  clu_blob *b = clu_blob_new(CLU_RESULTS_HEAD + n * (4 + RECORD));
  must(!!b, "memory");
  memset(b->data, 0, b->cap);
  clu_put64(b->data, clu_os_now());
  for (uint32_t k = 0; k < n; k++) {
    unsigned char *p = b->data + CLU_RESULTS_HEAD + k * (4 + RECORD);
    clu_put32(p, RECORD);
    clu_put32(p + 8, 1000);
    clu_put64(p + 12, m->seq + k);
  }
  b->size = CLU_RESULTS_HEAD + n * (4 + RECORD);
  clu_chan_send(&s->chan, CLU_K_RESULTS, 0, b, CLU_NO_FD);
  clu_blob_unref(b);
}

static void stub_ready(void *self, unsigned ready);

static void open_stub(host *h, stub *s, clu_fd fd) {
  s->host = h;
  clu_os_set_blocking(fd, 0);
  must(clu_chan_init(&s->chan, fd, INT64_MAX, CLU_TAKES_FDS) == CLU_OK, "memory");
  must(clu_loop_watch(h->loop, fd, CLU_READ, stub_ready, s, &s->watch, NULL) == CLU_OK, "watch");
}

static void add_node(host *h, const clu_msg *m) {
  unsigned char pid[8];
  stub *s = &h->nodes[h->n++];
  must(h->n <= nodes, "more nodes than asked for");
  open_stub(h, s, clu_chan_take_fd(&h->control.chan));
  clu_put64(pid, m->seq);
  clu_chan_send_bytes(&h->control.chan, CLU_K_SPAWNED, m->seq, pid, 8, CLU_NO_FD);
  clu_chan_send_bytes(&s->chan, CLU_K_HELLO, 0, pid, 8, CLU_NO_FD);
  clu_chan_watch_flush(h->loop, &s->chan, s->watch);
}

static void stub_ready(void *self, unsigned ready) {
  stub *s = self;
  clu_msg m;
  (void)ready;
  for (int rc = CLU_OK; rc == CLU_OK;) {
    rc = clu_chan_fill(&s->chan);
    while (clu_chan_next(&s->chan, &m) == 1) {
      if (m.kind == CLU_K_SPAWN) add_node(s->host, &m);
      if (m.kind == CLU_K_TASKS) answer_tasks(s, &m);
      clu_blob_unref(m.body);
    }
    if (rc != CLU_OK && rc != CLU_AGAIN) _exit(0); /* the session has ended */
  }
  clu_chan_watch_flush(s->host->loop, &s->chan, s->watch);
}

/* NULL: the link process has not heard of this host yet. */
static clu_conn *connected(uint32_t rank, clu_tls_keys *keys) {
  unsigned char nonce[CLU_NONCE];
  char why[200];
  clu_shake shake;
  clu_err e;
  clu_fd fd;
  int rc = clu_os_connect_start(&here, 0, 0, &fd, &e);
  struct pollfd p = {(int)fd, POLLOUT, 0};
  while (rc == CLU_AGAIN) {
    poll(&p, 1, 10000);
    rc = clu_os_connect_finish(fd, &here, &e);
  }
  must(rc == CLU_OK, "no connection to the link process");
  clu_os_sockopt_set(fd, CLU_OPT_NODELAY, 1);
  memset(&shake, 0, sizeof shake);
  must(clu_conn_tls_client(fd, keys, &shake.conn, &e) == CLU_OK, e.text);
  must(clu_os_secret_bytes(nonce, sizeof nonce) == CLU_OK, "random bytes");
  clu_hs_node(&shake.hs, secret, nonce, rank, (uint64_t)rank + 1, 0, UINT64_MAX);
  while ((rc = clu_shake_step(&shake, NULL, NULL)) == CLU_AGAIN) {
    unsigned want = clu_shake_wants(&shake);
    p.events = (short)((want & CLU_READ ? POLLIN : 0) | (want & CLU_WRITE ? POLLOUT : 0));
    poll(&p, 1, 10000);
  }
  if (rc == CLU_OK) return shake.conn;
  if (shake.hs.state == CLU_HS_FAILED && shake.hs.verdict == CLU_HS_NOT_YET) {
    clu_shake_drop(&shake);
    return NULL;
  }
  clu_hs_explain(&shake.hs, why, sizeof why);
  fprintf(stderr, "hosts-model: host %u: the link process %s; %s; %s\n", rank, why,
          clu_hs_verdict_text(shake.hs.verdict), shake.conn->err.text);
  exit(1);
}

static void open_host(clu_loop *loop, host *h, uint32_t rank, clu_tls_keys *keys) {
  clu_proxy_options how;
  clu_conn *conn;
  clu_fd pair[2];
  clu_err e;
  memset(&how, 0, sizeof how);
  how.beat = BEAT;
  h->loop = loop;
  h->nodes = calloc((size_t)nodes, sizeof *h->nodes);
  h->proxy = clu_proxy_new(loop, &how);
  must(h->nodes && h->proxy && clu_os_pair(pair, &e) == CLU_OK, "a host");
  must(clu_proxy_control(h->proxy, pair[0]) == CLU_OK, "memory");
  open_stub(h, &h->control, pair[1]);
  clu_chan_send_bytes(&h->control.chan, CLU_K_READY, 0, "ready", 5, CLU_NO_FD);
  clu_chan_flush(&h->control.chan);
  while (!(conn = connected(rank, keys))) usleep(10000);
  must(clu_proxy_connect(h->proxy, conn) == CLU_OK, "a proxy");
}

/* A stub does not connect again. */
static void turn(host *h) {
  clu_proxy_status st;
  clu_proxy_turn(h->proxy);
  clu_proxy_status_of(h->proxy, &st);
  if (st.state == CLU_PROXY_ENDED) _exit(0); /* the session has ended */
  must(st.connected, st.why);
}

static void be_hosts(int from, int to) {
  host *all = calloc((size_t)(to - from), sizeof *all);
  clu_tls_keys *keys;
  clu_loop loop;
  clu_err e;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  must(all && clu_loop_init(&loop, &e) == CLU_OK, "memory");
  must(clu_tls_keys_new(own[1], certificate[0], &keys, &e) == CLU_OK, e.text);
  for (int i = from; i < to; i++) {
    open_host(&loop, &all[i - from], (uint32_t)i, keys);
    must(clu_loop_pump(&loop, 0, &e) == CLU_OK, e.text);
    for (int k = from; k <= i; k++) turn(&all[k - from]);
  }
  for (;;) {
    must(clu_loop_pump(&loop, -1, &e) == CLU_OK, e.text);
    for (int i = from; i < to; i++)
      if (clu_proxy_is_due(all[i - from].proxy)) turn(&all[i - from]);
  }
}

/* ---- the session ---- */

static clu_session *session;
static clu_turns turns; /* no thread has a part in it */
static clu_engine *engine;
static clu_node **all;

static int elements(void *job, uint64_t first, uint32_t n, int shares, clu_blob **body) {
  static const unsigned char element[BYTES_A_TASK];
  (void)job, (void)first, (void)shares;
  for (uint32_t k = 0; k < n; k++)
    if (clu_blob_append(*body, element, sizeof element) != 0) return CLU_NOMEM;
  return CLU_OK;
}

static pid_t start_link(clu_chan *to) {
  clu_fd pair[2], listener;
  clu_listen how = {-1, 0, 0};
  unsigned char body[CLU_SECRET + 24 + 2 * CLU_TLS_TEXT];
  size_t n = CLU_SECRET + 24;
  clu_err e;
  int granted;
  pid_t p;
  must(clu_os_pair(pair, &e) == CLU_OK, e.text);
  clu_addr_any(CLU_INET, 0, &here);
  must(clu_os_listen(&here, &how, &listener, &granted, &e) == CLU_OK, e.text);
  must(clu_os_local_addr(listener, &here) == CLU_OK, "an address");
  must((p = fork()) >= 0, "fork");
  if (p == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    clu_os_close(pair[0]);
    _exit(clu_near_serve(pair[1], &e) == CLU_OK ? 0 : 1);
  }
  clu_os_close(pair[1]);
  must(clu_chan_init(to, pair[0], 1 << 20, CLU_TAKES_FDS) == CLU_OK, "memory");
  for (int i = 0; i < 2; i++)
    must(clu_tls_make_identity(own[i], certificate[i], &e) == CLU_OK, e.text);
  memset(body, 0, sizeof body);
  memcpy(body, secret, CLU_SECRET);
  clu_put64(body + CLU_SECRET + 8, BEAT);
  clu_put64(body + CLU_SECRET + 16, 300000000000);
  memcpy(body + n, own[0], strlen(own[0]) + 1);
  n += strlen(own[0]) + 1;
  memcpy(body + n, certificate[1], strlen(certificate[1]) + 1);
  n += strlen(certificate[1]) + 1;
  clu_chan_send_bytes(to, CLU_K_LISTEN, 0, body, n, listener);
  return p;
}

/* Without it this one would wait for ever. The others end with this process. */
static void child_ended(int signal) {
  static const char text[] = "hosts-model: one of its processes has ended\n";
  (void)signal;
  _exit(write(2, text, sizeof text - 1) < 0 ? 2 : 1);
}

static void pump(int64_t wait) {
  clu_err e;
  must(clu_loop_pump(clu_session_loop(session), wait, &e) == CLU_OK, e.text);
}

static void flush(clu_chan *c) {
  int rc;
  while ((rc = clu_chan_flush(c)) == CLU_AGAIN) usleep(100);
  must(rc == CLU_OK, "the link process has ended");
}

static double private_mb(pid_t pid) {
  char path[64], line[256];
  double kb = 0;
  FILE *f;
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  must(!!(f = fopen(path, "r")), path);
  while (fgets(line, sizeof line, f))
    if (strncmp(line, "RssAnon:", 8) == 0) kb = atof(line + 8);
  fclose(f);
  return kb / 1024;
}

static int descriptors(pid_t pid) {
  char path[64];
  int n = 0;
  DIR *d;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  must(!!(d = opendir(path)), path);
  while (readdir(d)) n++;
  closedir(d);
  return n - 2;
}

static double cpu_of(pid_t pid) {
  clockid_t clock;
  must(clock_getcpuclockid(pid, &clock) == 0, "the link process has ended");
  return now(clock);
}

static void bring_up(clu_chan *to) {
  clu_server **servers = calloc((size_t)hosts, sizeof *servers);
  clu_err e;
  int ready = 0;
  all = calloc((size_t)hosts * (size_t)nodes, sizeof *all);
  must(servers && all, "memory");
  for (int i = 0; i < hosts; i++) {
    clu_fd pair[2];
    must(clu_os_pair(pair, &e) == CLU_OK, e.text);
    must(clu_server_connect(session, pair[0], &servers[i], &e) == CLU_OK, e.text);
    clu_chan_send_bytes(to, CLU_K_HOST, (uint64_t)i, NULL, 0, pair[1]);
    flush(to);
  }
  for (int i = 0; i < hosts; i += HOSTS_A_PROCESS) {
    pid_t p = fork();
    must(p >= 0, "fork");
    if (p) continue;
    clu_session_close_in_child(session);
    clu_os_close(to->fd);
    be_hosts(i, i + HOSTS_A_PROCESS < hosts ? i + HOSTS_A_PROCESS : hosts);
  }
  for (int i = 0; i < hosts; i++)
    while (!clu_server_is_ready(servers[i])) pump(1000000000);
  for (int k = 0; k < nodes; k++)
    for (int i = 0; i < hosts; i++) {
      int at = i * nodes + k;
      must(clu_node_new_host(servers[i], CLU_START_FORK, &all[at], &e) == CLU_OK, e.text);
      clu_node_set_rank(all[at], at);
      if (i % 64 == 0) pump(0);
    }
  for (; ready < hosts * nodes; ready++)
    while (!clu_node_is_ready(all[ready])) pump(1000000000);
}

static void take_results(clu_task_job *j) {
  unsigned char small[CLU_RING_MOST];
  clu_task_result r;
  while (clu_task_job_next_result(j, small, &r)) {
    clu_task_job_has_value(j, r.task);
    clu_blob_unref(r.body);
  }
}

static void do_tasks(uint64_t tasks, uint32_t chunk) {
  clu_task_spec spec = {.n = tasks, .chunk = chunk};
  clu_blob *message = clu_blob_new(8);
  clu_task_job *j = message ? clu_task_job_new(engine, &spec, message, NULL) : NULL;
  must(j && clu_task_job_begin(engine, j) == CLU_OK, "memory");
  while (clu_task_job_counts(j).left > 0) {
    must(clu_engine_turn(engine) == CLU_OK, "memory");
    pump(1000000000);
    take_results(j);
  }
  clu_task_job_release(j);
}

static void model(uint64_t tasks) {
  static const clu_engine_caller caller = {elements};
  clu_engines *engines;
  clu_chan to;
  clu_err e;
  pid_t link;
  double began, own_cpu, link_cpu;
  signal(SIGCHLD, child_ended);
  link = start_link(&to);
  began = now(CLOCK_MONOTONIC);
  must(!!(session = clu_session_new(&e)), e.text);
  must(!!(engines = clu_engines_new(session, &turns, &caller)), "memory");
  must(!!(engine = clu_engine_new(engines, hosts * nodes, 1000000000, 0)), "memory");
  bring_up(&to);
  printf("start_s %.2f\n", now(CLOCK_MONOTONIC) - began);
  for (int i = 0; i < hosts * nodes; i++)
    must(clu_engine_attach(engine, i, all[i]) == CLU_ATTACHED, "a node has ended");
  do_tasks((uint64_t)(hosts * nodes), 1);
  printf("session_mb %.1f\nlink_mb %.1f\n", private_mb(getpid()), private_mb(link));
  printf("session_fds %d\nlink_fds %d\n", descriptors(getpid()), descriptors(link));
  for (uint32_t chunk = 1; chunk <= 16; chunk *= 16) {
    own_cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    link_cpu = cpu_of(link);
    do_tasks(tasks, chunk);
    printf("session_us_%u %.2f\n", chunk,
           1e6 * (now(CLOCK_PROCESS_CPUTIME_ID) - own_cpu) / (double)tasks);
    printf("link_us_%u %.2f\n", chunk, 1e6 * (cpu_of(link) - link_cpu) / (double)tasks);
  }
  fflush(stdout);
  _exit(0); /* the others end with this process */
}

/* ---- the scheduler alone ---- */

static void scheduler(int n, uint64_t tasks) {
  uint64_t *first = calloc((size_t)n, sizeof *first), *len = calloc((size_t)n, sizeof *len), t = 1;
  uint64_t done = 0;
  clu_sched *sched = clu_sched_new(1000000000);
  clu_job_spec spec;
  clu_action a;
  double began;
  memset(&spec, 0, sizeof spec);
  spec.n = tasks;
  spec.chunk = 1;
  must(sched && first && len, "memory");
  for (int i = 0; i < n; i++) {
    first[i] = 1;
    must(clu_sched_node_up(sched, i, NULL) == CLU_OK, "memory");
  }
  began = now(CLOCK_MONOTONIC);
  must(!!clu_job_new(sched, &spec), "memory");
  for (int i = 0; done < tasks; i = (i + 1) % n) {
    clu_ended out;
    for (;;) {
      clu_sched_next(sched, t, &a);
      if (a.what != CLU_ACT_SEND) break;
      clu_sched_sent(sched, &a, first[a.node] + len[a.node], 50, t);
      len[a.node] += a.n;
    }
    t += 1000;
    for (; len[i] > 0; len[i]--, first[i]++)
      done += clu_sched_answer(sched, i, first[i], 0, 1000, t, &out) == 1;
  }
  printf("scheduler_ns %.1f\n", 1e9 * (now(CLOCK_MONOTONIC) - began) / (double)tasks);
}

int main(int argc, char **argv) {
  must(argc == 4, "hosts-model HOSTS NODES TASKS | hosts-model scheduler NODES TASKS");
  nodes = atoi(argv[2]);
  if (strcmp(argv[1], "scheduler") == 0) {
    scheduler(nodes, strtoull(argv[3], NULL, 10));
    return 0;
  }
  hosts = atoi(argv[1]);
  clu_os_raise_fds((int64_t)hosts * (nodes + 2) + 100);
  model(strtoull(argv[3], NULL, 10));
  return 0;
}
