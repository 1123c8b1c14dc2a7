/* Actors that a node has taken up beside its requests (cluster_actor(exclusive = FALSE)).
 *
 * They are served when the node has nothing to do and between two tasks: node-loop.c and
 * node-tasks.c ask `besides` for that. And they are served while code of the node waits, in all
 * functions of this package that wait: else a task could wait for an actor of its own node, or two
 * nodes for an actor of each other. What is under way then goes on when the turn at the actor has
 * ended, so where a method of an actor waits, others are served on top of it only when that has
 * taken long: those might call the one below, which cannot go on.
 */
#include "r/actor/actor.h"

#include <R_ext/GraphicsEngine.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/os-pipes.h"
#include "r/base/wait.h"

#define WAITS_LONG 100000000            /* ns, of a method */
#define LOOK_EACH 1000000000            /* ns between two looks of a node that sleeps, */
#define LOOK_OFTEN 100000000            /* and while something of it is to be taken by others */
#define KEEP_MOST UINT64_C(60000000000) /* ns that this is waited for after an actor's end */

typedef struct settled {
  struct settled *next;
  clu_open_actor *of;
  SEXP what;      /* preserved: what R knows of it; NULL: it has ended, */
  uint64_t ended; /* at that time */
} settled;

static settled *all;
static char path[CLU_MESH_PATH];
static clu_pid owner;

static int is_asleep(int sleeps, int64_t *most);
static int has_come(void);
static clu_besides besides = {CLU_NO_FD, has_come, clu_settled_serve, is_asleep};

static int is_here(void) { return all && owner == clu_os_getpid(); }

int clu_settled_any(void) { return is_here(); }

int clu_settled_in_parent(const clu_open_actor *a) {
  const settled *s = owner != clu_os_getpid() ? all : NULL;
  while (s && s->of != a) s = s->next;
  return s && s->what;
}

static int has_more(const settled *s) {
  return s->what && !clu_is_at_work(s->of) && clu_actor_has_more(s->of->actor);
}

/* ---- those that have ended ---- */

static void close_waker(void) {
  clu_os_close(besides.fd);
  clu_os_waker_remove(path);
  besides.fd = CLU_NO_FD;
  clu_besides_requests = NULL;
  clu_actors_meanwhile(NULL);
  if (!clu_is_served(NULL)) clu_interrupt_is_meant = NULL;
}

static int is_over(const settled *s) {
  if (s->what || s->of->users > 1) return 0;
  clu_actor_recycle(s->of->actor);
  return !clu_actor_is_needed(s->of->actor) || clu_os_now() - s->ended > KEEP_MOST;
}

static void sweep(void) {
  for (settled **at = &all; *at;) {
    settled *s = *at;
    if (!is_over(s)) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    s->of->users--;
    clu_open_actor_close(s->of);
    free(s);
  }
  if (!all && besides.fd != CLU_NO_FD) close_waker();
}

/* ---- turns ---- */

static void ask_r(SEXP what) {
  static SEXP call;
  SEXP now;
  if (!call) {
    call = Rf_install("serve_settled");
    R_PreserveObject(call);
  }
  now = PROTECT(Rf_lang2(call, what));
  Rf_eval(now, clu_namespace());
  UNPROTECT(1);
}

static int has_come(void) {
  uint64_t since = clu_actor_turn_since();
  if (!is_here() || (since && clu_os_now() - since < WAITS_LONG)) return 0;
  for (const settled *s = all; s; s = s->next)
    if (has_more(s)) return 1;
  return 0;
}

/* Any of them may have gone when R has served one. */
int clu_settled_serve(void) {
  SEXP list;
  R_xlen_t n = 0;
  if (!is_here()) return 0;
  sweep();
  if (!has_come()) return 0;
  for (const settled *s = all; s; s = s->next) n++;
  list = PROTECT(Rf_allocVector(VECSXP, n));
  n = 0;
  for (const settled *s = all; s; s = s->next)
    if (has_more(s)) SET_VECTOR_ELT(list, n++, s->what);
  for (R_xlen_t i = 0; i < n; i++) ask_r(VECTOR_ELT(list, i));
  UNPROTECT(1);
  return 1;
}

