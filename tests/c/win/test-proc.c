/* Processes, temporary folders and files on Windows. */
#define TEST_PARTS
#include "test.h"

#include <io.h>

#include "core/base/os-output.h"
#include "core/base/os.h"
#include "core/base/os-folders.h"
#include "core/base/remove-folder.h"

#define MS 1000000

/* ---- what runs in the second process ---- */

static int part_speaks(void) { /* on the first kept descriptor; with the second, shared memory */
  clu_fd fd, shared;
  clu_iov v = {(char[]){'h', 'i'}, 2};
  size_t put = 0;
  void *p;
  int rc;
  clu_err e;
  if (clu_os_kept(0, &fd) != CLU_OK || clu_os_kept(1, &shared) != CLU_OK ||
      clu_os_kept(2, &fd) == CLU_OK)
    return 21;
  clu_os_kept(0, &fd);
  if (clu_os_shared_map(shared, 4096, &p, &e) != CLU_OK) return 22;
  ((char *)p)[17] = 'm';
  for (int i = 0; (rc = clu_os_writev(fd, &v, 1, NULL, 0, &put)) == CLU_AGAIN && i < 100; i++)
    Sleep(10);
  return rc == CLU_OK && put == 2 ? 5 : 23;
}

static int part_starts_another(void) { /* writes its pid to where it is told, and ends without it */
  clu_spawn s;
  char *argv[] = {test_program, (char *)"--part", (char *)"sleep", NULL};
  clu_fd fd;
  clu_pid pid[2];
  clu_iov v = {pid, sizeof pid};
  size_t put;
  clu_err e;
  memset(&s, 0, sizeof s);
  s.file = test_program;
  s.argv = argv;
  s.in = s.out = s.err = CLU_NO_FD;
  if (clu_os_kept(0, &fd) != CLU_OK || clu_os_spawn(&s, &pid[0], &e) != CLU_OK) return 31;
  pid[1] = clu_os_getppid();
  while (clu_os_writev(fd, &v, 1, NULL, 0, &put) == CLU_AGAIN) Sleep(10);
  Sleep(60000);
  return 0;
}

static int test_part(const char *name, int argc, char **argv) {
  if (strcmp(name, "status") == 0) return atoi(argv[0]);
  if (strcmp(name, "sleep") == 0) return Sleep(60000), 0;
  if (strcmp(name, "speaks") == 0) return part_speaks();
  if (strcmp(name, "starts-another") == 0) return part_starts_another();
  if (strcmp(name, "variable") == 0) {
    const char *v = getenv("CLUTCH_TEST");
    return v && strcmp(v, argv[0]) == 0 && !getenv("CLUTCH_OTHER") ? 0 : 1;
  }
  if (strcmp(name, "arguments") == 0) { /* prints them, one a line */
    for (int i = 0; i < argc; i++) printf("<%s>\n", argv[i]);
    fprintf(stderr, "and errors\n");
    return 0;
  }
  if (strcmp(name, "readable") == 0) { /* whether a handle of the starting process works here */
    int type, n = sizeof type;
    SOCKET s = (SOCKET)_strtoui64(argv[0], NULL, 10);
    return getsockopt(s, SOL_SOCKET, SO_TYPE, (char *)&type, &n) == 0;
  }
  return 99;
}

/* ---- helpers ---- */

static int start(clu_spawn *s, clu_pid *pid, char *part, char *arg) {
  static char *argv[] = {test_program, (char *)"--part", NULL, NULL, NULL};
  clu_err e = {0, 0, ""};
  int rc;
  argv[2] = part;
  argv[3] = arg;
  if (!s->argv) s->argv = argv;
  s->file = test_program;
  rc = clu_os_spawn(s, pid, &e);
  if (rc != CLU_OK) test_fail(__FILE__, __LINE__, "%s", e.text);
  return rc;
}

static clu_spawn nothing_kept(void) {
  clu_spawn s;
  memset(&s, 0, sizeof s);
  s.in = s.out = s.err = CLU_NO_FD;
  return s;
}

static clu_exit end_of(clu_pid pid) {
  clu_exit how = {-1, -1};
  CHECK_SOON(clu_os_reap(pid, 1, &how) == CLU_OK, 10000);
  return how;
}

static int runs(clu_pid pid) {
  HANDLE h = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)pid);
  int rc = h && WaitForSingleObject(h, 0) == WAIT_TIMEOUT;
  if (h) CloseHandle(h);
  return rc;
}

