#include "core/link/views.h"

#include <string.h>

/* ns */
#define WATCHED_FOR 5000000000u /* after an observer has looked */
#define LOOK_EVERY 500000000u
#define QUESTIONS_EVERY 20000000u /* while somebody looks */

/* ---- which there are ---- */

static void forget(clu_near_views *v, int i) {
  clu_view_unref(v->at[i].view);
  v->n--;
  memmove(&v->at[i], &v->at[i + 1], sizeof v->at[0] * (size_t)(v->n - i));
}

void clu_near_views_fini(clu_near_views *v) {
  clu_timer_cancel(&v->look);
  clu_timer_cancel(&v->questions);
  while (v->n > 0) forget(v, v->n - 1);
}

static clu_view *find(const clu_near_views *v, uint64_t cluster) {
  for (int i = 0; i < v->n; i++)
    if (v->at[i].cluster == cluster) return v->at[i].view;
  return NULL;
}

void clu_near_views_take(clu_near_views *v, uint64_t cluster, clu_fd fd, uint64_t size) {
  clu_view *view;
  for (int i = v->n - 1; i >= 0; i--)
    if (v->at[i].cluster == cluster) forget(v, i);
  if (fd == CLU_NO_FD) return;
  view = size == sizeof(clu_view_memory) ? clu_view_map(fd, NULL) : NULL;
  clu_os_close(fd);
  if (!view) return;
  if (v->n == CLU_NEAR_VIEWS) forget(v, 0);
  v->at[v->n].cluster = cluster;
  v->at[v->n].questions = 0;
  v->at[v->n++].view = view;
  if (v->loop) clu_timer_arm(v->loop, &v->look, clu_os_now() + LOOK_EVERY);
}

/* Somebody has looked at one of them in the last seconds. */
static int are_watched(const clu_near_views *v, uint64_t now) {
  for (int i = 0; i < v->n; i++) {
    uint64_t then = clu_view_get(&v->at[i].view->memory->watched);
    if (then && now < then + WATCHED_FOR) return 1;
  }
  return 0;
}

/* ---- while somebody looks ---- */

static void on_questions_time(void *self) {
  clu_near_views *v = self;
  uint64_t now = clu_os_now();
  if (!are_watched(v, now)) return;
  clu_near_pass_questions(v);
  clu_timer_arm(v->loop, &v->questions, now + QUESTIONS_EVERY);
}

static void on_look_time(void *self) {
  clu_near_views *v = self;
  uint64_t now = clu_os_now();
  if (v->n == 0) return;
  clu_timer_arm(v->loop, &v->look, now + LOOK_EVERY);
  if (!are_watched(v, now)) return;
  v->watched(v->data, now);
  on_questions_time(v);
}

void clu_near_views_init(clu_near_views *v, clu_loop *loop, clu_near_watched watched,
                         clu_near_ask ask, void *data) {
  v->loop = loop;
  v->watched = watched;
  v->ask = ask;
  v->data = data;
  clu_timer_init(&v->look, on_look_time, v);
  clu_timer_init(&v->questions, on_questions_time, v);
}

/* ---- what is written there ---- */

static int nodes_in(const clu_view *view) {
  uint64_t n = view->memory->about.nodes;
  return n < CLU_VIEW_NODES ? (int)n : CLU_VIEW_NODES;
}

/* Nodes are told of in about the same order each time. -1: it is not there. */
static int find_node(const clu_view *view, uint64_t id, int from) {
  int n = nodes_in(view);
  for (int k = 0; k < n; k++) {
    int i = (from + k) % n;
    if (clu_view_get(&view->memory->node[i].id) == id) return i;
  }
  return -1;
}

/* The place that this host has, or a free one, or that of one that has ended. -1: there is none. */
static int place_for(clu_view_memory *m, uint64_t number) {
  int place = -1;
  for (int k = CLU_VIEW_HOSTS - 1; k >= 0; k--) {
    uint64_t has = clu_view_get(&m->far[k].number);
    if (has == number) return k;
    if (!has || clu_view_get(&m->far[k].state) == CLU_VIEW_HOST_ENDED) place = k;
  }
  return place;
}

/* A node of it is number `i` of this view. */
static void appear(clu_near_shown *of, uint64_t cluster, clu_view_memory *m, uint64_t number,
                   int i) {
  int place = place_for(m, number);
  clu_view_far *h;
  if (place < 0) return;
  h = &m->far[place];
  if (clu_view_get(&h->number) != number) {
    clu_view_set(&h->asked, 0);
    clu_view_set(&h->number, number);
  }
  clu_view_set(&h->state, CLU_VIEW_HOST_UP);
  clu_view_set(&h->host, clu_view_get(&m->node[i].host));
  of->cluster = cluster;
  of->place = place;
}

static uint64_t before(uint64_t now, uint64_t age) { return now > age ? now - age : 0; }

