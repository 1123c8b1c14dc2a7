/* Folders that are marked as in use. */
#include "test.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os-folders.h"
#include "core/base/os-lock.h"

static char folder[64], file[96];

static void new_folder(void) {
  strcpy(folder, "/tmp/test-lock-file-XXXXXX");
  REQUIRE(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/clutch-in-use", folder);
}

static int claim(void) {
  clu_fd fd = CLU_NO_FD;
  int rc = clu_os_claim_folder(folder, &fd);
  if (rc == CLU_OK) clu_os_close(fd);
  return rc;
}

TEST(a_folder_is_in_use_until_the_last_process_that_has_the_mark_ends) {
  clu_fd fd;
  clu_pid pid;
  clu_err e;
  int rc, pipes[2];
  char c;
  new_folder();
  CHECK_INT_EQ(claim(), CLU_SYS); /* it has no mark */
  rc = clu_os_mark_folder(folder, &fd);
  if (rc == CLU_OK) {
    CHECK_INT_EQ(claim(), CLU_AGAIN);
    REQUIRE(pipe(pipes) == 0);
    REQUIRE(clu_os_fork(&pid, &e) == CLU_OK);
    if (pid == 0) {
      close(pipes[1]);
      _exit(read(pipes[0], &c, 1) != 0); /* until the other closes the pipe */
    }
    clu_os_close(fd);
    CHECK_INT_EQ(claim(), CLU_AGAIN); /* the child has it */
    close(pipes[0]);
    close(pipes[1]);
    for (int k = 0; k < 2000 && (rc = claim()) == CLU_AGAIN; k++) usleep(5000);
    waitpid((pid_t)pid, NULL, 0);
    CHECK_INT_EQ(rc, CLU_OK);
    CHECK_INT_EQ(claim(), CLU_OK);
  } else {
    CHECK_INT_EQ(rc, CLU_UNSUPPORTED);
  }
  CHECK_INT_EQ(clu_os_remove_tree(folder), 0);
}

TEST(what_may_be_somebody_elses_is_not_claimed) {
  clu_fd fd;
  char kept[96];
  FILE *f;
  new_folder();
  if (clu_os_mark_folder(folder, &fd) == CLU_OK) {
    clu_os_close(fd);
    REQUIRE(chmod(folder, 0777) == 0); /* others could have put it there */
    CHECK_INT_EQ(claim(), CLU_SYS);
    REQUIRE(chmod(folder, 0700) == 0);
    CHECK_INT_EQ(claim(), CLU_OK);
    snprintf(kept, sizeof kept, "%s/kept", folder);
    REQUIRE(rename(file, kept) == 0 && symlink(kept, file) == 0);
    CHECK_INT_EQ(claim(), CLU_SYS);
    REQUIRE(unlink(file) == 0);
    f = fopen(file, "w");
    REQUIRE(f);
    fputs("01234567-0123-0123-0123-0123456789ab 1\n", f); /* of another machine */
    fclose(f);
    CHECK_INT_EQ(claim(), CLU_SYS);
  }
  CHECK_INT_EQ(clu_os_remove_tree(folder), 0);
}
