/* This file says what this system has beyond POSIX, one macro each; the only place that asks for
 * its name.
 *
 * Included after the system's headers. With CLU_PORTABLE nothing of Linux's own is used, as on a
 * Unix that has none of it ('make test-portable'): each CLU_HAVE_ macro needs a fallback that this
 * tests.
 */
#ifndef CLUTCH_POSIX_FEATURES_H
#define CLUTCH_POSIX_FEATURES_H

#if defined(__linux__) && !defined(CLU_PORTABLE)
#define CLU_HAVE_AFFINITY 1    /* sched_getaffinity() */
#define CLU_HAVE_CLOSE_RANGE 1 /* the system call, where the headers know it */
#define CLU_HAVE_EPOLL 1
#define CLU_HAVE_FUTEX 1
#define CLU_HAVE_HUGEPAGE 1  /* madvise(MADV_HUGEPAGE) */
#define CLU_HAVE_LINUX_TCP 1 /* struct tcp_info, TCP_USER_TIMEOUT */
#define CLU_HAVE_MEMFD 1
#define CLU_HAVE_PEERCRED 1 /* SO_PEERCRED */
#define CLU_HAVE_PHDR 1     /* dl_iterate_phdr(): which libraries are loaded */
#define CLU_HAVE_PIDFD 1
#define CLU_HAVE_POLLRDHUP 1
#define CLU_HAVE_PRCTL 1     /* PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER */
#define CLU_HAVE_PROC 1      /* /proc as Linux has it */
#define CLU_HAVE_SOCK_DIAG 1 /* netlink: whose a socket is */
#define CLU_HAVE_SPLICE 1
#define CLU_HAVE_VFORK 1 /* that shares the memory and stops the parent */
#endif

/* for madvise(), since Linux 5.14; the C library may be older */
#if defined(__linux__) && !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif

/* close-on-exec and non-blocking from the start; macOS has neither */
#if (defined(__linux__) || defined(__FreeBSD__) || defined(__NetBSD__) || defined(__OpenBSD__)) && \
    !defined(CLU_PORTABLE)
#define CLU_HAVE_ACCEPT4 1
#define CLU_HAVE_CMSG_CLOEXEC 1 /* MSG_CMSG_CLOEXEC */
#define CLU_HAVE_PIPE2 1
#define CLU_HAVE_SOCK_CLOEXEC 1 /* SOCK_CLOEXEC, SOCK_NONBLOCK */
#endif

/* Mutexes of several processes that tell that their holder has ended. macOS, NetBSD and OpenBSD
 * have none. */
#if (defined(__linux__) || defined(__FreeBSD__)) && !defined(CLU_PORTABLE)
#define CLU_HAVE_ROBUST_MUTEX 1
#endif
#if defined(__GLIBC__) && !defined(CLU_PORTABLE)
#if __GLIBC_PREREQ(2, 30)
#define CLU_HAVE_CLOCKLOCK 1 /* pthread_mutex_clocklock() */
#endif
#endif

/* macOS has another name for what POSIX calls st_mtim. */
#if defined(__APPLE__)
#define CLU_HAVE_MTIMESPEC 1
#endif

/* How much of a socket's bytes is not confirmed is asked by this. macOS and the BSDs tell by other
 * names, so it stays with CLU_PORTABLE. */
#if defined(__linux__)
#define CLU_HAVE_SIOCOUTQ 1
#endif

#endif
