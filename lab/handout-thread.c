/* The first way of handout.c: a thread that owns the event loop.
 *
 * `armed` says whose the loop is. The thread may be in epoll_wait() while it is the main thread's:
 * then it wakes for nothing, and parks. All else is read and written with the lock held, or by the
 * main thread while the loop is its own.
 */
#include "handout.h"

#define WINDOW 8 /* tasks at a node */

typedef struct waiting {
  struct waiting *next;
  task t;
} waiting;

static struct {
  int nodes, fds[NODES_MOST], there[NODES_MOST]; /* sockets; how many tasks a node has */
  int epoll, wake;
  waiting *first, *last;
  int n_waiting, n_there;
  result *results; /* those that nobody has asked for, from `taken` on */
  int n_results, taken, room;
  int only, wanted, inside; /* thread-only; is there a thread; is the main thread in a call */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t to_thread, to_main;
  uint64_t returns; /* of the main thread that left work */
  int armed, parked, quit, looks;
  int asleep; /* thread-only: it waits for events */
} s;

static int theirs[NODES_MOST];

static void run_node(int i) {
  task in[WINDOW];
  result out[WINDOW];
  int fd = theirs[i];
  for (int k = 0; k <= i; k++) close(s.fds[k]);
  for (;;) {
    ssize_t got = recv(fd, in, sizeof in, 0);
    int n = 0;
    if (got <= 0 || got % (ssize_t)sizeof *in) _exit(1);
    for (int k = 0; k < got / (ssize_t)sizeof *in; k++) {
      out[n++] = carry_out(&in[k]);
      count_ended();
      /* what takes its time is answered at once, no-ops together */
      if (in[k].work_us > 0 || (k + 1) * (ssize_t)sizeof *in == got) {
        if (send(fd, out, (size_t)n * sizeof *out, 0) < 0) _exit(1);
        n = 0;
      }
    }
  }
}

/* ---- the loop's work ---- */

static void send_to(int i, int n) {
  task out[WINDOW];
  for (int k = 0; k < n; k++) {
    waiting *w = s.first;
    out[k] = w->t;
    s.first = w->next;
    free(w);
  }
  if (!s.first) s.last = NULL;
  s.n_waiting -= n;
  s.n_there += n;
  s.there[i] += n;
  if (send(s.fds[i], out, (size_t)n * sizeof *out, 0) < 0) fail("send");
}

/* Nodes that have nothing come first. */
static void hand_out(void) {
  for (int busy = 0; busy < 2; busy++)
    for (int i = 0; i < s.nodes && s.n_waiting > 0; i++) {
      int n = s.n_waiting / s.nodes;
      if ((s.there[i] > 0) != busy) continue;
      if (n < 1) n = 1;
      if (n > WINDOW - s.there[i]) n = WINDOW - s.there[i];
      if (n > 0) send_to(i, n);
    }
}

static void receive(int i) {
  result in[WINDOW];
  ssize_t got = recv(s.fds[i], in, sizeof in, MSG_DONTWAIT);
  int n;
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0 || got % (ssize_t)sizeof *in) fail("recv");
  n = (int)(got / (ssize_t)sizeof *in);
  if (s.n_results + n > s.room) {
    s.room = 2 * (s.n_results + n);
    s.results = realloc(s.results, (size_t)s.room * sizeof *s.results);
    if (!s.results) fail("memory");
  }
  memcpy(s.results + s.n_results, in, (size_t)got);
  s.n_results += n;
  s.there[i] -= n;
  s.n_there -= n;
}

static void react(struct epoll_event *e, int n) {
  for (int k = 0; k < n; k++) {
    uint64_t x;
    if (e[k].data.fd >= 0)
      receive(e[k].data.fd);
    else if (read(s.wake, &x, sizeof x) < 0 && errno != EAGAIN)
      fail("eventfd");
  }
  hand_out();
}

/* The loop is the main thread's. Signalled at each of its returns, the thread would take the
 * processor from nodes that answer at once; so after each such time it looks by itself for a while,
 * every millisecond, before it waits for a signal. */
static void wait_for_loop(void) {
  uint64_t seen = s.returns;
  for (int k = 0; !s.armed && !s.quit; k++) {
    if (seen != s.returns) k = 0;
    seen = s.returns;
    if (k < s.looks) {
      pthread_mutex_unlock(&s.lock);
      pause_us(1000);
      pthread_mutex_lock(&s.lock);
    } else {
      s.parked = 1;
      pthread_cond_wait(&s.to_thread, &s.lock);
      s.parked = 0;
    }
  }
}

static void *run_thread(void *unused) {
  (void)unused;
  pthread_mutex_lock(&s.lock);
  for (;;) {
    struct epoll_event e[64];
    int n;
    wait_for_loop();
    if (s.quit) break;
    hand_out(); /* what was put in before anybody looked */
    s.asleep = 1;
    pthread_mutex_unlock(&s.lock);
    n = epoll_wait(s.epoll, e, 64, -1);
    pthread_mutex_lock(&s.lock);
    s.asleep = 0;
    if (s.quit) break;
    if (!s.armed) continue;
    react(e, n);
    if (s.only && s.n_results > s.taken) pthread_cond_signal(&s.to_main);
    if (!s.only && s.n_waiting + s.n_there == 0) s.armed = 0;
  }
  pthread_mutex_unlock(&s.lock);
  return NULL;
}

