/* Two ways to hand out tasks while the session's main thread computes, measured with stub nodes:
 * forked processes that take a task of 200 bytes and answer with 64.
 *
 *   thread       a thread of the session owns the event loop while the main thread is elsewhere; a
 *                socket pair for each node, up to WINDOW tasks at a node. When the main thread
 *                waits for something itself, it takes the loop over
 *   thread-only  the same, but the thread alone owns the loop: the main thread passes everything on
 *   queue        tasks are copied into memory that session and nodes share; a node claims one by
 *                compare-and-exchange, and sleeps on a futex while there is none. Results go into a
 *                ring for each node; the session sleeps on an eventfd
 *
 *   handout WAY rate NODES TASKS US MAIN
 *     TASKS tasks that sleep for US microseconds (0: no-ops). MAIN: the main thread `waits` in one
 *     call, `collects` one by one, or `computes`. Prints seconds until the last has ended, and
 *     microseconds of processor time a task: session (unless it computes), nodes
 *   handout WAY one NODES REPS SPIN
 *     one task at a time, submit until result; session and nodes ask for SPIN microseconds before
 *     they sleep
 *   handout WAY start NODES REPS
 *     one task at a time while the main thread computes: submit until start, then what the submit
 *     takes from the main thread
 *   handout WAY call THREAD REPS
 *     one call of the main thread; THREAD is `none`, `parked` (there, with nothing to do), `armed`
 *     (it waits for the task of another node)
 *   handout WAY idle NODES
 *     milliseconds of processor time within a second in which nothing happens: session, nodes
 *   handout WAY memory NODES TASKS
 *     kilobytes that TASKS waiting tasks take in the session
 *
 * Times are median, minimum, 90 % quantile, maximum in microseconds. Every process ends with its
 * parent.
 */
#include "handout.h"
#include "times.h"

void fail(const char *what) {
  fprintf(stderr, "handout: %s: %s\n", what, strerror(errno));
  exit(1);
}

double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

void pause_us(double us) {
  struct timespec t = {(time_t)(us / 1e6), (long)(1e3 * (us - 1e6 * (double)(time_t)(us / 1e6)))};
  nanosleep(&t, NULL);
}

/* Arithmetic that looks at nothing but the clock. */
static void compute_until(double end) {
  volatile double x = 1;
  while (now_us() < end)
    for (int i = 0; i < 500; i++) x = x * 1.0000001 + 1e-9;
}

result carry_out(const task *t) {
  result r;
  memset(&r, 0, sizeof r);
  r.number = t->number;
  r.submitted = t->submitted;
  r.started = now_us();
  if (t->work_us > 0) pause_us(t->work_us);
  r.ended = now_us();
  return r;
}

/* ---- nodes ---- */

static pid_t pids[NODES_MOST];
static int running;
static _Atomic uint64_t *ended; /* tasks that have ended, in memory that all share */

void start_node(int i, void (*run)(int i)) {
  if (!ended) {
    ended = mmap(NULL, sizeof *ended, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ended == MAP_FAILED) fail("mmap");
  }
  pids[i] = fork();
  if (pids[i] < 0) fail("fork");
  if (pids[i] == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run(i);
    _exit(0);
  }
  if (i >= running) running = i + 1;
}

void end_nodes(void) {
  for (int i = 0; i < running; i++) kill(pids[i], SIGKILL);
  for (int i = 0; i < running; i++) waitpid(pids[i], NULL, 0);
  running = 0;
}

void count_ended(void) { atomic_fetch_add(ended, 1); }

static double nodes_cpu_us(void) {
  double sum = 0;
  for (int i = 0; i < running; i++) {
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pids[i], &clock) || clock_gettime(clock, &t)) fail("processor time");
    sum += 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
  }
  return sum;
}

/* ---- figures ---- */

