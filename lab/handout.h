/* What handout.c and the two ways that it measures have in common. */
#ifndef HANDOUT_H
#define HANDOUT_H

#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NODES_MOST 256

typedef struct {
  uint64_t number;
  double submitted, work_us;
  char rest[176];
} task;

typedef struct {
  uint64_t number;
  double submitted, started, ended;
  char rest[32];
} result;

typedef struct {
  const char *name;
  void (*start)(int nodes, int capacity); /* forks the nodes; so many tasks may wait */
  void (*submit)(const task *t);
  result (*await)(void); /* the next result of any task */
  /* Between them, the main thread is in one function of ours, where it would otherwise return
   * between submit() and await(). NULL: no difference. */
  void (*enter)(void);
  void (*leave)(void);
  void (*threads)(int wanted);           /* before anything is submitted */
  void (*call)(int node, const task *t); /* the main thread's own, of one node; or NULL */
  void (*stop)(void);
} way;

extern const way thread_way, thread_signalled_way, thread_only_way, queue_way;

void fail(const char *what);
double now_us(void);
void pause_us(double us);
result carry_out(const task *t);

/* Forks a node, which is run(i). */
void start_node(int i, void (*run)(int i));
void end_nodes(void);
/* A node says that a task has ended. */
void count_ended(void);

#endif
