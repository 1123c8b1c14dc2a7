/* Lists of the scheduler: intrusive, doubly linked, circular.
 *
 * Purpose: nodes and jobs stand in lists in which each of them has to be found, moved and taken out
 * in O(1). A member has one link for each list that it may be in; the list itself is a link, too,
 * which stands before the first and behind the last, so that no operation has a special case at the
 * ends.
 *
 * Ownership: a list owns nothing. Members must not move in memory while they are in a list.
 * States of a link: in a list, or out (all zero: calloc() is enough; a list itself needs
 * clu_list_init()). Nothing here allocates, blocks or fails.
 */
#ifndef CLUTCH_SCHED_LIST_H
#define CLUTCH_SCHED_LIST_H

#include <stddef.h>

typedef struct clu_link {
  struct clu_link *prev, *next;
} clu_link;
typedef clu_link clu_list;

/* The member of type `type` whose link `member` this is. */
#define CLU_LIST_MEMBER(link, type, member) \
  ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void clu_list_init(clu_list *list) { list->prev = list->next = list; }

static inline int clu_list_is_empty(const clu_list *list) { return list->next == list; }

/* Tells whether it is in a list. */
static inline int clu_list_has(const clu_link *link) { return link->next != NULL; }

/* The first and the next member; NULL: there is none. */
static inline clu_link *clu_list_first(const clu_list *list) {
  return list->next == list ? NULL : list->next;
}
static inline clu_link *clu_list_next(const clu_list *list, const clu_link *at) {
  return at->next == list ? NULL : at->next;
}

/* `link` is in no list. Puts it behind `at`, a member or the list itself (then it is the first). */
static inline void clu_list_insert(clu_link *at, clu_link *link) {
  link->prev = at;
  link->next = at->next;
  at->next->prev = link;
  at->next = link;
}

static inline void clu_list_push_front(clu_list *list, clu_link *link) {
  clu_list_insert(list, link);
}

static inline void clu_list_push_back(clu_list *list, clu_link *link) {
  clu_list_insert(list->prev, link);
}

/* Takes it out of the list in which it is; does nothing when it is in none. */
static inline void clu_list_remove(clu_link *link) {
  if (!link->next) return;
  link->prev->next = link->next;
  link->next->prev = link->prev;
  link->prev = link->next = NULL;
}

#endif
