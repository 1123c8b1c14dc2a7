#include "core/net/socket-set.h"

#include <stdlib.h>

#define FIRST 16

typedef struct member {
  clu_sock_watch watch; /* the first field: what the socket tells comes with its address */
  clu_sockset *set;
  unsigned want;
  int place;
  int ahead;               /* where it is in set->ahead; -1: nowhere */
  uint64_t told, reported; /* numbers of the waits in which it was put into set->ready, and in which
                              the system has reported it */
  int at;                  /* in set->ready, of the wait `told` */
} member;

struct clu_sockset {
  clu_poller *poller;
  clu_pid owner;
  member **members; /* by place; NULL: none */
  member **ahead;   /* those that may have bytes read ahead */
  int *free, *left; /* places */
  clu_sockset_ready *ready;
  clu_event *events;
  int cap, places, n, n_ahead, n_free, n_left, n_ready;
  uint64_t waits;
};

int clu_sockset_is_mine(const clu_sockset *set) { return set->owner == clu_os_getpid(); }

void clu_sockset_free(clu_sockset *set) {
  if (!set) return;
  for (int i = 0; i < set->places; i++) {
    if (!set->members[i]) continue;
    clu_sock_watch_end(&set->members[i]->watch);
    free(set->members[i]);
  }
  clu_poller_free(set->poller);
  free(set->members);
  free(set->ahead);
  free(set->free);
  free(set->left);
  free(set->ready);
  free(set->events);
  free(set);
}

int clu_sockset_count(const clu_sockset *set) { return set->n; }
int clu_sockset_places(const clu_sockset *set) { return set->places; }

/* `array`: address of a pointer. 0: no memory, and it is as it was. */
static int grow(void *array, size_t cap, size_t size) {
  void **at = array, *p = realloc(*at, cap * size);
  if (p) *at = p;
  return p != NULL;
}

/* Room for one more place. */
static int make_room(clu_sockset *set) {
  size_t cap = set->cap ? 2 * (size_t)set->cap : FIRST;
  if (set->n_free || set->places < set->cap) return CLU_OK;
  if (!grow(&set->members, cap, sizeof *set->members) ||
      !grow(&set->ahead, cap, sizeof *set->ahead) || !grow(&set->free, cap, sizeof *set->free) ||
      !grow(&set->left, cap, sizeof *set->left) || !grow(&set->ready, cap, sizeof *set->ready) ||
      !grow(&set->events, cap, sizeof *set->events))
    return CLU_NOMEM;
  set->cap = (int)cap;
  return CLU_OK;
}

clu_sockset *clu_sockset_new(clu_err *e) {
  clu_sockset *set = calloc(1, sizeof *set);
  /* room from the start: the system refuses to report no event */
  if (!set || make_room(set) != CLU_OK) {
    clu_sockset_free(set);
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    return NULL;
  }
  set->owner = clu_os_getpid();
  set->poller = clu_poller_new(e);
  if (set->poller) return set;
  clu_sockset_free(set);
  return NULL;
}

/* ---- bytes read ahead ---- */

static int has_ahead(const clu_sock *s) {
  return s->pos < s->end || (s->has_ahead && s->has_ahead(s->around));
}

/* Bytes that were handed out can be taken back; R's connections may have some at any time. */
static int may_have_ahead(const clu_sock *s) { return s->has_ahead || s->mark < s->end; }

static void look_at(member *m) {
  clu_sockset *set = m->set;
  if (m->ahead >= 0 || !(m->want & CLU_READ)) return;
  m->ahead = set->n_ahead;
  set->ahead[set->n_ahead++] = m;
}

static void look_no_more(member *m) {
  clu_sockset *set = m->set;
  if (m->ahead < 0) return;
  set->ahead[m->ahead] = set->ahead[--set->n_ahead];
  set->ahead[m->ahead]->ahead = m->ahead;
  m->ahead = -1;
}

/* ---- members ---- */

static void forget(member *m) {
  clu_sockset *set = m->set;
  clu_poller_set(set->poller, m->watch.s->fd, 1, 0, 0, NULL);
  look_no_more(m);
  set->members[m->place] = NULL;
  set->n--;
  free(m);
}

static void filled(clu_sock_watch *w) { look_at((member *)w); }