static char *temp_folder(void) {
  static char here[MAX_PATH];
  DWORD n = GetTempPathA(sizeof here, here);
  REQUIRE(n > 0 && n < sizeof here);
  if (here[n - 1] == '\\') here[n - 1] = 0;
  return here;
}

static char *read_file(const char *path) {
  static char text[2000];
  FILE *f = fopen(path, "rb");
  REQUIRE(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  return text;
}

/* ---- processes ---- */

TEST(the_exit_status_is_told_once) {
  clu_spawn s = nothing_kept();
  clu_pid pid, ended = 0;
  clu_exit how;
  REQUIRE(start(&s, &pid, (char *)"status", (char *)"42") == CLU_OK);
  CHECK(pid > 0 && pid != clu_os_getpid());
  CHECK_SOON(clu_os_ended_child(&ended) == CLU_OK, 10000);
  CHECK(ended == pid);
  how = end_of(pid);
  CHECK_INT_EQ(how.by_signal, 0);
  CHECK_INT_EQ(how.code, 42);
  CHECK_INT_EQ(clu_os_reap(pid, 0, &how), CLU_DEAD);
  CHECK_INT_EQ(clu_os_ended_child(&ended), CLU_AGAIN);
}

TEST(it_is_told_whether_a_process_runs) {
  clu_spawn s = nothing_kept();
  clu_pid pid;
  CHECK_INT_EQ(clu_os_kill(clu_os_getpid(), 0, 0), 0);
  CHECK(clu_os_kill(0, 0, 0) != 0);
  CHECK(clu_os_kill(-1, 0, 0) != 0);
  REQUIRE(start(&s, &pid, (char *)"sleep", NULL) == CLU_OK);
  CHECK_INT_EQ(clu_os_kill(pid, 0, 0), 0);
  CHECK_INT_EQ(clu_os_kill(pid, CLU_SIG_KILL, 0), 0);
  CHECK_SOON(clu_os_kill(pid, 0, 0) != 0, 10000);
  end_of(pid);
  CHECK(clu_os_kill(pid, 0, 0) != 0);
}

TEST(the_null_device_has_the_name_that_it_has_elsewhere) {
  clu_fd fd;
  clu_err e = {0, 0, ""};
  REQUIRE(clu_os_open_append("/dev/null", &fd, &e) == CLU_OK);
  clu_os_close(fd);
  CHECK_INT_EQ(clu_os_output_append("/dev/null", "x", 1, &e), CLU_OK);
}

TEST(a_process_that_runs_is_killed) {
  clu_spawn s = nothing_kept();
  clu_pid pid;
  clu_exit how;
  for (int i = 0; i < 2; i++) {
    int sig = i ? CLU_SIG_KILL : CLU_SIG_TERM;
    REQUIRE(start(&s, &pid, (char *)"sleep", NULL) == CLU_OK);
    CHECK_INT_EQ(clu_os_reap(pid, 0, &how), CLU_AGAIN);
    CHECK(clu_os_kill(pid, CLU_SIG_INT, 0) != 0);
    CHECK_INT_EQ(clu_os_kill(pid, sig, i), 0);
    how = end_of(pid);
    CHECK_INT_EQ(how.by_signal, 1);
    CHECK_INT_EQ(how.code, sig);
    CHECK(!runs(pid));
  }
}

TEST(to_kill_what_has_ended_is_no_error) {
  clu_spawn s = nothing_kept();
  clu_pid pid, ended;
  clu_exit how;
  REQUIRE(start(&s, &pid, (char *)"status", (char *)"0") == CLU_OK);
  CHECK_SOON(clu_os_ended_child(&ended) == CLU_OK, 10000);
  CHECK_INT_EQ(clu_os_kill(pid, CLU_SIG_KILL, 0), 0);
  how = end_of(pid);
  CHECK_INT_EQ(how.by_signal, 0);
}

TEST(a_program_that_is_not_there) {
  clu_spawn s = nothing_kept();
  char *argv[] = {(char *)"x", NULL};
  clu_pid pid;
  clu_err e = {0, 0, ""};
  s.file = "C:\\no\\such\\program.exe";
  s.argv = argv;
  CHECK_INT_EQ(clu_os_spawn(&s, &pid, &e), CLU_SYS);
  CHECK(e.sys == ERROR_PATH_NOT_FOUND || e.sys == ERROR_FILE_NOT_FOUND);
  CHECK(strstr(e.text, "program.exe") != NULL);
}

TEST(kept_descriptors_arrive_and_others_do_not) {
  clu_spawn s = nothing_kept();
  clu_fd fd[2], shared, keep[2];
  void *p;
  clu_pid pid;
  clu_exit how;
  clu_err e;
  char got[4] = "", number[32];
  clu_iov v = {got, 2};
  size_t n;
  DWORD flags = 1;
  REQUIRE(clu_os_pair(fd, &e) == CLU_OK);
  REQUIRE(clu_os_shared_new(4096, &p, &shared, &e) == CLU_OK);
  keep[0] = fd[1];
  keep[1] = shared;
  s.keep = keep;
  s.nkeep = 2;
  REQUIRE(start(&s, &pid, (char *)"speaks", NULL) == CLU_OK);
  CHECK(GetHandleInformation((HANDLE)fd[1], &flags) && !(flags & HANDLE_FLAG_INHERIT));
  clu_os_close(fd[1]);
  CHECK_INT_EQ(clu_os_wait_readable(fd[0], 10000 * (int64_t)MS), CLU_OK);
  CHECK_INT_EQ(clu_os_readv(fd[0], &v, 1, &n, NULL, NULL), CLU_OK);
  CHECK_STR_EQ(got, "hi");
  how = end_of(pid);
  CHECK_INT_EQ(how.code, 5);
  CHECK_INT_EQ(((char *)p)[17], 'm');
  CHECK_INT_EQ(clu_os_wait_readable(fd[0], 10000 * (int64_t)MS), CLU_OK); /* nobody has a copy */
  CHECK_INT_EQ(clu_os_readv(fd[0], &v, 1, &n, NULL, NULL), CLU_EOF);
  /* even an inheritable one is not inherited when it is not on the list */
  SetHandleInformation((HANDLE)fd[0], HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
  sprintf(number, "%llu", (unsigned long long)fd[0]);
  s = nothing_kept();
  REQUIRE(start(&s, &pid, (char *)"readable", number) == CLU_OK);
  how = end_of(pid);
  CHECK_INT_EQ(how.code, 0);
  UnmapViewOfFile(p);
  clu_os_close(shared);
  clu_os_close(fd[0]);
}

TEST(arguments_arrive_as_they_are_and_output_goes_where_it_should) {
  static char *args[] = {test_program,    (char *)"--part",      (char *)"arguments",
                         (char *)"",      (char *)"a b",         (char *)"a\"b",
                         (char *)"a\\",   (char *)"a b\\",       (char *)"a\\\\\"b",
                         (char *)"\ttab", (char *)"--x=\"y z\"", NULL};
  clu_spawn s = nothing_kept();
  char path[MAX_PATH], *text, want[200], *at;
  clu_pid pid;
  clu_err e;
  clu_exit how;
  REQUIRE(clu_os_make_temp(temp_folder(), path, sizeof path - 10, &e) == CLU_OK);
  strcat(path, "/out");
  REQUIRE(clu_os_open_append(path, &s.out, &e) == CLU_OK);
  s.err = s.out;
  s.argv = args;
  REQUIRE(start(&s, &pid, NULL, NULL) == CLU_OK);
  clu_os_close(s.out);
  how = end_of(pid);
  CHECK_INT_EQ(how.code, 0);
  text = read_file(path);
  for (int i = 3; args[i]; i++) {
    sprintf(want, "<%s>", args[i]);
    at = strstr(text, want);
    if (!at) {
      test_fail(__FILE__, __LINE__, "%s is not in %s", want, text);
      break;
    }
    text = at + strlen(want);
  }
  CHECK(strstr(read_file(path), "and errors") != NULL);
  *strrchr(path, '/') = 0;
  CHECK_INT_EQ(clu_os_remove_tree(path), 0);
}

TEST(the_environment_is_the_one_given) {
  char *env[] = {(char *)"CLUTCH_TEST=one two", NULL};
  clu_spawn s = nothing_kept();
  clu_pid pid;
  clu_exit how;
  CHECK_INT_EQ(clu_os_setenv("CLUTCH_OTHER", "1"), CLU_OK);
  s.envp = env;
  REQUIRE(start(&s, &pid, (char *)"variable", (char *)"one two") == CLU_OK);
  how = end_of(pid);
  CHECK_INT_EQ(how.code, 0);
  CHECK_INT_EQ(clu_os_setenv("CLUTCH_OTHER", NULL), CLU_OK);
  CHECK_INT_EQ(clu_os_setenv("CLUTCH_TEST", "own"), CLU_OK);
  s = nothing_kept();
  REQUIRE(start(&s, &pid, (char *)"variable", (char *)"own") == CLU_OK);
  how = end_of(pid);
  CHECK_INT_EQ(how.code, 0);
  CHECK(clu_os_environ() != NULL);
}

static void check_group(int by_kill) {
  clu_spawn s = nothing_kept();
  clu_fd fd[2], keep[1];
  clu_pid pid, told[2] = {0, 0};
  clu_iov v = {told, sizeof told};
  clu_err e;
  size_t n;
  REQUIRE(clu_os_pair(fd, &e) == CLU_OK);
  keep[0] = fd[1];
  s.keep = keep;
  s.nkeep = 1;
  s.new_session = by_kill;
  REQUIRE(start(&s, &pid, (char *)"starts-another", NULL) == CLU_OK);
  clu_os_close(fd[1]);
  CHECK_INT_EQ(clu_os_wait_readable(fd[0], 10000 * (int64_t)MS), CLU_OK);
  CHECK_INT_EQ(clu_os_readv(fd[0], &v, 1, &n, NULL, NULL), CLU_OK);
  CHECK(told[0] > 0 && runs(told[0]));
  CHECK(told[1] == clu_os_getpid());
  CHECK_INT_EQ(clu_os_kill(pid, CLU_SIG_KILL, by_kill), 0);
  end_of(pid);
  CHECK_SOON(!runs(told[0]), 5000);
  clu_os_close(fd[0]);
}

TEST(what_a_process_has_started_ends_with_its_group) { check_group(1); }
/* the job of the other's child is closed with the other */
TEST(what_a_process_has_started_ends_with_it) { check_group(0); }

TEST(a_parent_that_is_there_and_one_that_is_not) {
  clu_spawn s = nothing_kept();
  clu_pid pid;
  CHECK_INT_EQ(clu_os_follow_parent(clu_os_getpid(), 0), CLU_UNSUPPORTED);
  REQUIRE(start(&s, &pid, (char *)"status", (char *)"0") == CLU_OK);
  end_of(pid);
  CHECK_SOON(clu_os_follow_parent(pid, 0) == CLU_DEAD, 5000);
}

/* ---- folders and files ---- */

TEST(a_temporary_folder_is_made_and_removed_with_all_in_it) {
  char a[MAX_PATH], b[MAX_PATH], path[MAX_PATH * 2];
  clu_err e = {0, 0, ""};
  FILE *f;
  REQUIRE(clu_os_make_temp(temp_folder(), a, sizeof a, &e) == CLU_OK);
  CHECK(strstr(a, "/Rtmp") != NULL);
  REQUIRE(clu_os_make_temp(a, b, sizeof b, &e) == CLU_OK);
  CHECK(strcmp(a, b) != 0);
  snprintf(path, sizeof path, "%s/read-only", b);
  CHECK((f = fopen(path, "w")) != NULL);
  if (f) fclose(f);
  CHECK(SetFileAttributesA(path, FILE_ATTRIBUTE_READONLY));
  CHECK_INT_EQ(clu_os_remove_tree(a), 0);
  CHECK(GetFileAttributesA(a) == INVALID_FILE_ATTRIBUTES);
  CHECK_INT_EQ(clu_os_remove_tree(a), 0); /* nothing is left, either */
  CHECK_INT_EQ(clu_os_make_temp("C:\\no\\such\\folder", a, sizeof a, &e), CLU_SYS);
  CHECK(strstr(e.text, "folder") != NULL);
  CHECK_INT_EQ(clu_os_make_temp(temp_folder(), a, 10, &e), CLU_SYS);
}

static void new_file(const char *folder, int i) {
  char path[MAX_PATH * 2];
  FILE *f;
  snprintf(path, sizeof path, "%s/%d", folder, i);
  CHECK((f = fopen(path, "w")) != NULL);
  if (f) fclose(f);
}

TEST(a_large_folder_is_removed_in_the_background) {
  char a[MAX_PATH], gone[MAX_PATH + 10];
  clu_err e = {0, 0, ""};
  REQUIRE(clu_os_make_temp(temp_folder(), a, sizeof a, &e) == CLU_OK);
  for (int i = 0; i < 10; i++) new_file(a, i);
  CHECK_INT_EQ(clu_os_remove_few(a), 0);
  CHECK(GetFileAttributesA(a) == INVALID_FILE_ATTRIBUTES);
  CHECK_INT_EQ(clu_os_remove_few(a), 0); /* there is nothing */
  REQUIRE(clu_os_make_temp(temp_folder(), a, sizeof a, &e) == CLU_OK);
  for (int i = 0; i < 500; i++) new_file(a, i);
  CHECK_INT_EQ(clu_os_remove_few(a), 1);
  CHECK_INT_EQ(clu_os_remove_in_background(a), CLU_OK);
  CHECK_SOON(GetFileAttributesA(a) == INVALID_FILE_ATTRIBUTES, 20000);
  REQUIRE(clu_os_make_temp(temp_folder(), a, sizeof a, &e) == CLU_OK);
  for (int i = 0; i < 500; i++) new_file(a, i);
  snprintf(gone, sizeof gone, "%s-gone", a);
  clu_remove_folder(a);
  CHECK(GetFileAttributesA(a) == INVALID_FILE_ATTRIBUTES);
  CHECK_SOON(GetFileAttributesA(gone) == INVALID_FILE_ATTRIBUTES, 20000);
}

TEST(names_in_utf_8_and_longer_than_260_characters) {
  char path[MAX_PATH * 4];
  clu_err e = {0, 0, ""};
  wchar_t *w, wide[MAX_PATH * 4];
  clu_fd fd;
  REQUIRE(clu_os_make_temp(temp_folder(), path, MAX_PATH, &e) == CLU_OK);
  swprintf(wide, MAX_PATH * 4, L"\\\\?\\%hs", path);
  for (w = wide; *w; w++)
    if (*w == L'/') *w = L'\\';
  for (int i = 0; i < 4; i++) {
    wcscat(wide,
           L"\\\u00e4\u4e2dxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
           L"xxxxxxxx");
    CHECK(CreateDirectoryW(wide, NULL));
  }
  CHECK_INT_EQ(clu_os_remove_tree(path), 0);
  REQUIRE(clu_os_make_temp(temp_folder(), path, MAX_PATH, &e) == CLU_OK);
  strcat(path, "/\xc3\xa4.txt");
  CHECK_INT_EQ(clu_os_open_append(path, &fd, &e), CLU_OK);
  clu_os_close(fd);
  swprintf(wide, MAX_PATH * 4, L"%.*hs\u00e4.txt", (int)strlen(path) - 6, path);
  CHECK(GetFileAttributesW(wide) != INVALID_FILE_ATTRIBUTES);
  *strrchr(path, '/') = 0;
  CHECK_INT_EQ(clu_os_remove_tree(path), 0);
}

TEST(output_is_appended) {
  char path[MAX_PATH];
  clu_err e;
  clu_fd fd;
  DWORD n;
  REQUIRE(clu_os_make_temp(temp_folder(), path, sizeof path - 10, &e) == CLU_OK);
  strcat(path, "/log");
  for (int i = 0; i < 2; i++) {
    REQUIRE(clu_os_open_append(path, &fd, &e) == CLU_OK);
    CHECK(WriteFile((HANDLE)fd, "ab", 2, &n, NULL));
    clu_os_close(fd);
  }
  CHECK_INT_EQ(clu_os_output_append(path, "ab", 2, &e), CLU_OK);
  CHECK_STR_EQ(read_file(path), "ababab");
  *strrchr(path, '/') = 0;
  CHECK_INT_EQ(clu_os_remove_tree(path), 0);
  CHECK_INT_EQ(clu_os_open_append("C:\\no\\such\\folder\\log", &fd, &e), CLU_SYS);
}

TEST(output_is_redirected_and_comes_back) {
  char path[MAX_PATH];
  clu_err e;
  clu_fd fd, out = (clu_fd)GetStdHandle(STD_OUTPUT_HANDLE),
             err = (clu_fd)GetStdHandle(STD_ERROR_HANDLE), was_out, was_err;
  if (clu_os_dup(out, &was_out) != CLU_OK || clu_os_dup(err, &was_err) != CLU_OK)
    SKIP("no output to put back");
  REQUIRE(clu_os_make_temp(temp_folder(), path, sizeof path - 10, &e) == CLU_OK);
  strcat(path, "/log");
  REQUIRE(clu_os_open_append(path, &fd, &e) == CLU_OK);
  fflush(stdout);
  CHECK_INT_EQ(clu_os_redirect_output(fd, fd), CLU_OK);
  printf("to the file\n");
  fflush(stdout);
  CHECK_INT_EQ(clu_os_redirect_output(was_out, was_err), CLU_OK);
  clu_os_close(fd);
  clu_os_close(was_out);
  clu_os_close(was_err);
  CHECK(strstr(read_file(path), "to the file") != NULL);
  *strrchr(path, '/') = 0;
  CHECK_INT_EQ(clu_os_remove_tree(path), 0);
}