static double cpu_us(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return 1e6 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Resident memory, shared pages included. */
static double resident_kb(void) {
  char line[256];
  double kb = 0;
  FILE *f = fopen("/proc/self/status", "r");
  if (!f) fail("/proc/self/status");
  while (fgets(line, sizeof line, f)) sscanf(line, "VmRSS: %lf", &kb);
  fclose(f);
  return kb;
}

static task new_task(uint64_t number, double work_us) {
  task t;
  memset(&t, 0, sizeof t);
  t.number = number;
  t.work_us = work_us;
  t.submitted = now_us();
  return t;
}

/* ---- what is measured ---- */

static void rate(const way *w, int nodes, int tasks, double work_us, const char *main_thread) {
  int stays = strcmp(main_thread, "waits") == 0 && w->enter;
  double began, last = 0, own, theirs;
  w->start(nodes, tasks);
  pause_us(50000);
  theirs = nodes_cpu_us();
  own = cpu_us();
  began = now_us();
  if (stays) w->enter();
  for (int i = 0; i < tasks; i++) {
    task t = new_task((uint64_t)i, work_us);
    w->submit(&t);
  }
  if (strcmp(main_thread, "computes") == 0) {
    while (atomic_load(ended) < (uint64_t)tasks) compute_until(now_us() + 100);
    own = -1;
  }
  for (int i = 0; i < tasks; i++) {
    result r = w->await();
    if (r.ended > last) last = r.ended;
  }
  if (stays) w->leave();
  if (own >= 0) own = cpu_us() - own;
  theirs = nodes_cpu_us() - theirs;
  w->stop();
  printf("%.6f ", 1e-6 * (last - began));
  if (own >= 0)
    printf("%.3f", own / tasks);
  else
    printf("NA");
  printf(" %.3f\n", theirs / tasks);
}

static void one(const way *w, int nodes, int reps) {
  double *us = malloc((size_t)reps * sizeof *us);
  w->start(nodes, 16);
  for (int i = -20; i < reps; i++) {
    task t;
    pause_us(300); /* all are asleep again */
    t = new_task((uint64_t)(i + 20), 0);
    w->submit(&t);
    w->await();
    if (i >= 0) us[i] = now_us() - t.submitted;
  }
  w->stop();
  print_times(us, reps);
  printf("\n");
  free(us);
}

static void start(const way *w, int nodes, int reps) {
  double *us = malloc((size_t)reps * sizeof *us), *own = malloc((size_t)reps * sizeof *own);
  w->start(nodes, 16);
  for (int i = -20; i < reps; i++) {
    task t = new_task((uint64_t)(i + 20), 0);
    result r;
    w->submit(&t);
    if (i >= 0) own[i] = now_us() - t.submitted;
    compute_until(t.submitted + 2000);
    r = w->await();
    if (i >= 0) us[i] = r.started - r.submitted;
  }
  w->stop();
  print_times(us, reps);
  printf(" ");
  print_times(own, reps);
  printf("\n");
  free(us);
  free(own);
}

static void call(const way *w, const char *state, int reps) {
  double *us = malloc((size_t)reps * sizeof *us);
  task t;
  if (!w->call) {
    printf("unsupported\n");
    return;
  }
  w->start(2, 16);
  w->threads(strcmp(state, "none") != 0);
  if (strcmp(state, "armed") == 0) {
    t = new_task(0, 1e9);
    w->submit(&t); /* takes the first node for good */
    pause_us(5000);
  }
  for (int i = -20; i < reps; i++) {
    double began;
    pause_us(300);
    t = new_task((uint64_t)(i + 21), 0);
    began = now_us();
    w->call(1, &t);
    if (i >= 0) us[i] = now_us() - began;
  }
  w->stop();
  print_times(us, reps);
  printf("\n");
  free(us);
}

static void idle(const way *w, int nodes) {
  double own, theirs;
  task t = new_task(0, 0);
  w->start(nodes, 16);
  w->submit(&t);
  w->await();
  pause_us(50000);
  own = cpu_us();
  theirs = nodes_cpu_us();
  pause_us(1e6);
  own = cpu_us() - own;
  theirs = nodes_cpu_us() - theirs;
  printf("%.3f %.3f\n", 1e-3 * own, 1e-3 * theirs);
  w->stop();
}

static void memory(const way *w, int nodes, int tasks) {
  double before;
  w->start(nodes, tasks);
  for (int i = 0; i < nodes; i++) { /* what comes after these waits */
    task t = new_task(0, 1e9);
    w->submit(&t);
  }
  pause_us(20000);
  before = resident_kb();
  for (int i = 0; i < tasks; i++) {
    task t = new_task((uint64_t)i, 0);
    w->submit(&t);
  }
  printf("%.0f\n", resident_kb() - before);
  w->stop();
}

static const way *way_named(const char *name) {
  const way *all[] = {&thread_way, &thread_signalled_way, &thread_only_way, &queue_way};
  for (int i = 0; i < 4; i++)
    if (strcmp(name, all[i]->name) == 0) return all[i];
  return NULL;
}

int main(int argc, char **argv) {
  const way *w = argc > 1 ? way_named(argv[1]) : NULL;
  const char *what = argc > 2 ? argv[2] : "";
  int a = argc > 3 ? atoi(argv[3]) : 0, b = argc > 4 ? atoi(argv[4]) : 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (w && argc == 7 && strcmp(what, "rate") == 0)
    rate(w, a, b, atof(argv[5]), argv[6]);
  else if (w && argc == 5 && strcmp(what, "one") == 0)
    one(w, a, b);
  else if (w && argc == 5 && strcmp(what, "start") == 0)
    start(w, a, b);
  else if (w && argc == 5 && strcmp(what, "call") == 0)
    call(w, argv[3], b);
  else if (w && argc == 4 && strcmp(what, "idle") == 0)
    idle(w, a);
  else if (w && argc == 5 && strcmp(what, "memory") == 0)
    memory(w, a, b);
  else {
    fprintf(stderr, "see the head of lab/handout.c\n");
    return 2;
  }
  return 0;
}
