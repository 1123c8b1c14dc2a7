/* Files of Unix-domain listeners. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/os-files.h"
#include "posix/features.h"
#include "posix/net.h"

int clu_os_path_id(const char *path, uint64_t id[2]) {
  struct stat st;
  if (lstat(path, &st) != 0) return CLU_SYS;
  id[0] = (uint64_t)st.st_dev;
  id[1] = (uint64_t)st.st_ino;
  return CLU_OK;
}

/* The number of a file alone may be that of the one before, which was removed. */
static int is_same(const clu_file_stamp *a, const clu_file_stamp *b) {
  return a->device == b->device && a->number == b->number && a->changed == b->changed;
}

int clu_os_path_clear(const char *path) {
  struct stat st;
  clu_file_stamp was, is;
  clu_addr a;
  int fd, refused;
  if (lstat(path, &st) != 0) return errno == ENOENT ? CLU_OK : CLU_SYS;
  if (!S_ISSOCK(st.st_mode)) return CLU_IN_USE;
  if (clu_os_addr_path(path, &a, NULL) != CLU_OK) return CLU_SYS;
  if (clu_os_file_stamp(path, &was) != CLU_OK) return errno == ENOENT ? CLU_OK : CLU_SYS;
  /* a datagram socket asks without disturbing: a living listener is of the wrong type for it
   * (EPROTOTYPE), and sees no connection */
  fd = clu_net_socket(CLU_UNIX, SOCK_DGRAM);
  if (fd < 0) return CLU_SYS;
  refused =
      connect(fd, (const struct sockaddr *)a.bytes, (socklen_t)a.len) != 0 && errno == ECONNREFUSED;
  close(fd);
  if (!refused) return CLU_IN_USE;
  /* another process may have cleared it meanwhile, and listen there */
  if (clu_os_file_stamp(path, &is) != CLU_OK) return errno == ENOENT ? CLU_OK : CLU_SYS;
  if (!is_same(&was, &is)) return CLU_IN_USE;
  return unlink(path) == 0 ? CLU_OK : CLU_SYS;
}

void clu_os_path_remove(const char *path, const uint64_t id[2]) {
  uint64_t now[2];
  if (clu_os_path_id(path, now) == CLU_OK && now[0] == id[0] && now[1] == id[1]) unlink(path);
}

void clu_os_path_remove_folder(const char *path) {
  char folder[1024];
  const char *end = strrchr(path, '/');
  if (!end || end == path || (size_t)(end - path) >= sizeof folder) return;
  memcpy(folder, path, (size_t)(end - path));
  folder[end - path] = 0;
  rmdir(folder);
}

#if defined(CLU_HAVE_PEERCRED)
int clu_os_path_peer(clu_fd fd, clu_pid *pid) {
  struct ucred who;
  socklen_t n = sizeof who;
  *pid = 0;
  if (getsockopt((int)fd, SOL_SOCKET, SO_PEERCRED, &who, &n) != 0) return CLU_PEER_UNKNOWN;
  *pid = (clu_pid)who.pid;
  return who.uid == geteuid() ? CLU_PEER_OWN : CLU_PEER_OTHER;
}
#else
int clu_os_path_peer(clu_fd fd, clu_pid *pid) {
  (void)fd;
  *pid = 0;
  return CLU_PEER_UNKNOWN;
}
#endif
