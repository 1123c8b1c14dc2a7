/* Files of Unix-domain listeners that several processes make and remove. */
// link: -Wl,--wrap=connect
#include "test.h"

#include <sys/socket.h>

#include "core/base/os.h"

static void (*behind_connect)(void); /* what another process does then */
int __real_connect(int fd, const struct sockaddr *a, socklen_t n);
int __wrap_connect(int fd, const struct sockaddr *a, socklen_t n);
int __wrap_connect(int fd, const struct sockaddr *a, socklen_t n) {
  int rc = __real_connect(fd, a, n), err = errno;
  void (*then)(void) = behind_connect;
  behind_connect = NULL;
  if (then) then();
  errno = err;
  return rc;
}

static char shared_path[64];
static clu_fd quicker;
static void listen_there(void) {
  clu_listen how = {-1, 0, 0};
  clu_addr at;
  clu_os_pause(20000000); /* more than the finest step of a file system's clock */
  REQUIRE(clu_os_path_clear(shared_path) == CLU_OK);
  REQUIRE(clu_os_addr_path(shared_path, &at, NULL) == CLU_OK);
  REQUIRE(clu_os_listen(&at, &how, &quicker, NULL, NULL) == CLU_OK);
}

TEST(of_two_that_clear_a_path_the_slower_one_leaves_the_others_listener_alone) {
  char dir[] = "/tmp/clutch-XXXXXX";
  clu_listen how = {-1, 0, 0};
  clu_addr at;
  clu_fd fd;
  REQUIRE(mkdtemp(dir));
  snprintf(shared_path, sizeof shared_path, "%s/s", dir);
  REQUIRE(clu_os_addr_path(shared_path, &at, NULL) == CLU_OK);
  REQUIRE(clu_os_listen(&at, &how, &fd, NULL, NULL) == CLU_OK);
  clu_os_close(fd); /* the file stays, as of a process that was killed */
  behind_connect = listen_there;
  CHECK_INT_EQ(clu_os_path_clear(shared_path), CLU_IN_USE);
  CHECK_INT_EQ(clu_os_connect_start(&at, 0, 0, &fd, NULL), CLU_OK);
  clu_os_close(fd);
  clu_os_close(quicker);
  CHECK_INT_EQ(clu_os_path_clear(shared_path), CLU_OK);
  rmdir(dir);
}

TEST(to_listen_in_a_folder_that_is_not_there_is_no_refusal) {
  clu_listen how = {-1, 0, 0};
  clu_addr at;
  clu_fd fd;
  clu_err e;
  REQUIRE(clu_os_addr_path("/tmp/there-is-no-such-folder/s", &at, &e) == CLU_OK);
  CHECK_INT_EQ(clu_os_listen(&at, &how, &fd, NULL, &e), CLU_SYS);
  CHECK(fd == CLU_NO_FD);
}
