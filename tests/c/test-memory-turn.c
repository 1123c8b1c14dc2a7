/* The turn that sessions have at memory that is short. */
#include "test.h"

#include "core/base/memory-turn.h"
#include "core/base/os-folders.h"
#include "core/base/os.h"

static char under[64];

static void new_folder(void) {
  strcpy(under, "/tmp/test-turn-XXXXXX");
  REQUIRE(mkdtemp(under));
}

static void clean_up(void) {
  clu_memory_turn_give();
  clu_memory_share_no_more();
  CHECK_INT_EQ(clu_os_remove_tree(under), 0);
}

static int ask_turn(int i) {
  return clu_memory_turn_is_taken() ? 2 : clu_memory_turn_take(under, i);
}

static int ask_share(int i) { return clu_memory_share(under, i); }

/* Another process asks, says what it was told, and keeps what it has until it is killed. */
static pid_t who_asks(int (*ask)(int), int i, int *told) {
  int ready[2];
  char byte;
  pid_t pid;
  REQUIRE(pipe(ready) == 0);
  pid = fork();
  if (pid == 0) {
    byte = (char)ask(i);
    (void)!write(ready[1], &byte, 1);
    pause();
    _exit(0);
  }
  REQUIRE(read(ready[0], &byte, 1) == 1);
  *told = byte;
  close(ready[0]);
  close(ready[1]);
  return pid;
}

static pid_t other(int i, int *told) { return who_asks(ask_turn, i, told); }

static void end(pid_t pid) {
  kill(pid, SIGKILL);
  CHECK_INT_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(only_one_process_has_a_turn) {
  int told;
  pid_t pid;
  new_folder();
  CHECK(!clu_memory_turn_is_taken());
  CHECK_INT_EQ(clu_memory_turn_take(under, 3), 1);
  CHECK_INT_EQ(clu_memory_turn_take(under, 3), 1);
  CHECK(clu_memory_turn_is_taken());
  pid = other(3, &told);
  CHECK_INT_EQ(told, 0);
  end(pid);
  clu_memory_turn_give();
  CHECK(!clu_memory_turn_is_taken());
  pid = other(3, &told);
  CHECK_INT_EQ(told, 1);
  CHECK_INT_EQ(clu_memory_turn_take(under, 3), 0);
  CHECK_INT_EQ(clu_memory_turn_take(under, 4), 1); /* that is another one */
  end(pid);
  clean_up();
}

TEST(a_turn_comes_back_when_its_holder_is_killed) {
  int told;
  pid_t pid;
  new_folder();
  pid = other(0, &told);
  CHECK_INT_EQ(told, 1);
  CHECK_INT_EQ(clu_memory_turn_take(under, 0), 0);
  end(pid);
  CHECK_INT_EQ(clu_memory_turn_take(under, 0), 1);
  clean_up();
}

TEST(where_there_is_no_folder_everybody_has_a_turn) {
  CHECK_INT_EQ(clu_memory_turn_take("/no/such/folder", 0), 1);
  CHECK(!clu_memory_turn_is_taken());
  clu_memory_turn_give();
}

TEST(sessions_at_work_are_counted) {
  int told;
  pid_t pid[CLU_MEMORY_SHARERS + 1];
  new_folder();
  CHECK_INT_EQ(clu_memory_share(under, 3), 1);
  CHECK_INT_EQ(clu_memory_share(under, 3), 1);
  /* whose child has no part of its own in that */
  pid[0] = who_asks(ask_share, 3, &told);
  CHECK_INT_EQ(told, 2);
  CHECK_INT_EQ(clu_memory_share(under, 3), 2);
  pid[1] = who_asks(ask_share, 4, &told);
  CHECK_INT_EQ(told, 1);
  end(pid[1]);
  clu_memory_share_no_more();
  CHECK_INT_EQ(clu_memory_share(under, 4), 1); /* something else is shared there */
  CHECK_INT_EQ(clu_memory_share(under, 3), 2);
  end(pid[0]);
  CHECK_INT_EQ(clu_memory_share(under, 3), 1);
  /* the turn is another lock */
  CHECK_INT_EQ(clu_memory_turn_take(under, 3), 1);
  CHECK_INT_EQ(clu_memory_share(under, 3), 1);
  clu_memory_share_no_more();
  for (int k = 0; k <= CLU_MEMORY_SHARERS; k++) {
    pid[k] = who_asks(ask_share, 3, &told);
    CHECK_INT_EQ(told, k < CLU_MEMORY_SHARERS ? k + 1 : CLU_MEMORY_SHARERS);
  }
  CHECK_INT_EQ(clu_memory_share(under, 3), CLU_MEMORY_SHARERS);
  for (int k = 0; k <= CLU_MEMORY_SHARERS; k++) end(pid[k]);
  clean_up();
}

TEST(where_there_is_no_folder_each_is_alone) {
  CHECK_INT_EQ(clu_memory_share("/no/such/folder", 0), 1);
  clu_memory_share_no_more();
}
