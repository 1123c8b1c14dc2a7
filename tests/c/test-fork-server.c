/* The session's side of a fork server: which slots of its shared memory are taken. */
#include "test.h"

#include <stdlib.h>

#include "core/node/fork-private.h"

enum { MANY = 300 };

/* The first that is free is taken, whoever has come and gone before. */
TEST(a_slot_is_taken_once_and_the_first_that_is_free) {
  clu_server s;
  uint64_t owner[MANY] = {0}, next = 1;
  unsigned random = 12345;
  memset(&s, 0, sizeof s);
  for (int step = 0; step < 20000; step++) {
    int at, first = 0;
    random = random * 1103515245u + 12345u;
    at = (int)(random >> 16) % MANY;
    while (first < MANY && owner[first]) first++;
    if (first < MANY && random >> 31) {
      REQUIRE(clu_server_take_slot(&s, next) == first);
      owner[first] = next++;
    } else if (owner[at]) {
      clu_server_free_slot(&s, owner[at]);
      clu_server_free_slot(&s, owner[at]); /* nobody has it any more */
      owner[at] = 0;
    }
  }
  for (int i = 0; i < MANY; i++) CHECK(i >= s.nslots || s.slots[i] == owner[i]);
  free(s.slots);
}

/* Also that of the node whose message came last, which the search begins with. */
TEST(the_slot_of_a_known_node_is_freed_and_no_other) {
  clu_server s;
  clu_fork_node f;
  memset(&s, 0, sizeof s);
  memset(&f, 0, sizeof f);
  for (uint64_t id = 1; id <= 100; id++) clu_server_take_slot(&s, id);
  f.node.id = 70;
  f.slot = 69;
  s.found = &f;
  clu_server_free_slot(&s, 70);
  clu_server_free_slot(&s, 70);
  clu_server_free_slot(&s, 3);
  CHECK_INT_EQ(clu_server_take_slot(&s, 101), 2);
  CHECK_INT_EQ(clu_server_take_slot(&s, 102), 69);
  clu_server_free_slot(&s, 70); /* it has another owner now */
  CHECK_INT_EQ(clu_server_take_slot(&s, 103), 100);
  free(s.slots);
}