static void closing(clu_sock_watch *w) {
  member *m = (member *)w;
  m->set->left[m->set->n_left++] = m->place;
  forget(m);
}

int clu_sockset_left(clu_sockset *set) {
  if (!set->n_left) return -1;
  return set->free[set->n_free++] = set->left[--set->n_left];
}

void clu_sockset_remove(clu_sockset *set, int place) {
  clu_sock_watch_end(&set->members[place]->watch);
  forget(set->members[place]);
  set->free[set->n_free++] = place;
}

static member *find(const clu_sockset *set, const clu_sock *s) {
  for (clu_sock_watch *w = s->watches; w; w = w->next)
    if (w->closing == closing && ((member *)w)->set == set) return (member *)w;
  return NULL;
}

int clu_sockset_place(const clu_sockset *set, const clu_sock *s) {
  const member *m = find(set, s);
  return m ? m->place : -1;
}

static int change(member *m, unsigned want, clu_err *e) {
  const clu_sock *s = m->watch.s;
  if (clu_poller_set(m->set->poller, s->fd, 1, want, (uint64_t)m->place, e) != CLU_OK)
    return CLU_SYS;
  m->want = want;
  if (!(want & CLU_READ)) look_no_more(m);
  if (may_have_ahead(s)) look_at(m);
  return CLU_OK;
}

int clu_sockset_put(clu_sockset *set, clu_sock *s, unsigned want, int *place, clu_err *e) {
  member *m = find(set, s);
  int rc;
  if (s->fd == CLU_NO_FD) return clu_fail(e, CLU_CLOSED, 0, "%s", clu_code_text(CLU_CLOSED));
  if (m) {
    *place = m->place;
    return change(m, want, e);
  }
  m = calloc(1, sizeof *m);
  if (!m || make_room(set) != CLU_OK) {
    free(m);
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  *place = m->place = set->n_free ? set->free[set->n_free - 1] : set->places;
  rc = clu_poller_set(set->poller, s->fd, 0, want, (uint64_t)m->place, e);
  if (rc != CLU_OK) {
    free(m);
    return rc;
  }
  if (set->n_free)
    set->n_free--;
  else
    set->places++;
  m->set = set;
  m->want = want;
  m->ahead = -1;
  m->watch.filled = filled;
  m->watch.closing = closing;
  clu_sock_watch_begin(s, &m->watch);
  set->members[m->place] = m;
  set->n++;
  if (may_have_ahead(s)) look_at(m);
  return CLU_OK;
}

/* ---- the wait ---- */

static void tell(member *m, unsigned ready) {
  clu_sockset *set = m->set;
  if (m->told != set->waits) {
    m->told = set->waits;
    m->at = set->n_ready++;
    set->ready[m->at].place = m->place;
    set->ready[m->at].ready = 0;
  }
  set->ready[m->at].ready |= ready & m->want;
}

static void tell_ahead(clu_sockset *set) {
  for (int i = set->n_ahead - 1; i >= 0; i--) {
    member *m = set->ahead[i];
    if (!may_have_ahead(m->watch.s))
      look_no_more(m);
    else if (has_ahead(m->watch.s))
      tell(m, CLU_READ);
  }
}

/* The system may report some at a time. It goes through all that are ready before it reports one
 * again. */
static int tell_ready(clu_sockset *set, int64_t wait_ns, clu_err *e) {
  int k, again = 0;
  do {
    int rc = clu_poller_wait(set->poller, set->events, set->cap, &k, wait_ns, e);
    if (rc != CLU_OK) return rc;
    for (int i = 0; i < k; i++) {
      member *m = set->members[set->events[i].id];
      again |= m->reported == set->waits;
      m->reported = set->waits;
      tell(m, set->events[i].ready);
    }
    wait_ns = 0;
  } while (k && k < set->n && !again);
  return CLU_OK;
}

int clu_sockset_wait(clu_sockset *set, int64_t wait_ns, const clu_sockset_ready **ready, int *n,
                     clu_err *e) {
  int rc;
  set->waits++;
  set->n_ready = 0;
  *n = 0;
  tell_ahead(set);
  rc = tell_ready(set, set->n_ready ? 0 : wait_ns, e);
  if (rc != CLU_OK) return rc;
  *ready = set->ready;
  *n = set->n_ready;
  return CLU_OK;
}
