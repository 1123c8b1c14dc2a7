/* Lists of the scheduler. */
#include "test.h"

#include "core/sched/sched-list.h"

typedef struct thing {
  int number;
  clu_link a, b; /* of two lists */
} thing;

/* The numbers in the list, as digits; checks that the way back says the same. */
static int digits(const clu_list *list) {
  int forward = 0, backward = 0, power = 1;
  for (const clu_link *at = clu_list_first(list); at; at = clu_list_next(list, at))
    forward = 10 * forward + CLU_LIST_MEMBER(at, thing, a)->number;
  for (const clu_link *at = list->prev; at != list; at = at->prev) {
    backward += power * CLU_LIST_MEMBER(at, thing, a)->number;
    power *= 10;
  }
  CHECK_INT_EQ(backward, forward);
  return forward;
}

TEST(members_are_put_at_both_ends_and_behind_others) {
  clu_list list;
  thing t[5];
  memset(t, 0, sizeof t);
  for (int i = 0; i < 5; i++) t[i].number = i + 1;
  clu_list_init(&list);
  CHECK(clu_list_is_empty(&list) && !clu_list_first(&list));
  clu_list_push_back(&list, &t[1].a);
  clu_list_push_back(&list, &t[3].a);
  clu_list_push_front(&list, &t[0].a);
  clu_list_insert(&t[1].a, &t[2].a);
  clu_list_insert(&t[3].a, &t[4].a);
  CHECK_INT_EQ(digits(&list), 12345);
  CHECK(!clu_list_is_empty(&list));
}

TEST(members_leave_from_anywhere_and_may_come_back) {
  clu_list list;
  thing t[4];
  memset(t, 0, sizeof t);
  clu_list_init(&list);
  for (int i = 0; i < 4; i++) {
    t[i].number = i + 1;
    CHECK(!clu_list_has(&t[i].a));
    clu_list_push_back(&list, &t[i].a);
    CHECK(clu_list_has(&t[i].a));
  }
  clu_list_remove(&t[1].a);
  CHECK_INT_EQ(digits(&list), 134);
  clu_list_remove(&t[0].a);
  CHECK_INT_EQ(digits(&list), 34);
  clu_list_remove(&t[3].a);
  CHECK_INT_EQ(digits(&list), 3);
  clu_list_remove(&t[3].a); /* it is in none */
  CHECK_INT_EQ(digits(&list), 3);
  clu_list_push_front(&list, &t[3].a);
  CHECK_INT_EQ(digits(&list), 43);
  clu_list_remove(&t[2].a);
  clu_list_remove(&t[3].a);
  CHECK(clu_list_is_empty(&list) && !clu_list_has(&t[3].a));
}

TEST(a_thing_may_be_in_two_lists) {
  clu_list one, two;
  thing t;
  memset(&t, 0, sizeof t);
  clu_list_init(&one);
  clu_list_init(&two);
  clu_list_push_back(&one, &t.a);
  clu_list_push_back(&two, &t.b);
  CHECK(CLU_LIST_MEMBER(clu_list_first(&two), thing, b) == &t);
  clu_list_remove(&t.a);
  CHECK(clu_list_is_empty(&one) && !clu_list_is_empty(&two));
}