static void wake(void) {
  uint64_t one = 1;
  if (write(s.wake, &one, sizeof one) < 0) fail("eventfd");
}

/* ---- the main thread's side ---- */

static void take_loop(void) {
  if (!s.wanted || s.inside) return;
  pthread_mutex_lock(&s.lock);
  s.armed = 0;
  pthread_mutex_unlock(&s.lock);
}

static void give_loop(void) {
  if (!s.wanted || s.inside) return;
  pthread_mutex_lock(&s.lock);
  if (s.n_waiting + s.n_there > 0) {
    s.armed = 1;
    s.returns++;
    if (s.parked) pthread_cond_signal(&s.to_thread);
  }
  pthread_mutex_unlock(&s.lock);
}

static void enter(void) {
  take_loop();
  s.inside++;
}

static void leave(void) {
  s.inside--;
  give_loop();
}

static void push(const task *t) {
  waiting *w = malloc(sizeof *w);
  if (!w) fail("memory");
  w->t = *t;
  w->next = NULL;
  if (s.last)
    s.last->next = w;
  else
    s.first = w;
  s.last = w;
  s.n_waiting++;
}

static void submit(const task *t) {
  enter();
  push(t);
  hand_out();
  leave();
}

static void submit_only(const task *t) {
  int asleep;
  pthread_mutex_lock(&s.lock);
  push(t);
  asleep = s.asleep;
  s.asleep = 0; /* it is woken once */
  pthread_mutex_unlock(&s.lock);
  if (asleep) wake();
}

/* By the main thread, which owns the loop. */
static void wait_for_results(void) {
  struct epoll_event e[64];
  while (s.n_results == s.taken) {
    int n = epoll_wait(s.epoll, e, 64, -1);
    react(e, n > 0 ? n : 0);
  }
}

static result take_result(void) {
  result r = s.results[s.taken++];
  if (s.taken == s.n_results) s.taken = s.n_results = 0;
  return r;
}

static result await_result(void) {
  result r;
  pthread_mutex_lock(&s.lock); /* what the thread has received is there at once */
  if (s.n_results > s.taken) {
    r = take_result();
    pthread_mutex_unlock(&s.lock);
    return r;
  }
  pthread_mutex_unlock(&s.lock);
  enter();
  wait_for_results();
  r = take_result();
  leave();
  return r;
}

static result await_only(void) {
  result r;
  pthread_mutex_lock(&s.lock);
  while (s.n_results == s.taken) pthread_cond_wait(&s.to_main, &s.lock);
  r = take_result();
  pthread_mutex_unlock(&s.lock);
  return r;
}

static void call(int node, const task *t) {
  enter();
  if (send(s.fds[node], t, sizeof *t, 0) < 0) fail("send");
  s.there[node]++;
  s.n_there++;
  wait_for_results();
  take_result();
  leave();
}

/* ---- start and end ---- */

static void start_ours(int nodes, int only, int looks) {
  struct epoll_event e;
  memset(&s, 0, sizeof s);
  s.nodes = nodes;
  s.only = only;
  s.looks = looks;
  pthread_mutex_init(&s.lock, NULL);
  pthread_cond_init(&s.to_thread, NULL);
  pthread_cond_init(&s.to_main, NULL);
  s.epoll = epoll_create1(EPOLL_CLOEXEC);
  s.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  memset(&e, 0, sizeof e);
  e.events = EPOLLIN;
  e.data.fd = -1;
  if (s.wake < 0 || epoll_ctl(s.epoll, EPOLL_CTL_ADD, s.wake, &e)) fail("epoll");
  for (int i = 0; i < nodes; i++) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) fail("socketpair");
    s.fds[i] = pair[0];
    theirs[i] = pair[1];
    start_node(i, run_node);
    close(pair[1]);
    e.data.fd = i;
    if (epoll_ctl(s.epoll, EPOLL_CTL_ADD, pair[0], &e)) fail("epoll");
  }
}

static void threads(int wanted) {
  if (s.wanted == wanted) return;
  if (!wanted) {
    pthread_mutex_lock(&s.lock);
    s.quit = 1;
    pthread_cond_signal(&s.to_thread);
    pthread_mutex_unlock(&s.lock);
    wake();
    pthread_join(s.thread, NULL);
    s.quit = 0;
  } else {
    s.armed = s.only;
    if (pthread_create(&s.thread, NULL, run_thread, NULL)) fail("thread");
  }
  s.wanted = wanted;
}

static void start(int nodes, int capacity) {
  (void)capacity;
  start_ours(nodes, 0, 10);
  threads(1);
}

static void start_signalled(int nodes, int capacity) {
  (void)capacity;
  start_ours(nodes, 0, 0);
  threads(1);
}

static void start_only(int nodes, int capacity) {
  (void)capacity;
  start_ours(nodes, 1, 0);
  threads(1);
}

static void stop(void) {
  threads(0);
  end_nodes();
  while (s.first) {
    waiting *w = s.first;
    s.first = w->next;
    free(w);
  }
  free(s.results);
  for (int i = 0; i < s.nodes; i++) close(s.fds[i]);
  close(s.epoll);
  close(s.wake);
}

const way thread_way = {"thread", start, submit, await_result, enter, leave, threads, call, stop};
const way thread_signalled_way = {
    "thread-signalled", start_signalled, submit, await_result, enter, leave, threads, call, stop};
const way thread_only_way = {"thread-only", start_only, submit_only, await_only, NULL,
                             NULL,          threads,    NULL,        stop};