static void write_hand(clu_view_node *to, uint64_t at_hand, uint64_t since) {
  int is_same = at_hand && clu_view_get(&to->at_hand) == at_hand;
  /* the way takes longer now and then, and the task has not begun later for that */
  if (!is_same || since < clu_view_get(&to->since)) clu_view_set(&to->since, since);
  clu_view_set(&to->at_hand, at_hand);
}

static void write_node(clu_view_node *to, const clu_proxy_node_use *x, int place, uint64_t now) {
  write_hand(to, x->at_hand, before(now, x->age));
  clu_view_set(&to->cpu, x->cpu + 1);
  clu_view_set(&to->memory, x->memory + 1);
  clu_view_set(&to->far, (uint64_t)place + 1);
}

static void show_node(const clu_near_views *v, clu_near_shown *of, uint64_t number,
                      const clu_proxy_node_use *x, uint64_t now) {
  clu_view *view = of->cluster ? find(v, of->cluster) : NULL;
  int i = view ? find_node(view, x->id, of->next) : -1;
  for (int k = v->n - 1; k >= 0 && i < 0; k--) {
    if (v->at[k].view == view || (i = find_node(v->at[k].view, x->id, 0)) < 0) continue;
    view = v->at[k].view;
    appear(of, v->at[k].cluster, view->memory, number, i);
  }
  if (i < 0 || !of->cluster) return;
  of->next = i + 1;
  write_node(&view->memory->node[i], x, of->place, now);
}

void clu_near_show_use(const clu_near_views *v, clu_near_shown *of, uint64_t number,
                       const clu_proxy_use *u, uint64_t now) {
  clu_view *view;
  clu_view_far *h;
  for (int i = 0; i < u->n; i++) {
    clu_proxy_node_use x;
    clu_proxy_use_of(u, i, &x);
    show_node(v, of, number, &x, now);
  }
  if (!of->cluster || !(view = find(v, of->cluster))) return;
  h = &view->memory->far[of->place];
  clu_view_set(&h->load, u->load);
  clu_view_set(&h->memory, u->memory);
  clu_view_set(&h->memory_free, u->memory_free);
  clu_view_set(&h->trip, now > u->asked + u->took ? now - u->asked - u->took : 0);
  clu_view_set(&h->asked, u->asked);
}

/* ---- R calls ---- */

static void pass_on(const clu_near_views *v, clu_view *view, int i) {
  clu_view_node *nd = &view->memory->node[i];
  uint32_t question = clu_stack_question(&view->memory->stack_word[i]);
  const clu_view_far *h = clu_view_far_of(view, i);
  if (!question || question == clu_view_get(&nd->passed_on) || !h) return;
  clu_view_set(&nd->passed_on, question);
  v->ask(v->data, clu_view_get(&h->number), clu_view_get(&nd->id), question);
}

void clu_near_pass_questions(clu_near_views *v) {
  for (int k = 0; k < v->n; k++) {
    clu_view *view = v->at[k].view;
    uint64_t questions = atomic_load_explicit(&view->memory->questions, memory_order_acquire);
    int n = nodes_in(view);
    if (questions == v->at[k].questions) continue;
    v->at[k].questions = questions;
    for (int i = 0; i < n && i < CLU_VIEW_STACKS; i++) pass_on(v, view, i);
  }
}

/* A stack that was told before a question is no answer to it, but to the one before. */
static uint32_t answered(const clu_proxy_stack *x) {
  if (x->is_answer) return x->question;
  return x->question > 1 ? x->question - 1 : UINT32_MAX;
}

void clu_near_show_stack(const clu_near_views *v, clu_near_shown *of, const clu_proxy_stack *x,
                         uint64_t now) {
  clu_view *view = of->cluster ? find(v, of->cluster) : NULL;
  int i = view ? find_node(view, x->id, of->next) : -1;
  clu_view_memory *m = view ? view->memory : NULL;
  if (i < 0 || i >= CLU_VIEW_STACKS) return;
  of->next = i + 1;
  write_hand(&m->node[i], x->at_hand, before(now, x->hand_age));
  clu_stack_tell(&m->stack_word[i], &m->stack[i], answered(x), x->seq, before(now, x->age), x->text,
                 x->n);
}

/* ---- hosts ---- */

void clu_near_show_state(const clu_near_views *v, const clu_near_shown *of, int state,
                         uint64_t received, uint64_t sent) {
  static const int shown[] = {[CLU_PROXY_WAITING] = CLU_VIEW_HOST_WAITING,
                              [CLU_PROXY_UP] = CLU_VIEW_HOST_UP,
                              [CLU_PROXY_CUT] = CLU_VIEW_HOST_CUT,
                              [CLU_PROXY_ENDED] = CLU_VIEW_HOST_ENDED};
  clu_view *view = of->cluster ? find(v, of->cluster) : NULL;
  clu_view_far *h;
  if (!view) return;
  h = &view->memory->far[of->place];
  clu_view_set(&h->state, (uint64_t)shown[state]);
  clu_view_set(&h->received, received);
  clu_view_set(&h->sent, sent);
}