int clu_settled_serve_one(const clu_open_actor *a) {
  const settled *s = is_here() ? all : NULL;
  while (s && s->of != a) s = s->next;
  if (!s || !has_more(s)) return 0;
  ask_r(s->what);
  return 1;
}

static void see_to_settled(void) { clu_settled_serve(); }

/* Answers that are taken are let go, and callers that have gone, when it is looked again. */
static int is_asleep(int sleeps, int64_t *most) {
  int64_t look = LOOK_EACH;
  int some = 0;
  if (sleeps) sweep();
  for (const settled *s = all; s; s = s->next) {
    clu_actor_sleeps(s->of->actor, sleeps);
    if (sleeps && (!s->what || clu_actor_is_needed(s->of->actor))) look = LOOK_OFTEN;
    if (sleeps && has_more(s)) some = 1;
  }
  if (!sleeps && besides.fd != CLU_NO_FD) clu_os_waker_empty(besides.fd);
  if (sleeps && (*most < 0 || *most > look)) *most = look;
  return !some;
}

/* ---- for R ---- */

static void make_waker(const char *folder) {
  clu_err e = {0};
  int n = snprintf(path, sizeof path, "%s/actors", folder);
  if (n < 0 || (size_t)n >= sizeof path)
    clu_raise("system", "the path of the temporary folder is too long");
  if (clu_os_waker_new(path, &besides.fd, &e) != CLU_OK) clu_raise_err(&e);
  clu_os_move_high(&besides.fd, 128);
}

/* This node goes on with other things from now on, and serves the actor at which it is besides.
 * `what`: for serve_settled() in R. `folder`: its temporary folder. */
SEXP ffi_actor_settle(SEXP x, SEXP what, SEXP folder) {
  clu_open_actor *a = clu_open_actor_of(x);
  settled *s;
  if (!clu_is_served(a)) clu_raise("argument", "this process does not serve that actor");
  if (owner != clu_os_getpid()) {
    all = NULL; /* a child that has become a node has none of its parent's */
    besides.fd = CLU_NO_FD;
  }
  owner = clu_os_getpid();
  if (besides.fd == CLU_NO_FD) make_waker(CHAR(STRING_ELT(folder, 0)));
  s = calloc(1, sizeof *s);
  if (!s) clu_raise("memory", "not enough memory");
  R_PreserveObject(what);
  *s = (settled){.next = all, .of = a, .what = what};
  all = s;
  a->users++;
  clu_actor_set_waker(a->actor, path);
  clu_besides_requests = &besides;
  clu_actors_meanwhile(see_to_settled);
  return R_NilValue;
}

/* A turn at that actor begins: so many calls wait, as far as is known, 1 or more. 0: it is at work,
 * or has gone. An interrupt that R has been told of is not for what follows: it is let in before.
 */
SEXP ffi_actor_turn(SEXP x) {
  const char *name = CHAR(STRING_ELT(x, 0));
  const settled *s = is_here() ? all : NULL;
  clu_actor_info is;
  while (s && strcmp(clu_actor_name(s->of->actor), name) != 0) s = s->next;
  if (!s || !s->what || clu_is_at_work(s->of)) return Rf_ScalarReal(0);
  clu_actor_turn_begin(s->of, 0);
  if (R_interrupts_pending && !R_interrupts_suspended) {
    clu_actor_turn_end();
    R_CheckUserInterrupt();
    return Rf_ScalarReal(0);
  }
  clu_actor_look(s->of->actor, &is);
  return Rf_ScalarReal(is.asked > is.begun ? (double)(is.asked - is.begun) : 1);
}

SEXP ffi_actor_turn_end(void) {
  clu_actor_turn_end();
  return R_NilValue;
}

/* That actor has ended. */
SEXP ffi_actor_unsettle(SEXP x) {
  const char *name = CHAR(STRING_ELT(x, 0));
  settled *s = is_here() ? all : NULL;
  while (s && strcmp(clu_actor_name(s->of->actor), name) != 0) s = s->next;
  if (!s || !s->what) return R_NilValue;
  R_ReleaseObject(s->what);
  s->what = NULL;
  s->ended = clu_os_now();
  return R_NilValue;
}
