/* The requests that are with one node: calls whose answers are asked for one by one (tasks are not
 * among them; of those the scheduler keeps account).
 *
 *   sent --answer--> answered --taken--> removed
 *    | cancelled, and none of it has left: removed at once
 *    `-- cancelled --answer--> removed: the answer is thrown away
 *
 * A request belongs to a call scope: a number that the caller chooses, 0 for none. A scope is
 * cancelled as a whole. A request has the number (`seq`) that its message has, so an answer is
 * never taken for that of another request. Plain data; nothing here blocks or knows of a node.
 */
#ifndef CLUTCH_REQUEST_H
#define CLUTCH_REQUEST_H

#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/err.h"

typedef struct clu_req {
  uint64_t seq, scope;
  uint64_t arrival; /* of the answer: larger than that of any answer before; 0: not answered yet */
  int cancelled;
  uint8_t kind;   /* of the answer: CLU_K_VALUE, CLU_K_FAILED, CLU_K_CANCELLED */
  clu_blob *body; /* of the answer; may be NULL */
  int tag;        /* the caller's */
} clu_req;

/* In the order in which they were sent. Zeroed memory is an empty list. */
typedef struct clu_requests {
  clu_req *at;
  int n;
  size_t cap;
} clu_requests;

/* Makes room for one more. CLU_OK, CLU_NOMEM. */
int clu_requests_reserve(clu_requests *q, clu_err *e);
/* Adds one, for which there is room. */
void clu_requests_add(clu_requests *q, uint64_t seq, uint64_t scope, int tag);
/* The pointers of the following are valid until the list changes. NULL: there is none. */
clu_req *clu_requests_find(const clu_requests *q, uint64_t seq);
/* The oldest that is not cancelled. */
clu_req *clu_requests_first(const clu_requests *q);
/* The oldest without an answer: the one that the node is at. */
clu_req *clu_requests_head(const clu_requests *q);
/* Tells whether one has no answer yet: of this scope, or with `any` of all. */
int clu_requests_await(const clu_requests *q, uint64_t scope, int any);
int clu_requests_some_cancelled(const clu_requests *q);
/* Without an answer. */
int clu_requests_waiting(const clu_requests *q);
/* Removes it, with the body of its answer. */
void clu_requests_drop(clu_requests *q, clu_req *r);
/* Removes the cancelled ones. */
void clu_requests_drop_cancelled(clu_requests *q);
/* Removes all and frees the memory. Accepts zeroed memory. */
void clu_requests_fini(clu_requests *q);

#endif
