/* How a node tells which calls it is in: by memory, without locks. */
#include "test.h"

#include <sys/wait.h>
#include <unistd.h>

#include "core/shm/node-memory.h"

static clu_stack_word word;
static clu_stack stack;

static void fresh(void) {
  memset(&word, 0, sizeof word);
  memset(&stack, 0, sizeof stack);
}

static void tell(uint32_t question, uint64_t seq, const char *text) {
  clu_stack_tell(&word, &stack, question, seq, 9, text, strlen(text));
}

TEST(nobody_has_asked) {
  clu_stack got;
  fresh();
  CHECK_INT_EQ(clu_stack_question(&word), 0);
  CHECK_INT_EQ(clu_stack_read(&word, &stack, &got), 0);
}

TEST(a_question_is_answered_once) {
  clu_stack got;
  uint32_t q;
  fresh();
  q = clu_stack_ask(&word);
  CHECK_INT_EQ(clu_stack_question(&word), q);
  CHECK(!clu_stack_is_told(&word, q));
  tell(q, 7, "f(x)");
  CHECK_INT_EQ(clu_stack_question(&word), 0);
  CHECK(clu_stack_is_told(&word, q));
  REQUIRE(clu_stack_read(&word, &stack, &got) == 1);
  CHECK_INT_EQ(got.seq, 7);
  CHECK_INT_EQ(got.taken, 9);
  CHECK_INT_EQ(got.told, q);
  CHECK_INT_EQ(got.size, 4);
  CHECK_MEM_EQ(got.text, "f(x)", 4);
}

TEST(the_last_copy_is_asked_for_as_any_and_said_to_be_that) {
  uint32_t copy;
  fresh();
  CHECK(!clu_stack_keeps_last(&word));
  atomic_store(&word.keeps_last, 1);
  CHECK(clu_stack_keeps_last(&word));
  copy = clu_stack_ask_copy(&word, 4);
  CHECK_INT_EQ(atomic_load(&word.is_last), 0);
  copy = clu_stack_ask_last_copy(&word, 5);
  CHECK_INT_EQ(atomic_load(&word.is_last), 1);
  CHECK_INT_EQ(atomic_load(&word.copy_of), 5);
  CHECK_INT_EQ(clu_stack_copy_wanted(&word), copy);
  CHECK(clu_stack_question(&word) != 0);
  clu_stack_tell_copy(&word, &stack, copy, "somewhere");
  CHECK(clu_stack_is_copied(&word, copy));
}

TEST(several_who_ask_get_one_answer) {
  uint32_t a, b;
  fresh();
  a = clu_stack_ask(&word);
  b = clu_stack_ask(&word);
  CHECK(a != b);
  tell(clu_stack_question(&word), 1, "g()");
  CHECK(clu_stack_is_told(&word, a));
  CHECK(clu_stack_is_told(&word, b));
  a = clu_stack_ask(&word);
  CHECK(!clu_stack_is_told(&word, a)); /* one of before does not count */
}

TEST(a_question_that_came_while_it_answered_is_still_there) {
  uint32_t a, b;
  fresh();
  a = clu_stack_ask(&word);
  b = clu_stack_ask(&word);
  tell(a, 1, "g()");
  CHECK(clu_stack_is_told(&word, a));
  CHECK(!clu_stack_is_told(&word, b));
  CHECK_INT_EQ(clu_stack_question(&word), b);
}

TEST(numbers_wrap_around) {
  uint32_t q;
  fresh();
  atomic_store(&word.asked, UINT32_MAX - 1);
  tell(clu_stack_ask(&word), 1, "f()");
  q = clu_stack_ask(&word);
  CHECK(q != 0);
  CHECK(!clu_stack_is_told(&word, q));
  tell(q, 1, "f()");
  CHECK(clu_stack_is_told(&word, q));
  CHECK(clu_stack_is_told(&word, UINT32_MAX));
}

TEST(a_long_text_is_cut) {
  static char text[CLU_STACK_TEXT + 100];
  clu_stack got;
  fresh();
  memset(text, 'x', sizeof text);
  clu_stack_tell(&word, &stack, clu_stack_ask(&word), 1, 0, text, sizeof text);
  REQUIRE(clu_stack_read(&word, &stack, &got) == 1);
  CHECK_INT_EQ(got.size, CLU_STACK_TEXT);
  CHECK_INT_EQ(sizeof(clu_stack), 8192);
}

