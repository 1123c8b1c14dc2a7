/* Folders that processes have left: small ones are removed at once, large ones in the background.
 */
// link: -Wl,--wrap=clu_os_remove_tree -Wl,--wrap=clu_os_remove_in_background
#include "test.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include "core/base/os.h"
#include "core/base/os-folders.h"
#include "core/base/remove-folder.h"

static int removed_here, background, no_process;

int __real_clu_os_remove_tree(const char *path);
int __real_clu_os_remove_in_background(const char *path);

int __wrap_clu_os_remove_tree(const char *path) {
  removed_here++;
  return __real_clu_os_remove_tree(path);
}

int __wrap_clu_os_remove_in_background(const char *path) {
  background++;
  return no_process ? CLU_SYS : __real_clu_os_remove_in_background(path);
}

/* A folder of its own for each test, in it one named `name` with `n` files, and a place for what is
 * removed. */
typedef struct place {
  char top[64], path[160], gone[168];
} place;

static void new_file(const char *folder, int i) {
  char path[200];
  snprintf(path, sizeof path, "%s/%d", folder, i);
  close(open(path, O_CREAT | O_WRONLY, 0600));
}

static int there(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0;
}

static void up(place *p, const char *name, int n) {
  removed_here = background = no_process = 0;
  strcpy(p->top, "/tmp/clutch-test-XXXXXX");
  REQUIRE(mkdtemp(p->top));
  snprintf(p->path, sizeof p->path, "%s/%s", p->top, name);
  snprintf(p->gone, sizeof p->gone, "%s-gone", p->path);
  REQUIRE(mkdir(p->path, 0700) == 0);
  for (int i = 0; i < n; i++) new_file(p->path, i);
}

static void down(place *p) { CHECK_INT_EQ(__real_clu_os_remove_tree(p->top), 0); }

static int has_children(void) { return waitpid(-1, NULL, WNOHANG) >= 0; }

TEST(a_small_folder_is_removed_at_once) {
  place p;
  up(&p, "small", 10);
  clu_remove_folder(p.path);
  CHECK(!there(p.path) && !there(p.gone));
  CHECK_INT_EQ(background, 0);
  CHECK_INT_EQ(removed_here, 0);
  clu_remove_folder(p.path); /* there is nothing */
  down(&p);
}

/* In place of rm: it waits until it may. */
static void slow_rm(const place *p) {
  char path[100], env[4096];
  FILE *f;
  snprintf(path, sizeof path, "%s/rm", p->top);
  REQUIRE((f = fopen(path, "w")));
  fprintf(f, "#!/bin/sh\nwhile [ ! -e %s/go ]; do sleep .01; done\nexec /bin/rm \"$@\"\n", p->top);
  fclose(f);
  chmod(path, 0700);
  snprintf(env, sizeof env, "%s:%s", p->top, getenv("PATH"));
  setenv("PATH", env, 1);
}

TEST(a_large_folder_is_removed_by_a_process_that_nobody_waits_for) {
  place p;
  char go[100];
  up(&p, "large", 500);
  slow_rm(&p);
  clu_remove_folder(p.path);
  CHECK(!there(p.path));
  CHECK(there(p.gone)); /* it goes on */
  CHECK_INT_EQ(removed_here, 0);
  CHECK(!has_children());
  snprintf(go, sizeof go, "%s/go", p.top);
  close(open(go, O_CREAT | O_WRONLY, 0600));
  CHECK_SOON(!there(p.gone), 10000);
  down(&p);
}

TEST(it_goes_on_when_this_process_ends) {
  place p;
  pid_t pid;
  int status;
  char go[100];
  up(&p, "large", 500);
  slow_rm(&p);
  REQUIRE((pid = fork()) >= 0);
  if (pid == 0) {
    setsid();
    clu_remove_folder(p.path);
    kill(0, SIGKILL); /* and its process group, as at the end of a terminal */
  }
  CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
  CHECK(!there(p.path) && there(p.gone));
  snprintf(go, sizeof go, "%s/go", p.top);
  close(open(go, O_CREAT | O_WRONLY, 0600));
  CHECK_SOON(!there(p.gone), 10000);
  down(&p);
}

TEST(names_of_any_kind_and_folders_that_are_not_readable) {
  static const char *const names[] = {"a b", "it's \"so\"", "$HOME", "-rf", "`ls`;x", "\xc3\xa4*"};
  char folder[176];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    place p;
    up(&p, names[i], 100);
    snprintf(folder, sizeof folder, "%s/closed", p.path);
    CHECK(mkdir(folder, 0700) == 0);
    new_file(folder, 1);
    CHECK(chmod(folder, 0) == 0);
    clu_remove_folder(p.path);
    CHECK(!there(p.path));
    CHECK_SOON(!there(p.gone), 10000);
    down(&p);
  }
}

TEST(without_PATH) {
  place p;
  up(&p, "large", 500);
  unsetenv("PATH");
  clu_remove_folder(p.path);
  CHECK_INT_EQ(background, 1);
  CHECK_INT_EQ(removed_here, 0);
  CHECK_SOON(!there(p.gone), 10000);
  down(&p);
}

TEST(a_folder_that_cannot_be_renamed_is_removed_where_it_is) {
  place p;
  up(&p, "large", 500);
  CHECK(mkdir(p.gone, 0700) == 0);
  new_file(p.gone, 1);
  clu_remove_folder(p.path);
  CHECK_SOON(!there(p.path), 10000);
  CHECK(there(p.gone));
  down(&p);
}

TEST(where_no_process_can_be_started_it_is_removed_here) {
  place p;
  up(&p, "large", 500);
  no_process = 1;
  clu_remove_folder(p.path);
  CHECK_INT_EQ(background, 1);
  CHECK_INT_EQ(removed_here, 1);
  CHECK(!there(p.path) && !there(p.gone));
  down(&p);
}
