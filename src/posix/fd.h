/* Descriptors that are close-on-exec from the start, where the system has a call for it: a program
 * that another thread starts between two calls would inherit them. Included after the system's
 * headers. */
#ifndef CLUTCH_POSIX_FD_H
#define CLUTCH_POSIX_FD_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "posix/features.h"

/* One call is to read or write so many bytes at the most: some systems refuse 2 GB and more. */
#define CLU_MOST_AT_ONCE ((size_t)1 << 30)

/* pipe(); -1 and errno. */
static inline int clu_fd_pipe(int fd[2], int nonblocking) {
#if defined(CLU_HAVE_PIPE2)
  return pipe2(fd, O_CLOEXEC | (nonblocking ? O_NONBLOCK : 0));
#else
  if (pipe(fd) != 0) return -1;
  for (int i = 0; i < 2; i++) {
    fcntl(fd[i], F_SETFD, FD_CLOEXEC);
    if (nonblocking) fcntl(fd[i], F_SETFL, O_NONBLOCK);
  }
  return 0;
#endif
}

/* A copy with a number of at least `least`; -1 and errno. */
static inline int clu_fd_dup(int fd, int least) {
#if defined(F_DUPFD_CLOEXEC)
  return fcntl(fd, F_DUPFD_CLOEXEC, least);
#else
  int copy = fcntl(fd, F_DUPFD, least);
  if (copy >= 0) fcntl(copy, F_SETFD, FD_CLOEXEC);
  return copy;
#endif
}

#endif
