/* Which R calls nodes of another host are in, told to the session's host when an observer asks
 * there. The near proxy passes the question on (CLU_L_ASK_STACK). The far one asks the node, by the
 * memory that it shares with it (core/shm/stacks.h), and answers (CLU_L_STACK) when the node has.
 * Where that takes long it says first what the node has told last; the node may be in compiled code
 * that does not look for interrupts.
 *
 * CLU_L_STACK: u64 number of the task in which this was told, u64 how many ns ago, u64 number of
 * the request or task at hand, 0: none, u64 for how many ns, u32 number of the question, u8 whether
 * this is the answer to it; then the calls as text. A node that is at nothing has none.
 */
#include <string.h>

#include "core/link/parts.h"

#define LOOK_AGAIN 2000000u /* ns; whether nodes have answered */
#define PATIENCE 50000000u  /* then what was told before is of use */
#define GIVE_UP 2000000000u /* who wants to know has asked again by then */

enum { HEAD = 37 };

int clu_proxy_ask_stack(clu_proxy *r, uint64_t id, uint32_t question) {
  unsigned char body[4];
  if (r->link.state != CLU_LINK_UP || clu_link_room(&r->link) == 0) return CLU_AGAIN;
  clu_put32(body, question);
  clu_proxy_touch(r);
  return clu_link_send(&r->link, CLU_L_ASK_STACK, id, body, sizeof body);
}

/* ---- the far side ---- */

static uint64_t since(uint64_t then, uint64_t now) { return now > then ? now - then : 0; }

static int send_stack(const clu_link_stream *s, const clu_stack *told, int is_answer) {
  unsigned char body[HEAD + CLU_STACK_TEXT];
  uint64_t now = clu_os_now(), began = now, hand;
  size_t n = told ? told->size : 0;
  hand = clu_activity_look(clu_shared_activity(s->proxy->shared, s->slot), &began);
  clu_put64(body, told ? told->seq : 0);
  clu_put64(body + 8, told ? since(told->taken, now) : 0);
  clu_put64(body + 16, hand);
  clu_put64(body + 24, since(began, now));
  clu_put32(body + 32, s->calls.of);
  body[36] = (unsigned char)is_answer;
  if (told) memcpy(body + HEAD, told->text, n);
  clu_proxy_touch(s->proxy);
  return clu_link_send(&s->proxy->link, CLU_L_STACK, s->id, body, HEAD + n);
}

/* One whose question is open. */
static int look_at(clu_link_stream *s, uint64_t now) {
  clu_stack told;
  const clu_stack_word *w = clu_shared_stack_word(s->proxy->shared, s->slot);
  int is_told = clu_stack_is_told(w, s->calls.question);
  if (clu_link_room(&s->proxy->link) == 0) return CLU_OK;
  if (!is_told && since(s->calls.asked, now) > GIVE_UP) s->calls.question = 0;
  if (!is_told && (s->calls.is_old_told || since(s->calls.asked, now) < PATIENCE)) return CLU_OK;
  s->calls.is_old_told = 1;
  if (is_told) s->calls.question = 0;
  if (!clu_stack_read(w, clu_shared_stack(s->proxy->shared, s->slot), &told)) return CLU_OK;
  return send_stack(s, &told, is_told);
}

void clu_proxy_on_stacks_time(void *proxy) {
  clu_proxy *r = proxy;
  uint64_t now = clu_os_now();
  int open = 0, rc = CLU_OK;
  for (clu_link_stream *s = r->streams; s && rc == CLU_OK; s = s->next) {
    if (!s->calls.question || !clu_link_stream_is_node(s)) continue;
    rc = look_at(s, now);
    open += s->calls.question != 0;
  }
  if (rc != CLU_OK) clu_proxy_give_up(r, rc, clu_code_text(rc));
  if (open) clu_timer_arm(r->loop, &r->stacks, now + LOOK_AGAIN);
}

int clu_proxy_tell_stack(clu_proxy *r, const clu_link_record *rec) {
  clu_link_stream *s = clu_link_stream_find(r, rec->stream);
  clu_stack_word *w;
  uint64_t began, now = clu_os_now();
  if (rec->n != 4) return CLU_PROTO;
  if (!s || !clu_link_stream_is_node(s)) return CLU_OK;
  w = clu_shared_stack_word(r->shared, s->slot);
  s->calls.of = clu_get32(rec->bytes);
  if (!w || !clu_activity_look(clu_shared_activity(r->shared, s->slot), &began))
    return send_stack(s, NULL, 1);
  s->calls.question = clu_stack_ask(w);
  s->calls.asked = now;
  s->calls.is_old_told = 0;
  clu_timer_arm(r->loop, &r->stacks, now + LOOK_AGAIN);
  return CLU_OK;
}

/* ---- the near side ---- */

int clu_proxy_take_stack(clu_proxy *r, const clu_link_record *rec) {
  clu_proxy_stack x;
  if (rec->n < HEAD || rec->n - HEAD > CLU_STACK_TEXT) return CLU_PROTO;
  x.id = rec->stream;
  x.seq = clu_get64(rec->bytes);
  x.age = clu_get64(rec->bytes + 8);
  x.at_hand = clu_get64(rec->bytes + 16);
  x.hand_age = clu_get64(rec->bytes + 24);
  x.question = clu_get32(rec->bytes + 32);
  x.is_answer = rec->bytes[36] == 1;
  x.text = (const char *)rec->bytes + HEAD;
  x.n = rec->n - HEAD;
  if (r->how.on_stack) r->how.on_stack(r->how.data, &x);
  return CLU_OK;
}