/* A question for calls only is no reason for a copy, and takes none away. */
TEST(a_copy_is_made_for_who_wants_one) {
  char where[CLU_COPY_TEXT + 10];
  clu_stack got;
  uint32_t copy, again;
  fresh();
  clu_stack_ask(&word);
  CHECK_INT_EQ(clu_stack_copy_wanted(&word), 0);
  copy = clu_stack_ask_copy(&word, 7);
  CHECK_INT_EQ(atomic_load(&word.copy_of), 7);
  CHECK_INT_EQ(clu_stack_copy_wanted(&word), copy);
  tell(clu_stack_question(&word), 1, "f()"); /* the answer to both */
  CHECK_INT_EQ(clu_stack_question(&word), 0);
  CHECK(!clu_stack_is_copied(&word, copy));
  clu_stack_tell_copy(&word, &stack, copy, "12 key /a/path");
  CHECK(clu_stack_is_copied(&word, copy));
  CHECK_INT_EQ(clu_stack_copy_wanted(&word), 0);
  tell(clu_stack_ask(&word), 1, "g()");
  REQUIRE(clu_stack_read(&word, &stack, &got) == 1);
  CHECK_STR_EQ(got.copy, "12 key /a/path");
  CHECK_MEM_EQ(got.text, "g()", 3);
  again = clu_stack_ask_copy(&word, 8);
  clu_stack_give_up_copy(&word);
  CHECK_INT_EQ(atomic_load(&word.copy_of), 0);
  CHECK(again != copy);
  CHECK(!clu_stack_is_copied(&word, again));
  memset(where, 'x', sizeof where); /* what has no room is none */
  where[sizeof where - 1] = 0;
  clu_stack_tell_copy(&word, &stack, again, where);
  tell(clu_stack_question(&word), 1, "g()");
  REQUIRE(clu_stack_read(&word, &stack, &got) == 1);
  CHECK_STR_EQ(got.copy, "");
}

/* User's code may have written to that memory, or the node has died while it wrote. */
TEST(what_makes_no_sense_is_not_read) {
  clu_stack got;
  fresh();
  tell(clu_stack_ask(&word), 1, "f()");
  stack.size = CLU_STACK_TEXT + 1;
  CHECK_INT_EQ(clu_stack_read(&word, &stack, &got), 0);
  stack.size = 3;
  CHECK_INT_EQ(clu_stack_read(&word, &stack, &got), 1);
  atomic_fetch_add(&stack.version, 1);
  CHECK_INT_EQ(clu_stack_read(&word, &stack, &got), 0);
  tell(clu_stack_ask(&word), 2, "g()"); /* its successor in this slot is not disturbed by that */
  REQUIRE(clu_stack_read(&word, &stack, &got) == 1);
  CHECK_INT_EQ(got.seq, 2);
}

TEST(a_new_node_in_the_slot_has_told_nothing) {
  clu_shared *s;
  clu_fd fd;
  clu_err e;
  clu_stack got;
  REQUIRE(clu_shared_new(&s, &fd, &e) == CLU_OK);
  CHECK(clu_shared_stack(s, CLU_STACKS) == NULL);
  CHECK(clu_shared_stack(s, -1) == NULL);
  REQUIRE(clu_shared_stack(s, CLU_STACKS - 1) != NULL);
  clu_stack_ask_copy(&s->stack_word[3], 1);
  clu_stack_tell(&s->stack_word[3], clu_shared_stack(s, 3), clu_stack_ask(&s->stack_word[3]), 1, 0,
                 "f()", 3);
  CHECK_INT_EQ(clu_stack_read(&s->stack_word[3], clu_shared_stack(s, 3), &got), 1);
  clu_shared_reset(s, 3);
  CHECK_INT_EQ(clu_stack_read(&s->stack_word[3], clu_shared_stack(s, 3), &got), 0);
  CHECK_INT_EQ(clu_stack_question(&s->stack_word[3]), 0);
  CHECK_INT_EQ(clu_stack_copy_wanted(&s->stack_word[3]), 0);
  s->has_rings = 0;
  CHECK(clu_shared_stack(s, 3) == NULL);
  clu_os_shared_free(s, sizeof *s);
  clu_os_close(fd);
}

/* In two processes, as session and node are: each copy that is read is of one answer. */
TEST(who_reads_while_it_is_written_gets_one_answer) {
  enum { ANSWERS = 20000 };
  clu_shared *s;
  clu_fd fd;
  clu_err e;
  clu_stack got;
  int status = -1, read = 0;
  pid_t pid;
  REQUIRE(clu_shared_new(&s, &fd, &e) == CLU_OK);
  pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    char text[1000];
    for (uint32_t k = 1; k <= ANSWERS; k++) {
      memset(text, 'a' + (int)(k % 26), sizeof text);
      clu_stack_tell(&s->stack_word[0], &s->stack[0], k, k, k, text, k % sizeof text + 1);
    }
    _exit(0);
  }
  do {
    if (!clu_stack_read(&s->stack_word[0], &s->stack[0], &got)) continue;
    read++;
    if (got.taken != got.seq || got.told != got.seq || got.size != got.seq % 1000 + 1) break;
    for (uint32_t k = 0; k < got.size; k++)
      if (got.text[k] != 'a' + (int)(got.seq % 26)) status = 1;
  } while (status == -1 && got.seq < ANSWERS);
  CHECK_INT_EQ(got.seq, ANSWERS);
  CHECK_INT_EQ(status, -1);
  CHECK(read > 0);
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK_INT_EQ(status, 0);
  clu_os_shared_free(s, sizeof *s);
  clu_os_close(fd);
}
